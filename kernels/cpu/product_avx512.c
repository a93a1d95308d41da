/* SPDX-License-Identifier: MIT
 *
 * What: the product of weights that are floats or halves, AVX-512 (kernels/ops.h defines the
 * result). A step is a column (product_tile.h); where three tiles or more read a chunk of halves,
 * it is made floats first.
 *
 * Invariant: each output is one chain over k, ascending, as everywhere.
 */
#include "kernels/cpu/product_tile.h"

#define CHUNK_HALVES  1024u     /* 64 KiB of halves: sums go to y and back seldom */
#define ROWS_TO_WIDEN (2 * TILE_ROWS + 1)   /* fewer convert in less time than it takes to store */

ALWAYS_INLINE __m512i load_f32(const uint8_t *at)
{
    return _mm512_load_si512(at);
}

/* Sixteen halves. */
ALWAYS_INLINE __m512i load_f16(const uint8_t *at)
{
    __m256i halves = _mm256_load_si256((const __m256i *)(const void *)at);
    return _mm512_castps_si512(_mm512_cvtph_ps(halves));
}

ALWAYS_INLINE __m512 column_add(__m512 sums, const uint8_t *x, __m512i column)
{
    const float *factor = (const float *)(const void *)x;
    return _mm512_fmadd_ps(_mm512_set1_ps(*factor), _mm512_castsi512_ps(column), sums);
}

#define STEP_F32 ((struct tile_step){1, KERNELS_PANEL_LANES * 4, 4, 2, load_f32, column_add})
#define STEP_F16 ((struct tile_step){1, KERNELS_PANEL_LANES * 2, 4, 4, load_f16, column_add})

static void product_row(const struct kernels_product *p)
{
    if (p->matrix->type == GGUF_F32) {
        row_panels(p, p->x, STEP_F32);
    } else {
        row_panels(p, p->x, STEP_F16);
    }
}

static void tile_run(const struct float_tile *t, uint32_t rows)
{
    if (t->type == GGUF_F32) {
        tile_of(t, rows, STEP_F32);
    } else {
        tile_of(t, rows, STEP_F16);
    }
}

static void widen(float *to, const uint8_t *from, uint32_t columns)
{
    for (uint64_t k = 0; k < columns; k++) {
        __m512i column = load_f16(from + k * STEP_F16.bytes);
        _mm512_store_ps(to + k * KERNELS_PANEL_LANES, _mm512_castsi512_ps(column));
    }
}

/* More than one row. Forms are constants, so that the walk is compiled for each. */
static void product_rows(const struct kernels_product *p)
{
    uint32_t chunk = p->chunk.columns > 0 ? p->chunk.columns : KERNELS_CHUNK_LEAST;
    if (p->matrix->type == GGUF_F32) {
        walk_floats(p, (struct float_form){TILE_ROWS, TILE_PANELS, chunk, sizeof(float), tile_run,
                                           NULL});
    } else if (p->rows < ROWS_TO_WIDEN || p->chunk.widened == NULL) {
        walk_floats(p, (struct float_form){TILE_ROWS, TILE_PANELS, CHUNK_HALVES, sizeof(float),
                                           tile_run, NULL});
    } else {
        STATIC_ASSERT(TILE_PANELS == KERNELS_CHUNK_PANELS, "what is widened at a time");
        walk_floats(p, (struct float_form){TILE_ROWS, TILE_PANELS, chunk, sizeof(float), tile_run,
                                           widen});
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
