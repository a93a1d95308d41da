/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a histogram of times. An octave has eight buckets of equal width, so a percentile
 * exceeds the true one by an eighth at most. O(1) to note, O(buckets) to ask.
 */
#include <stdint.h>

#include "config/base/assert.h"

#define HISTOGRAM_OCTAVES 36            /* up to 2^36 us, 19 hours; later times go to the last */
#define HISTOGRAM_BITS    3             /* eight buckets for an octave */
#define HISTOGRAM_BUCKETS (HISTOGRAM_OCTAVES << HISTOGRAM_BITS)

struct histogram {
    uint64_t count, sum_us;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Buckets for numbers of any size: an octave, from one power of two to the next, has 2^bits of
 * equal width, which needs no root. The first bits after the leading one choose among them; numbers
 * below 2^bits have a bucket each. */
static inline uint32_t octave_bucket(uint64_t number, uint32_t bits)
{
    if (number >> bits == 0) {
        return (uint32_t)number;
    }
    uint32_t shift = 63 - (uint32_t)__builtin_clzll(number) - bits;
    return (shift << bits) + (uint32_t)(number >> shift);
}

/* The least number of the bucket. */
static inline uint64_t octave_least(uint32_t bucket, uint32_t bits)
{
    uint32_t shift = bucket >> bits;
    if (shift == 0) {
        return bucket;
    }
    return ((UINT64_C(1) << bits) + (bucket & ((1u << bits) - 1))) << (shift - 1);
}

/* The largest time that the bucket takes. */
static inline uint64_t histogram_end_us(uint32_t bucket)
{
    ASSERT(bucket < HISTOGRAM_BUCKETS);
    return octave_least(bucket + 1, HISTOGRAM_BITS) - 1;
}

/* Adds `times` equal times. */
static inline void histogram_note(struct histogram *histogram, uint64_t us, uint64_t times)
{
    uint32_t bucket = octave_bucket(us, HISTOGRAM_BITS);
    histogram->count += times;
    histogram->sum_us += us * times;
    histogram->buckets[bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1] += times;
}

/* The least upper end of a bucket that `permille` of the times do not exceed; 0 without times. */
static inline uint64_t histogram_percentile_us(const struct histogram *histogram,
                                               uint32_t permille)
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
