/* SPDX-License-Identifier: MIT
 *
 * What: the product in plain C: the definition in kernels/ops.h and nothing more. It is the twin
 * that the fast one is compared with, and what serves where a CPU has no AVX2.
 *
 * Why lanes and not outputs in the inner loop: the panel is walked in memory order, and each lane
 * is still a chain of its own.
 */
#include <math.h>

#include "kernels/ref/plain.h"

/* Column k of a panel as sixteen floats. */
static void column_load(const struct kernels_matrix *matrix, const uint8_t *panel, uint32_t k,
                        float *column)
{
    uint64_t at = (uint64_t)k * KERNELS_PANEL_LANES;
    const uint8_t *block = panel + (uint64_t)(k / KERNELS_Q8_COLUMNS) * KERNELS_Q8_PANEL_BYTES;
    const uint16_t *scales = (const uint16_t *)(const void *)block;
    const int8_t *values = (const int8_t *)block + KERNELS_PANEL_LANES * 2 +
                           k % KERNELS_Q8_COLUMNS * KERNELS_PANEL_LANES;
    for (uint32_t lane = 0; lane < KERNELS_PANEL_LANES; lane++) {
        switch (matrix->type) {
        case GGUF_F32:
            column[lane] = ((const float *)(const void *)panel)[at + lane];
            break;
        case GGUF_F16:
            column[lane] =
                kernels_half_to_float(((const uint16_t *)(const void *)panel)[at + lane]);
            break;
        case GGUF_Q8_0:
            column[lane] = kernels_half_to_float(scales[lane]) * (float)values[lane];
            break;
        }
    }
}

static void panel_product(const struct kernels_product *p, uint32_t panel)
{
    const uint8_t *weights = p->matrix->panels + panel * p->matrix->panel_bytes;
    float *y = p->y + (uint64_t)panel * KERNELS_PANEL_LANES;
    for (uint32_t r = 0; r < p->rows; r++) {
        for (uint32_t lane = 0; lane < KERNELS_PANEL_LANES; lane++) {
            y[r * p->y_stride + lane] = 0.0f;
        }
    }
    for (uint32_t k = 0; k < p->matrix->columns; k++) {
        float column[KERNELS_PANEL_LANES];
        column_load(p->matrix, weights, k, column);
        for (uint32_t r = 0; r < p->rows; r++) {
            float x = p->x[r * p->x_stride + k];
            for (uint32_t lane = 0; lane < KERNELS_PANEL_LANES; lane++) {
                float *sum = &y[r * p->y_stride + lane];
                *sum = fmaf(x, column[lane], *sum);
            }
        }
    }
}

void kernels_product_plain(const struct kernels_product *product)
{
    ASSERT(product->panel_end <= product->matrix->panels_count);
    ASSERT(product->x_stride >= product->matrix->columns || product->rows <= 1);
    for (uint32_t panel = product->panel_first; panel < product->panel_end; panel++) {
        panel_product(product, panel);
    }
}
