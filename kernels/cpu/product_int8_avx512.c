/* SPDX-License-Identifier: MIT
 *
 * What: the product of weights that are integers with activations that were quantised, AVX-512 with
 * VNNI (kernels/ops.h defines the result). A block here is a quantisation block.
 *
 *   64 bytes of weights are four columns of the sixteen outputs of a panel. The same four columns
 *   of a row of x are broadcast, and one vpdpbusd adds the four products to a sum of 32 bits for
 *   each output, without saturation. It takes unsigned weights: in a panel levels have an offset
 *   that makes them so, except those of eight bits, to which 128 is added as they are loaded. A sum
 *   begins with -offset times the sum of x's levels, which is known (struct kernels_quant_block).
 *
 * A tile is up to six rows by two panels and runs down all columns with its sums in registers: for
 * twelve multiplications it loads eight vectors. The addition is part of the instruction, so GCC
 * cannot delay it (KEEP in product_int8_avx2.c).
 *
 * Invariant: sums of a part are exact integers, so only the chain of parts has an order, and tiles
 * do not change it.
 */
#include "kernels/cpu/avx512.h"
#include "kernels/cpu/product_walk.h"

#define ROWS_MAX   LEVEL_ROWS_MAX
#define PANELS_MAX 2

#define EACH_ROW   _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++)
#define EACH_PANEL _Pragma("GCC unroll 2") for (int j = 0; j < panels; j++)

/* Sums of a tile: [row][panel]. */
struct sums {
    __m512 of[ROWS_MAX][PANELS_MAX];
};

/* Exact sums of a part. */
struct exact {
    __m512i of[ROWS_MAX][PANELS_MAX];
};

/* Four columns of sixteen outputs. A group may begin anywhere in a cache line. */
ALWAYS_INLINE __m512i weights_at(const uint8_t *groups, uint32_t group)
{
    return _mm512_loadu_si512(groups + group * KERNELS_GROUP_BYTES);
}

/* Four levels of a row of x in every lane. */
ALWAYS_INLINE __m512i levels_at(const int8_t *levels, uint32_t group)
{
    int32_t four;
    memcpy(&four, levels + (uint64_t)group * 4, sizeof four);
    return _mm512_set1_epi32(four);
}

/* Sixteen halves. */
ALWAYS_INLINE __m512 halves_at(const uint8_t *halves)
{
    return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)halves));
}

ALWAYS_INLINE __m128i bytes_at(const uint8_t *bytes)
{
    return _mm_load_si128((const __m128i *)(const void *)bytes);
}

/* `first` times the sum of the first half of a block of x, plus `second` times that of the
 * second. */
ALWAYS_INLINE __m512i totals_times(const struct kernels_quant_block *x, int16_t first,
                                   int16_t second)
{
    __m512i sums = _mm512_set1_epi32(halves_pair(x->sums[0], x->sums[1]));
    return _mm512_madd_epi16(sums, _mm512_set1_epi32(halves_pair(first, second)));
}

/* The sums of a part begin with totals_times().
 * style-waiver: inlined, most parameters are constants or in registers. */
ALWAYS_INLINE void exact_begin(struct exact *exact, const struct level_tile *t, uint32_t index,
                               int16_t first, int16_t second, int rows, int panels)
{
    EACH_ROW {
        __m512i begin = totals_times(t->x[r] + index, first, second);
        EACH_PANEL exact->of[r][j] = begin;
    }
}

/* Four columns: the weights of each panel times the levels of each row.
 * style-waiver: inlined, most parameters are constants or in registers. */
ALWAYS_INLINE void exact_add(struct exact *exact, const struct level_tile *t, uint64_t column,
                             uint32_t group, const __m512i *weights, int rows, int panels)
{
    EACH_ROW {
        __m512i x = levels_at(t->levels[r] + column, group);
        EACH_PANEL exact->of[r][j] = _mm512_dpbusd_epi32(exact->of[r][j], weights[j], x);
    }
}

/* A part's sums, scaled: one scale for each output of a panel.
 * style-waiver: inlined, most parameters are constants or in registers. */
