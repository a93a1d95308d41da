/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the exponential of softmax and SwiGLU, defined once for all twins. The expf of libm differs
 * between CPUs and has no vector form; this one is the same chain of operations in every lane.
 *
 *   exp(x) = 2^n * e^r,   n = round(x / ln 2),   r = x - n ln 2 in [-0.347, 0.347]
 *
 * e^r is Taylor's polynomial of degree 7: the first term left out is below 6e-9, a tenth of a
 * rounding. x is clamped so that 2^n stays a normal number: the result is at least 1.2e-38 and
 * never infinite. A NaN stays a NaN: the clamps compare so that it passes them.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef KERNELS_DEVICE
#define KERNELS_DEVICE                  /* kernels/cuda/device/gpu.h: for the GPU */
#endif

#define EXP_LOW     -87.3f
#define EXP_HIGH    88.3f
#define EXP_LOG2E   0x1.715476p+0f
#define EXP_ROUND   0x1.8p+23f          /* adding it leaves the nearest integer in the low bits */
#define EXP_LN2_A   0x1.62e430p-1f      /* ln 2 as a sum of two floats */
#define EXP_LN2_B   -0x1.05c610p-29f
#define EXP_C7      (1.0f / 5040)
#define EXP_C6      (1.0f / 720)
#define EXP_C5      (1.0f / 120)
#define EXP_C4      (1.0f / 24)
#define EXP_C3      (1.0f / 6)
#define EXP_C2      (1.0f / 2)

static inline KERNELS_DEVICE float kernels_exp(float x)
{
    x = EXP_LOW > x ? EXP_LOW : x;
    x = EXP_HIGH < x ? EXP_HIGH : x;
    float shifted = fmaf(x, EXP_LOG2E, EXP_ROUND);
    float n = shifted - EXP_ROUND;
    float r = fmaf(n, -EXP_LN2_A, x);
    r = fmaf(n, -EXP_LN2_B, r);
    float p = fmaf(EXP_C7, r, EXP_C6);
    p = fmaf(p, r, EXP_C5);
    p = fmaf(p, r, EXP_C4);
    p = fmaf(p, r, EXP_C3);
    p = fmaf(p, r, EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000u;  /* 2^n */
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}
