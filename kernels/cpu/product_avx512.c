/* SPDX-License-Identifier: MIT
 *
 * What: chooses among the products of AVX-512, and computes those of weights that are floats. A
 * chunk of halves that three tiles or more read is converted to floats first.
 */
#include "kernels/cpu/avx512.h"

#define VECTOR_LANES 16
#include "kernels/cpu/product_bfloats.h"
#include "kernels/cpu/product_floats.h"

#define CHUNK_HALVES  1024u     /* columns; 64 KiB of halves: sums seldom go to y and back */
#define ROWS_TO_WIDEN (2 * TILE_ROWS + 1)   /* fewer convert faster than they store */

static void widen(float *to, const uint8_t *from, uint32_t columns)
{
    for (uint64_t k = 0; k < columns; k++) {
        vector column = vector_of_bits(load_f16(from + k * STEP_F16.bytes));
        vector_store(to + k * KERNELS_PANEL_LANES, column);
    }
}

/* More than one row. Except for the length of a chunk, forms are constants, so that the walk is
 * compiled for each of them. */
static void floats_rows(const struct kernels_product *p)
{
    uint32_t chunk = p->tuning.chunk_columns > 0 ? p->tuning.chunk_columns : KERNELS_CHUNK_LEAST;
    if (p->matrix->type == GGUF_F32) {
        walk_floats(p, (struct float_form){TILE_ROWS, TILE_PANELS, chunk, sizeof(float),
                                           floats_run, NULL});
    } else if (p->rows < ROWS_TO_WIDEN || p->tuning.widened == NULL) {
        walk_floats(p, (struct float_form){TILE_ROWS, TILE_PANELS, CHUNK_HALVES, sizeof(float),
                                           floats_run, NULL});
    } else {
        STATIC_ASSERT(TILE_PANELS == KERNELS_CHUNK_PANELS, "what is widened at a time");
        walk_floats(p, (struct float_form){TILE_ROWS, TILE_PANELS, chunk, sizeof(float),
                                           floats_run, widen});
    }
}

void kernels_product_avx512(const struct kernels_product *product)
{
    ASSERT(product->panel_end <= product->matrix->panels_count);
    if (kernels_has_levels(product->matrix->type)) {
        kernels_product_int8_avx512(product);
    } else if (product->matrix->type == GGUF_BF16) {
        bfloats_product(product);
    } else if (product->rows == 1) {
        floats_row(product);
    } else {
        floats_rows(product);
    }
}
