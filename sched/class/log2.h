/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: logarithms and powers of two in fixed point, with 8 bits after the point: steps of 0.3 %.
 * Bounds: eight multiplications. Private to sched/.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/assert.h"

#define LOG2_BITS 8

/* log2(number) * 256, rounded down; number > 0. */
static inline int32_t log2_fixed(uint64_t number)
{
    ASSERT(number > 0);
    int32_t octave = 63 - __builtin_clzll(number);
    uint64_t mantissa = (number << (63 - octave)) >> 32;    /* 1 .. 2, 31 bits after the point */
    int32_t log = octave;
    for (int32_t bit = 0; bit < LOG2_BITS; bit++) {
        mantissa = mantissa * mantissa >> 31;
        int32_t is_over = (int32_t)(mantissa >> 32);
        log = log * 2 + is_over;
        mantissa >>= is_over;
    }
    return log;
}

/* number * 2^(log / 256); saturated. */
static inline uint64_t log2_scale(uint64_t number, int32_t log)
{
    /* 2^(1 / 2), 2^(1 / 4) ... with 31 bits after the point. */
    static const uint32_t roots[LOG2_BITS] = {3037000500, 2553802834, 2341847524, 2242560872,
                                              2194507417, 2170868212, 2159144272, 2153306067};
    int32_t octaves = log >> LOG2_BITS;
    uint64_t factor = UINT64_C(1) << 31;
    for (int32_t bit = 0; bit < LOG2_BITS; bit++) {
        factor = (log >> (LOG2_BITS - 1 - bit)) & 1 ? factor * roots[bit] >> 31 : factor;
    }
    unsigned __int128 product = (unsigned __int128)number * factor;     /* below 2^96 */
    int32_t shift = 31 - octaves;
    if (shift < 0) {
        bool is_over = shift < -32 || product > UINT64_MAX >> -shift;
        return is_over && number > 0 ? UINT64_MAX : (uint64_t)product << (-shift & 63);
    }
    product = shift < 96 ? product >> shift : 0;
    return product <= UINT64_MAX ? (uint64_t)product : UINT64_MAX;
}
