/* SPDX-License-Identifier: MIT
 *
 * What: the product of weights that are floats or halves, AVX-512 (kernels/ops.h defines the
 * result). The sixteen outputs of a panel are one register; else it is built as AVX2's
 * (product_avx2.c):
 *
 *   one row      a few panels at a time, so that there are some chains to hide the latency of the
 *                fused operation
 *   more rows    tiles of up to eight rows by two panels, over chunks of columns; where three tiles
 *                or more read a chunk of halves, it is made floats first
 *
 * Invariant: each output is one chain over k, ascending, as everywhere.
 */
#include "kernels/cpu/avx512.h"
#include "kernels/cpu/product_walk.h"

#define ROWS_MAX      8
#define PANELS_MAX    2         /* of a tile */
#define PANELS_FLOATS 2         /* at a time, for one row */
#define PANELS_HALVES 4
#define CHUNK         256u
#define CHUNK_HALVES  1024u     /* 64 KiB of halves: sums go to y and back seldom */
#define CHUNK_WIDENED (WIDE_FLOATS / KERNELS_PANEL_LANES / PANELS_MAX)
#define ROWS_TO_WIDEN (2 * ROWS_MAX + 1)    /* fewer convert in less time than it takes to store */

ALWAYS_INLINE __m512 column_f32(const uint8_t *panel, uint64_t k)
{
    return _mm512_load_ps((const float *)(const void *)panel + k * KERNELS_PANEL_LANES);
}

ALWAYS_INLINE __m256i sixteen_halves(const uint8_t *panel, uint64_t k)
{
    const uint8_t *at = panel + k * KERNELS_PANEL_LANES * 2;
    return _mm256_load_si256((const __m256i *)(const void *)at);
}

ALWAYS_INLINE __m512 column_at(const uint8_t *panel, uint64_t k, enum gguf_type type)
{
    return type == GGUF_F32 ? column_f32(panel, k) : _mm512_cvtph_ps(sixteen_halves(panel, k));
}

/* ---- one row ---- */

/* All columns of neighbouring panels. */
ALWAYS_INLINE void row_sum(const struct kernels_product *p, uint32_t panel, int panels,
                           enum gguf_type type)
{
    const struct kernels_matrix *m = p->matrix;
    const uint8_t *packed = m->panels + panel * m->panel_bytes;
    float *y = p->y + (uint64_t)panel * KERNELS_PANEL_LANES;
    __m512 sums[PANELS_HALVES];
#pragma GCC unroll 4
    for (int j = 0; j < panels; j++) {
        sums[j] = _mm512_setzero_ps();
    }
    for (uint64_t k = 0; k < m->columns; k++) {
        __m512 x = _mm512_set1_ps(p->x[k]);
#pragma GCC unroll 4
        for (int j = 0; j < panels; j++) {
            __m512 column = column_at(packed + (uint64_t)j * m->panel_bytes, k, type);
            sums[j] = _mm512_fmadd_ps(x, column, sums[j]);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < panels; j++) {
        _mm512_storeu_ps(y + j * (int)KERNELS_PANEL_LANES, sums[j]);
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
        row_panels(p, PANELS_FLOATS, GGUF_F32);
    } else {
        row_panels(p, PANELS_HALVES, GGUF_F16);
    }
}

/* ---- more rows ---- */

ALWAYS_INLINE void tile_sum(const struct float_tile *t, int rows, int panels, enum gguf_type type)
{
    const float *x[ROWS_MAX];
    __m512 sums[ROWS_MAX][PANELS_MAX];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        x[r] = (const float *)(const void *)(t->x + (uint64_t)r * t->x_stride);
        const float *y = t->y + (uint64_t)r * t->y_stride;
#pragma GCC unroll 2
        for (int j = 0; j < panels; j++, y += KERNELS_PANEL_LANES) {
            sums[r][j] = t->first ? _mm512_setzero_ps() : _mm512_loadu_ps(y);
        }
    }
    for (uint64_t k = 0; k < t->columns; k++) {
        __m512 columns[PANELS_MAX];
#pragma GCC unroll 2
        for (uint64_t j = 0; j < (uint64_t)panels; j++) {
            columns[j] = column_at(t->weights + j * t->panel_bytes, k, type);
            _mm_prefetch(t->next + j * t->next_panel_bytes + k * t->next_step, _MM_HINT_T1);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            __m512 v = _mm512_set1_ps(x[r][k]);
#pragma GCC unroll 2
            for (int j = 0; j < panels; j++) {
                sums[r][j] = _mm512_fmadd_ps(v, columns[j], sums[r][j]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        float *y = t->y + (uint64_t)r * t->y_stride;
#pragma GCC unroll 2
        for (int j = 0; j < panels; j++, y += KERNELS_PANEL_LANES) {
            _mm512_storeu_ps(y, sums[r][j]);
        }
    }
}

ALWAYS_INLINE void tile_rows(const struct float_tile *t, uint32_t rows, int panels,
                             enum gguf_type type)
{
    switch (rows) {
    case 1: tile_sum(t, 1, panels, type); break;
    case 2: tile_sum(t, 2, panels, type); break;
    case 3: tile_sum(t, 3, panels, type); break;
    case 4: tile_sum(t, 4, panels, type); break;
    case 5: tile_sum(t, 5, panels, type); break;
    case 6: tile_sum(t, 6, panels, type); break;
    case 7: tile_sum(t, 7, panels, type); break;
    default: tile_sum(t, 8, panels, type); break;
    }
}

ALWAYS_INLINE void tile_of(const struct float_tile *t, uint32_t rows, enum gguf_type type)
{
    if (t->panels == PANELS_MAX) {
        tile_rows(t, rows, PANELS_MAX, type);
    } else {
        tile_rows(t, rows, 1, type);
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

static void widen(float *to, const uint8_t *from, uint32_t columns)
{
    for (uint64_t k = 0; k < columns; k++) {
        _mm512_store_ps(to + k * KERNELS_PANEL_LANES, column_at(from, k, GGUF_F16));
    }
}

/* More than one row. Forms are constants, so that the walk is compiled for each. */
static void product_rows(const struct kernels_product *p)
{
    if (p->matrix->type == GGUF_F32) {
        walk_floats(p, (struct float_form){ROWS_MAX, PANELS_MAX, CHUNK, sizeof(float), tile_run,
                                           NULL});
    } else if (p->rows < ROWS_TO_WIDEN) {
        walk_floats(p, (struct float_form){ROWS_MAX, PANELS_MAX, CHUNK_HALVES, sizeof(float),
                                           tile_run, NULL});
    } else {
        walk_floats(p, (struct float_form){ROWS_MAX, PANELS_MAX, CHUNK_WIDENED, sizeof(float),
                                           tile_run, widen});
    }
}

void kernels_product_avx512(const struct kernels_product *product)
{
    ASSERT(product->panel_end <= product->matrix->panels_count);
    if (kernels_has_levels(product->matrix->type)) {
        kernels_product_int8_avx512(product);
    } else if (product->matrix->type == GGUF_BF16) {
        kernels_product_bfloat_avx512(product);
    } else if (product->rows == 1) {
        product_row(product);
    } else {
        product_rows(product);
    }
}
