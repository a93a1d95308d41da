/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the product of weights that are bfloats, for CPUs without an instruction for it
 * (kernels/ops.h defines the result). The two columns of a pair are neighbours for each output, so
 * a mask makes floats of the odd column, and a shift of the even one.
 *
 * Invariant: sums below 2^-126 are zeros. A mode of the CPU does it, and is on only within
 * bfloats_product().
 */
#include "kernels/cpu/product_tile.h"

ALWAYS_INLINE vector pair_add(vector sums, const uint8_t *x, vector_bits weights)
{
    const float *pair = (const float *)(const void *)x;
    sums = vector_fma(vector_all(pair + 1), vector_of_high(weights), sums);
    return vector_fma(vector_all(pair), vector_of_low(weights), sums);
}

#define STEP_PAIR ((struct tile_step){2, KERNELS_PANEL_LANES * 4, 2 * sizeof(float), \
                                      4, vector_bits_load, pair_add, false})

static void pairs_run(const struct float_tile *tile, uint32_t rows)
{
    tile_of(tile, rows, STEP_PAIR);
}

/* Not inlined, because the compiler does not know that the mode matters. */
NEVER_INLINE void bfloats_flushed(const struct kernels_product *product)
{
    pairs_product(product, STEP_PAIR, pairs_run);
}

static inline void bfloats_product(const struct kernels_product *product)
{
    uint32_t mode = floats_mode_flush();
    bfloats_flushed(product);
    floats_mode_reset(mode);
}
