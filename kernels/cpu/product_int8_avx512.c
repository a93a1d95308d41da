/* SPDX-License-Identifier: MIT
 *
 * What: the product of weights that are integers with activations that were made integers, AVX-512
 * with VNNI (kernels/ops.h defines the result).
 *
 *   64 bytes of weights are four columns of the sixteen outputs of a panel; the same four columns
 *   of a row of x are broadcast; one vpdpbusd adds the four products to a sum of 32 bits for each
 *   output, and does not saturate. It takes weights without a sign: levels lie in a panel with an
 *   offset that makes them so, but for those of eight bits, which get 128 on the way. A sum begins
 *   with -offset times the sum of x's levels, which is known (struct kernels_block).
 *
 * A tile is up to eight rows by a panel and runs down all columns with its sums in registers. The
 * addition is part of the instruction, so GCC cannot put it off (KEEP in product_int8_avx2.c).
 *
 * Invariant: sums of a part are exact integers, so only the chain of parts has an order, and tiles
 * do not change it.
 */
#include "kernels/cpu/avx512.h"
#include "kernels/cpu/product_walk.h"

#define ROWS_MAX LEVEL_ROWS_MAX

#define EACH_ROW _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)

/* Four columns of sixteen outputs. A group lies anywhere in a cache line. */
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

/* Of the levels of a block of x. */
ALWAYS_INLINE int32_t total_of(const struct kernels_block *x)
{
    return x->sums[0] + x->sums[1];
}

ALWAYS_INLINE void part_add(__m512 *sum, __m512i exact, __m512 scale,
                            const struct kernels_block *x)
{
    __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x->scale));
    *sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(exact), both, *sum);
}

/* ---- formats: one block of a tile ---- */

ALWAYS_INLINE void block_q8_0(__m512 *sums, const struct level_tile *t, uint32_t index, int rows)
{
    const __m512i offset = _mm512_set1_epi8(-128);
    const uint8_t *block = t->panel + (uint64_t)index * KERNELS_Q8_0_BYTES;
    __m512i exact[ROWS_MAX];
    EACH_ROW exact[r] = _mm512_set1_epi32(-128 * total_of(t->x[r] + index));
#pragma GCC unroll 8
    for (uint32_t g = 0; g < 8; g++) {
        __m512i weights = _mm512_xor_si512(weights_at(block + KERNELS_SCALES_BYTES, g), offset);
        EACH_ROW exact[r] = _mm512_dpbusd_epi32(
            exact[r], weights, levels_at(t->levels[r] + (uint64_t)index * 32, g));
    }
    __m512 scale = halves_at(block);
    EACH_ROW part_add(&sums[r], exact[r], scale, t->x[r] + index);
}

/* Adds 32 columns whose bytes hold two levels each. */
ALWAYS_INLINE void nibbles_add(__m512i *exact, const struct level_tile *t, const uint8_t *groups,
                               uint64_t column, int rows)
{
    const __m512i mask = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (uint32_t g = 0; g < 4; g++) {
        __m512i both = weights_at(groups, g);
        __m512i low = _mm512_and_si512(both, mask);
        __m512i high = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
        EACH_ROW {
            const int8_t *x = t->levels[r] + column;
            exact[r] = _mm512_dpbusd_epi32(exact[r], low, levels_at(x, g));
            exact[r] = _mm512_dpbusd_epi32(exact[r], high, levels_at(x, g + 4));
        }
    }
}

ALWAYS_INLINE void block_q4_0(__m512 *sums, const struct level_tile *t, uint32_t index, int rows)
{
    const uint8_t *block = t->panel + (uint64_t)index * KERNELS_Q4_0_BYTES;
    __m512i exact[ROWS_MAX];
    EACH_ROW exact[r] = _mm512_set1_epi32(-8 * total_of(t->x[r] + index));
    nibbles_add(exact, t, block + KERNELS_SCALES_BYTES, (uint64_t)index * 32, rows);
    __m512 scale = halves_at(block);
    EACH_ROW part_add(&sums[r], exact[r], scale, t->x[r] + index);
}

ALWAYS_INLINE void part_q4_k(__m512 *sums, const struct level_tile *t, const uint8_t *block,
                             const uint8_t *part, uint32_t index, int rows)
{
    __m512i exact[ROWS_MAX];
    EACH_ROW exact[r] = _mm512_setzero_si512();
    nibbles_add(exact, t, part + KERNELS_SCALES_BYTES, (uint64_t)index * 32, rows);
    __m512 scale = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes_at(part)));
    __m512 low = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes_at(part + KERNELS_PANEL_LANES)));
    scale = _mm512_mul_ps(halves_at(block), scale);
    low = _mm512_mul_ps(halves_at(block + KERNELS_SCALES_BYTES), low);
    EACH_ROW {
        const struct kernels_block *x = t->x[r] + index;
        part_add(&sums[r], exact[r], scale, x);
        __m512 minus = _mm512_mul_ps(low, _mm512_set1_ps(-x->scale));
        sums[r] = _mm512_fmadd_ps(_mm512_set1_ps((float)total_of(x)), minus, sums[r]);
    }
}

/* Four columns of weights of six bits: the low or the high (second) halves of bytes, and two bits
 * of those above. */
