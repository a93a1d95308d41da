/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a vector of floats as code sees it that is written once for all sets of kernels
 * (attention_tile.h): of eight, AVX2's; or of sixteen, AVX-512's, in a file that has defined
 * VECTOR_LANES so before it includes this.
 */
#include "kernels/cpu/avx2.h"

#ifndef VECTOR_LANES
#define VECTOR_LANES 8
#endif

#if VECTOR_LANES == 8

typedef __m256 vector;

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

ALWAYS_INLINE void vector_store(float *to, vector v)
{
    _mm256_storeu_ps(to, v);
}

/* sum + a * b, rounded once. */
ALWAYS_INLINE vector vector_fma(vector a, vector b, vector sum)
{
    return _mm256_fmadd_ps(a, b, sum);
}

#else

typedef __m512 vector;

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

ALWAYS_INLINE void vector_store(float *to, vector v)
{
    _mm512_storeu_ps(to, v);
}

/* sum + a * b, rounded once. */
ALWAYS_INLINE vector vector_fma(vector a, vector b, vector sum)
{
    return _mm512_fmadd_ps(a, b, sum);
}

#endif
