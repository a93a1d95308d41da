/* SPDX-License-Identifier: MIT
 *
 * What: the loops that measure the ceilings, AVX-512 with VNNI: as many steps of a product as the
 * core issues. Results are returned only so that they are computed.
 */
#include <immintrin.h>

#include "tools/bench/ceiling.h"

#define CHAINS 16

static uint64_t floats(uint64_t iterations)
{
    __m512 sums[CHAINS];
    __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
    for (uint32_t i = 0; i < CHAINS; i++) {
        sums[i] = _mm512_set1_ps((float)i);
    }
    for (uint64_t iteration = 0; iteration < iterations; iteration++) {
#pragma GCC unroll 16
        for (uint32_t i = 0; i < CHAINS; i++) {
            sums[i] = _mm512_fmadd_ps(sums[i], a, b);
        }
    }
    for (uint32_t i = 1; i < CHAINS; i++) {
        sums[0] = _mm512_add_ps(sums[0], sums[i]);
    }
    return (uint64_t)_mm512_cvtss_f32(sums[0]);
}

static uint64_t levels(uint64_t iterations)
{
    __m512i sums[CHAINS];
    __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(1);
    for (uint32_t i = 0; i < CHAINS; i++) {
        sums[i] = _mm512_set1_epi32((int)i);
    }
    for (uint64_t iteration = 0; iteration < iterations; iteration++) {
#pragma GCC unroll 16
        for (uint32_t i = 0; i < CHAINS; i++) {
            sums[i] = _mm512_dpbusd_epi32(sums[i], a, b);
        }
    }
    for (uint32_t i = 1; i < CHAINS; i++) {
        sums[0] = _mm512_add_epi32(sums[0], sums[i]);
    }
    return (uint64_t)_mm512_reduce_add_epi32(sums[0]);
}

const struct ceiling_loop ceiling_floats_avx512 = {floats, CHAINS * 16};
const struct ceiling_loop ceiling_levels_avx512 = {levels, CHAINS * 64};
