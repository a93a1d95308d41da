/* SPDX-License-Identifier: MIT */
/*
 * What: attention of prefill (attention.h defines it): a thread block has the queries of several
 * slots of one row, and goes through the splits one after the other.
 */
#include "kernels/cuda/device/attend/attend.h"

/* The sums of all splits so far; shared, behind what a split needs. */
struct all {
    float *out;                         /* (rows_of_q, width) */
    float *largest, *sum;               /* (rows_of_q) */
};

GPU_INLINE struct all all_init(const struct work *w)
{
    struct all all;
    all.out = (float *)(w->seen + w->rows_of_q);
    all.largest = all.out + w->rows_of_q * w->width;
    all.sum = all.largest + w->rows_of_q;
    for (uint32_t i = threadIdx.x; i < w->rows_of_q * w->width; i += blockDim.x) {
        all.out[i] = 0.0f;
    }
    for (uint32_t i = threadIdx.x; i < w->rows_of_q; i += blockDim.x) {
        all.largest[i] = -INFINITY;
        all.sum[i] = 0.0f;
    }
    return all;
}

/* Adds the split to those before it, for the queries that see it. Ends with a barrier. */
GPU_INLINE void split_merge(const struct work *w, const struct all *all, uint32_t first)
{
    uint32_t dim = w->a->kv.head_dim;
    for (uint32_t i = threadIdx.x; i < w->queries * dim; i += blockDim.x) {
        uint32_t query = i / dim, at = query * w->width + i % dim;
        if (w->seen[query] > first) {
            struct merge m = merge_of(all->largest[query], w->largest[query], w->a->scale);
            all->out[at] = merged(&m, all->out[at], w->out[at]);
        }
    }
    __syncthreads();
    for (uint32_t query = threadIdx.x; query < w->queries; query += blockDim.x) {
        if (w->seen[query] > first) {
            struct merge m = merge_of(all->largest[query], w->largest[query], w->a->scale);
            all->sum[query] = merged(&m, all->sum[query], w->sum[query]);
            all->largest[query] = m.largest;
        }
    }
    __syncthreads();
}

GPU_KERNEL_OF_FEW(attend_tile)
{
    const struct gpu_attention *a = &args.attention;
    const struct gpu_tile *tile = (const struct gpu_tile *)args.tiles + blockIdx.y;
    uint32_t dim = a->kv.head_dim;
    const struct work w = work_init(a, tile->slot, tile->count);
    const struct all all = all_init(&w);
    queries_load(&w);
    uint32_t tokens = slot_of(&w, w.queries - 1)->position + 1;
    for (uint32_t first = 0; first < tokens; first += GPU_SPLIT_TOKENS) {
        split_attend(&w, first, tokens);
        split_merge(&w, &all, first);
    }
    for (uint32_t i = threadIdx.x; i < w.queries * dim; i += blockDim.x) {
        uint32_t query = i / dim, c = i % dim;
        uint64_t slot = tile->slot + query / w.heads, head = w.head_first + query % w.heads;
        gpu_store((void *)a->out, a->out_type, slot * a->out_stride + head * dim + c,
                  all.out[query * w.width + c] * (1.0f / all.sum[query]));
    }
}
