/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: AVX-512 in terms of AVX2, and other names for the kernels, so that every machine can test
 * them. The Makefile compiles kernels/cpu/…_avx512.c and …_avx512bf16.c a second time with this
 * header included first. SIMDe defines each intrinsic; those that Debian's version 0.7.4 lacks, or
 * defines otherwise, follow.
 *
 * Invariant: a fused multiply-add stays one (with FMA switched on, SIMDe takes that of AVX2).
 */
#ifdef __AVX512F__
#error "what is to be emulated is compiled for AVX-512"
#endif
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>

#define kernels_ops_avx512          kernels_ops_emulated
#define kernels_ops_avx512bf16      kernels_ops_emulated_bf16
#define kernels_product_avx512      kernels_product_emulated
#define kernels_product_int8_avx512 kernels_product_int8_emulated
#define kernels_product_avx512bf16  kernels_product_emulated_bf16
#define kernels_shorten_avx512bf16  kernels_shorten_emulated_bf16
#define kernels_scores_avx512       kernels_scores_emulated
#define kernels_weigh_avx512        kernels_weigh_emulated
#define kernels_exponentiate_avx512 kernels_exponentiate_emulated
#define kernels_swiglu_avx512       kernels_swiglu_emulated

static inline simde__m512 emulated_floats(simde__m256 low, simde__m256 high)
{
    simde__m512_private both;
    both.m256[0] = low;
    both.m256[1] = high;
    return simde__m512_from_private(both);
}

static inline simde__m512i emulated_integers(simde__m256i low, simde__m256i high)
{
    simde__m512i_private both;
    both.m256i[0] = low;
    both.m256i[1] = high;
    return simde__m512i_from_private(both);
}

static inline simde__m512 emulated_cvtph_ps(simde__m256i halves)
{
    return emulated_floats(simde_mm256_cvtph_ps(simde_mm256_extracti128_si256(halves, 0)),
                           simde_mm256_cvtph_ps(simde_mm256_extracti128_si256(halves, 1)));
}

static inline simde__m512 emulated_cvtepi32_ps(simde__m512i integers)
{
    simde__m512i_private both = simde__m512i_to_private(integers);
    return emulated_floats(simde_mm256_cvtepi32_ps(both.m256i[0]),
                           simde_mm256_cvtepi32_ps(both.m256i[1]));
}

static inline simde__m512i emulated_cvtepu8_epi32(simde__m128i bytes)
{
    return emulated_integers(simde_mm256_cvtepu8_epi32(bytes),
                             simde_mm256_cvtepu8_epi32(simde_mm_bsrli_si128(bytes, 8)));
}

static inline simde__m512i emulated_cvtepi8_epi32(simde__m128i bytes)
{
    return emulated_integers(simde_mm256_cvtepi8_epi32(bytes),
                             simde_mm256_cvtepi8_epi32(simde_mm_bsrli_si128(bytes, 8)));
}

static inline simde__m512i emulated_madd_epi16(simde__m512i a, simde__m512i b)
{
    simde__m512i_private x = simde__m512i_to_private(a), y = simde__m512i_to_private(b);
    return emulated_integers(simde_mm256_madd_epi16(x.m256i[0], y.m256i[0]),
                             simde_mm256_madd_epi16(x.m256i[1], y.m256i[1]));
}

static inline simde__m512i emulated_dpwssd_epi32(simde__m512i sums, simde__m512i a, simde__m512i b)
{
    return simde_mm512_add_epi32(sums, emulated_madd_epi16(a, b));
}

static inline simde__m512i emulated_cvtepu8_epi16(simde__m256i bytes)
{
    return emulated_integers(simde_mm256_cvtepu8_epi16(simde_mm256_extracti128_si256(bytes, 0)),
                             simde_mm256_cvtepu8_epi16(simde_mm256_extracti128_si256(bytes, 1)));
}

static inline simde__m512i emulated_mask_sub_epi16(simde__m512i otherwise, uint32_t mask,
                                                   simde__m512i a, simde__m512i b)
{
    simde__m512i_private to = simde__m512i_to_private(otherwise);
    simde__m512i_private x = simde__m512i_to_private(a), y = simde__m512i_to_private(b);
    for (uint32_t i = 0; i < 32; i++) {
        to.i16[i] = (int16_t)((mask >> i & 1) != 0 ? x.i16[i] - y.i16[i] : to.i16[i]);
    }
    return simde__m512i_from_private(to);
}

/* SIMDe's own, not inlined: otherwise its copies in the kernels take the compiler many minutes. */
static __attribute__((noinline)) simde__m512i emulated_dpbusd_epi32(
    simde__m512i sums, simde__m512i unsigned_bytes, simde__m512i signed_bytes)
{
    return simde_mm512_dpbusd_epi32(sums, unsigned_bytes, signed_bytes);
}

/* The odd products first, each sum rounded, subnormal numbers zeros: Intel's manual, VDPBF16PS. */
static __attribute__((noipa)) simde__m512 emulated_fma_flushed(simde__m512 sums, simde__m512 x,
                                                               simde__m512 weights)
{
    return simde_mm512_fmadd_ps(x, weights, sums);
}

static __attribute__((noinline)) simde__m512 emulated_dpbf16_ps(simde__m512 sums, simde__m512i x,
                                                                simde__m512i weights)
{
    const simde__m512i high = simde_mm512_set1_epi32((int)0xffff0000u);
    uint32_t mode = _mm_getcsr();
    _mm_setcsr(mode | 0x8040u);
    sums = emulated_fma_flushed(sums, simde_mm512_castsi512_ps(simde_mm512_and_si512(x, high)),
                                simde_mm512_castsi512_ps(simde_mm512_and_si512(weights, high)));
    sums = emulated_fma_flushed(sums, simde_mm512_castsi512_ps(simde_mm512_slli_epi32(x, 16)),
                                simde_mm512_castsi512_ps(simde_mm512_slli_epi32(weights, 16)));
    _mm_setcsr(mode);
    return sums;
}

#undef _mm512_dpbf16_ps
#undef __m512bh
#define _mm512_dpbf16_ps      emulated_dpbf16_ps
#define __m512bh              simde__m512i
#undef _mm512_dpbusd_epi32
#define _mm512_dpbusd_epi32   emulated_dpbusd_epi32
#undef _mm512_madd_epi16        /* of another arity in that version */
#define _mm512_madd_epi16     emulated_madd_epi16
#undef _mm512_dpwssd_epi32
#define _mm512_dpwssd_epi32   emulated_dpwssd_epi32
#undef _mm512_cvtepu8_epi16
#define _mm512_cvtepu8_epi16  emulated_cvtepu8_epi16
#undef _mm512_mask_sub_epi16
#define _mm512_mask_sub_epi16 emulated_mask_sub_epi16
#define _mm512_cvtph_ps       emulated_cvtph_ps
#define _mm512_cvtepi32_ps    emulated_cvtepi32_ps
#define _mm512_cvtepu8_epi32  emulated_cvtepu8_epi32
#define _mm512_cvtepi8_epi32  emulated_cvtepi8_epi32
