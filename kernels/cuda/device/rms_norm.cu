/* SPDX-License-Identifier: MIT */
/*
 * What: adds the output of a product to the residual, and normalizes it for the next product. A
 * thread block for each row.
 */
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device/number.h"

/* Adds to the residual, unless `add` is NULL; returns this CUDA thread's share of the sum of
 * squares. */
GPU_INLINE float row_grow(float *x, const float *add, uint32_t dim)
{
    float sum = 0.0f;
    for (uint32_t i = threadIdx.x; i < dim; i += blockDim.x) {
        if (add != NULL) {
            x[i] += add[i];
        }
        sum = fmaf(x[i], x[i], sum);
    }
    return sum;
}

GPU_KERNEL(rms_norm)
{
    uint64_t to = blockIdx.x, from = to;
    if (args.places != 0) {
        const struct gpu_place *place = (const struct gpu_place *)args.places + to;
        if (place->slot == GPU_NONE) {
            return;
        }
        from = place->slot;
    }
    float *x = (float *)args.x + from * args.x_stride;
    const float *add = args.add == 0 ? NULL : (const float *)args.add + from * args.add_stride;
    const float *weight = (const float *)args.weight;
    float sum = gpu_thread_block_sum(row_grow(x, add, args.dim), (float *)gpu_shared);
    float inverse = 1.0f / sqrtf(sum / (float)args.dim + args.epsilon);
    for (uint32_t i = threadIdx.x; i < args.dim; i += blockDim.x) {
        gpu_store((void *)args.y, args.y_type, to * args.y_stride + i, x[i] * inverse * weight[i]);
    }
}