ALWAYS_INLINE void part_add(struct sums *sums, const struct exact *exact, __m512 scale,
                            const struct level_tile *t, uint32_t index, int rows, int j)
{
    EACH_ROW {
        __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(t->x[r][index].scale));
        __m512 sum = _mm512_cvtepi32_ps(exact->of[r][j]);
        sums->of[r][j] = _mm512_fmadd_ps(sum, both, sums->of[r][j]);
    }
}

/* ---- formats: one block of a tile ---- */

/* Block `index` of panel j. */
ALWAYS_INLINE const uint8_t *block_at(const struct level_tile *t, uint64_t bytes, uint32_t index,
                                      int j)
{
    return t->panel + (uint64_t)j * t->panel_bytes + index * bytes;
}

ALWAYS_INLINE void block_q8_0(struct sums *sums, const struct level_tile *t, uint32_t index,
                              int rows, int panels)
{
    const __m512i offset = _mm512_set1_epi8(-128);
    const uint8_t *block = block_at(t, KERNELS_Q8_0_BYTES, index, 0);
    const uint8_t *groups = block + KERNELS_SCALES_BYTES;
    struct exact exact;
    level_prefetch(t, block, rows);
    exact_begin(&exact, t, index, -128, -128, rows, panels);
#pragma GCC unroll 8
    for (uint32_t g = 0; g < 8; g++) {
        __m512i weights[PANELS_MAX];
        level_prefetch(t, groups + g * KERNELS_GROUP_BYTES, rows);
        EACH_PANEL {
            __m512i levels = weights_at(groups + (uint64_t)j * t->panel_bytes, g);
            weights[j] = _mm512_xor_si512(levels, offset);
        }
        exact_add(&exact, t, (uint64_t)index * 32, g, weights, rows, panels);
    }
    EACH_PANEL {
        __m512 scale = halves_at(block_at(t, KERNELS_Q8_0_BYTES, index, j));
        part_add(sums, &exact, scale, t, index, rows, j);
    }
}

/* Adds 32 columns whose bytes hold two levels each.
 * style-waiver: inlined, most parameters are constants or in registers. */
ALWAYS_INLINE void nibbles_add(struct exact *exact, const struct level_tile *t,
                               const uint8_t *groups, uint64_t column, int rows, int panels)
{
    const __m512i mask = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (uint32_t g = 0; g < 4; g++) {
        __m512i low[PANELS_MAX], high[PANELS_MAX];
        level_prefetch(t, groups + g * KERNELS_GROUP_BYTES, rows);
        EACH_PANEL {
            __m512i both = weights_at(groups + (uint64_t)j * t->panel_bytes, g);
            low[j] = _mm512_and_si512(both, mask);
            high[j] = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
        }
        exact_add(exact, t, column, g, low, rows, panels);
        exact_add(exact, t, column, g + 4, high, rows, panels);
    }
}

ALWAYS_INLINE void block_q4_0(struct sums *sums, const struct level_tile *t, uint32_t index,
                              int rows, int panels)
{
    const uint8_t *block = block_at(t, KERNELS_Q4_0_BYTES, index, 0);
    struct exact exact;
    level_prefetch(t, block, rows);
    exact_begin(&exact, t, index, -8, -8, rows, panels);
    nibbles_add(&exact, t, block + KERNELS_SCALES_BYTES, (uint64_t)index * 32, rows, panels);
    EACH_PANEL {
        __m512 scale = halves_at(block_at(t, KERNELS_Q4_0_BYTES, index, j));
        part_add(sums, &exact, scale, t, index, rows, j);
    }
}

/* The integers of sixteen outputs times their halves. */
ALWAYS_INLINE __m512 scales_of(const uint8_t *halves, __m512i integers)
{
    return _mm512_mul_ps(halves_at(halves), _mm512_cvtepi32_ps(integers));
}

