/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a vector of floats for code that is written once for all sets of kernels (attention_tile.h,
 * product_tile.h): eight lanes for AVX2, or sixteen for AVX-512 in a file that defines VECTOR_LANES
 * as 16 before it includes this.
 */
#include "kernels/cpu/avx2.h"

#ifndef VECTOR_LANES
#define VECTOR_LANES 8
#endif

#if VECTOR_LANES == 8

typedef __m256 vector;
typedef __m256i vector_bits;    /* as many words of 32 bits */

ALWAYS_INLINE vector vector_zero(void)
{
    return _mm256_setzero_ps();
}

ALWAYS_INLINE vector vector_all(const float *value)
{
    return _mm256_broadcast_ss(value);
}

ALWAYS_INLINE vector vector_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

ALWAYS_INLINE vector vector_load_halves(const uint16_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

ALWAYS_INLINE vector vector_load_levels(const int8_t *from)
{
    __m128i levels = _mm_loadl_epi64((const __m128i *)(const void *)from);
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(levels));
}

ALWAYS_INLINE vector vector_mul(vector a, vector b)
{
    return _mm256_mul_ps(a, b);
}

ALWAYS_INLINE void vector_store(float *to, vector v)
{
    _mm256_storeu_ps(to, v);
}

/* sum + a * b, rounded once. */
ALWAYS_INLINE vector vector_fma(vector a, vector b, vector sum)
{
    return _mm256_fmadd_ps(a, b, sum);
}

/* `from` is a multiple of the vector's size. */
ALWAYS_INLINE vector_bits vector_bits_load(const uint8_t *from)
{
    return _mm256_load_si256((const __m256i *)(const void *)from);
}

ALWAYS_INLINE vector_bits vector_bits_of(vector v)
{
    return _mm256_castps_si256(v);
}

ALWAYS_INLINE vector vector_of_bits(vector_bits bits)
{
    return _mm256_castsi256_ps(bits);
}

/* The bfloats in the high halves of words, and in the low ones. */
ALWAYS_INLINE vector vector_of_high(vector_bits bits)
{
    return vector_of_bits(_mm256_and_si256(bits, _mm256_set1_epi32((int)0xffff0000u)));
}

ALWAYS_INLINE vector vector_of_low(vector_bits bits)
{
    return vector_of_bits(_mm256_slli_epi32(bits, 16));
}

#else

typedef __m512 vector;
typedef __m512i vector_bits;    /* as many words of 32 bits */

ALWAYS_INLINE vector vector_zero(void)
{
    return _mm512_setzero_ps();
}

ALWAYS_INLINE vector vector_all(const float *value)
{
    return _mm512_set1_ps(*value);
}

ALWAYS_INLINE vector vector_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

ALWAYS_INLINE vector vector_load_halves(const uint16_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

ALWAYS_INLINE vector vector_load_levels(const int8_t *from)
{
    __m128i levels = _mm_loadu_si128((const __m128i *)(const void *)from);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(levels));
}

ALWAYS_INLINE vector vector_mul(vector a, vector b)
{
    return _mm512_mul_ps(a, b);
}

ALWAYS_INLINE void vector_store(float *to, vector v)
{
    _mm512_storeu_ps(to, v);
}

/* sum + a * b, rounded once. */
ALWAYS_INLINE vector vector_fma(vector a, vector b, vector sum)
{
    return _mm512_fmadd_ps(a, b, sum);
}

/* `from` is a multiple of the vector's size. */
ALWAYS_INLINE vector_bits vector_bits_load(const uint8_t *from)
{
    return _mm512_load_si512(from);
}

ALWAYS_INLINE vector_bits vector_bits_of(vector v)
{
    return _mm512_castps_si512(v);
}

ALWAYS_INLINE vector vector_of_bits(vector_bits bits)
{
    return _mm512_castsi512_ps(bits);
}

/* The bfloats in the high halves of words, and in the low ones. */
ALWAYS_INLINE vector vector_of_high(vector_bits bits)
{
    return vector_of_bits(_mm512_and_si512(bits, _mm512_set1_epi32((int)0xffff0000u)));
}

ALWAYS_INLINE vector vector_of_low(vector_bits bits)
{
    return vector_of_bits(_mm512_slli_epi32(bits, 16));
}

#endif
