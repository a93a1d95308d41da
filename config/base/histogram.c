/* SPDX-License-Identifier: MIT */
/*
 * What: a histogram of times (config/base/histogram.h). The first three bits after the leading one
 * choose the eighth of an octave: buckets of equal width within an octave, which needs no root.
 * Times below 8 us have a bucket each.
 */
#include "config/base/histogram.h"

#include "config/base/assert.h"

static uint32_t bucket_of(uint64_t us)
{
    if (us < 8) {
        return (uint32_t)us;
    }
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(us);
    uint32_t bucket = (octave - 2) * 8 + (uint32_t)(us >> (octave - 3) & 7);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* The largest time that the bucket takes. */
static uint64_t bucket_end_us(uint32_t bucket)
{
    if (bucket < 8) {
        return bucket;
    }
    uint32_t octave = bucket / 8 + 2;
    return ((UINT64_C(8) + bucket % 8 + 1) << (octave - 3)) - 1;
}

void histogram_note(struct histogram *histogram, uint64_t us, uint64_t times)
{
    histogram->count += times;
    histogram->buckets[bucket_of(us)] += times;
}

uint64_t histogram_percentile_us(const struct histogram *histogram, uint32_t permille)
{
    uint64_t wanted = (histogram->count * permille + 999) / 1000, seen = 0;
    ASSERT(permille <= 1000);
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen >= wanted && seen > 0) {
            return bucket_end_us(i);
        }
    }
    return 0;
}
