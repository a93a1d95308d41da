/* SPDX-License-Identifier: MIT
 *
 * What: the product of weights that are integers with activations that were quantised, AVX2
 * (kernels/ops.h defines the result). A block here is a quantisation block.
 *
 *   32 bytes of weights are four columns of eight outputs. The same four columns of a row of x are
 *   broadcast, and one multiply-add of bytes makes two sums of 16 bits for each output. Before such
 *   sums must be widened to 32 bits, eight of them may be added for weights of four bits, two for
 *   six bits, none for eight bits. One factor must be unsigned: weights of four and six bits are,
 *   and where a weight of eight bits is negative, x is negated.
 *
 * A tile is up to three rows by a panel and runs down all columns with its sums in registers. Each
 * tile reads the weights of its panel again, from the L2 cache.
 *
 * Invariant: sums of a part are exact integers, so only the chain of parts has an order, and tiles
 * do not change it.
 *
 * Why vpsignb does not negate x: it shares its units with the multiplications, which bound a tile.
 */
#include "kernels/cpu/avx2.h"
#include "kernels/cpu/product_walk.h"

#define ROWS_MAX 3
_Static_assert(ROWS_MAX <= LEVEL_ROWS_MAX, "rows of a tile");
#define HALVES   2              /* of a panel: eight outputs each */

/* Sums of a tile: [row][half of the panel]. */
struct sums {
    __m256 of[ROWS_MAX][HALVES];
};

/* The sum is computed here and stays in its register. Otherwise GCC 12 delays such additions to the
 * end of a block and stores every product until then. */
#define KEEP(sum) __asm__ volatile("" : "+x"(sum))

#define EACH_ROW  _Pragma("GCC unroll 3") for (int r = 0; r < rows; r++)
#define EACH_HALF _Pragma("GCC unroll 2") for (int h = 0; h < HALVES; h++)

ALWAYS_INLINE __m256i weights_at(const uint8_t *groups, uint32_t group, uint32_t half)
{
    const uint8_t *at = groups + group * KERNELS_GROUP_BYTES + half * 32;
    return _mm256_load_si256((const __m256i *)(const void *)at);
}

/* Four levels of a row of x in every lane. */
ALWAYS_INLINE __m256i levels_at(const int8_t *levels, uint32_t group)
{
    int32_t four;
    memcpy(&four, levels + (uint64_t)group * 4, sizeof four);
    return _mm256_set1_epi32(four);
}

/* Eight of sixteen halves. */
ALWAYS_INLINE __m256 halves_at(const uint8_t *halves, uint32_t half)
{
    return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)(halves + half * 16)));
}

/* The sum of a block's first half times `first`, plus that of its second half times `second`. */
ALWAYS_INLINE __m256i offset_of(const struct kernels_quant_block *block, int16_t first,
                                int16_t second)
{
    __m256i sums = _mm256_set1_epi32(halves_pair(block->sums[0], block->sums[1]));
    return _mm256_madd_epi16(sums, _mm256_set1_epi32(halves_pair(first, second)));
}

ALWAYS_INLINE void part_add(__m256 *sum, __m256i exact, __m256 scale,
                            const struct kernels_quant_block *block)
{
    __m256 both = _mm256_mul_ps(scale, _mm256_broadcast_ss(&block->scale));
    *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(exact), both, *sum);
}

ALWAYS_INLINE __m256i wide(__m256i sums_16)
{
    return _mm256_madd_epi16(sums_16, _mm256_set1_epi16(1));
}

/* ---- formats: one block of a tile ---- */

ALWAYS_INLINE void block_q8_0(struct sums *sums, const struct level_tile *t, uint32_t index,
                              int rows)
{
    const uint8_t *block = t->panel + (uint64_t)index * KERNELS_Q8_0_BYTES;
    const uint8_t *groups = block + KERNELS_SCALES_BYTES;
    __m256i exact[ROWS_MAX][HALVES];
    level_prefetch(t, block, rows);
    EACH_ROW {
        EACH_HALF exact[r][h] = _mm256_setzero_si256();
    }
#pragma GCC unroll 8
    for (uint32_t g = 0; g < 8; g++) {
        __m256i weights[HALVES], sizes[HALVES], minus[HALVES];
        level_prefetch(t, groups + g * KERNELS_GROUP_BYTES, rows);
        EACH_HALF {
            weights[h] = weights_at(groups, g, (uint32_t)h);
            sizes[h] = _mm256_abs_epi8(weights[h]);
            minus[h] = _mm256_cmpgt_epi8(_mm256_setzero_si256(), weights[h]);
        }
        EACH_ROW {
            __m256i x = levels_at(t->levels[r] + (uint64_t)index * 32, g);
            EACH_HALF {
                __m256i negated = _mm256_sub_epi8(_mm256_xor_si256(x, minus[h]), minus[h]);
                exact[r][h] = _mm256_add_epi32(
                    exact[r][h], wide(_mm256_maddubs_epi16(sizes[h], negated)));
                KEEP(exact[r][h]);
            }
        }
    }
    EACH_HALF {
        __m256 scale = halves_at(block, (uint32_t)h);
        EACH_ROW part_add(&sums->of[r][h], exact[r][h], scale, t->x[r] + index);
    }
}

