/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: attention over splits of paged KV, of queries of one row that share a KV head (attention.h
 * defines its bits). A query is a token slot and a query head; a thread block has those of a group
 * of heads, in prefill those of several slots.
 */
#include "kernels/cuda/device/attend/strip.h"

GPU_INLINE const struct gpu_slot *slot_of(const struct work *w, uint32_t query)
{
    return (const struct gpu_slot *)w->a->slots + w->slot_first + query / w->heads;
}

/* The queries of `slots` slots from `slot` on, of the heads that are set blockIdx.x. Ends without a
 * barrier. */
GPU_INLINE struct work work_init(const struct gpu_attention *a, uint32_t slot, uint32_t slots)
{
    struct work w;
    uint32_t group = a->heads / a->kv.kv_heads;
    uint32_t together = gpu_heads_together(a->heads, a->kv.kv_heads);
    uint32_t sets = gpu_ceil(group, together), first = blockIdx.x % sets * together;
    w.a = a;
    w.slot_first = slot;
    w.table = gpu_kv_table(&a->kv, ((const struct gpu_slot *)a->slots + slot)->row);
    w.kv_head = blockIdx.x / sets;
    w.head_first = w.kv_head * group + first;
    w.heads = gpu_smaller(together, group - first);
    w.queries = w.heads * slots;
    w.rows_of_q = gpu_attend_rows(together * slots);
    w.width = gpu_attend_width(&a->kv);
    w.row_bytes = gpu_kv_row_bytes(&a->kv);
    w.stride = gpu_stage_stride(&a->kv);
    w.rows = (uint64_t *)gpu_shared;
    w.stage = (uint8_t *)(w.rows + GPU_STRIP_TOKENS);
    w.q = (float *)(void *)(w.stage + GPU_STRIP_TOKENS * w.stride);
    w.out = w.q + w.rows_of_q * w.width;
    w.weights = w.out + w.rows_of_q * w.width;
    w.largest = w.weights + w.rows_of_q * GPU_STRIP_TOKENS;
    w.sum = w.largest + w.rows_of_q;
    w.chunk_largest = w.sum + w.rows_of_q;
    w.chunk_sum = w.chunk_largest + w.rows_of_q * WARPS;
    w.shrink = w.chunk_sum + w.rows_of_q * WARPS;
    w.seen = (uint32_t *)(w.shrink + w.rows_of_q * WARPS);
    return w;
}

GPU_INLINE void queries_load(const struct work *w)
{
    const struct gpu_attention *a = w->a;
    uint32_t dim = a->kv.head_dim;
    for (uint32_t i = threadIdx.x; i < w->rows_of_q * w->width; i += blockDim.x) {
        uint32_t query = i / w->width, c = i % w->width;
        uint64_t row = w->slot_first + query / w->heads;
        uint64_t head = w->head_first + query % w->heads;
        w->q[i] = query < w->queries && c < dim
                      ? ((const float *)a->q)[row * a->q_stride + head * dim + c] : 0.0f;
    }
    for (uint32_t i = threadIdx.x; i < w->rows_of_q; i += blockDim.x) {
        w->seen[i] = i < w->queries ? slot_of(w, i)->position + 1 : 0;
    }
}

/* ---- the split ------------------------------------------------------------------------------- */

/* Begins without a barrier, ends with one. */
GPU_INLINE void split_clear(const struct work *w)
{
    for (uint32_t i = threadIdx.x; i < w->rows_of_q * w->width; i += blockDim.x) {
        w->out[i] = 0.0f;
    }
    for (uint32_t i = threadIdx.x; i < w->rows_of_q; i += blockDim.x) {
        w->largest[i] = -INFINITY;
        w->sum[i] = 0.0f;
    }
    __syncthreads();
}

/* `type` is that of the KV: a constant, so that no loop asks for it. */
GPU_INLINE void strips_attend(const struct work *w, uint32_t type, uint32_t first, uint32_t end)
{
    const struct gpu_kv *kv = &w->a->kv;
    uint64_t behind = (uint64_t)kv->kv_heads * kv->block_tokens * w->row_bytes;
    for (; first < end; first += GPU_STRIP_TOKENS) {
        const struct strip strip = {first, gpu_smaller(end - first, GPU_STRIP_TOKENS)};
        rows_find(w, strip);
        stage_fill(w, strip, 0);
        strip_score(w, type, strip);
        strip_weigh(w, strip);
        stage_fill(w, strip, behind);
        strip_add(w, type, strip);
    }
}

/* The split that begins at token `first`; `tokens` is the most that a query sees. Ends with a
 * barrier. */
GPU_INLINE void split_attend(const struct work *w, uint32_t first, uint32_t tokens)
{
    uint32_t end = gpu_smaller(tokens, first + GPU_SPLIT_TOKENS);
    split_clear(w);
    if (w->a->kv.type == GPU_F16) {
        strips_attend(w, GPU_F16, first, end);
    } else if (w->a->kv.type == GPU_BF16) {
        strips_attend(w, GPU_BF16, first, end);
    } else {
        strips_attend(w, GPU_F32, first, end);
    }
}

/* ---- splits are added ------------------------------------------------------------------------ */

/* How a split is added to those before it. */
struct merge {
    float largest;                      /* of both */
    float before, split;                /* the factor of each */
};

GPU_INLINE struct merge merge_of(float before, float split, float scale)
{
    struct merge m;
    m.largest = fmaxf(before, split);
    m.before = kernels_exp((before - m.largest) * scale);
    m.split = kernels_exp((split - m.largest) * scale);
    return m;
}

GPU_INLINE float merged(const struct merge *m, float before, float split)
{
    return fmaf(before, m->before, m->split * split);
}