/* style-waiver: inlined, most parameters are constants or in registers. */
ALWAYS_INLINE void part_q4_k(struct sums *sums, const struct level_tile *t, const uint8_t *block,
                             const uint8_t *part, uint32_t index, int rows, int panels)
{
    struct exact exact;
    EACH_ROW {
        EACH_PANEL exact.of[r][j] = _mm512_setzero_si512();
    }
    nibbles_add(&exact, t, part + KERNELS_SCALES_BYTES, (uint64_t)index * 32, rows, panels);
    EACH_PANEL {
        uint64_t at = (uint64_t)j * t->panel_bytes;
        const uint8_t *of_part = part + at, *of_block = block + at;
        __m512 scale = scales_of(of_block, _mm512_cvtepu8_epi32(bytes_at(of_part)));
        __m512 low = scales_of(of_block + KERNELS_SCALES_BYTES,
                               _mm512_cvtepu8_epi32(bytes_at(of_part + KERNELS_PANEL_LANES)));
        part_add(sums, &exact, scale, t, index, rows, j);
        EACH_ROW {
            const struct kernels_quant_block *x = t->x[r] + index;
            __m512 minus = _mm512_mul_ps(low, _mm512_set1_ps(-x->scale));
            __m512 total = _mm512_cvtepi32_ps(totals_times(x, 1, 1));
            sums->of[r][j] = _mm512_fmadd_ps(total, minus, sums->of[r][j]);
        }
    }
}

/* Four columns of weights of six bits: the low or the high (second) halves of bytes, and the two
 * bits above them. */
ALWAYS_INLINE __m512i six_bits_at(const uint8_t *groups, uint32_t g, uint32_t second)
{
    __m512i low = weights_at(groups, g);
    __m512i high = weights_at(groups, 4 + second);
    low = second ? _mm512_srli_epi16(low, 4) : low;
    high = g < 2 ? _mm512_slli_epi16(high, 4 - 2 * g) : _mm512_srli_epi16(high, 2 * g - 4);
    return _mm512_or_si512(_mm512_and_si512(low, _mm512_set1_epi8(15)),
                           _mm512_and_si512(high, _mm512_set1_epi8(48)));
}

/* Sixteen columns.
 * style-waiver: inlined, most parameters are constants or in registers. */
ALWAYS_INLINE void half_part_q6_k(struct sums *sums, const struct level_tile *t,
                                  const uint8_t *block, const uint8_t *part, uint32_t index,
                                  uint32_t second, int rows, int panels)
{
    const uint8_t *groups = part + KERNELS_SCALES_BYTES;
    struct exact exact;
    exact_begin(&exact, t, index, second ? 0 : -32, second ? -32 : 0, rows, panels);
#pragma GCC unroll 4
    for (uint32_t g = 0; g < 4; g++) {
        __m512i weights[PANELS_MAX];
        if (g < 3) {
            level_prefetch(t, groups + (second * 3 + g) * KERNELS_GROUP_BYTES, rows);
        }
        EACH_PANEL {
            weights[j] = six_bits_at(groups + (uint64_t)j * t->panel_bytes, g, second);
        }
        exact_add(&exact, t, (uint64_t)index * 32, second * 4 + g, weights, rows, panels);
    }
    EACH_PANEL {
        uint64_t at = (uint64_t)j * t->panel_bytes;
        const uint8_t *scales = part + at + second * KERNELS_PANEL_LANES;
        __m512 scale = scales_of(block + at, _mm512_cvtepi8_epi32(bytes_at(scales)));
        part_add(sums, &exact, scale, t, index, rows, j);
    }
}

/* ---- a tile down all columns ---- */

ALWAYS_INLINE void super_q4_k(struct sums *sums, const struct level_tile *t, uint32_t index,
                              int rows, int panels)
{
    const uint8_t *block = block_at(t, KERNELS_Q4_K_BYTES, index, 0);
    for (uint32_t p = 0; p < 8; p++) {
        const uint8_t *part = block + KERNELS_Q4_K_HEAD + p * KERNELS_Q4_K_PART;
        level_prefetch(t, part, rows);
        part_q4_k(sums, t, block, part, index * 8 + p, rows, panels);
    }
}

