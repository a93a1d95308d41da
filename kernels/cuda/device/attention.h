/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the kernels of attention (kernels.h: how to read this). */
#include "kernels/cuda/device/record.h"

/* What the three kernels share. Query head h belongs to KV head h / (heads / kv_heads).
 *
 * A slot at position p sees the tokens 0 .. p, in splits of GPU_SPLIT_TOKENS, each in chunks of
 * GPU_CHUNK_TOKENS. For each query head:
 *
 *   score   s[t] = chain over channels ascending of fmaf(q[c], key[t][c], acc)
 *   chunk   m' = max(m, s[t]); w[t] = kernels_exp((s[t] - m') * scale), shrink: the same for m;
 *           sum = fmaf(sum, shrink, gpu_warp_sum(w)); out[c] = out[c] * shrink, then a chain over
 *           t ascending of fmaf(w[t], value[t][c], acc). From m = -infinity, sum = 0, out = 0
 *   split   its m, sum and out are added to those of the splits before: with m' the larger m, and
 *           a and b = kernels_exp((m - m') * scale) for both, sum = fmaf(sum, a, b * its sum), out
 *           likewise
 *   end     out * (1 / sum)
 *
 * So decode, which computes splits in parallel, and prefill, which computes them one after the
 * other, agree to the bit. A number in q or KV that is not finite makes the result NaN. */
#define GPU_SPLIT_TOKENS   512u
#define GPU_CHUNK_TOKENS   32u          /* one for each lane of a warp */
#define GPU_QUERIES        16u          /* of a thread block; they share the KV that it reads */
#define GPU_ATTEND_THREADS 128u

struct gpu_attention {
    struct gpu_kv kv;
    uint64_t slots;             /* struct gpu_slot (slots_count) */
    uint64_t q;                 /* float (slots, heads * head_dim) */
    uint64_t out;               /* out_type (slots, heads * head_dim) */
    uint64_t q_stride, out_stride;
    uint32_t slots_count, heads, out_type;
    float scale;                /* 1 / sqrt(head_dim) */
};

/* Query heads of one thread block. For a larger group several thread blocks read the same KV. */
static inline GPU_BOTH uint32_t gpu_heads_together(uint32_t heads, uint32_t kv_heads)
{
    return gpu_smaller(heads / kv_heads, GPU_QUERIES);
}

/* Sets of query heads of all KV heads. */
static inline uint32_t gpu_head_sets(uint32_t heads, uint32_t kv_heads)
{
    return kv_heads * gpu_ceil(heads / kv_heads, gpu_heads_together(heads, kv_heads));
}

#define GPU_STRIP_TOKENS GPU_ATTEND_THREADS     /* that a thread block works on at a time */

/* Of one token and KV head. */
static inline GPU_BOTH uint32_t gpu_kv_row_bytes(const struct gpu_kv *kv)
{
    return kv->head_dim * (kv->type == GPU_F32 ? 4u : 2u);
}

/* From one token to the next in the stage: whole pieces of 16 bytes, an odd number of them, so that
 * the lanes of a warp, which read one token each, find all banks. */
static inline GPU_BOTH uint32_t gpu_stage_stride(const struct gpu_kv *kv)
{
    return (gpu_ceil(gpu_kv_row_bytes(kv), 16) | 1u) * 16;
}

#define GPU_ATTEND_TOGETHER 4u           /* queries that a CUDA thread has at a time */

/* Rows of so many queries in shared memory, and the width of one. */
static inline GPU_BOTH uint32_t gpu_attend_rows(uint32_t queries)
{
    return gpu_ceil(queries, GPU_ATTEND_TOGETHER) * GPU_ATTEND_TOGETHER;
}
static inline GPU_BOTH uint32_t gpu_attend_width(const struct gpu_kv *kv)
{
    return gpu_ceil(kv->head_dim, 8) * 8;
}

/* Shared memory for so many queries: addresses, stage; of each query itself, its outs (of a split;
 * in prefill also of all), weights, and the numbers of its chunks and sums. */
static inline uint32_t gpu_attend_bytes(const struct gpu_kv *kv, uint32_t queries, uint32_t outs)
{
    uint32_t floats = (1 + outs) * gpu_attend_width(kv) + GPU_STRIP_TOKENS + 2 * outs + 1 +
                      3 * GPU_ATTEND_THREADS / 32;
    return GPU_STRIP_TOKENS * (8 + gpu_stage_stride(kv)) +
           gpu_attend_rows(queries) * floats * (uint32_t)sizeof(float);
}

/* Decode: writes out, m and sum of each slot, query head and split to
 * partials[slot][head][split][head_dim + 2]. Splits that a slot does not have are left alone. */
struct gpu_attend_split {
    struct gpu_attention attention;
    uint64_t partials;
    uint32_t splits;            /* those of a row of partials */
    uint32_t splits_most;       /* of a slot of this launch */
};
static inline struct gpu_launch gpu_attend_split_launch(const struct gpu_attend_split *args)
{
    const struct gpu_attention *a = &args->attention;
    struct gpu_launch launch = gpu_launch(gpu_head_sets(a->heads, a->kv.kv_heads),
                                          args->splits_most, GPU_ATTEND_THREADS);
    launch.grid[2] = a->slots_count;
    launch.shared_bytes =
        gpu_attend_bytes(&a->kv, gpu_heads_together(a->heads, a->kv.kv_heads), 1);
    return launch;
}

/* Adds the splits of each slot and query head; empty slots get zeros. */
struct gpu_attend_merge {
    struct gpu_attention attention;
    uint64_t partials;
    uint32_t splits;
};
static inline struct gpu_launch gpu_attend_merge_launch(const struct gpu_attend_merge *args)
{
    return gpu_launch(args->attention.heads, args->attention.slots_count, GPU_ATTEND_THREADS);
}

/* Neighbouring slots of one row that attend together; none of them is empty. */
struct gpu_tile {
    uint32_t slot, count;       /* 1 .. gpu_tile_slots() */
};
static inline uint32_t gpu_tile_slots(uint32_t heads, uint32_t kv_heads)
{
    return GPU_QUERIES / gpu_heads_together(heads, kv_heads);
}

/* Prefill: the whole attention of every slot in the tiles. */
struct gpu_attend_tile {
    struct gpu_attention attention;
    uint64_t tiles;             /* struct gpu_tile (tiles_count) */
    uint32_t tiles_count;
};
static inline struct gpu_launch gpu_attend_tile_launch(const struct gpu_attend_tile *args)
{
    const struct gpu_attention *a = &args->attention;
    struct gpu_launch launch = gpu_launch(gpu_head_sets(a->heads, a->kv.kv_heads),
                                          args->tiles_count, GPU_ATTEND_THREADS);
    launch.shared_bytes = gpu_attend_bytes(&a->kv, GPU_QUERIES, 2);
    return launch;
}
