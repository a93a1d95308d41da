/* SPDX-License-Identifier: MIT
 *
 * What: the product of weights that are floats or halves, AVX2 (kernels/ops.h defines the result).
 *
 *   one row      every weight is read once and used once, as fast as memory gives it. A panel of
 *                floats is two chains, enough to hide the latency of the fused operation behind
 *                that of memory; halves come twice as fast, and take four panels at a time. Nothing
 *                is asked for ahead: the CPU foresees straight streams, and what we asked for
 *                beside that cost a quarter of the bandwidth
 *   more rows    a panel is walked in chunks of CHUNK columns that stay in the L1 cache; tiles of
 *                up to six rows by sixteen outputs keep their sums in registers, and put them into
 *                y from one chunk to the next
 *
 * Halves are made floats as they are read, again for each tile: that costs less than to store them.
 *
 * Invariant: a float that is stored and loaded again is the same float, so chunks, tiles and the
 * two ways above give the same bits: each output is one chain over k, ascending.
 *
 * Why not partial sums over k (eight lanes along a row, as dot products are mostly written): lanes
 * that are outputs need no sum across a register, work the same for one row and for six, and make
 * the plain twin three loops long.
 */
#include "kernels/cpu/avx2.h"
#include "kernels/cpu/product_walk.h"

#define ROWS_MAX      6
#define PANELS_HALVES 4         /* at a time, for one row */
#define CHUNK         512u      /* columns; 32 KiB of floats */

struct pair {
    __m256 low, high;           /* sixteen outputs of one column */
};

/* ---- one row ---- */

ALWAYS_INLINE struct pair column_f32(const uint8_t *panel, uint64_t k)
{
    const float *at = (const float *)(const void *)panel + k * KERNELS_PANEL_LANES;
    return (struct pair){_mm256_load_ps(at), _mm256_load_ps(at + 8)};
}

ALWAYS_INLINE struct pair column_f16(const uint8_t *panel, uint64_t k)
{
    const __m128i *at = (const __m128i *)(const void *)(panel + k * KERNELS_PANEL_LANES * 2);
    __m128i low = _mm_load_si128(at), high = _mm_load_si128(at + 1);
    return (struct pair){_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)};
}

ALWAYS_INLINE struct pair column_at(const uint8_t *panel, uint64_t k, enum gguf_type type)
{
    return type == GGUF_F32 ? column_f32(panel, k) : column_f16(panel, k);
}

ALWAYS_INLINE void pair_add(struct pair *sum, __m256 x, struct pair column)
{
    sum->low = _mm256_fmadd_ps(x, column.low, sum->low);
    sum->high = _mm256_fmadd_ps(x, column.high, sum->high);
}

/* All columns of neighbouring panels. */
ALWAYS_INLINE void row_sum(const struct kernels_product *p, uint32_t panel, int panels,
                           enum gguf_type type)
{
    const struct kernels_matrix *m = p->matrix;
    const uint8_t *packed = m->panels + panel * m->panel_bytes;
    float *y = p->y + (uint64_t)panel * KERNELS_PANEL_LANES;
    struct pair sums[PANELS_HALVES];
#pragma GCC unroll 4
    for (int j = 0; j < panels; j++) {
        sums[j] = (struct pair){_mm256_setzero_ps(), _mm256_setzero_ps()};
    }
    for (uint64_t k = 0; k < m->columns; k++) {
        __m256 v = _mm256_broadcast_ss(p->x + k);
#pragma GCC unroll 4
        for (int j = 0; j < panels; j++) {
            pair_add(&sums[j], v, column_at(packed + (uint64_t)j * m->panel_bytes, k, type));
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < panels; j++, y += KERNELS_PANEL_LANES) {
        _mm256_storeu_ps(y, sums[j].low);
        _mm256_storeu_ps(y + 8, sums[j].high);
    }
}

ALWAYS_INLINE void row_panels(const struct kernels_product *p, int panels, enum gguf_type type)
{
    uint32_t panel = p->panel_first;
    for (; panel + (uint32_t)panels <= p->panel_end; panel += (uint32_t)panels) {
        row_sum(p, panel, panels, type);
    }
    for (; panel < p->panel_end; panel++) {
        row_sum(p, panel, 1, type);
    }
}

static void product_row(const struct kernels_product *p)
{
    if (p->matrix->type == GGUF_F32) {
        row_panels(p, 1, GGUF_F32);
    } else {
        row_panels(p, PANELS_HALVES, GGUF_F16);
    }
}

/* ---- more rows ---- */

ALWAYS_INLINE void tile_sum(const struct float_tile *t, int rows, enum gguf_type type)
{
    const float *x[ROWS_MAX];
    struct pair sums[ROWS_MAX];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        x[r] = (const float *)(const void *)(t->x + (uint64_t)r * t->x_stride);
        const float *y = t->y + (uint64_t)r * t->y_stride;
        sums[r].low = t->first ? _mm256_setzero_ps() : _mm256_loadu_ps(y);
        sums[r].high = t->first ? _mm256_setzero_ps() : _mm256_loadu_ps(y + 8);
    }
    for (uint64_t k = 0; k < t->columns; k++) {
        struct pair column = column_at(t->weights, k, type);
        _mm_prefetch(t->next + k * t->next_step, _MM_HINT_T1);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            pair_add(&sums[r], _mm256_broadcast_ss(x[r] + k), column);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        float *y = t->y + (uint64_t)r * t->y_stride;
        _mm256_storeu_ps(y, sums[r].low);
        _mm256_storeu_ps(y + 8, sums[r].high);
    }
}

ALWAYS_INLINE void tile_of(const struct float_tile *t, uint32_t rows, enum gguf_type type)
{
    switch (rows) {
    case 1: tile_sum(t, 1, type); break;
    case 2: tile_sum(t, 2, type); break;
    case 3: tile_sum(t, 3, type); break;
    case 4: tile_sum(t, 4, type); break;
    case 5: tile_sum(t, 5, type); break;
    default: tile_sum(t, 6, type); break;
    }
}

static void tile_run(const struct float_tile *t, uint32_t rows)
{
    if (t->type == GGUF_F32) {
        tile_of(t, rows, GGUF_F32);
    } else {
        tile_of(t, rows, GGUF_F16);
    }
}

void kernels_product_avx2(const struct kernels_product *product)
{
    ASSERT(product->panel_end <= product->matrix->panels_count);
    if (kernels_has_levels(product->matrix->type)) {
        kernels_product_int8_avx2(product);
    } else if (product->matrix->type == GGUF_BF16) {
        kernels_product_bfloat_avx2(product);
    } else if (product->rows == 1) {
        product_row(product);
    } else {
        walk_floats(product,
                    (struct float_form){ROWS_MAX, 1, CHUNK, sizeof(float), tile_run, NULL});
    }
}
