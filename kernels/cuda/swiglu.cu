/* SPDX-License-Identifier: MIT */
/* What: the gate of the feed-forward. A thread has a number. */
#include "kernels/cuda/number.h"
#include "kernels/exp.h"

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
