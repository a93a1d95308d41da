/* SPDX-License-Identifier: MIT */
/* What: products by weights that are levels. */
#include "kernels/cuda/device/product/tile.h"

GPU_KERNEL(product_few_levels)
{
    if (gpu_step_has_ended(args.product.round)) {
        return;
    }
    switch (args.product.type) {
    case GPU_Q8_0: few_multiply(&args.product, GPU_Q8_0); break;
    case GPU_Q4_0: few_multiply(&args.product, GPU_Q4_0); break;
    case GPU_Q4_K: few_multiply(&args.product, GPU_Q4_K); break;
    default: few_multiply(&args.product, GPU_Q6_K); break;
    }
}

GPU_KERNEL(product_many_levels)
{
    if (gpu_step_has_ended(args.product.round)) {
        return;
    }
    switch (args.product.type) {
    case GPU_Q8_0: many_multiply(&args.product, GPU_Q8_0); break;
    case GPU_Q4_0: many_multiply(&args.product, GPU_Q4_0); break;
    case GPU_Q4_K: many_multiply(&args.product, GPU_Q4_K); break;
    default: many_multiply(&args.product, GPU_Q6_K); break;
    }
}
