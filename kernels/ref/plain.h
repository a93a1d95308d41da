/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the functions in the table of the plain kernels (kernels/ops.h defines what each
 * computes). */
#include "kernels/ops.h"

void kernels_product_plain(const struct kernels_product *product);
void kernels_quantize_plain(int8_t *levels, struct kernels_quant_block *blocks, const float *x,
                            uint32_t columns);
void kernels_shorten_plain(float *bfloats, const float *x, uint32_t columns);
void kernels_scores_plain(const struct kernels_attention *attention);
void kernels_weigh_plain(const struct kernels_attention *attention);
void kernels_halve_plain(uint16_t *to, const float *from, uint32_t count);
float kernels_level_plain(int8_t *to, const float *from, uint32_t count);
struct kernels_key_frame kernels_level_key_plain(int16_t *to, const float *from, uint32_t count);
struct kernels_query_frame kernels_level_query_plain(int16_t *to, const float *from,
                                                     uint32_t count);
float kernels_exponentiate_plain(float *values, uint32_t count, float scale);
void kernels_norm_plain(float *y, const float *x, const float *weight, uint32_t dim, float epsilon);
void kernels_swiglu_plain(float *gate, const float *up, uint32_t count);
bool kernels_is_finite_plain(const float *values, uint32_t count);
uint32_t kernels_largest_plain(const float *values, uint32_t count);
void kernels_copy_plain(float *to, const float *from, uint64_t count);
