/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the product of weights that are floats or halves, for all sets of kernels (kernels/ops.h
 * defines the result): a step is a column (product_tile.h). Halves become floats as they are read,
 * again for each tile: for few tiles that costs less than to store the floats.
 */
#include "kernels/cpu/product_tile.h"

ALWAYS_INLINE vector_bits load_f16(const uint8_t *at)
{
    return vector_bits_of(vector_load_halves((const uint16_t *)(const void *)at));
}

ALWAYS_INLINE vector column_add(vector sums, const uint8_t *x, vector_bits column)
{
    const float *factor = (const float *)(const void *)x;
    return vector_fma(vector_all(factor), vector_of_bits(column), sums);
}

/* One row: two chains are enough for floats; halves arrive twice as fast. */
#define STEP_F32 ((struct tile_step){1, KERNELS_PANEL_LANES * 4, sizeof(float), \
                                     2 / PANEL_VECTORS, vector_bits_load, column_add, false})
#define STEP_F16 ((struct tile_step){1, KERNELS_PANEL_LANES * 2, sizeof(float), \
                                     4, load_f16, column_add, false})

static void floats_row(const struct kernels_product *p)
{
    if (p->matrix->type == GGUF_F32) {
        row_of(p, p->x, STEP_F32);
    } else {
        row_of(p, p->x, STEP_F16);
    }
}

static void floats_run(const struct float_tile *t, uint32_t rows)
{
    if (t->type == GGUF_F32) {
        tile_of(t, rows, STEP_F32);
    } else {
        tile_of(t, rows, STEP_F16);
    }
}
