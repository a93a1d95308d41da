/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: numbers as they lie in device memory, by type (enum gpu_type). Loads are exact; stores
 * round to nearest, ties to even. What no half can hold becomes the one NaN of kernels/half.h.
 */
#include "kernels/cuda/device/gpu.h"
#include "kernels/cuda/device/kernels.h"
#include "kernels/half.h"

GPU_INLINE float gpu_float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

GPU_INLINE uint32_t gpu_bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A GPU has an instruction for it. Else: shifts the exponent to its place, where it is 2^112 too
 * small, as subnormals are. */
GPU_INLINE float gpu_half_load(uint16_t half)
{
#ifdef __CUDACC__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
#else
    uint32_t magnitude = (half & 0x7fffu) << 13;
    float value = gpu_float_of(magnitude) * 0x1p112f;
    if (magnitude >= 0x7c00u << 13) {
        value = gpu_float_of(magnitude | 0x7f800000u);
    }
    return (half & 0x8000u) != 0 ? -value : value;
#endif
}

GPU_INLINE uint16_t gpu_bfloat_of(float value)
{
    uint32_t bits = gpu_bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return 0x7fc0u;
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Two halves in a word, the first in its low half: a * b + c, rounded once; what is too large
 * becomes infinite. The twin rounds to an odd float before, which keeps apart what lies on the two
 * sides of a tie. */
#ifdef __CUDACC__
GPU_INLINE uint32_t gpu_pair_fma(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
#else
GPU_INLINE uint32_t gpu_half_fma(uint32_t a, uint32_t b, uint32_t c)
{
    double exact = (double)gpu_half_load((uint16_t)a) * (double)gpu_half_load((uint16_t)b) +
                   (double)gpu_half_load((uint16_t)c);
    float value = (float)exact;
    if ((double)value != exact && isfinite(value)) {
        uint32_t bits = gpu_bits_of(value) - (fabs((double)value) > fabs(exact));
        value = gpu_float_of(bits | 1u);
    }
    if (fabsf(value) >= 65520.0f) {
        return (gpu_bits_of(value) >> 16 & 0x8000u) | 0x7c00u;
    }
    return kernels_half_of(value);
}

GPU_INLINE uint32_t gpu_pair_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return gpu_half_fma(a, b, c) | gpu_half_fma(a >> 16, b >> 16, c >> 16) << 16;
}
#endif

/* From F32, F16 or BF16. */
GPU_INLINE float gpu_load(const void *from, uint32_t type, uint64_t index)
{
    switch (type) {
    case GPU_F16:
        return gpu_half_load(((const uint16_t *)from)[index]);
    case GPU_BF16:
        return gpu_float_of((uint32_t)((const uint16_t *)from)[index] << 16);
    default:
        return ((const float *)from)[index];
    }
}

/* To F32, F16 or BF16. */
GPU_INLINE void gpu_store(void *to, uint32_t type, uint64_t index, float value)
{
    switch (type) {
    case GPU_F16:
        ((uint16_t *)to)[index] = kernels_half_of(value);
        break;
    case GPU_BF16:
        ((uint16_t *)to)[index] = gpu_bfloat_of(value);
        break;
    default:
        ((float *)to)[index] = value;
    }
}
