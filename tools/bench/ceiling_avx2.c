/* SPDX-License-Identifier: MIT
 *
 * What: the two loops behind a ceiling, AVX2: as many loads, or as many fused operations, as the
 * core issues. Their results are returned only so that they are computed.
 */
#include <immintrin.h>

#include "tools/bench/ceiling.h"

#define LOADS 8     /* of 32 bytes: CEILING_STRIDE_BYTES */

uint64_t ceiling_read_avx2(const uint8_t *from, uint64_t bytes)
{
    __m256i sums[LOADS];
    for (int i = 0; i < LOADS; i++) {
        sums[i] = _mm256_setzero_si256();
    }
    const __m256i *at = (const __m256i *)(const void *)from;
    for (uint64_t done = 0; done < bytes; done += sizeof sums, at += LOADS) {
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

/* Two units times a latency of four need eight chains; twelve fit the registers. */
float ceiling_multiply_avx2(uint64_t turns)
{
    __m256 sums[CEILING_CHAINS];
    __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
    for (uint32_t i = 0; i < CEILING_CHAINS; i++) {
        sums[i] = _mm256_set1_ps((float)i);
    }
    for (uint64_t turn = 0; turn < turns; turn++) {
#pragma GCC unroll 12
        for (uint32_t i = 0; i < CEILING_CHAINS; i++) {
            sums[i] = _mm256_fmadd_ps(sums[i], a, b);
        }
    }
    for (uint32_t i = 1; i < CEILING_CHAINS; i++) {
        sums[0] = _mm256_add_ps(sums[0], sums[i]);
    }
    return _mm256_cvtss_f32(sums[0]);
}
