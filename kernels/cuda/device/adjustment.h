/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a call changes of its logits, by the rule of kernels/adjustment.h; a thread block for
 * each place. A row without penalties and biases passes by all of it.
 *
 * Counts without memory of their own: the weights, which are still unused, hold them as integers,
 * until each CUDA thread has made logits of those that it will write.
 */
#include "kernels/cuda/device/number.h"
#include "kernels/penalty.h"

struct adjustment {
    const struct gpu_row *row;
    float *weights;                     /* (vocab): counts, then logits */
    uint32_t vocab;
    const uint32_t *generated;          /* [row->generated_count]: before this step */
    const uint32_t *produced;           /* [produced_count]: in this step */
    uint32_t produced_count;
    const struct gpu_bias *biases;      /* [row->biases_count] */
};

GPU_INLINE bool adjustment_counts(const struct adjustment *a)
{
    return a->row->presence_penalty != 0.0f || a->row->frequency_penalty != 0.0f;
}

/* Counts the generated tokens. Ends with a barrier. */
GPU_INLINE void adjustment_count(const struct adjustment *a)
{
    uint32_t *counts = (uint32_t *)a->weights;
    if (!adjustment_counts(a)) {
        return;
    }
    for (uint32_t id = threadIdx.x; id < a->vocab; id += blockDim.x) {
        counts[id] = 0;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < a->row->generated_count; i += blockDim.x) {
        atomicAdd(&counts[a->generated[i]], 1u);
    }
    for (uint32_t i = threadIdx.x; i < a->produced_count; i += blockDim.x) {
        atomicAdd(&counts[a->produced[i]], 1u);
    }
    __syncthreads();
}

/* The logit of a token without what its count takes. Only the CUDA thread that then writes the
 * weight of this token may ask. */
GPU_INLINE float adjustment_take(const struct adjustment *a, uint32_t id, float logit)
{
    uint32_t count = adjustment_counts(a) ? gpu_bits_of(a->weights[id]) : 0;
    return count == 0 ? logit
                      : kernels_counted(logit, count, a->row->frequency_penalty,
                                        a->row->presence_penalty);
}

/* The i-th newest token, of those produced and those before them. */
GPU_INLINE uint32_t recent_token(const struct adjustment *a, uint32_t i)
{
    return i < a->produced_count
               ? a->produced[a->produced_count - 1 - i]
               : a->row->history[a->row->history_count - 1 - (i - a->produced_count)];
}

/* A CUDA thread for each recent token, which a newer equal one replaces. Ends with a barrier. */
GPU_INLINE void adjustment_repeat(const struct adjustment *a)
{
    uint32_t count = gpu_smaller(a->row->history_count + a->produced_count, GPU_HISTORY_TOKENS);
    if (threadIdx.x < count && a->row->repeat_penalty != 1.0f) {
        uint32_t token = recent_token(a, threadIdx.x);
        bool seen = token >= a->vocab;
        for (uint32_t i = 0; i < threadIdx.x && !seen; i++) {
            seen = recent_token(a, i) == token;
        }
        if (!seen) {
            a->weights[token] = kernels_repeated(a->weights[token], a->row->repeat_penalty);
        }
    }
    __syncthreads();
}

/* A CUDA thread for each bias; no two are of the same token. Ends with a barrier. */
GPU_INLINE void adjustment_bias(const struct adjustment *a)
{
    if (a->row->biases_count == 0) {
        return;
    }
    if (threadIdx.x < a->row->biases_count) {
        a->weights[a->biases[threadIdx.x].token] += a->biases[threadIdx.x].bias;
    }
    __syncthreads();
}