ALWAYS_INLINE __m512i six_bits_at(const uint8_t *groups, uint32_t g, uint32_t second)
{
    __m512i low = weights_at(groups, g);
    __m512i high = weights_at(groups, 4 + second);
    low = second ? _mm512_srli_epi16(low, 4) : low;
    high = g < 2 ? _mm512_slli_epi16(high, 4 - 2 * g) : _mm512_srli_epi16(high, 2 * g - 4);
    return _mm512_or_si512(_mm512_and_si512(low, _mm512_set1_epi8(15)),
                           _mm512_and_si512(high, _mm512_set1_epi8(48)));
}

/* Sixteen columns. */
ALWAYS_INLINE void half_part_q6_k(__m512 *sums, const struct level_tile *t, const uint8_t *block,
                                  const uint8_t *part, uint32_t index, uint32_t second, int rows)
{
    __m512i exact[ROWS_MAX];
    EACH_ROW exact[r] = _mm512_set1_epi32(-32 * t->x[r][index].sums[second]);
#pragma GCC unroll 4
    for (uint32_t g = 0; g < 4; g++) {
        __m512i weights = six_bits_at(part + KERNELS_SCALES_BYTES, g, second);
        EACH_ROW exact[r] = _mm512_dpbusd_epi32(
            exact[r], weights, levels_at(t->levels[r] + (uint64_t)index * 32, second * 4 + g));
    }
    const uint8_t *scales = part + second * KERNELS_PANEL_LANES;
    __m512 scale = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes_at(scales)));
    scale = _mm512_mul_ps(halves_at(block), scale);
    EACH_ROW part_add(&sums[r], exact[r], scale, t->x[r] + index);
}

/* ---- a tile down all columns ---- */

ALWAYS_INLINE void super_q4_k(__m512 *sums, const struct level_tile *t, uint32_t index, int rows)
{
    const uint8_t *block = t->panel + (uint64_t)index * KERNELS_Q4_K_BYTES;
    for (uint32_t p = 0; p < 8; p++) {
        const uint8_t *part = block + KERNELS_Q4_K_HEAD + p * KERNELS_Q4_K_PART;
        part_q4_k(sums, t, block, part, index * 8 + p, rows);
    }
}

ALWAYS_INLINE void super_q6_k(__m512 *sums, const struct level_tile *t, uint32_t index, int rows)
{
    const uint8_t *block = t->panel + (uint64_t)index * KERNELS_Q6_K_BYTES;
    for (uint32_t p = 0; p < 8; p++) {
        const uint8_t *part = block + KERNELS_Q6_K_HEAD + p * KERNELS_Q6_K_PART;
        half_part_q6_k(sums, t, block, part, index * 8 + p, 0, rows);
        half_part_q6_k(sums, t, block, part, index * 8 + p, 1, rows);
    }
}

ALWAYS_INLINE void block_sum(__m512 *sums, const struct level_tile *t, enum gguf_type type,
                             uint32_t index, int rows)
{
    switch (type) {
    case GGUF_Q8_0: block_q8_0(sums, t, index, rows); break;
    case GGUF_Q4_0: block_q4_0(sums, t, index, rows); break;
    case GGUF_Q4_K: super_q4_k(sums, t, index, rows); break;
    case GGUF_Q6_K: super_q6_k(sums, t, index, rows); break;
    case GGUF_F32: case GGUF_F16: case GGUF_BF16: break;
    }
}

ALWAYS_INLINE void tile_sum(const struct level_tile *t, enum gguf_type type, int rows)
{
    __m512 sums[ROWS_MAX];
    EACH_ROW sums[r] = _mm512_setzero_ps();
    const uint8_t *next = t->next;
    for (uint32_t i = 0; i < t->blocks; i++) {
        for (const uint8_t *end = next + t->next_step; next < end; next += 64) {
            _mm_prefetch(next, _MM_HINT_T1);
        }
        block_sum(sums, t, type, i, rows);
    }
    EACH_ROW _mm512_storeu_ps(t->y + (uint64_t)r * t->y_stride, sums[r]);
}

ALWAYS_INLINE void tile_of(const struct level_tile *t, enum gguf_type type, uint32_t rows)
{
    switch (rows) {
    case 1: tile_sum(t, type, 1); break;
    case 2: tile_sum(t, type, 2); break;
    case 3: tile_sum(t, type, 3); break;
    case 4: tile_sum(t, type, 4); break;
    case 5: tile_sum(t, type, 5); break;
    case 6: tile_sum(t, type, 6); break;
    case 7: tile_sum(t, type, 7); break;
    default: tile_sum(t, type, 8); break;
    }
}

static void tile_run(const struct level_tile *t, uint32_t rows)
{
    switch (t->type) {
    case GGUF_Q8_0: tile_of(t, GGUF_Q8_0, rows); break;
    case GGUF_Q4_0: tile_of(t, GGUF_Q4_0, rows); break;
    case GGUF_Q4_K: tile_of(t, GGUF_Q4_K, rows); break;
    case GGUF_Q6_K: tile_of(t, GGUF_Q6_K, rows); break;
    case GGUF_F32: case GGUF_F16: case GGUF_BF16: ASSERT(!"weights that are integers");
    }
}

void kernels_product_int8_avx512(const struct kernels_product *product)
{
    walk_levels(product, (struct level_form){ROWS_MAX, tile_run});
}
