/* SPDX-License-Identifier: MIT
 *
 * What: the product of weights that are bfloats on CPUs with an instruction for it: VDPBF16PS takes
 * a pair of columns of sixteen outputs, twice as much as a multiply-add of floats. All other
 * products are those of AVX-512 (product_avx512.c).
 *
 * Invariant: it adds the product of the odd columns, then that of the even ones, rounds after each,
 * and treats numbers below 2^-126 as zero in every mode of the CPU: kernels/ops.c has tried it.
 */
#include <string.h>

#include "kernels/cpu/avx512.h"

#define VECTOR_LANES 16
#include "kernels/cpu/product_tile.h"

ALWAYS_INLINE vector pair_add(vector sums, const uint8_t *x, vector_bits weights)
{
    int32_t pair;
    memcpy(&pair, x, sizeof pair);
    return _mm512_dpbf16_ps(sums, (__m512bh)_mm512_set1_epi32(pair), (__m512bh)weights);
}

#define STEP ((struct tile_step){2, KERNELS_PANEL_LANES * 4, 2 * sizeof(uint16_t), 4, \
                                 vector_bits_load, pair_add, false})

static void tile_run(const struct float_tile *tile, uint32_t rows)
{
    tile_of(tile, rows, STEP);
}

void kernels_product_avx512bf16(const struct kernels_product *product)
{
    ASSERT(product->panel_end <= product->matrix->panels_count);
    if (product->matrix->type == GGUF_BF16) {
        pairs_product(product, STEP, tile_run);
    } else {
        kernels_product_avx512(product);
    }
}

void kernels_shorten_avx512bf16(float *bfloats, const float *x, uint32_t columns)
{
    uint16_t *to = (uint16_t *)(void *)bfloats;
    uint32_t k = 0;
    for (; k + KERNELS_OCTET <= columns; k += KERNELS_OCTET) {
        __m256i octet = octet_shortened(x + k);
        __m128i low = _mm256_castsi256_si128(octet), high = _mm256_extracti128_si256(octet, 1);
        _mm_storeu_si128((__m128i *)(void *)(to + k), _mm_packus_epi32(low, high));
    }
    for (; k < columns; k++) {
        to[k] = kernels_bfloat_of(x[k]);
    }
    if (columns % 2 != 0) {
        to[columns] = 0;
    }
}
