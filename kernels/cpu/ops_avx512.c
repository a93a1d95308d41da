/* SPDX-License-Identifier: MIT
 *
 * What: the tables of the two AVX-512 sets, which differ in bfloats, and the kernels that take
 * exponentials. The others are those of AVX2: they take little of a step.
 */
#include "kernels/cpu/avx512.h"

#define COMMON                                  \
    .quantize = kernels_quantize_avx2,          \
    .scores = kernels_scores_avx512,            \
    .weigh = kernels_weigh_avx512,              \
    .halve = kernels_halve_avx2,                \
    .level = kernels_level_avx2,                \
    .level_key = kernels_level_key_avx2,        \
    .level_query = kernels_level_query_avx2,    \
    .exponentiate = kernels_exponentiate_avx512, \
    .norm = kernels_norm_avx2,                  \
    .swiglu = kernels_swiglu_avx512,            \
    .is_finite = kernels_is_finite_avx2,        \
    .largest = kernels_largest_avx2,            \
    .copy = kernels_copy_avx2

const struct kernels_ops kernels_ops_avx512 = {
    .product = kernels_product_avx512,
    .shorten = kernels_shorten_avx2,
    COMMON,
};

const struct kernels_ops kernels_ops_avx512bf16 = {
    .product = kernels_product_avx512bf16,
    .shorten = kernels_shorten_avx512bf16,
    COMMON,
};

/* kernels_exp() in each lane, the same operations in the same order. */
ALWAYS_INLINE __m512 sixteen_exp(__m512 x)
{
    x = _mm512_max_ps(_mm512_set1_ps(EXP_LOW), x);
    x = _mm512_min_ps(_mm512_set1_ps(EXP_HIGH), x);
    const __m512 round = _mm512_set1_ps(EXP_ROUND);
    __m512 shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(EXP_LOG2E), round);
    __m512 n = _mm512_sub_ps(shifted, round);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-EXP_LN2_A), x);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(-EXP_LN2_B), r);
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(EXP_C7), r, _mm512_set1_ps(EXP_C6));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C5));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    __m512i bits = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    bits = _mm512_add_epi32(bits, _mm512_set1_epi32(0x3f800000));
    return _mm512_mul_ps(p, _mm512_castsi512_ps(bits));
}

/* Sums are in eight lanes by definition, so the two octets of a vector are added one by one. */
float kernels_exponentiate_avx512(float *values, uint32_t count, float scale)
{
    ASSERT(count > 0);
    const float max = octets_max(values, count);
    __m256 sums = _mm256_setzero_ps();
    uint32_t i = 0;
    for (; i + 2 * KERNELS_OCTET <= count; i += 2 * KERNELS_OCTET) {
        __m512 v = _mm512_sub_ps(_mm512_loadu_ps(values + i), _mm512_set1_ps(max));
        v = sixteen_exp(_mm512_mul_ps(v, _mm512_set1_ps(scale)));
        _mm512_storeu_ps(values + i, v);
        sums = _mm256_add_ps(sums, _mm256_loadu_ps(values + i));
        sums = _mm256_add_ps(sums, _mm256_loadu_ps(values + i + KERNELS_OCTET));
    }
    return octet_sum(octets_exponentiate(sums, values + i, count - i, max, scale));
}

void kernels_swiglu_avx512(float *gate, const float *up, uint32_t count)
{
    ASSERT(count % KERNELS_PANEL_LANES == 0);
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512i sign = _mm512_set1_epi32((int)0x80000000u);
    for (uint32_t i = 0; i < count; i += KERNELS_PANEL_LANES) {
        __m512 g = _mm512_loadu_ps(gate + i);
        __m512 minus = _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(g), sign));
        __m512 e = _mm512_add_ps(one, sixteen_exp(minus));
        __m512 v = _mm512_mul_ps(_mm512_div_ps(g, e), _mm512_loadu_ps(up + i));
        _mm512_storeu_ps(gate + i, v);
    }
}
