/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a histogram of times. An octave has eight buckets of equal width, so a percentile
 * exceeds the true one by an eighth at most. O(1) to note, O(buckets) to ask.
 */
#include <stdint.h>

#define HISTOGRAM_OCTAVES 36            /* up to 2^36 us, 19 hours; later times go to the last */
#define HISTOGRAM_BUCKETS (HISTOGRAM_OCTAVES * 8)

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
uint64_t histogram_end_us(uint32_t bucket);
/* A time that has come `times` times. */
void histogram_note(struct histogram *histogram, uint64_t us, uint64_t times);
/* The least upper end of a bucket that `permille` of the times do not exceed; 0 without times. */
uint64_t histogram_percentile_us(const struct histogram *histogram, uint32_t permille);
