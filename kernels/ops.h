/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the fourteen kernels that a forward pass is made of, and the copy of KV blocks, as a table:
 * one set in plain C (ref/), one for AVX2 and two for AVX-512 (cpu/). Each comment defines the
 * result to the bit: the order of every sum is part of the definition, a product added to a sum is
 * always one fused operation, and nothing else is fused. The sets agree bit for bit (NaN payloads
 * aside), and so do all ways to cut the work into tiles.
 *
 * Buffers are padded: rows to KERNELS_PANEL_LANES, heads to KERNELS_OCTET. Kernels may read and
 * write padding; its contents never reach a result.
 */
#include <stdint.h>

#include "kernels/kernels.h"
#include "kernels/weights/matrix.h"
#include "kernels/round/kv.h"

#define KERNELS_COPY_FLOATS  128u       /* what one turn of the copy takes */
#define KERNELS_STRETCH      64u        /* tokens that rows attend to at a time */
#define KERNELS_BUNDLE_ROWS  48u        /* the most that attend together */
#define KERNELS_TILE_QUERIES 6          /* for which a vector of keys or values is read once */

/* Activations as a product takes them. For weights that are integers: levels, in quantisation
 * blocks of KERNELS_QUANT_COLUMNS, where x[k] of block b is about levels[k] * blocks[b].scale. For
 * bfloats: bfloats, in a form that the set which shortens them chooses: floats that are bfloats, or
 * pairs of bfloats in the first half of a row. */
struct kernels_quant_block {
    float scale;
    int16_t sums[2];            /* of the levels in its first and in its second half */
};
struct kernels_rounded {
    int8_t *levels;             /* (rows, stride): -KERNELS_LEVEL_MAX .. KERNELS_LEVEL_MAX */
    struct kernels_quant_block *blocks;   /* (rows, stride / KERNELS_QUANT_COLUMNS) */
    float *bfloats;             /* (rows, stride) */
    uint64_t stride;            /* columns: a multiple of KERNELS_QUANT_COLUMNS */
};
#define KERNELS_LEVEL_MAX 127   /* two products of levels and bytes fit 16 bits: decision 0036 */
/* Quantisation blocks whose largest magnitude is smaller count as zero: the reciprocal of that
 * magnitude must be finite. */
#define KERNELS_LEVEL_TINY 0x1p-100f

/* Which of them a product reads; x itself if the weights are other floats. */
enum kernels_reads { KERNELS_READS_FLOATS, KERNELS_READS_BFLOATS, KERNELS_READS_LEVELS };
static inline enum kernels_reads kernels_reads(enum gguf_type type)
{
    return kernels_has_levels(type) ? KERNELS_READS_LEVELS
           : type == GGUF_BF16      ? KERNELS_READS_BFLOATS
                                    : KERNELS_READS_FLOATS;
}

/* The stride of so many columns: an odd number of cache lines, for levels as for floats. */
static inline uint64_t kernels_rounded_stride(uint32_t columns)
{
    return ((uint64_t)columns + 63) / 64 * 64 | 64;
}

static inline uint64_t kernels_quant_blocks_bytes(uint64_t stride)
{
    return stride / KERNELS_QUANT_COLUMNS * sizeof(struct kernels_quant_block);
}

/* The rows from `row` on. */
static inline struct kernels_rounded kernels_rounded_from(struct kernels_rounded all, uint64_t row)
{
    all.levels += row * all.stride;
    all.blocks += row * (all.stride / KERNELS_QUANT_COLUMNS);
    all.bfloats += row * all.stride;
    return all;
}

/* How a product goes through weights, tuned for the CPU. No result depends on it. */
struct kernels_tuning {
    uint32_t prefetch_bytes;    /* prefetch distance of one row; 0: no prefetch */
    uint32_t chunk_columns;     /* of floats and halves at a time, even; 0: KERNELS_CHUNK_LEAST */
    float *widened;             /* memory for halves made floats: (KERNELS_CHUNK_PANELS,
                                 * KERNELS_CHUNK_MOST, 16), at a cache line. NULL: each tile
                                 * converts for itself */
};
#define KERNELS_PREFETCH_BYTES  4096u
#define KERNELS_CHUNK_LEAST  256u
#define KERNELS_CHUNK_MOST   1024u
#define KERNELS_CHUNK_PANELS 2u
/* BOOT_ONLY. The tuning for this CPU, with that memory. */
struct kernels_tuning kernels_tuning_find(float *widened);

/* The columns of the widest matrix of a layer. */
static inline uint32_t kernels_columns_max(const struct model_shape *shape)
{
    uint32_t heads = shape->heads * shape->head_dim;
    uint32_t widest = shape->dim > shape->ffn_dim ? shape->dim : shape->ffn_dim;
    return widest > heads ? widest : heads;
}