/* 32 columns whose bytes hold two levels each, in sums of 16 bits. */
ALWAYS_INLINE void nibbles_add(__m256i (*exact)[HALVES], const struct level_tile *t,
                               const uint8_t *groups, uint64_t column, int rows)
{
    const __m256i mask = _mm256_set1_epi8(15);
    EACH_ROW {
        EACH_HALF exact[r][h] = _mm256_setzero_si256();
    }
#pragma GCC unroll 4
    for (uint32_t g = 0; g < 4; g++) {
        __m256i low[HALVES], high[HALVES];
        level_prefetch(t, groups + g * KERNELS_GROUP_BYTES, rows);
        EACH_HALF {
            __m256i both = weights_at(groups, g, (uint32_t)h);
            low[h] = _mm256_and_si256(both, mask);
            high[h] = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
        }
        EACH_ROW {
            __m256i x = levels_at(t->levels[r] + column, g);
            __m256i x4 = levels_at(t->levels[r] + column, g + 4);
            EACH_HALF {
                __m256i first = _mm256_maddubs_epi16(low[h], x);
                __m256i second = _mm256_maddubs_epi16(high[h], x4);
                exact[r][h] = _mm256_add_epi16(exact[r][h], _mm256_add_epi16(first, second));
                KEEP(exact[r][h]);
            }
        }
    }
}

ALWAYS_INLINE void block_q4_0(struct sums *sums, const struct level_tile *t, uint32_t index,
                              int rows)
{
    const uint8_t *block = t->panel + (uint64_t)index * KERNELS_Q4_0_BYTES;
    __m256i exact[ROWS_MAX][HALVES];
    level_prefetch(t, block, rows);
    nibbles_add(exact, t, block + KERNELS_SCALES_BYTES, (uint64_t)index * 32, rows);
    EACH_HALF {
        __m256 scale = halves_at(block, (uint32_t)h);
        EACH_ROW {
            __m256i offset = offset_of(t->x[r] + index, -8, -8);
            part_add(&sums->of[r][h], _mm256_add_epi32(wide(exact[r][h]), offset), scale,
                     t->x[r] + index);
        }
    }
}

/* Eight bytes as floats. */
ALWAYS_INLINE __m256 bytes_at(const uint8_t *bytes, uint32_t half)
{
    __m128i eight = _mm_loadl_epi64((const __m128i *)(const void *)(bytes + half * 8));
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight));
}

ALWAYS_INLINE __m256 signed_bytes_at(const uint8_t *bytes, uint32_t half)
{
    __m128i eight = _mm_loadl_epi64((const __m128i *)(const void *)(bytes + half * 8));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
}

/* style-waiver: inlined, most parameters are constants or in registers. */
ALWAYS_INLINE void part_q4_k(struct sums *sums, const struct level_tile *t, const uint8_t *block,
                             const uint8_t *part, uint32_t index, int rows)
{
    __m256i exact[ROWS_MAX][HALVES];
    nibbles_add(exact, t, part + KERNELS_SCALES_BYTES, (uint64_t)index * 32, rows);
    EACH_HALF {
        uint32_t half = (uint32_t)h;
        __m256 scale = _mm256_mul_ps(halves_at(block, half), bytes_at(part, half));
        __m256 low = _mm256_mul_ps(halves_at(block + KERNELS_SCALES_BYTES, half),
                                   bytes_at(part + KERNELS_PANEL_LANES, half));
        EACH_ROW {
            const struct kernels_quant_block *x = t->x[r] + index;
            part_add(&sums->of[r][h], wide(exact[r][h]), scale, x);
            __m256 minus = _mm256_xor_ps(_mm256_broadcast_ss(&x->scale), _mm256_set1_ps(-0.0f));
            __m256 total = _mm256_cvtepi32_ps(offset_of(x, 1, 1));
            sums->of[r][h] = _mm256_fmadd_ps(total, _mm256_mul_ps(low, minus), sums->of[r][h]);
        }
    }
}

/* Four columns of weights of six bits: the low (second: 0) or high halves of bytes, and the two
 * bits above them. */
