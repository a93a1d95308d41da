/* SPDX-License-Identifier: MIT
 *
 * What: the product of weights that are bfloats for an AVX-512 that does not multiply them: a mask
 * makes floats of the odd column, and a shift of the even one.
 *
 * Invariants: each output is one chain over k, the odd one of a pair first; sums below 2^-126 are
 * zeros, by the CPU's mode, which holds within kernels_product_bfloat_avx512() only.
 */
#include "kernels/cpu/product_tile.h"

ALWAYS_INLINE __m512 odd_of(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000u)));
}

ALWAYS_INLINE __m512 even_of(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}

ALWAYS_INLINE __m512 pair_add(__m512 sums, const uint8_t *x, __m512i weights)
{
    const float *pair = (const float *)(const void *)x;
    sums = _mm512_fmadd_ps(_mm512_set1_ps(pair[1]), odd_of(weights), sums);
    return _mm512_fmadd_ps(_mm512_set1_ps(pair[0]), even_of(weights), sums);
}

#define STEP \
    ((struct tile_step){2, KERNELS_PANEL_LANES * 4, 2 * sizeof(float), 4, pairs_load, pair_add})

static void tile_run(const struct float_tile *tile, uint32_t rows)
{
    tile_of(tile, rows, STEP);
}

NEVER_INLINE void product_flushed(const struct kernels_product *product)
{
    pairs_product(product, STEP, tile_run);
}

void kernels_product_bfloat_avx512(const struct kernels_product *product)
{
    uint32_t mode = floats_mode_flush();
    product_flushed(product);
    floats_mode_reset(mode);
}
