/* SPDX-License-Identifier: MIT
 *
 * What: the product of weights that are bfloats, AVX2 (kernels/ops.h defines the result), built as
 * that of halves is (product_avx2.c). A pair of columns lies side by side for each output, so a
 * mask makes floats of the odd column, and a shift of the even one.
 *
 * Invariants: each output is one chain over k, the odd one of a pair first; sums below 2^-126 are
 * zeros, by the CPU's mode, which holds within kernels_product_bfloat_avx2() only.
 */
#include "kernels/cpu/avx2.h"
#include "kernels/cpu/product_walk.h"

#define ROWS_MAX   6
#define PANELS_ROW 4            /* at a time, for one row */
#define CHUNK      512u         /* columns; 16 KiB of bfloats */
#define PAIR_BYTES (KERNELS_PANEL_LANES * 4)

struct pairs {
    __m256i low, high;          /* a pair of columns of eight outputs each */
};

struct sums {
    __m256 low, high;
};

ALWAYS_INLINE __m256 odd_of(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000u)));
}

ALWAYS_INLINE __m256 even_of(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

ALWAYS_INLINE struct pairs pairs_at(const uint8_t *panel, uint64_t pair)
{
    const __m256i *at = (const __m256i *)(const void *)(panel + pair * PAIR_BYTES);
    return (struct pairs){_mm256_load_si256(at), _mm256_load_si256(at + 1)};
}

ALWAYS_INLINE void sums_add(struct sums *sums, const float *x, __m256 low, __m256 high)
{
    __m256 v = _mm256_broadcast_ss(x);
    sums->low = _mm256_fmadd_ps(v, low, sums->low);
    sums->high = _mm256_fmadd_ps(v, high, sums->high);
}

ALWAYS_INLINE struct sums sums_zero(void)
{
    return (struct sums){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

ALWAYS_INLINE void sums_store(float *y, struct sums sums)
{
    _mm256_storeu_ps(y, sums.low);
    _mm256_storeu_ps(y + 8, sums.high);
}

/* ---- one row ---- */

/* All columns of neighbouring panels. */
ALWAYS_INLINE void row_sum(const struct kernels_product *p, uint32_t panel, int panels)
{
    const struct kernels_matrix *m = p->matrix;
    const uint8_t *packed = m->panels + panel * m->panel_bytes;
    float *y = p->y + (uint64_t)panel * KERNELS_PANEL_LANES;
    struct sums sums[PANELS_ROW];
#pragma GCC unroll 4
    for (int j = 0; j < panels; j++) {
        sums[j] = sums_zero();
    }
    for (uint64_t pair = 0; pair < (m->columns + UINT64_C(1)) / 2; pair++) {
        const float *x = p->rounded.bfloats + 2 * pair;
#pragma GCC unroll 4
        for (int j = 0; j < panels; j++) {
            struct pairs weights = pairs_at(packed + (uint64_t)j * m->panel_bytes, pair);
            sums_add(&sums[j], x + 1, odd_of(weights.low), odd_of(weights.high));
            sums_add(&sums[j], x, even_of(weights.low), even_of(weights.high));
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < panels; j++) {
        sums_store(y + j * (int)KERNELS_PANEL_LANES, sums[j]);
    }
}

NEVER_INLINE void product_row(const struct kernels_product *p)
{
    uint32_t panel = p->panel_first;
    for (; panel + PANELS_ROW <= p->panel_end; panel += PANELS_ROW) {
        row_sum(p, panel, PANELS_ROW);
    }
    for (; panel < p->panel_end; panel++) {
        row_sum(p, panel, 1);
    }
}

/* ---- more rows ---- */

/* Column k as floats: the odd one of a pair is their high halves, the even one the low halves. One
 * way for both, for the registers leave no room to keep a pair. */
ALWAYS_INLINE __m256 column_of(const uint8_t *octet, uint64_t k)
{
    __m256i pairs = _mm256_load_si256((const __m256i *)(const void *)octet);
    return odd_of(_mm256_sll_epi32(pairs, _mm_cvtsi32_si128(k % 2 == 0 ? 16 : 0)));
}

ALWAYS_INLINE void tile_sum(const struct float_tile *t, int rows)
{
    const float *x[ROWS_MAX];
    struct sums sums[ROWS_MAX];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        x[r] = (const float *)(const void *)(t->x + (uint64_t)r * t->x_stride);
        const float *y = t->y + (uint64_t)r * t->y_stride;
        sums[r] = t->first ? sums_zero()
                           : (struct sums){_mm256_loadu_ps(y), _mm256_loadu_ps(y + 8)};
    }
    for (uint64_t i = 0; i < t->columns + t->columns % 2; i++) {
        uint64_t k = i ^ 1;
        const uint8_t *pairs = t->weights + i / 2 * PAIR_BYTES;
        __m256 low = column_of(pairs, k), high = column_of(pairs + PAIR_BYTES / 2, k);
        _mm_prefetch(t->next + i * t->next_step, _MM_HINT_T1);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            sums_add(&sums[r], x[r] + k, low, high);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        sums_store(t->y + (uint64_t)r * t->y_stride, sums[r]);
    }
}

static void tile_run(const struct float_tile *t, uint32_t rows)
{
    switch (rows) {
    case 1: tile_sum(t, 1); break;
    case 2: tile_sum(t, 2); break;
    case 3: tile_sum(t, 3); break;
    case 4: tile_sum(t, 4); break;
    case 5: tile_sum(t, 5); break;
    default: tile_sum(t, 6); break;
    }
}

NEVER_INLINE void product_rows(const struct kernels_product *p)
{
    walk_floats(p, (struct float_form){ROWS_MAX, 1, CHUNK, sizeof(float), tile_run, NULL});
}

void kernels_product_bfloat_avx2(const struct kernels_product *product)
{
    ASSERT(product->rounded.stride >= product->matrix->columns || product->rows <= 1);
    uint32_t mode = floats_mode_flush();
    if (product->rows == 1) {
        product_row(product);
    } else {
        product_rows(product);
    }
    floats_mode_reset(mode);
}
