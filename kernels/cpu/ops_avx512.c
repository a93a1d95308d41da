/* SPDX-License-Identifier: MIT
 *
 * What: the tables of the AVX-512 kernels, which differ in bfloats. What is neither
 * product nor attention is AVX2's: it takes little of a step, and a sum in eight lanes
 * (kernels/ops.h) has no use for sixteen.
 */
#include "kernels/cpu/avx512.h"

#define COMMON                                  \
    .quantize = kernels_quantize_avx2,          \
    .scores = kernels_scores_avx512,            \
    .weigh = kernels_weigh_avx512,              \
    .halve = kernels_halve_avx2,                \
    .exponentiate = kernels_exponentiate_avx2,  \
    .norm = kernels_norm_avx2,                  \
    .swiglu = kernels_swiglu_avx2,              \
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
