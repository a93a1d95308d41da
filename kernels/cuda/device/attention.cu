/* SPDX-License-Identifier: MIT */
/*
 * What: attention over paged KV, for decode and for prefill (attention.h defines it).
 *
 *   query   a token slot and a query head. A thread block has up to GPU_QUERIES queries of one KV
 *           head and one row: the heads of a group, in prefill those of several slots
 *   chunk   GPU_CHUNK_TOKENS keys, then their values, which the thread block reads once for its
 *           queries. For scores, a warp has a query and a lane a token; for outs, a CUDA thread has
 *           channels
 *
 * Invariant: a query sees no token after its own position. What lies there is undefined, so it is
 * left out instead of weighed with zero.
 */
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device/kv.h"
#include "kernels/exp.h"

/* The sums of queries so far. */
struct gathered {
    float *out;                 /* (queries, head_dim) */
    float *largest, *sum;       /* (queries) */
};

struct thread_block {
    const struct gpu_attention *a;
    const uint32_t *table;
    uint32_t slot_first;
    uint32_t kv_head, head_first, heads;
    uint32_t queries;           /* query i: slot i / heads, head i % heads */
    float *q;                   /* (queries, head_dim) */
    float *stage;               /* (GPU_CHUNK_TOKENS, head_dim + 1): each lane in its own bank */
    float *weights;             /* (queries, GPU_CHUNK_TOKENS) */
    float *shrink;              /* (queries) */
    struct gathered split, all; /* all: prefill only */
};

GPU_INLINE const struct gpu_slot *slot_of(const struct thread_block *b, uint32_t query)
{
    return (const struct gpu_slot *)b->a->slots + b->slot_first + query / b->heads;
}

/* The tokens from `first` on that a query sees. */
GPU_INLINE uint32_t seen_from(const struct thread_block *b, uint32_t query, uint32_t first)
{
    uint32_t tokens = slot_of(b, query)->position + 1;
    return tokens > first ? tokens - first : 0;
}

GPU_INLINE struct gathered gathered_take(float **shared, uint32_t head_dim)
{
    struct gathered g;
    g.out = *shared;
    g.largest = g.out + GPU_QUERIES * head_dim;
    g.sum = g.largest + GPU_QUERIES;
    *shared = g.sum + GPU_QUERIES;
    return g;
}

/* The thread block's queries: heads of set blockIdx.x, of `slots` slots. Ends without a barrier. */
GPU_INLINE struct thread_block thread_block_init(const struct gpu_attention *a, uint32_t slot,
                                                 uint32_t slots)
{
    struct thread_block b;
    uint32_t dim = a->kv.head_dim, group = a->heads / a->kv.kv_heads;
    uint32_t together = gpu_heads_together(a->heads, a->kv.kv_heads);
    uint32_t sets = gpu_ceil(group, together), first = blockIdx.x % sets * together;
    b.a = a;
    b.slot_first = slot;
    b.table = gpu_kv_table(&a->kv, ((const struct gpu_slot *)a->slots + slot)->row);
    b.kv_head = blockIdx.x / sets;
    b.head_first = b.kv_head * group + first;
    b.heads = gpu_smaller(together, group - first);
    b.queries = b.heads * slots;
    b.q = (float *)gpu_shared;
    b.stage = b.q + GPU_QUERIES * dim;
    b.weights = b.stage + GPU_CHUNK_TOKENS * (dim + 1);
    b.shrink = b.weights + GPU_QUERIES * GPU_CHUNK_TOKENS;
    float *shared = b.shrink + GPU_QUERIES;
    b.split = gathered_take(&shared, dim);
    b.all.out = shared;
    for (uint32_t i = threadIdx.x; i < b.queries * dim; i += blockDim.x) {
        uint64_t row = slot + i / dim / b.heads, head = b.head_first + i / dim % b.heads;
        b.q[i] = ((const float *)a->q)[row * a->q_stride + head * dim + i % dim];
    }
    return b;
}

/* Ends without a barrier. */
GPU_INLINE void gathered_clear(const struct thread_block *b, const struct gathered *g)
{
    for (uint32_t i = threadIdx.x; i < b->queries * b->a->kv.head_dim; i += blockDim.x) {
        g->out[i] = 0.0f;
    }
    for (uint32_t i = threadIdx.x; i < b->queries; i += blockDim.x) {
        g->largest[i] = -INFINITY;
        g->sum[i] = 0.0f;
    }
}

