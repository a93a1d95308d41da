/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the two parts of a draw (kernels/sample.h), defined once for the CPU and the GPU: the
 * random number of a position, and the integer that a weight counts as.
 *
 * Why weights count as integers: their sums are exact in any order, so the same logits give the
 * same token on both. A weight below 2^-40, or a NaN, counts as zero. The vocabulary may have 2^23
 * tokens.
 */
#include <stdint.h>

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
