/* SPDX-License-Identifier: MIT */
/* What: products by weights that are halves. */
#include "kernels/cuda/device/product/tile.h"

GPU_KERNEL(product_few)
{
    if (gpu_step_has_ended(args.product.round)) {
        return;
    }
    if (args.product.type == GPU_BF16) {
        few_multiply(&args.product, GPU_BF16);
    } else {
        few_multiply(&args.product, GPU_F16);
    }
}

GPU_KERNEL(product_many)
{
    if (gpu_step_has_ended(args.product.round)) {
        return;
    }
    if (args.product.type == GPU_BF16) {
        many_multiply(&args.product, GPU_BF16);
    } else {
        many_multiply(&args.product, GPU_F16);
    }
}
