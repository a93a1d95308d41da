/* SPDX-License-Identifier: MIT
 *
 * What: chooses among the products of AVX2, and computes those of weights that are floats.
 */
#include "kernels/cpu/product_bfloats.h"
#include "kernels/cpu/product_floats.h"

#define CHUNK 512u              /* columns; 32 KiB of floats */

void kernels_product_avx2(const struct kernels_product *product)
{
    ASSERT(product->panel_end <= product->matrix->panels_count);
    if (kernels_has_levels(product->matrix->type)) {
        kernels_product_int8_avx2(product);
    } else if (product->matrix->type == GGUF_BF16) {
        bfloats_product(product);
    } else if (product->rows == 1) {
        floats_row(product);
    } else {
        walk_floats(product, (struct float_form){TILE_ROWS, TILE_PANELS, CHUNK, sizeof(float),
                                                 floats_run, NULL});
    }
}
