/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a draw is made of (kernels/sample.h), one definition for the CPU and the GPU: the
 * random number of a position, and what a weight counts.
 *
 * Why weights count as integers: their sums are exact, so it does not matter in which order they
 * are added, and the same logits give the same token on either. A weight below 2^-40 counts
 * nothing, a NaN neither; the vocabulary may have 2^23 tokens.
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

/* Of a weight in [0, 1]. */
static inline KERNELS_DEVICE uint64_t kernels_mass(float weight)
{
    return weight > 0 ? (uint64_t)(int64_t)(weight * 0x1p40f) : 0;
}