/* Keys (which = 0) or values (1) of the tokens first .. end - 1, as floats. */
GPU_INLINE void chunk_load(const struct thread_block *b, uint32_t which, uint32_t first,
                           uint32_t end)
{
    const struct gpu_kv *kv = &b->a->kv;
    uint32_t dim = kv->head_dim;
    for (uint32_t t = threadIdx.x / GPU_WARP; t < end - first; t += blockDim.x / GPU_WARP) {
        const void *from = gpu_kv_at(kv, b->table, first + t, which, b->kv_head);
        for (uint32_t c = threadIdx.x % GPU_WARP; c < dim; c += GPU_WARP) {
            b->stage[t * (dim + 1) + c] = gpu_load(from, kv->type, c);
        }
    }
}

GPU_INLINE float score_of(const struct thread_block *b, uint32_t query, uint32_t token)
{
    uint32_t dim = b->a->kv.head_dim;
    const float *q = b->q + query * dim, *key = b->stage + token * (dim + 1);
    float score = 0.0f;
    for (uint32_t c = 0; c < dim; c++) {
        score = fmaf(q[c], key[c], score);
    }
    return score;
}

/* One warp: the weights of a query that sees `seen` tokens of the chunk, at least one. */
GPU_INLINE void query_weigh(const struct thread_block *b, uint32_t query, uint32_t seen)
{
    uint32_t lane = threadIdx.x % GPU_WARP;
    float scale = b->a->scale, before = b->split.largest[query];
    float score = lane < seen ? score_of(b, query, lane) : -INFINITY;
    float largest = gpu_warp_largest(fmaxf(score, before));
    float weight = lane < seen ? kernels_exp((score - largest) * scale) : 0.0f;
    float sum = gpu_warp_sum(weight);
    b->weights[query * GPU_CHUNK_TOKENS + lane] = weight;
    __syncwarp();                       /* all lanes have read `before` */
    if (lane == 0) {
        float shrink = kernels_exp((before - largest) * scale);
        b->split.sum[query] = fmaf(b->split.sum[query], shrink, sum);
        b->split.largest[query] = largest;
        b->shrink[query] = shrink;
    }
}

GPU_INLINE void outs_add(const struct thread_block *b, uint32_t first)
{
    uint32_t dim = b->a->kv.head_dim;
    for (uint32_t i = threadIdx.x; i < b->queries * dim; i += blockDim.x) {
        uint32_t query = i / dim, seen = gpu_smaller(seen_from(b, query, first), GPU_CHUNK_TOKENS);
        if (seen > 0) {
            const float *weights = b->weights + query * GPU_CHUNK_TOKENS;
            float out = b->split.out[i] * b->shrink[query];
            for (uint32_t t = 0; t < seen; t++) {
                out = fmaf(weights[t], b->stage[t * (dim + 1) + i % dim], out);
            }
            b->split.out[i] = out;
        }
    }
}

GPU_INLINE void chunk_attend(const struct thread_block *b, uint32_t first, uint32_t end)
{
    chunk_load(b, 0, first, end);
    __syncthreads();
    for (uint32_t i = threadIdx.x / GPU_WARP; i < b->queries; i += blockDim.x / GPU_WARP) {
        uint32_t seen = gpu_smaller(seen_from(b, i, first), GPU_CHUNK_TOKENS);
        if (seen > 0) {
            query_weigh(b, i, seen);
        }
    }
    __syncthreads();
    chunk_load(b, 1, first, end);
    __syncthreads();
    outs_add(b, first);
    __syncthreads();
}

/* The sums of the thread block's queries over the split that begins at token `first`; `tokens` is
 * the most that one of them sees. Ends with a barrier. */
GPU_INLINE void split_attend(const struct thread_block *b, uint32_t first, uint32_t tokens)
{
    uint32_t end = gpu_smaller(tokens, first + GPU_SPLIT_TOKENS);
    gathered_clear(b, &b->split);
    for (uint32_t chunk = first; chunk < end; chunk += GPU_CHUNK_TOKENS) {
        chunk_attend(b, chunk, gpu_smaller(end, chunk + GPU_CHUNK_TOKENS));
    }
}

/* ---- decode ---- */

GPU_INLINE float *partial_at(uint64_t partials, const struct gpu_attention *a, uint32_t splits,
                             uint64_t slot, uint32_t head)
{
    return (float *)partials + (slot * a->heads + head) * splits * (a->kv.head_dim + 2);
}

