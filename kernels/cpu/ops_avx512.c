/* SPDX-License-Identifier: MIT
 *
 * What: the table of the AVX-512 kernels. What is not a product is AVX2's: sums in eight lanes have
 * no use for sixteen (kernels/ops.h), and the others take little of a step.
 */
#include "kernels/cpu/avx512.h"

const struct kernels_ops kernels_ops_avx512 = {
    .product = kernels_product_avx512,
    .quantize = kernels_quantize_avx2,
    .scores = kernels_scores_avx2,
    .weigh = kernels_weigh_avx2,
    .halve = kernels_halve_avx2,
    .exponentiate = kernels_exponentiate_avx2,
    .norm = kernels_norm_avx2,
    .swiglu = kernels_swiglu_avx2,
    .is_finite = kernels_is_finite_avx2,
    .largest = kernels_largest_avx2,
    .copy = kernels_copy_avx2,
};
