/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the kernels of a forward pass but attention and products (kernels.h: how to read this). */
#include "kernels/cuda/device/record.h"

/* ---- embeddings, SwiGLU ---- */

/* x of a slot: its token's row of the table, exact; zeros for an empty slot. */
struct gpu_embed {
    uint64_t table;             /* table_type (vocab, dim); levels: panels */
    uint64_t slots;             /* struct gpu_slot (slots_count) */
    uint64_t x;                 /* float (slots_count, dim) */
    uint64_t x_stride;
    uint32_t slots_count, dim, table_type;
};
static inline struct gpu_launch gpu_embed_launch(const struct gpu_embed *args)
{
    return gpu_launch(args->slots_count, 1, 256);
}

/* y = gate / (1 + kernels_exp(-gate)) * up. */
struct gpu_swiglu {
    uint64_t gate, up;          /* float (rows, columns) */
    uint64_t y;                 /* y_type (rows, columns) */
    uint64_t gate_stride, up_stride, y_stride;
    uint32_t rows, columns, y_type;
};
static inline struct gpu_launch gpu_swiglu_launch(const struct gpu_swiglu *args)
{
    return gpu_launch(gpu_ceil(args->columns, 256), args->rows, 256);
}

/* ---- norm ---- */

/* Row r: x += add, if there is an add; y = (x * inverse) * weight, inverse = 1 / sqrt(sum / dim +
 * epsilon). The sum of squares: CUDA thread i % 256, i ascending, by fmaf; then
 * gpu_thread_block_sum(). With `places`, row r of y comes from x and add of the slot that place r
 * samples; if it samples none, the row is left alone. */
struct gpu_rms_norm {
    uint64_t x;                 /* float (slots, dim); the residual */
    uint64_t add;               /* float (slots, dim), or 0 */
    uint64_t weight;            /* float (dim) */
    uint64_t places;            /* struct gpu_place (rows), or 0: row r comes from row r of x */
    uint64_t y;                 /* y_type (rows, dim) */
    uint64_t x_stride, add_stride, y_stride;
    uint32_t rows, dim, y_type;
    float epsilon;
};
static inline struct gpu_launch gpu_rms_norm_launch(const struct gpu_rms_norm *args)
{
    struct gpu_launch launch = gpu_launch(args->rows, 1, 256);
    launch.shared_bytes = 8 * sizeof(float);
    return launch;
}

/* ---- queries, keys, values ---- */

/* The work between the products and attention, for every head of a slot: adds a bias; normalizes
 * queries and keys (as rms_norm above, with 64 CUDA threads for 256) and rotates them. The first
 * rope_dim channels of a head are pairs, (2i, 2i + 1), or (i, i + rope_dim / 2) if
 * pairs_are_halves; (a, b) becomes (a * cos - b * sin, a * sin + b * cos), each product and sum
 * rounded. Queries stay where they are; keys and values go to KV, at the slot's position. */
struct gpu_rope {
    struct gpu_kv kv;
    uint64_t slots;             /* struct gpu_slot (slots_count) */
    uint64_t q, k, v;           /* float (slots_count, heads or kv_heads * head_dim) */
    uint64_t q_bias, k_bias, v_bias;    /* float (heads or kv_heads * head_dim), or 0 */
    uint64_t q_norm, k_norm;    /* float (head_dim), or 0 */
    uint64_t table;             /* float (context, rope_dim / 2, {cos, sin}) */
    uint64_t q_stride, k_stride, v_stride;
    uint32_t slots_count, heads, rope_dim;
    uint32_t pairs_are_halves;
    float epsilon;
};
static inline struct gpu_launch gpu_rope_launch(const struct gpu_rope *args)
{
    struct gpu_launch launch =
        gpu_launch(args->heads + 2 * args->kv.kv_heads, args->slots_count, 64);
    launch.shared_bytes = (args->kv.head_dim + 8) * (uint32_t)sizeof(float);
    return launch;
}