ALWAYS_INLINE __m256i six_bits_at(const uint8_t *groups, uint32_t group, int half, int second)
{
    __m256i low = weights_at(groups, group, (uint32_t)half);
    __m256i high = weights_at(groups, 4 + (uint32_t)second, (uint32_t)half);
    low = second ? _mm256_srli_epi16(low, 4) : low;
    high = group < 2 ? _mm256_slli_epi16(high, 4 - 2 * (int)group)
                     : _mm256_srli_epi16(high, 2 * (int)group - 4);
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)),
                           _mm256_and_si256(high, _mm256_set1_epi8(48)));
}

/* Sixteen columns.
 * style-waiver: inlined, most parameters are constants or in registers. */
ALWAYS_INLINE void half_part_q6_k(struct sums *sums, const struct level_tile *t,
                                  const uint8_t *block, const uint8_t *part, uint32_t index,
                                  int second, int rows)
{
    const uint8_t *groups = part + KERNELS_SCALES_BYTES;
    __m256i exact[ROWS_MAX][HALVES];
    EACH_ROW {
        EACH_HALF exact[r][h] = _mm256_setzero_si256();
    }
#pragma GCC unroll 2
    for (uint32_t g = 0; g < 4; g += 2) {
        __m256i first[HALVES], next[HALVES];
        const uint8_t *lines = groups + ((uint32_t)second * 3 + g) * KERNELS_GROUP_BYTES;
        level_prefetch(t, lines, rows);
        if (g == 0) {
            level_prefetch(t, lines + KERNELS_GROUP_BYTES, rows);
        }
        EACH_HALF {
            first[h] = six_bits_at(groups, g, h, second);
            next[h] = six_bits_at(groups, g + 1, h, second);
        }
        EACH_ROW {
            const int8_t *levels = t->levels[r] + (uint64_t)index * 32;
            __m256i x = levels_at(levels, (uint32_t)second * 4 + g);
            __m256i x1 = levels_at(levels, (uint32_t)second * 4 + g + 1);
            EACH_HALF {
                __m256i pair = _mm256_add_epi16(_mm256_maddubs_epi16(first[h], x),
                                                _mm256_maddubs_epi16(next[h], x1));
                exact[r][h] = _mm256_add_epi32(exact[r][h], wide(pair));
                KEEP(exact[r][h]);
            }
        }
    }
    EACH_HALF {
        uint32_t half = (uint32_t)h;
        __m256 scale = _mm256_mul_ps(
            halves_at(block, half), signed_bytes_at(part + second * KERNELS_PANEL_LANES, half));
        EACH_ROW {
            const struct kernels_quant_block *x = t->x[r] + index;
            __m256i offset = second ? offset_of(x, 0, -32) : offset_of(x, -32, 0);
            part_add(&sums->of[r][h], _mm256_add_epi32(exact[r][h], offset), scale, x);
        }
    }
}

/* ---- a tile down all columns ---- */

ALWAYS_INLINE void super_q4_k(struct sums *sums, const struct level_tile *t, uint32_t index,
                              int rows)
{
    const uint8_t *block = t->panel + (uint64_t)index * KERNELS_Q4_K_BYTES;
    for (uint32_t p = 0; p < 8; p++) {
        const uint8_t *part = block + KERNELS_Q4_K_HEAD + p * KERNELS_Q4_K_PART;
        level_prefetch(t, part, rows);
        part_q4_k(sums, t, block, part, index * 8 + p, rows);
    }
}

ALWAYS_INLINE void super_q6_k(struct sums *sums, const struct level_tile *t, uint32_t index,
                              int rows)
{
    const uint8_t *block = t->panel + (uint64_t)index * KERNELS_Q6_K_BYTES;
    for (uint32_t p = 0; p < 8; p++) {
        const uint8_t *part = block + KERNELS_Q6_K_HEAD + p * KERNELS_Q6_K_PART;
        level_prefetch(t, part, rows);
        half_part_q6_k(sums, t, block, part, index * 8 + p, 0, rows);
        half_part_q6_k(sums, t, block, part, index * 8 + p, 1, rows);
    }
}

ALWAYS_INLINE void block_sum(struct sums *sums, const struct level_tile *t, enum gguf_type type,
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
    struct sums sums;
    EACH_ROW {
        EACH_HALF sums.of[r][h] = _mm256_setzero_ps();
    }
    const uint8_t *next = t->next;
    for (uint32_t i = 0; i < t->blocks; i++) {
        for (const uint8_t *end = next + t->next_step; next < end; next += 64) {
            _mm_prefetch(next, _MM_HINT_T1);
        }
        block_sum(&sums, t, type, i, rows);
    }
    EACH_ROW {
        EACH_HALF _mm256_storeu_ps(t->y + (uint64_t)r * t->y_stride + h * 8,
                                   sums.of[r][h]);
    }
}

