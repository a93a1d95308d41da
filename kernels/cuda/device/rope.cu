/* SPDX-License-Identifier: MIT */
/*
 * What: the work of a family on queries, keys and values between the products and attention: bias,
 * norm, rotation; and the stores of keys and values into KV blocks. A thread block for each head of
 * a token slot: first the query heads, then those of keys, then those of values.
 */
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device/kv.h"

enum { QUERY, KEY, VALUE };

/* Where a head is, and what happens to it. */
struct head {
    uint32_t what;              /* QUERY, KEY or VALUE */
    uint32_t index;
    float *from;
    const float *bias, *norm;   /* or NULL */
};

GPU_INLINE const float *floats_at(uint64_t address, uint64_t index)
{
    return address == 0 ? NULL : (const float *)address + index;
}

GPU_INLINE struct head head_find(const struct gpu_rope *args, uint32_t index, uint64_t slot)
{
    struct head h;
    uint32_t kv_heads = args->kv.kv_heads;
    h.what = index < args->heads ? QUERY : index < args->heads + kv_heads ? KEY : VALUE;
    h.index = index - (h.what == QUERY ? 0 : h.what == KEY ? args->heads : args->heads + kv_heads);
    uint64_t at = (uint64_t)h.index * args->kv.head_dim;
    uint64_t base = h.what == QUERY ? args->q : h.what == KEY ? args->k : args->v;
    uint64_t stride = h.what == QUERY ? args->q_stride
                      : h.what == KEY ? args->k_stride
                                      : args->v_stride;
    h.from = (float *)base + slot * stride + at;
    h.bias = floats_at(h.what == QUERY ? args->q_bias
                       : h.what == KEY ? args->k_bias
                                       : args->v_bias, at);
    h.norm = floats_at(h.what == QUERY ? args->q_norm : h.what == KEY ? args->k_norm : 0, 0);
    return h;
}

/* Loads the head into shared memory, with its bias and norm, if it has them. Ends with a
 * barrier. */
GPU_INLINE void head_load(const struct head *h, float *x, float *shared, uint32_t dim,
                          float epsilon)
{
    float sum = 0.0f;
    for (uint32_t c = threadIdx.x; c < dim; c += blockDim.x) {
        x[c] = h->bias == NULL ? h->from[c] : h->from[c] + h->bias[c];
        sum = fmaf(x[c], x[c], sum);
    }
    if (h->norm != NULL) {
        float inverse = 1.0f / sqrtf(gpu_thread_block_sum(sum, shared) / (float)dim + epsilon);
        for (uint32_t c = threadIdx.x; c < dim; c += blockDim.x) {
            x[c] = x[c] * inverse * h->norm[c];
        }
    }
    __syncthreads();
}

/* Rotates the head. Ends with a barrier. */
GPU_INLINE void head_rotate(const struct gpu_rope *args, float *x, uint32_t position)
{
    uint32_t pairs = args->rope_dim / 2;
    uint32_t step = args->pairs_are_halves ? 1 : 2, apart = args->pairs_are_halves ? pairs : 1;
    const float *table = (const float *)args->table + (uint64_t)position * args->rope_dim;
    for (uint32_t i = threadIdx.x; i < pairs; i += blockDim.x) {
        float a = x[i * step], b = x[i * step + apart];
        float cosine = table[2 * i], sine = table[2 * i + 1];
        x[i * step] = a * cosine - b * sine;
        x[i * step + apart] = a * sine + b * cosine;
    }
    __syncthreads();
}

GPU_KERNEL(rope)
{
    const struct gpu_slot *slot = (const struct gpu_slot *)args.slots + blockIdx.y;
    const struct gpu_kv *kv = &args.kv;
    if (slot->row == GPU_NONE) {
        return;
    }
    struct head h = head_find(&args, blockIdx.x, blockIdx.y);
    float *x = (float *)gpu_shared;
    head_load(&h, x, x + kv->head_dim, kv->head_dim, args.epsilon);
    if (h.what != VALUE) {
        head_rotate(&args, x, slot->position);
    }
    void *to = h.what == QUERY ? (void *)h.from
                               : gpu_kv_at(kv, gpu_kv_table(kv, slot->row), slot->position,
                                           h.what == VALUE, h.index);
    uint32_t type = h.what == QUERY ? (uint32_t)GPU_F32 : kv->type;
    for (uint32_t c = threadIdx.x; c < kv->head_dim; c += blockDim.x) {
        gpu_store(to, type, c, x[c]);
    }
}
