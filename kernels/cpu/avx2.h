/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the functions in the table of the AVX2 kernels, and the few vector idioms that they share.
 * Only files compiled for AVX2 (…_avx2.c) include this.
 */
#include <immintrin.h>
#include <math.h>

#include "kernels/exp.h"
#include "kernels/half.h"
#include "kernels/ops.h"

void kernels_product_avx2(const struct kernels_product *product);
void kernels_product_int8_avx2(const struct kernels_product *product);
void kernels_quantize_avx2(int8_t *levels, struct kernels_quant_block *blocks, const float *x,
                           uint32_t columns);
void kernels_shorten_avx2(float *bfloats, const float *x, uint32_t columns);
void kernels_scores_avx2(const struct kernels_attention *attention);
void kernels_weigh_avx2(const struct kernels_attention *attention);
void kernels_halve_avx2(uint16_t *to, const float *from, uint32_t count);
float kernels_level_avx2(int8_t *to, const float *from, uint32_t count);
struct kernels_key_frame kernels_level_key_avx2(int16_t *to, const float *from, uint32_t count);
struct kernels_query_frame kernels_level_query_avx2(int16_t *to, const float *from, uint32_t count);
float kernels_exponentiate_avx2(float *values, uint32_t count, float scale);
void kernels_norm_avx2(float *y, const float *x, const float *weight, uint32_t dim, float epsilon);
void kernels_swiglu_avx2(float *gate, const float *up, uint32_t count);
bool kernels_is_finite_avx2(const float *values, uint32_t count);
uint32_t kernels_largest_avx2(const float *values, uint32_t count);
void kernels_copy_avx2(float *to, const float *from, uint64_t count);

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define NEVER_INLINE  static __attribute__((noinline))

/* Lane j + 4 to lane j, then j + 2, then j + 1. */
ALWAYS_INLINE float octet_sum(__m256 lanes)
{
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    sum = _mm_add_ss(sum, _mm_movehdup_ps(sum));
    return _mm_cvtss_f32(sum);
}

/* All ones in lane j where first + j < count. */
ALWAYS_INLINE __m256 octet_below(uint32_t first, uint32_t count)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i limit = _mm256_set1_epi32((int)(count - first));
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, lanes));
}

/* kernels_bfloat_of() in each lane, as integers. */
ALWAYS_INLINE __m256i octet_shortened(const float *x)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    const __m256i infinity = _mm256_set1_epi32(0x7f800000);
    const __m256i below_tiny = _mm256_set1_epi32((BFLOAT_NORMAL_MIN << 16) - 1);
    __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x));
    __m256i size = _mm256_and_si256(bits, magnitude);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(size, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(size, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    up = _mm256_and_si256(up, _mm256_cmpgt_epi32(size, below_tiny));
    up = _mm256_or_si256(_mm256_andnot_si256(magnitude, bits), up);
    __m256i is_nan = _mm256_cmpgt_epi32(size, infinity);
    return _mm256_blendv_epi8(_mm256_srli_epi32(up, 16), _mm256_set1_epi32(BFLOAT_NAN), is_nan);
}

/* kernels_exp() in each lane, the same operations in the same order. */
ALWAYS_INLINE __m256 octet_exp(__m256 x)
{
    x = _mm256_max_ps(_mm256_set1_ps(EXP_LOW), x);
    x = _mm256_min_ps(_mm256_set1_ps(EXP_HIGH), x);
    const __m256 round = _mm256_set1_ps(EXP_ROUND);
    __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(EXP_LOG2E), round);
    __m256 n = _mm256_sub_ps(shifted, round);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_A), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_B), r);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(EXP_C7), r, _mm256_set1_ps(EXP_C6));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i bits = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    bits = _mm256_add_epi32(bits, _mm256_set1_epi32(0x3f800000));
    return _mm256_mul_ps(p, _mm256_castsi256_ps(bits));
}

/* The largest value; reads whole octets. */
static inline float octets_max(const float *values, uint32_t count)
{
    const __m256 lowest = _mm256_set1_ps(-INFINITY);
    __m256 max = lowest;
    for (uint32_t i = 0; i < count; i += KERNELS_OCTET) {
        __m256 v = _mm256_blendv_ps(lowest, _mm256_loadu_ps(values + i), octet_below(i, count));
        max = _mm256_max_ps(max, v);
    }
    float lanes[KERNELS_OCTET];
    _mm256_storeu_ps(lanes, max);
    float best = lanes[0];
    for (uint32_t j = 1; j < KERNELS_OCTET; j++) {
        best = best > lanes[j] ? best : lanes[j];
    }
    return best;
}

/* Exponentiates whole octets of values, and adds them to sums in eight lanes. */
ALWAYS_INLINE __m256 octets_exponentiate(__m256 sums, float *values, uint32_t count, float max,
                                         float scale)
{
    for (uint32_t i = 0; i < count; i += KERNELS_OCTET) {
        __m256 v = _mm256_sub_ps(_mm256_loadu_ps(values + i), _mm256_set1_ps(max));
        v = octet_exp(_mm256_mul_ps(v, _mm256_set1_ps(scale)));
        v = _mm256_and_ps(v, octet_below(i, count));
        _mm256_storeu_ps(values + i, v);
        sums = _mm256_add_ps(sums, v);
    }
    return sums;
}