ALWAYS_INLINE void tile_of(const struct level_tile *t, enum gguf_type type, uint32_t rows)
{
    switch (rows) {
    case 1: tile_sum(t, type, 1); break;
    case 2: tile_sum(t, type, 2); break;
    default: tile_sum(t, type, 3); break;
    }
}

/* Separate functions, so that no format's code depends on another's. */
static __attribute__((noinline)) void tile_q8_0(const struct level_tile *t, uint32_t rows)
{
    tile_of(t, GGUF_Q8_0, rows);
}

static __attribute__((noinline)) void tile_q4_0(const struct level_tile *t, uint32_t rows)
{
    tile_of(t, GGUF_Q4_0, rows);
}

static __attribute__((noinline)) void tile_q4_k(const struct level_tile *t, uint32_t rows)
{
    tile_of(t, GGUF_Q4_K, rows);
}

static __attribute__((noinline)) void tile_q6_k(const struct level_tile *t, uint32_t rows)
{
    tile_of(t, GGUF_Q6_K, rows);
}

static void tile_run(const struct level_tile *t, uint32_t rows)
{
    switch (t->type) {
    case GGUF_Q8_0: tile_q8_0(t, rows); break;
    case GGUF_Q4_0: tile_q4_0(t, rows); break;
    case GGUF_Q4_K: tile_q4_k(t, rows); break;
    case GGUF_Q6_K: tile_q6_k(t, rows); break;
    case GGUF_F32: case GGUF_F16: case GGUF_BF16: ASSERT(!"weights that are integers");
    }
}

void kernels_product_int8_avx2(const struct kernels_product *product)
{
    walk_levels(product, (struct level_form){ROWS_MAX, 1, tile_run});
}

/* ---- activations ---- */

/* The bits of the largest magnitude of 32 floats; those of infinities and NaN are the largest. */
ALWAYS_INLINE uint32_t largest_bits(const float *x)
{
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    __m256i max = _mm256_setzero_si256();
    for (uint32_t i = 0; i < 4; i++) {
        __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i * 8));
        max = _mm256_max_epu32(max, _mm256_and_si256(bits, mask));
    }
    __m128i half = _mm_max_epu32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
    half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 0x4e));
    half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(half);
}

ALWAYS_INLINE __m256i octet_levels(const float *x, __m256 inverse)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
}

static int16_t sixteen_sum(__m128i levels)
{
    __m128i sums = _mm_maddubs_epi16(_mm_set1_epi8(1), levels);
    sums = _mm_madd_epi16(sums, _mm_set1_epi16(1));
    sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0x4e));
    sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0xb1));
    return (int16_t)_mm_cvtsi128_si32(sums);
}

static void block_quantize(int8_t *levels, struct kernels_quant_block *block, const float *x)
{
    uint32_t bits = largest_bits(x);
    float max;
    memcpy(&max, &bits, sizeof max);
    bool finite = bits < 0x7f800000u;
    if (!finite || max < KERNELS_LEVEL_TINY) {
        memset(levels, 0, KERNELS_QUANT_COLUMNS);
        *block = (struct kernels_quant_block){.scale = finite ? 0.0f : __builtin_nanf("")};
        return;
    }
    __m256 inverse = _mm256_set1_ps(KERNELS_LEVEL_MAX / max);
    __m256i a = _mm256_packs_epi32(octet_levels(x, inverse), octet_levels(x + 8, inverse));
    __m256i b = _mm256_packs_epi32(octet_levels(x + 16, inverse), octet_levels(x + 24, inverse));
    /* Packing works within halves of a register, so groups of four come out as 0 2 4 6 1 3 5 7. */
    __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i all = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order);
    _mm256_storeu_si256((__m256i *)(void *)levels, all);
    block->scale = kernels_half_rounded(max / KERNELS_LEVEL_MAX);
    block->sums[0] = sixteen_sum(_mm256_castsi256_si128(all));
    block->sums[1] = sixteen_sum(_mm256_extracti128_si256(all, 1));
}

void kernels_quantize_avx2(int8_t *levels, struct kernels_quant_block *blocks, const float *x,
                           uint32_t columns)
{
    ASSERT(columns % KERNELS_QUANT_COLUMNS == 0);
    for (uint32_t k = 0; k < columns; k += KERNELS_QUANT_COLUMNS) {
        block_quantize(levels + k, &blocks[k / KERNELS_QUANT_COLUMNS], x + k);
    }
}
