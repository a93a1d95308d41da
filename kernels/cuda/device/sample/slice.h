/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a slice of the vocabulary, GPU_SLICE_TOKENS tokens of one place, that a thread block of
 * sampling works on.
 *
 * A CUDA thread has GPU_SLICE_EACH tokens, in fours that lie GPU_SAMPLE_THREADS fours apart: so it
 * reads 16 bytes at a time and has all its reads under way at once, and a warp reads what lies
 * together. `slice_index` says which token is which.
 */
#include "kernels/cuda/device/largest.h"
#include "kernels/cuda/device/wide.h"

#define GPU_SLICE_EACH (GPU_SLICE_TOKENS / GPU_SAMPLE_THREADS)

struct slice {
    uint32_t first, count;              /* ids of its tokens */
};

GPU_INLINE struct slice slice_of(uint32_t index, uint32_t vocab)
{
    struct slice s;
    s.first = index * GPU_SLICE_TOKENS;
    s.count = gpu_smaller(vocab - s.first, GPU_SLICE_TOKENS);
    return s;
}

/* Where the CUDA thread's i-th token lies in the slice; they ascend with i. */
GPU_INLINE uint32_t slice_index(uint32_t i)
{
    return (i / GPU_FOUR * GPU_SAMPLE_THREADS + threadIdx.x) * GPU_FOUR + i % GPU_FOUR;
}

/* The CUDA thread's numbers of `from` (slice); beyond the slice they are 0. */
GPU_INLINE void slice_load(const struct slice *s, const float *from, float own[GPU_SLICE_EACH])
{
    bool has_fours = (uintptr_t)from % GPU_WIDE_BYTES == 0;
    GPU_UNROLL
    for (uint32_t i = 0; i < GPU_SLICE_EACH; i += GPU_FOUR) {
        uint32_t index = slice_index(i);
        if (has_fours && index + GPU_FOUR <= s->count) {
            gpu_four_load(from + index, own + i);
        } else {
            for (uint32_t j = 0; j < GPU_FOUR; j++) {
                own[i + j] = index + j < s->count ? from[index + j] : 0.0f;
            }
        }
    }
}

GPU_INLINE void slice_store(const struct slice *s, float *to, const float own[GPU_SLICE_EACH])
{
    bool has_fours = (uintptr_t)to % GPU_WIDE_BYTES == 0;
    GPU_UNROLL
    for (uint32_t i = 0; i < GPU_SLICE_EACH; i += GPU_FOUR) {
        uint32_t index = slice_index(i);
        if (has_fours && index + GPU_FOUR <= s->count) {
            gpu_four_store(to + index, own + i);
        } else {
            for (uint32_t j = 0; j < GPU_FOUR && index + j < s->count; j++) {
                to[index + j] = own[i + j];
            }
        }
    }
}

/* ---- sums of 64 bits ------------------------------------------------------------------------- */

/* Adds to a sum that many CUDA threads add to, in two words: each addition that wraps the low one
 * carries. A chip has no addition of 64 bits in shared memory but a loop. */
GPU_INLINE void wide_add(uint32_t *low, uint32_t *high, uint64_t value)
{
    uint32_t part = (uint32_t)value, before = atomicAdd(low, part);
    uint32_t rest = (uint32_t)(value >> 32) + (before + part < before ? 1 : 0);
    if (rest > 0) {
        atomicAdd(high, rest);
    }
}

GPU_INLINE uint64_t wide_of(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

/* ---- a place's memory ------------------------------------------------------------------------ */

GPU_INLINE struct gpu_sample_memory *memory_of(const struct gpu_sample *args, uint32_t place)
{
    return (struct gpu_sample_memory *)(args->memory + place * args->memory_bytes);
}

GPU_INLINE struct gpu_sample_slice *slices_of(const struct gpu_sample *args, uint32_t place)
{
    return (struct gpu_sample_slice *)(memory_of(args, place) + 1);
}

/* Of all slices of a place, for all CUDA threads. Begins and ends with a barrier. */
GPU_INLINE struct largest largest_of_slices(const struct gpu_sample *args, uint32_t place,
                                            struct largest *shared)
{
    const struct gpu_sample_slice *slices = slices_of(args, place);
    struct largest own = largest_none();
    for (uint32_t i = threadIdx.x; i < gpu_slices(args->vocab_tokens); i += blockDim.x) {
        struct largest of = {slices[i].largest, slices[i].id, slices[i].bad};
        largest_add(&own, of);
    }
    return largest_of_all(own, shared);
}
