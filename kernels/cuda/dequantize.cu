/* SPDX-License-Identifier: MIT */
/* What: weights of Q8_0 as floats, halves or bfloats. A thread has a weight. */
#include "kernels/cuda/number.h"

GPU_KERNEL(dequantize)
{
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < args.count) {
        gpu_store((void *)args.to, args.to_type, i, gpu_load((const void *)args.from, GPU_Q8_0, i));
    }
}
