/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a call changes of its logits, by the rule of kernels/adjustment.h, in one slice of the
 * vocabulary that lies in shared memory. A row without penalties and biases passes by all of it.
 */
#include "kernels/cuda/device/sample/slice.h"
#include "kernels/penalty.h"

struct adjustment {
    const struct gpu_row *row;
    struct slice slice;
    float *logits;                      /* shared: (slice) */
    uint32_t *counts;                   /* shared: (slice): how often each token was generated */
    const uint32_t *generated;          /* [row->generated_count]: before this step */
    const uint32_t *produced;           /* [produced_count]: in this step, with the draft */
    uint32_t produced_count;
    const struct gpu_bias *biases;      /* [row->biases_count] */
};

GPU_INLINE bool adjustment_counts(const struct adjustment *a)
{
    return a->row->presence_penalty != 0.0f || a->row->frequency_penalty != 0.0f;
}

GPU_INLINE bool adjustment_is_none(const struct adjustment *a)
{
    return !adjustment_counts(a) && a->row->repeat_penalty == 1.0f && a->row->biases_count == 0;
}

/* The token's place in the slice; a token of another one has none: it is slice.count or more. */
GPU_INLINE uint32_t adjustment_index(const struct adjustment *a, uint32_t token)
{
    return token - a->slice.first;
}

GPU_INLINE void count_tokens(const struct adjustment *a, const uint32_t *tokens, uint32_t count)
{
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
        uint32_t index = adjustment_index(a, tokens[i]);
        if (index < a->slice.count) {
            atomicAdd(&a->counts[index], 1u);
        }
    }
}

/* Penalties by how often a token was generated. Ends with a barrier. */
GPU_INLINE void adjustment_count(const struct adjustment *a)
{
    if (!adjustment_counts(a)) {
        return;
    }
    for (uint32_t i = threadIdx.x; i < a->slice.count; i += blockDim.x) {
        a->counts[i] = 0;
    }
    __syncthreads();
    count_tokens(a, a->generated, a->row->generated_count);
    count_tokens(a, a->produced, a->produced_count);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < a->slice.count; i += blockDim.x) {
        if (a->counts[i] > 0) {
            a->logits[i] = kernels_counted(a->logits[i], a->counts[i], a->row->frequency_penalty,
                                           a->row->presence_penalty);
        }
    }
    __syncthreads();
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
        uint32_t token = recent_token(a, threadIdx.x), index = adjustment_index(a, token);
        bool seen = index >= a->slice.count;
        for (uint32_t i = 0; i < threadIdx.x && !seen; i++) {
            seen = recent_token(a, i) == token;
        }
        if (!seen) {
            a->logits[index] = kernels_repeated(a->logits[index], a->row->repeat_penalty);
        }
    }
    __syncthreads();
}

/* A CUDA thread for each bias; no two are of the same token. Ends with a barrier. */
GPU_INLINE void adjustment_bias(const struct adjustment *a)
{
    if (threadIdx.x < a->row->biases_count) {
        uint32_t index = adjustment_index(a, a->biases[threadIdx.x].token);
        if (index < a->slice.count) {
            a->logits[index] += a->biases[threadIdx.x].bias;
        }
    }
    __syncthreads();
}

/* All of it. Begins and ends with a barrier. */
GPU_INLINE void adjust(const struct adjustment *a)
{
    __syncthreads();
    adjustment_count(a);
    adjustment_repeat(a);
    adjustment_bias(a);
}
