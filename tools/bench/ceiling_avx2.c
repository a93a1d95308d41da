/* SPDX-License-Identifier: MIT
 *
 * What: the loops that measure the ceilings, AVX2: as many loads, or as many steps of a product, as
 * the core issues. Results are returned only so that they are computed.
 */
#include <immintrin.h>

#include "tools/bench/ceiling.h"

#define LOADS  8     /* of 32 bytes: CEILING_STRIDE_BYTES */
#define CHAINS 12

uint64_t ceiling_read_avx2(const uint8_t *from, uint64_t bytes, uint32_t prefetch_bytes)
{
    __m256i sums[LOADS];
    for (int i = 0; i < LOADS; i++) {
        sums[i] = _mm256_setzero_si256();
    }
    const __m256i *at = (const __m256i *)(const void *)from;
    for (uint64_t done = 0; done < bytes; done += sizeof sums, at += LOADS) {
        for (uint32_t line = 0; prefetch_bytes > 0 && line < sizeof sums; line += 64) {
            _mm_prefetch(from + done + prefetch_bytes + line, _MM_HINT_T0);
        }
#pragma GCC unroll 8
        for (int i = 0; i < LOADS; i++) {
            sums[i] = _mm256_add_epi64(sums[i], _mm256_load_si256(at + i));
        }
    }
    for (int i = 1; i < LOADS; i++) {
        sums[0] = _mm256_add_epi64(sums[0], sums[i]);
    }
    return (uint64_t)_mm256_extract_epi64(sums[0], 0) + (uint64_t)_mm256_extract_epi64(sums[0], 1) +
           (uint64_t)_mm256_extract_epi64(sums[0], 2) + (uint64_t)_mm256_extract_epi64(sums[0], 3);
}

static uint64_t floats(uint64_t iterations)
{
    __m256 sums[CHAINS];
    __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
    for (uint32_t i = 0; i < CHAINS; i++) {
        sums[i] = _mm256_set1_ps((float)i);
    }
    for (uint64_t iteration = 0; iteration < iterations; iteration++) {
#pragma GCC unroll 12
        for (uint32_t i = 0; i < CHAINS; i++) {
            sums[i] = _mm256_fmadd_ps(sums[i], a, b);
        }
    }
    for (uint32_t i = 1; i < CHAINS; i++) {
        sums[0] = _mm256_add_ps(sums[0], sums[i]);
    }
    return (uint64_t)_mm256_cvtss_f32(sums[0]);
}

/* A step is the least that a product of 32 bytes takes: multiply, sum to 32 bits, add. */
static uint64_t levels(uint64_t iterations)
{
    __m256i sums[CHAINS];
    __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(1);
    const __m256i ones = _mm256_set1_epi16(1);
    for (uint32_t i = 0; i < CHAINS; i++) {
        sums[i] = _mm256_set1_epi32((int)i);
    }
    for (uint64_t iteration = 0; iteration < iterations; iteration++) {
#pragma GCC unroll 12
        for (uint32_t i = 0; i < CHAINS; i++) {
            __asm__("" : "+x"(b));      /* else it is computed once */
            __m256i words = _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones);
            sums[i] = _mm256_add_epi32(sums[i], words);
        }
    }
    for (uint32_t i = 1; i < CHAINS; i++) {
        sums[0] = _mm256_add_epi32(sums[0], sums[i]);
    }
    return (uint64_t)_mm256_extract_epi64(sums[0], 0);
}

const struct ceiling_loop ceiling_floats_avx2 = {floats, CHAINS * 8};
const struct ceiling_loop ceiling_levels_avx2 = {levels, CHAINS * 32};
