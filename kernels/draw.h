/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the parts of a draw (kernels/sample.h), defined once for the CPU and the GPU: the random
 * number of a position, the integer that a weight counts as, and the logarithm of a sum of these,
 * of which log probabilities are made (kernels/logprob.h).
 *
 * Why weights count as integers: their sums are exact in any order, so the same logits give the
 * same token on both. A weight below 2^-40, or a NaN, counts as zero. The vocabulary may have 2^23
 * tokens.
 *
 * The logarithm is our own, because that of libm differs between the two. In doubles, each
 * operation rounded by itself:
 *
 *   total = 2^e * m, m in [1, 2);   ln m = 2 artanh(s), s = (m - 1) / (m + 1) in [0, 1/3)
 *
 * artanh is its series up to s^23: the first term left out is below 6e-14.
 */
#include <stdint.h>
#include <string.h>

#ifndef KERNELS_DEVICE
#define KERNELS_DEVICE                  /* kernels/cuda/device/gpu.h: for the GPU */
#endif

/* Mixes (seed, position) to 53 uniform bits: two rounds of multiply and shift, each a bijection. */
static inline KERNELS_DEVICE double kernels_uniform(uint64_t seed, uint32_t position)
{
    uint64_t z = seed ^ (position + 1) * UINT64_C(0x9e3779b97f4a7c15);
    for (int round = 0; round < 2; round++) {
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
    }
    return (double)(z >> 11) * 0x1p-53;
}

/* The integer that a weight in [0, 1] counts as. */
static inline KERNELS_DEVICE uint64_t kernels_mass(float weight)
{
    return weight > 0 ? (uint64_t)(int64_t)(weight * 0x1p40f) : 0;
}

#define LOG_LN2   0x1.62e42fefa39efp-1
#define LOG_TERMS 12

/* ln(total / 2^40), which is what the weights sum up to; total > 0. */
static inline KERNELS_DEVICE double kernels_log_total(uint64_t total)
{
    double value = (double)total, m, sum = 0.0;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
    memcpy(&m, &bits, sizeof m);
    double s = (m - 1.0) / (m + 1.0), square = s * s;
    for (int term = LOG_TERMS; term-- > 0;) {
        sum = sum * square + 1.0 / (double)(2 * term + 1);
    }
    return 2.0 * s * sum + (double)(exponent - 40) * LOG_LN2;
}

/* Of a token; `floor` is a large negative number. */
static inline KERNELS_DEVICE float kernels_logprob(float logit, float largest, double log_total,
                                                   float floor)
{
    double exact = ((double)logit - (double)largest) - log_total;
    return exact > (double)floor ? (float)exact : floor;
}