/* The outputs of panels panel_first .. panel_end - 1.
 *
 * Weights that are floats or halves:
 *     y[r][o] = chain over k ascending of fmaf(x[r][k], w[o][k], acc), acc = 0 at the start
 *
 * Weights that are bfloats, with the bfloats of x, over pairs of columns ascending:
 *     y[r][o] = chain over k = 0, 2, 4, ... of fmaf(x[r][k + 1], w[o][k + 1], acc), then
 *               fmaf(x[r][k], w[o][k], acc), where a sum below 2^-126 (rounded to 24 bits) is a
 *               zero of its sign: two steps of VDPBF16PS, decision 0041
 *
 * Weights that are integers, w[o][k] = scale * (level[k] - offset) or scale * level[k] - low. The
 * columns that share a scale are a part. Over a part, n is the exact sum of x's levels times
 * level - offset (Q4_K: times level), s that of x's levels, and X the scale of x's quantisation
 * block:
 *     y[r][o] = chain over the parts ascending of fmaf((float)n, scale * X, acc), for Q4_K then
 *               fmaf((float)s, low * -X, acc)
 * A scale of Q4_K and Q6_K is the block's half times the part's integer, as floats. */
struct kernels_product {
    const struct kernels_matrix *matrix;
    uint32_t panel_first, panel_end;
    uint32_t rows;
    struct kernels_tuning tuning;
    const float *x;             /* (rows, x_stride) */
    struct kernels_rounded rounded;     /* x, if weights are integers or bfloats */
    float *y;                   /* (rows, y_stride) */
    uint64_t x_stride, y_stride;
};

/* One row (a position of a call) that attends. The KV of its position t lies in KV block
 * blocks[t / block_tokens]. */
struct kernels_attending {
    const uint32_t *blocks;
    uint32_t tokens;            /* the row sees positions 0 .. tokens - 1; at least one */
    const float *queries;       /* (heads, head_dim) */
    /* The queries as levels, and what those mean. Read instead of `queries` if keys are levels. */
    const int16_t *query_levels;                        /* (heads, lanes of a head) */
    const struct kernels_query_frame *query_frames;     /* (heads) */
    float *scores;              /* (heads, scores_stride) */
    float *out;                 /* (heads, lanes of a head) */
};

/* Rows that attend together, at one KV head and the query heads that share it. Neighbours with the
 * same KV blocks may read them once for all; no row's result depends on the others. `keys` and
 * `values` are those of KV block 0, and those of the next block follow. */
struct kernels_attention {
    const struct kernels_attending *rows;
    uint32_t rows_count;        /* 1 .. KERNELS_BUNDLE_ROWS */
    uint32_t heads;             /* query heads of the group */
    uint32_t head_dim;
    uint32_t block_tokens;      /* a multiple of KERNELS_OCTET */
    enum kernels_kv_type type;  /* of keys and values; floats hold each number exactly */
    /* Of a block. Keys that are levels are (head_dim / 2, block_tokens, 2): the low eight of nine
     * bits. What levels need besides follows at number kernels_kv_numbers(). For keys: the ninth
     * bits, which are signs, in the same order, the lowest bit of a byte first; then a step, and
     * then a middle, for each token, halves. For values: the scales, a float for each token. */
    const void *keys;           /* (head_dim, block_tokens) */
    const void *values;         /* (block_tokens, lanes of a head) */
    uint64_t keys_bytes, values_bytes;      /* of a block */
    uint64_t scores_stride;     /* covers whole stretches */
};

/* Floats from one query's scores to the next query's: whole stretches, and an odd number of cache
 * lines. */
static inline uint64_t kernels_scores_stride(uint32_t tokens)
{
    uint64_t stretches = (tokens + (uint64_t)KERNELS_STRETCH - 1) / KERNELS_STRETCH;
    return stretches * KERNELS_STRETCH + KERNELS_PANEL_LANES;
}

