/* SPDX-License-Identifier: MIT */
/*
 * What: kernels without a sum: embeddings of the token slots, SwiGLU of the feed-forward, and Q8_0
 * weights dequantised.
 */
#include "kernels/cuda/device/number.h"
#include "kernels/exp.h"

/* A thread block for each slot. */
GPU_KERNEL(embed)
{
    const struct gpu_slot *slot = (const struct gpu_slot *)args.slots + blockIdx.x;
    float *x = (float *)args.x + blockIdx.x * args.x_stride;
    uint64_t first = (uint64_t)slot->token * args.dim;
    for (uint32_t i = threadIdx.x; i < args.dim; i += blockDim.x) {
        x[i] = slot->row == GPU_NONE
                   ? 0.0f
                   : gpu_load((const void *)args.table, args.table_type, first + i);
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

/* A CUDA thread for each weight. */
GPU_KERNEL(dequantize)
{
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < args.count) {
        gpu_store((void *)args.to, args.to_type, i, gpu_load((const void *)args.from, GPU_Q8_0, i));
    }
}
