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
    uint64_t count;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* A time that has come `times` times. */
void histogram_note(struct histogram *histogram, uint64_t us, uint64_t times);
/* The least upper end of a bucket that `permille` of the times do not exceed; 0 without times. */
uint64_t histogram_percentile_us(const struct histogram *histogram, uint32_t permille);
