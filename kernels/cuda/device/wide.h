/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: numbers that are moved and read GPU_WIDE_BYTES at a time, the most that one instruction of
 * a CUDA thread can. Addresses are multiples of that.
 */
#include "kernels/cuda/device/number.h"

#define GPU_WIDE_BYTES 16u
#define GPU_FOUR       4u               /* floats of so many bytes */
#define GPU_NUMBERS    8u               /* that are read at a time */

struct GPU_ALIGNED(16) gpu_wide {
    uint32_t words[GPU_WIDE_BYTES / sizeof(uint32_t)];
};

/* An even number of bytes. */
GPU_INLINE void gpu_bytes_copy(uint8_t *to, const uint8_t *from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i += 2) {
        *(uint16_t *)(void *)(to + i) = *(const uint16_t *)(const void *)(from + i);
    }
}

/* Two numbers of 16 bits in a word, the first in its low half. */
GPU_INLINE void gpu_pair_of(uint32_t type, uint32_t word, float *numbers)
{
    if (type == GPU_F16) {
        numbers[0] = gpu_half_load((uint16_t)word);
        numbers[1] = gpu_half_load((uint16_t)(word >> 16));
    } else {
        numbers[0] = gpu_float_of(word << 16);
        numbers[1] = gpu_float_of(word & 0xffff0000u);
    }
}

/* `count` numbers from index `first` on, zeros for the rest of GPU_NUMBERS; F32, F16 or BF16. The
 * address is a multiple of 16, and `first` one of GPU_NUMBERS. */
GPU_INLINE void gpu_numbers_load(const uint8_t *from, uint32_t type, uint32_t first,
                                 uint32_t count, float numbers[GPU_NUMBERS])
{
    uint32_t bytes = type == GPU_F32 ? sizeof(float) : sizeof(uint16_t);
    if (count < GPU_NUMBERS) {
        GPU_UNROLL
        for (uint32_t i = 0; i < GPU_NUMBERS; i++) {
            numbers[i] = i < count ? gpu_load(from, type, first + i) : 0.0f;
        }
        return;
    }
    const struct gpu_wide *wide = (const struct gpu_wide *)(const void *)(from + first * bytes);
    if (type == GPU_F32) {
        memcpy(numbers, wide[0].words, sizeof wide[0].words);
        memcpy(numbers + GPU_NUMBERS / 2, wide[1].words, sizeof wide[1].words);
        return;
    }
    const struct gpu_wide words = *wide;
    GPU_UNROLL
    for (uint32_t i = 0; i < GPU_NUMBERS / 2; i++) {
        gpu_pair_of(type, words.words[i], numbers + 2 * i);
    }
}

/* Four floats, at an address that is a multiple of 16. */
GPU_INLINE void gpu_four_load(const float *from, float numbers[GPU_FOUR])
{
    const struct gpu_wide wide = *(const struct gpu_wide *)(const void *)from;
    memcpy(numbers, wide.words, sizeof wide.words);
}

GPU_INLINE void gpu_four_store(float *to, const float numbers[GPU_FOUR])
{
    struct gpu_wide wide;
    memcpy(wide.words, numbers, sizeof wide.words);
    *(struct gpu_wide *)(void *)to = wide;
}

/* A chain of fmaf() over `count` numbers, ascending. `by` has GPU_NUMBERS at an address that is a
 * multiple of 16. */
GPU_INLINE float gpu_numbers_chain(const float *by, const float numbers[GPU_NUMBERS],
                                   uint32_t count, float sum)
{
    float others[GPU_NUMBERS];
    gpu_four_load(by, others);
    gpu_four_load(by + GPU_FOUR, others + GPU_FOUR);
    GPU_UNROLL
    for (uint32_t i = 0; i < GPU_NUMBERS; i++) {
        sum = i < count ? fmaf(others[i], numbers[i], sum) : sum;
    }
    return sum;
}
