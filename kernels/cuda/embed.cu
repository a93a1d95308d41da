/* SPDX-License-Identifier: MIT */
/* What: the embeddings of the feeds. A block has a feed. */
#include "kernels/cuda/number.h"

GPU_KERNEL(embed)
{
    const struct gpu_feed *feed = (const struct gpu_feed *)args.feeds + blockIdx.x;
    float *x = (float *)args.x + blockIdx.x * args.x_stride;
    uint64_t first = (uint64_t)feed->token * args.dim;
    for (uint32_t i = threadIdx.x; i < args.dim; i += blockDim.x) {
        x[i] = feed->row == GPU_NONE
                   ? 0.0f
                   : gpu_load((const void *)args.table, args.table_type, first + i);
    }
}