ALWAYS_INLINE void super_q6_k(struct sums *sums, const struct level_tile *t, uint32_t index,
                              int rows, int panels)
{
    const uint8_t *block = block_at(t, KERNELS_Q6_K_BYTES, index, 0);
    for (uint32_t p = 0; p < 8; p++) {
        const uint8_t *part = block + KERNELS_Q6_K_HEAD + p * KERNELS_Q6_K_PART;
        level_prefetch(t, part, rows);
        half_part_q6_k(sums, t, block, part, index * 8 + p, 0, rows, panels);
        half_part_q6_k(sums, t, block, part, index * 8 + p, 1, rows, panels);
    }
}

/* style-waiver: inlined, most parameters are constants or in registers. */
ALWAYS_INLINE void block_sum(struct sums *sums, const struct level_tile *t, enum gguf_type type,
                             uint32_t index, int rows, int panels)
{
    switch (type) {
    case GGUF_Q8_0: block_q8_0(sums, t, index, rows, panels); break;
    case GGUF_Q4_0: block_q4_0(sums, t, index, rows, panels); break;
    case GGUF_Q4_K: super_q4_k(sums, t, index, rows, panels); break;
    case GGUF_Q6_K: super_q6_k(sums, t, index, rows, panels); break;
    case GGUF_F32: case GGUF_F16: case GGUF_BF16: break;
    }
}

ALWAYS_INLINE void tile_sum(const struct level_tile *t, enum gguf_type type, int rows, int panels)
{
    struct sums sums;
    EACH_ROW {
        EACH_PANEL sums.of[r][j] = _mm512_setzero_ps();
    }
    const uint8_t *next = t->next;
    for (uint32_t i = 0; i < t->blocks; i++) {
        for (const uint8_t *end = next + t->next_step; next < end; next += 64) {
            EACH_PANEL _mm_prefetch(next + (uint64_t)j * t->panel_bytes, _MM_HINT_T1);
        }
        block_sum(&sums, t, type, i, rows, panels);
    }
    EACH_ROW {
        float *y = t->y + (uint64_t)r * t->y_stride;
        EACH_PANEL _mm512_storeu_ps(y + j * (int)KERNELS_PANEL_LANES, sums.of[r][j]);
    }
}

ALWAYS_INLINE void tile_of(const struct level_tile *t, enum gguf_type type, uint32_t rows,
                           int panels)
{
    switch (rows) {
    case 1: tile_sum(t, type, 1, panels); break;
    case 2: tile_sum(t, type, 2, panels); break;
    case 3: tile_sum(t, type, 3, panels); break;
    case 4: tile_sum(t, type, 4, panels); break;
    case 5: tile_sum(t, type, 5, panels); break;
    default: tile_sum(t, type, 6, panels); break;
    }
}

ALWAYS_INLINE void tile_panels(const struct level_tile *t, enum gguf_type type, uint32_t rows)
{
    if (t->panels == PANELS_MAX) {
        tile_of(t, type, rows, PANELS_MAX);
    } else {
        tile_of(t, type, rows, 1);
    }
}

static void tile_run(const struct level_tile *t, uint32_t rows)
{
    switch (t->type) {
    case GGUF_Q8_0: tile_panels(t, GGUF_Q8_0, rows); break;
    case GGUF_Q4_0: tile_panels(t, GGUF_Q4_0, rows); break;
    case GGUF_Q4_K: tile_panels(t, GGUF_Q4_K, rows); break;
    case GGUF_Q6_K: tile_panels(t, GGUF_Q6_K, rows); break;
    case GGUF_F32: case GGUF_F16: case GGUF_BF16: ASSERT(!"weights that are integers");
    }
}

/* One row is a straight stream, so it takes a panel at a time. */
void kernels_product_int8_avx512(const struct kernels_product *product)
{
    if (product->rows == 1) {
        walk_levels(product, (struct level_form){1, 1, tile_run});
    } else {
        walk_levels(product, (struct level_form){ROWS_MAX, PANELS_MAX, tile_run});
    }
}
