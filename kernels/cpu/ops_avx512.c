/* SPDX-License-Identifier: MIT
 *
 * What: the table of the AVX-512 kernels. What is neither product nor attention is AVX2's: it takes
 * little of a step, and a sum in eight lanes (kernels/ops.h) has no use for sixteen.
 */
#include "kernels/cpu/avx512.h"

const struct kernels_ops kernels_ops_avx512 = {
    .product = kernels_product_avx512,
    .quantize = kernels_quantize_avx2,
    .scores = kernels_scores_avx512,
    .weigh = kernels_weigh_avx512,
    .halve = kernels_halve_avx2,
    .exponentiate = kernels_exponentiate_avx2,
    .norm = kernels_norm_avx2,
    .swiglu = kernels_swiglu_avx2,
    .is_finite = kernels_is_finite_avx2,
    .largest = kernels_largest_avx2,
    .copy = kernels_copy_avx2,
};
