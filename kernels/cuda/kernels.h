/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the kernels of the GPU: what each takes, what it does to the bit, and how it is launched.
 * Plain C, for the kernels (nvcc), their tests and who launches them.
 *
 *   arguments   one struct a kernel, by value: device addresses as uint64_t, sizes, units in the
 *               names. `(a, b)` behind an address is a matrix of a rows, whose stride counts
 *               elements. Activations are F32 but for what products read (`_type`)
 *   launch      gpu_NAME_launch() of the arguments: grid, block and shared bytes. Beyond 48 KiB
 *               shared memory must be asked for (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
 *   trust       arguments and lists are the engine's, which has checked them: ids, positions and
 *               tokens are in range
 *
 * Promise: a row's numbers depend on its own call and the model only. Sums have one order, which
 * the comment of the kernel states; it knows of no other row, no grid, no SM. So decode, prefill in
 * chunks of any size and a recompute give the same bits. No sum uses atomics but those of integers.
 *
 * KV is block-major: [block][layer][K|V][kv_head][token][head_dim], keys and values alike, without
 * padding; from one block to the next it is block_bytes, a multiple of 16.
 */
#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define GPU_BOTH __host__ __device__    /* who launches and the kernel count alike */
#else
#define GPU_BOTH
#endif

#define GPU_NONE UINT32_MAX

enum gpu_type { GPU_F32, GPU_F16, GPU_BF16, GPU_Q8_0 };     /* Q8_0: weights only */
#define GPU_Q8_0_COLUMNS 32u
#define GPU_Q8_0_BYTES   34u

struct gpu_launch {
    uint32_t grid[3], block[3];
    uint32_t shared_bytes;
};

static inline struct gpu_launch gpu_launch(uint32_t x, uint32_t y, uint32_t threads)
{
    struct gpu_launch launch = {{x, y, 1}, {threads, 1, 1}, 0};
    return launch;
}

static inline GPU_BOTH uint32_t gpu_smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline GPU_BOTH uint32_t gpu_ceil(uint32_t count, uint32_t of)
{
    return (count + of - 1) / of;
}

/* ---- what a step is on the device ---- */

/* One token at one position of one row of the step: a row of the activations. */
struct gpu_feed {
    uint32_t token, position;
    uint32_t row;               /* GPU_NONE: none; its activations are nobody's */
};

/* One of the rows that run at a time, and of the logits. */
struct gpu_place {
    uint32_t row;               /* of the step, or GPU_NONE: empty */
    uint32_t feed;              /* whose logits are sampled, or GPU_NONE */
};

/* The KV of one layer. Position t of a row lies in block table[t / block_tokens]. */
struct gpu_kv {
    uint64_t blocks;            /* type (blocks, block_bytes) */
    uint64_t block_bytes;
    uint64_t tables;            /* uint32_t (rows of the step, tables_stride) */
    uint64_t tables_stride;
    uint32_t type;              /* F32, F16 or BF16 */
    uint32_t layer, kv_heads, head_dim, block_tokens;
};

/* ---- norm ---- */

/* Row r: x += add where there is one; y = (x * inverse) * weight, inverse = 1 / sqrt(sum / dim +
 * epsilon). The sum of squares: thread i % 256, i ascending, by fmaf; then gpu_block_sum(). With
 * `places`, row r of y is of the x and add of the feed that place r samples; if none, it stays. */
struct gpu_rms_norm {
    uint64_t x;                 /* float (feeds, dim); the residual */
    uint64_t add;               /* float (feeds, dim), or 0 */
    uint64_t weight;            /* float (dim) */
    uint64_t places;            /* struct gpu_place (rows), or 0: row r is of x r */
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

/* ---- attention ---- */

/* What the three kernels have in common. Query head h is of KV head h / (heads / kv_heads).
 *
 * A feed at position p sees the tokens 0 .. p: in splits of GPU_SPLIT_TOKENS, each in chunks of
 * GPU_CHUNK_TOKENS. For each query head:
 *
 *   score   s[t] = chain over channels ascending of fmaf(q[c], key[t][c], acc)
 *   chunk   m' = max(m, s[t]); w[t] = kernels_exp((s[t] - m') * scale), shrink = the same of m;
 *           sum = fmaf(sum, shrink, gpu_warp_sum(w)); out[c] = out[c] * shrink, then a chain over
 *           t ascending of fmaf(w[t], value[t][c], acc). From m = -infinity, sum = 0, out = 0
 *   split   its m, sum and out are added to those of the splits before: with m' the larger m, a and
 *           b = kernels_exp((m - m') * scale) of both, sum = fmaf(sum, a, b * its sum), out alike
 *   end     out * (1 / sum)
 *
 * So decode, whose splits are computed side by side, and prefill, which goes through them one after
 * the other, agree to the bit. What is not finite in q or KV makes the result NaN. */
#define GPU_SPLIT_TOKENS   512u
#define GPU_CHUNK_TOKENS   32u          /* a warp's */
#define GPU_QUERIES        16u          /* of a block, that share what it reads of KV */
#define GPU_ATTEND_THREADS 128u

struct gpu_attention {
    struct gpu_kv kv;
    uint64_t feeds;             /* struct gpu_feed (feeds_count) */
    uint64_t q;                 /* float (feeds, heads * head_dim) */
    uint64_t out;               /* out_type (feeds, heads * head_dim) */
    uint64_t q_stride, out_stride;
    uint32_t feeds_count, heads, out_type;
    float scale;                /* 1 / sqrt(head_dim) */
};

/* Query heads that a block has at once; of a larger group several blocks read the same KV. */
static inline GPU_BOTH uint32_t gpu_heads_together(uint32_t heads, uint32_t kv_heads)
{
    return gpu_smaller(heads / kv_heads, GPU_QUERIES);
}

/* Sets of query heads of all KV heads. */
static inline uint32_t gpu_head_sets(uint32_t heads, uint32_t kv_heads)
{
    return kv_heads * gpu_ceil(heads / kv_heads, gpu_heads_together(heads, kv_heads));
}

/* Queries, what they gather (of a split; in prefill of all as well), keys or values of a chunk. */
static inline uint32_t gpu_attention_bytes(uint32_t head_dim, uint32_t outs)
{
    uint32_t floats = GPU_QUERIES * (1 + outs) * head_dim + GPU_CHUNK_TOKENS * (head_dim + 1) +
                      GPU_QUERIES * (GPU_CHUNK_TOKENS + 1 + 2 * outs);
    return floats * (uint32_t)sizeof(float);
}

/* Decode: of each feed, split and query head its out, m and sum, into
 * partials[feed][head][split][head_dim + 2]. Splits that a feed does not have stay. */
struct gpu_attend_split {
    struct gpu_attention attention;
    uint64_t partials;
    uint32_t splits;            /* of the longest feed at most, and of a row of partials */
};
static inline struct gpu_launch gpu_attend_split_launch(const struct gpu_attend_split *args)
{
    const struct gpu_attention *a = &args->attention;
    struct gpu_launch launch = gpu_launch(gpu_head_sets(a->heads, a->kv.kv_heads), args->splits,
                                          GPU_ATTEND_THREADS);
    launch.grid[2] = a->feeds_count;
    launch.shared_bytes = gpu_attention_bytes(a->kv.head_dim, 1);
    return launch;
}

/* Adds the splits of each feed and query head; feeds of no row get zeros. */
struct gpu_attend_merge {
    struct gpu_attention attention;
    uint64_t partials;
    uint32_t splits;
};
static inline struct gpu_launch gpu_attend_merge_launch(const struct gpu_attend_merge *args)
{
    return gpu_launch(args->attention.heads, args->attention.feeds_count, GPU_ATTEND_THREADS);
}

/* Feeds of one row, side by side, that attend together; all of them are of a row. */
struct gpu_tile {
    uint32_t feed, count;       /* 1 .. gpu_tile_feeds() */
};
static inline uint32_t gpu_tile_feeds(uint32_t heads, uint32_t kv_heads)
{
    return GPU_QUERIES / gpu_heads_together(heads, kv_heads);
}

/* Prefill: every feed of the tiles attends to its end. */
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
    launch.shared_bytes = gpu_attention_bytes(a->kv.head_dim, 2);
    return launch;
}