struct kernels_ops {
    void (*product)(const struct kernels_product *product);
    /* One row as levels. With max the largest |x| of a quantisation block: scale = max / 127 with
     * eleven significant bits (kernels/half.h; decision 0036), level = x * (127 / max) rounded to
     * nearest, ties to even. All are zero below KERNELS_LEVEL_TINY. A block that is not finite has
     * levels of zero and a scale of NaN, which makes every product NaN. */
    void (*quantize)(int8_t *levels, struct kernels_quant_block *blocks, const float *x,
                     uint32_t columns);
    /* One row as bfloats (kernels_bfloat_of()), for products of this set. A zero follows an odd
     * last one. */
    void (*shorten)(float *bfloats, const float *x, uint32_t columns);
    /* For each row: scores[h][t] = chain over d ascending of fmaf(q[h][d], key[t][d], acc). If keys
     * are levels, n is the exact sum over d of the levels of query and key, and the score is
     * fmaf((float)n, step * scale, middle * sum). */
    void (*scores)(const struct kernels_attention *attention);
    /* For each row: out[h][c] = chain over t ascending of fmaf(w[h][t], value[t][c], acc), where w
     * is scores[h][t]; of levels that times the token's scale. */
    void (*weigh)(const struct kernels_attention *attention);
    /* to[i] = kernels_half_of(from[i]). Reads and writes `count` and no more. */
    void (*halve)(uint16_t *to, const float *from, uint32_t count);
    /* A head's value as levels: with max the largest |from[i]|, level = from[i] *
     * (127 / max) rounded to nearest, ties to even; returns the scale, max / 127. All are zero
     * below KERNELS_LEVEL_TINY. If a number is not finite, levels are zero and the scale is NaN,
     * which makes every score, or sum, NaN. Reads and writes `count` and no more. */
    float (*level)(int8_t *to, const float *from, uint32_t count);
    /* A head's key as levels, with kernels_key_frame_of() its least and its largest number:
     * (from[i] - middle) * (1 / step) rounded to nearest, ties to even, and at most
     * KERNELS_KEY_LEVEL_MAX away from 0. All are zero if the step is. If a number is not finite, or
     * no half holds the step or the middle, levels are zero and one of the two is NaN, which makes
     * every score NaN. count is at least 1. */
    struct kernels_key_frame (*level_key)(int16_t *to, const float *from, uint32_t count);
    /* A head's query as levels, as `level` does with KERNELS_QUERY_LEVEL_MAX for 127. The sum has
     * eight partial sums, i ascending, lane i % 8; then lanes j + 4, j + 2, j + 1 are added to
     * lane j. */
    struct kernels_query_frame (*level_query)(int16_t *to, const float *from, uint32_t count);
    /* values[i] = kernels_exp((values[i] - max) * scale). Returns their sum: eight partial sums, i
     * ascending, lane i % 8; then lanes j + 4, j + 2, j + 1 are added to lane j. If a value is NaN
     * or +infinity, or all are -infinity, the sum is NaN and the values are unspecified. A
     * -infinity among finite values gets the smallest possible weight. Reads whole octets. */
    float (*exponentiate)(float *values, uint32_t count, float scale);
    /* y[i] = (x[i] * inverse) * weight[i], inverse = 1 / sqrt(sum / dim + epsilon); the sum of
     * squares in sixteen lanes, i ascending; then j + 8, j + 4, j + 2, j + 1. y may be x. */
    void (*norm)(float *y, const float *x, const float *weight, uint32_t dim, float epsilon);
    /* gate[i] = gate[i] / (1 + kernels_exp(-gate[i])) * up[i]; count is a multiple of the lanes. */
    void (*swiglu)(float *gate, const float *up, uint32_t count);
    /* No value is NaN or infinite. */
    bool (*is_finite)(const float *values, uint32_t count);
    /* The index of the largest value, the first of equal ones; values are finite. Reads whole
     * octets. */
    uint32_t (*largest)(const float *values, uint32_t count);
    /* to[i] = from[i], bit for bit, past the caches where that is faster. count is a multiple of
     * KERNELS_COPY_FLOATS; `to` and `from` begin at a cache line and do not overlap. */
    void (*copy)(float *to, const float *from, uint64_t count);
};

extern const struct kernels_ops kernels_ops_plain;
extern const struct kernels_ops kernels_ops_avx2;
extern const struct kernels_ops kernels_ops_avx512;
extern const struct kernels_ops kernels_ops_avx512bf16;
/* The table of a set; `simd` is at most kernels_simd_best(). */
const struct kernels_ops *kernels_ops(enum kernels_simd simd);
/* True when the set's product of bfloats gives the bits of the plain one: a trial of 16 us, because
 * a CPU may add up pairs of bfloats in another way. */
bool kernels_sums_bfloats_alike(const struct kernels_ops *set);

/* Makes what a product reads of one row. */
static inline void kernels_round(const struct kernels_ops *ops, enum kernels_reads reads,
                                 const struct kernels_rounded *to, const float *x, uint32_t columns)
{
    if (reads == KERNELS_READS_LEVELS) {
        ops->quantize(to->levels, to->blocks, x, columns);
    } else if (reads == KERNELS_READS_BFLOATS) {
        ops->shorten(to->bfloats, x, columns);
    }
}
