/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the functions in the tables of the AVX-512 kernels. Only files compiled for AVX-512
 * (…_avx512.c, …_avx512bf16.c) include this. Tests compile those a second time for AVX2
 * (selftest/fake/avx512.h).
 */
#include "kernels/cpu/avx2.h"

void kernels_product_avx512(const struct kernels_product *product);
void kernels_product_int8_avx512(const struct kernels_product *product);
void kernels_product_avx512bf16(const struct kernels_product *product);
void kernels_shorten_avx512bf16(float *bfloats, const float *x, uint32_t columns);
void kernels_scores_avx512(const struct kernels_attention *attention);
void kernels_weigh_avx512(const struct kernels_attention *attention);
float kernels_exponentiate_avx512(float *values, uint32_t count, float scale);
void kernels_swiglu_avx512(float *gate, const float *up, uint32_t count);
