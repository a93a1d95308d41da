/* SPDX-License-Identifier: MIT */
/* What: a histogram of times (config/base/histogram.h). */
#include "config/base/histogram.h"

#include "config/base/assert.h"

#define BITS 3                          /* eight buckets for an octave */

static uint32_t bucket_of(uint64_t us)
{
    uint32_t bucket = octave_bucket(us, BITS);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

uint64_t histogram_end_us(uint32_t bucket)
{
    ASSERT(bucket < HISTOGRAM_BUCKETS);
    return octave_least(bucket + 1, BITS) - 1;
}

void histogram_note(struct histogram *histogram, uint64_t us, uint64_t times)
{
    histogram->count += times;
    histogram->sum_us += us * times;
    histogram->buckets[bucket_of(us)] += times;
}

uint64_t histogram_percentile_us(const struct histogram *histogram, uint32_t permille)
{
    uint64_t wanted = (histogram->count * permille + 999) / 1000, seen = 0;
    ASSERT(permille <= 1000);
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen >= wanted && seen > 0) {
            return histogram_end_us(i);
        }
    }
    return 0;
}
