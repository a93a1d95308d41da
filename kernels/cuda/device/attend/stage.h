/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a thread block of attention works with, in shared memory, and the stage, to which it
 * brings keys or values of many tokens, 16 bytes at a time.
 */
#include "kernels/cuda/device/kv.h"
#include "kernels/cuda/device/wide.h"

#define WARPS   (GPU_ATTEND_THREADS / GPU_WARP)
#define TOGETHER GPU_ATTEND_TOGETHER
#define DEPTH    4u                     /* loads of a CUDA thread that are under way at once */

struct strip {
    uint32_t first, tokens;             /* positions first .. first + tokens - 1 */
};

struct work {
    const struct gpu_attention *a;
    const uint32_t *table;
    uint32_t slot_first;
    uint32_t kv_head, head_first, heads;
    uint32_t queries;                   /* query i: slot i / heads, head i % heads */
    uint32_t rows_of_q;                 /* queries, in whole groups of TOGETHER, so no loop asks
                                           for one; what the rows beyond them get is not used */
    uint32_t width;                     /* of a row of q or out: the channels, in whole eights */
    uint32_t row_bytes, stride;         /* of a token in KV; in the stage */
    /* Shared. */
    uint32_t *seen;                     /* (rows_of_q): tokens that a query sees: 0 .. seen - 1 */
    uint64_t *rows;                     /* (GPU_STRIP_TOKENS): where a token's keys are */
    uint8_t *stage;                     /* (GPU_STRIP_TOKENS, stride) */
    float *q, *out;                     /* (rows_of_q, width) */
    float *weights;                     /* (rows_of_q, GPU_STRIP_TOKENS) */
    float *largest, *sum;               /* (rows_of_q): so far */
    float *chunk_largest, *chunk_sum, *shrink;      /* (rows_of_q, WARPS) */
};

/* ---- stage ----------------------------------------------------------------------------------- */

/* Where each token's keys are. Ends with a barrier. */
GPU_INLINE void rows_find(const struct work *w, struct strip strip)
{
    for (uint32_t t = threadIdx.x; t < strip.tokens; t += blockDim.x) {
        w->rows[t] = (uint64_t)(uintptr_t)gpu_kv_at(&w->a->kv, w->table, strip.first + t, 0,
                                                    w->kv_head);
    }
    __syncthreads();
}

/* Of rows that lie `behind` bytes behind the keys, the piece at byte `at`. */
struct column {
    uint64_t behind;
    uint32_t at;
};

/* Brings the piece of every apart-th token from from.first on, DEPTH at a time: so many loads of a
 * CUDA thread are under way at once. */
GPU_INLINE void pieces_bring(const struct work *w, struct strip from, uint32_t apart,
                             struct column column)
{
    uint8_t *to = w->stage + column.at;
    for (uint32_t token = from.first; token < from.tokens; token += DEPTH * apart) {
        struct gpu_wide pieces[DEPTH];
        GPU_UNROLL
        for (uint32_t i = 0; i < DEPTH; i++) {
            uint32_t t = token + i * apart;
            if (t < from.tokens) {
                pieces[i] = *(const struct gpu_wide *)(uintptr_t)(w->rows[t] + column.behind +
                                                                  column.at);
            }
        }
        GPU_UNROLL
        for (uint32_t i = 0; i < DEPTH; i++) {
            uint32_t t = token + i * apart;
            if (t < from.tokens) {
                *(struct gpu_wide *)(void *)(to + t * w->stride) = pieces[i];
            }
        }
    }
}

/* Brings what lies `behind` bytes behind the keys of the strip's tokens, whole rows. A row is for
 * so many lanes that a warp has whole rows. Ends with a barrier. */
GPU_INLINE void stage_fill(const struct work *w, struct strip strip, uint64_t behind)
{
    uint32_t pieces = gpu_ceil(w->row_bytes, GPU_WIDE_BYTES), lanes = 1;
    while (lanes < pieces && lanes < GPU_WARP) {
        lanes *= 2;
    }
    const struct strip from = {threadIdx.x / lanes, strip.tokens};
    for (uint32_t i = threadIdx.x % lanes; i < pieces; i += lanes) {
        if (w->row_bytes % GPU_WIDE_BYTES == 0) {
            const struct column column = {behind, i * GPU_WIDE_BYTES};
            pieces_bring(w, from, blockDim.x / lanes, column);
            continue;
        }
        for (uint32_t t = from.first; t < from.tokens; t += blockDim.x / lanes) {
            gpu_bytes_copy(w->stage + t * w->stride + i * GPU_WIDE_BYTES,
                           (const uint8_t *)(uintptr_t)(w->rows[t] + behind) + i * GPU_WIDE_BYTES,
                           gpu_smaller(GPU_WIDE_BYTES, w->row_bytes - i * GPU_WIDE_BYTES));
        }
    }
    __syncthreads();
}
