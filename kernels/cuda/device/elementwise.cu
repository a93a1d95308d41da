/* SPDX-License-Identifier: MIT */
/*
 * What: kernels without a sum: embeddings of the token slots, and SwiGLU of the feed-forward.
 */
#include "kernels/cuda/device/panel.h"
#include "kernels/exp.h"

/* A thread block for each slot. */
GPU_KERNEL(embed)
{
    const struct gpu_slot *slot = (const struct gpu_slot *)args.slots + blockIdx.x;
    float *x = (float *)args.x + blockIdx.x * args.x_stride;
    for (uint32_t i = threadIdx.x; i < args.dim; i += blockDim.x) {
        x[i] = slot->row == GPU_NONE
                   ? 0.0f
                   : gpu_weight((const void *)args.table, args.table_type, args.dim, slot->token,
                                i);
    }
}

/* A CUDA thread for each number. */
GPU_KERNEL(swiglu)
{
    uint64_t row = blockIdx.y;
    uint32_t column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column < args.columns) {
        float gate = ((const float *)args.gate)[row * args.gate_stride + column];
        float up = ((const float *)args.up)[row * args.up_stride + column];
        float value = gate / (1.0f + kernels_exp(-gate)) * up;
        gpu_store((void *)args.y, args.y_type, row * args.y_stride + column, value);
    }
}
