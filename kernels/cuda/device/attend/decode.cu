/* SPDX-License-Identifier: MIT */
/*
 * What: attention of decode (attention.h defines it): the splits of each slot beside each other,
 * then their sum.
 */
#include "kernels/cuda/device/attend/attend.h"

GPU_INLINE void split_write(const struct work *w, const struct gpu_attend_split *args)
{
    uint32_t dim = w->a->kv.head_dim;
    for (uint32_t i = threadIdx.x; i < w->queries * (dim + 2); i += blockDim.x) {
        uint32_t query = i / (dim + 2), c = i % (dim + 2);
        float *to = gpu_partial_at(args->partials, w->a, args->splits, w->slot_first,
                                   w->head_first + query) + blockIdx.y * (dim + 2);
        to[c] = c < dim ? w->out[query * w->width + c] : c == dim ? w->largest[query]
                                                                  : w->sum[query];
    }
}

GPU_KERNEL_OF_FEW(attend_split)
{
    const struct gpu_attention *a = &args.attention;
    uint32_t first = blockIdx.y * GPU_SPLIT_TOKENS;
    const struct gpu_slot *slot = (const struct gpu_slot *)a->slots + blockIdx.z;
    if (slot->row == GPU_NONE || slot->position < first) {
        return;
    }
    const struct work w = work_init(a, blockIdx.z, 1);
    queries_load(&w);
    split_attend(&w, first, slot->position + 1);
    split_write(&w, &args);
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
    const float *partial = gpu_partial_at(args.partials, a, args.splits, index, head);
    for (uint32_t c = threadIdx.x; c < dim; c += blockDim.x) {
        float out = slot->row == GPU_NONE ? 0.0f : channel_merge(a, partial, c, slot->position + 1);
        gpu_store((void *)a->out, a->out_type, index * a->out_stride + head * dim + c, out);
    }
}
