/* SPDX-License-Identifier: MIT
 *
 * What: the loop that measures the ceiling of bfloats. Its result is returned only so that it is
 * computed.
 */
#include <immintrin.h>

#include "tools/bench/ceiling.h"

#define CHAINS 16

static uint64_t bfloats(uint64_t iterations)
{
    __m512 sums[CHAINS];
    __m512bh a = (__m512bh)_mm512_set1_epi32(0x3f003f00), b = a;
    for (uint32_t i = 0; i < CHAINS; i++) {
        sums[i] = _mm512_set1_ps((float)i);
    }
    for (uint64_t iteration = 0; iteration < iterations; iteration++) {
#pragma GCC unroll 16
        for (uint32_t i = 0; i < CHAINS; i++) {
            sums[i] = _mm512_dpbf16_ps(sums[i], a, b);
        }
    }
    for (uint32_t i = 1; i < CHAINS; i++) {
        sums[0] = _mm512_add_ps(sums[0], sums[i]);
    }
    return (uint64_t)_mm512_cvtss_f32(sums[0]);
}

const struct ceiling_loop ceiling_bfloats_avx512bf16 = {bfloats, CHAINS * 32};
