/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a float in sixteen bits, defined once for all twins: rounded to nearest, ties to even.
 *
 * As a half (IEEE binary16): numbers that no half can hold (65520 and more, infinities, NaN) become
 * the one NaN below, so that they are noticed. The largest half instead would be a wrong number,
 * and an infinity may vanish in a softmax. The conversion back is exact (kernels_half_to_float(),
 * format.h).
 *
 * As a bfloat, the high half of a float: a number that is too large becomes infinite, and one below
 * 2^-126 a zero of its sign, as in products of bfloats (ops.h).
 */
#include <stdint.h>
#include <string.h>

#ifndef KERNELS_DEVICE
#define KERNELS_DEVICE                  /* kernels/cuda/device/gpu.h: for the GPU */
#endif

#define HALF_NAN        0x7e00u
#define HALF_FINITE_MAX 0x7bffu         /* 65504 */
#define HALF_BIAS       0x38000000u     /* of the exponents, as bits of a float */
#define HALF_TOO_LARGE  0x477ff000u     /* 65520: halfway to the next power, and up by the tie */
#define HALF_NORMAL_MIN 0x38800000u     /* 2^-14 */

static inline KERNELS_DEVICE uint16_t kernels_half_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude >= HALF_TOO_LARGE) {
        return HALF_NAN;
    }
    if (magnitude >= HALF_NORMAL_MIN) {
        magnitude += 0xfffu + (magnitude >> 13 & 1u);
        return (uint16_t)(sign | (magnitude - HALF_BIAS) >> 13);
    }
    /* Subnormal: the last bit of a float just above 1/2 is 2^-24, and so is that of such a half. */
    float shifted;
    memcpy(&shifted, &magnitude, sizeof shifted);
    shifted += 0.5f;
    memcpy(&magnitude, &shifted, sizeof magnitude);
    return (uint16_t)(sign | (magnitude - 0x3f000000u));
}

/* The nearest float with a half's eleven significant bits, ties to even; it need not be in a half's
 * range. `value` is finite and far from the largest float. */
static inline KERNELS_DEVICE float kernels_half_rounded(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits += 0xfffu + (bits >> 13 & 1u);
    bits &= ~0x1fffu;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#define BFLOAT_NORMAL_MIN 0x0080u       /* 2^-126 */
#define BFLOAT_INFINITY   0x7f80u
#define BFLOAT_NAN        0x7fc0u

static inline uint16_t kernels_bfloat_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return BFLOAT_NAN;
    }
    if (magnitude < BFLOAT_NORMAL_MIN << 16) {
        return (uint16_t)sign;
    }
    magnitude += 0x7fffu + (magnitude >> 16 & 1u);
    return (uint16_t)(sign | magnitude >> 16);
}

static inline float kernels_float_of_bfloat(uint16_t bfloat)
{
    uint32_t bits = (uint32_t)bfloat << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