GPU_KERNEL(attend_split)
{
    const struct gpu_attention *a = &args.attention;
    uint32_t index = blockIdx.z, first = blockIdx.y * GPU_SPLIT_TOKENS, dim = a->kv.head_dim;
    const struct gpu_slot *slot = (const struct gpu_slot *)a->slots + index;
    if (slot->row == GPU_NONE || slot->position < first) {
        return;
    }
    struct thread_block b = thread_block_init(a, index, 1);
    split_attend(&b, first, slot->position + 1);
    for (uint32_t i = threadIdx.x; i < b.queries * (dim + 2); i += blockDim.x) {
        uint32_t query = i / (dim + 2), c = i % (dim + 2);
        float *to = partial_at(args.partials, a, args.splits, index, b.head_first + query) +
                    blockIdx.y * (dim + 2);
        to[c] = c < dim    ? b.split.out[query * dim + c]
                : c == dim ? b.split.largest[query]
                           : b.split.sum[query];
    }
}

/* How a split is added to those before it. */
struct merge {
    float largest;              /* of both */
    float before, split;        /* the factor of each */
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

/* Channel c of a head, for a slot that sees so many tokens. */
GPU_INLINE float channel_merge(const struct gpu_attention *a, const float *partial, uint32_t c,
                               uint32_t tokens)
{
    uint32_t dim = a->kv.head_dim;
    float largest = -INFINITY, sum = 0.0f, out = 0.0f;
    for (uint32_t first = 0; first < tokens; first += GPU_SPLIT_TOKENS) {
        struct merge m = merge_of(largest, partial[dim], a->scale);
        largest = m.largest;
        sum = merged(&m, sum, partial[dim + 1]);
        out = merged(&m, out, partial[c]);
        partial += dim + 2;
    }
    return out * (1.0f / sum);
}

GPU_KERNEL(attend_merge)
{
    const struct gpu_attention *a = &args.attention;
    uint32_t head = blockIdx.x, dim = a->kv.head_dim;
    uint64_t index = blockIdx.y;
    const struct gpu_slot *slot = (const struct gpu_slot *)a->slots + index;
    const float *partial = partial_at(args.partials, a, args.splits, index, head);
    for (uint32_t c = threadIdx.x; c < dim; c += blockDim.x) {
        float out = slot->row == GPU_NONE ? 0.0f : channel_merge(a, partial, c, slot->position + 1);
        gpu_store((void *)a->out, a->out_type, index * a->out_stride + head * dim + c, out);
    }
}

/* ---- prefill ---- */

/* Adds the split to those before it, for the queries that see it. Ends with a barrier. */
GPU_INLINE void split_merge(const struct thread_block *b, uint32_t first)
{
    uint32_t dim = b->a->kv.head_dim;
    for (uint32_t i = threadIdx.x; i < b->queries * dim; i += blockDim.x) {
        uint32_t query = i / dim;
        if (seen_from(b, query, first) > 0) {
            struct merge m = merge_of(b->all.largest[query], b->split.largest[query], b->a->scale);
            b->all.out[i] = merged(&m, b->all.out[i], b->split.out[i]);
        }
    }
    __syncthreads();
    for (uint32_t query = threadIdx.x; query < b->queries; query += blockDim.x) {
        if (seen_from(b, query, first) > 0) {
            struct merge m = merge_of(b->all.largest[query], b->split.largest[query], b->a->scale);
            b->all.sum[query] = merged(&m, b->all.sum[query], b->split.sum[query]);
            b->all.largest[query] = m.largest;
        }
    }
    __syncthreads();
}

GPU_KERNEL(attend_tile)
{
    const struct gpu_attention *a = &args.attention;
    const struct gpu_tile *tile = (const struct gpu_tile *)args.tiles + blockIdx.y;
    uint32_t dim = a->kv.head_dim;
    struct thread_block b = thread_block_init(a, tile->slot, tile->count);
    float *rest = b.all.out;
    b.all = gathered_take(&rest, dim);
    gathered_clear(&b, &b.all);
    uint32_t tokens = seen_from(&b, b.queries - 1, 0);
    for (uint32_t first = 0; first < tokens; first += GPU_SPLIT_TOKENS) {
        split_attend(&b, first, tokens);
        split_merge(&b, first);
    }
    for (uint32_t i = threadIdx.x; i < b.queries * dim; i += blockDim.x) {
        uint64_t slot = tile->slot + i / dim / b.heads, head = b.head_first + i / dim % b.heads;
        gpu_store((void *)a->out, a->out_type, slot * a->out_stride + head * dim + i % dim,
                  b.all.out[i] * (1.0f / b.all.sum[i / dim]));
    }
}
