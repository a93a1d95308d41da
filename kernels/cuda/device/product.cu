/* SPDX-License-Identifier: MIT */
/*
 * What: the product where no library is used: small matrices, and the soft GPU. A block has a tile
 * of rows and outputs, a thread has one number of it and its whole sum.
 */
#include "kernels/cuda/device/number.h"

#define STRIDE (GPU_PRODUCT_COLUMNS + 1)

/* Columns first .. first + GPU_PRODUCT_COLUMNS - 1 of a tile of a matrix; zeros behind its ends. */
GPU_INLINE void tile_load(float *tile, const void *from, uint32_t type, uint64_t stride,
                          const uint32_t size[2], const uint32_t first[2])
{
    uint32_t numbers = GPU_PRODUCT_TILE * GPU_PRODUCT_COLUMNS;
    for (uint32_t i = threadIdx.x; i < numbers; i += blockDim.x) {
        uint32_t row = first[0] + i / GPU_PRODUCT_COLUMNS;
        uint32_t column = first[1] + i % GPU_PRODUCT_COLUMNS;
        tile[i / GPU_PRODUCT_COLUMNS * STRIDE + i % GPU_PRODUCT_COLUMNS] =
            row < size[0] && column < size[1] ? gpu_load(from, type, row * stride + column) : 0.0f;
    }
}

GPU_KERNEL(product)
{
    float *x = (float *)gpu_shared, *w = x + GPU_PRODUCT_TILE * STRIDE;
    const uint32_t x_size[2] = {args.rows, args.columns}, w_size[2] = {args.outputs, args.columns};
    uint32_t row = threadIdx.x / GPU_PRODUCT_TILE, output = threadIdx.x % GPU_PRODUCT_TILE;
    uint32_t row_first = blockIdx.y * GPU_PRODUCT_TILE;
    uint32_t output_first = blockIdx.x * GPU_PRODUCT_TILE;
    float sum = 0.0f;
    for (uint32_t c = 0; c < args.columns; c += GPU_PRODUCT_COLUMNS) {
        const uint32_t x_first[2] = {row_first, c}, w_first[2] = {output_first, c};
        tile_load(x, (const void *)args.x, args.x_type, args.x_stride, x_size, x_first);
        tile_load(w, (const void *)args.w, args.w_type, args.columns, w_size, w_first);
        __syncthreads();
        uint32_t count = gpu_smaller(args.columns - c, GPU_PRODUCT_COLUMNS);
        for (uint32_t i = 0; i < count; i++) {
            sum = fmaf(x[row * STRIDE + i], w[output * STRIDE + i], sum);
        }
        __syncthreads();
    }
    if (row_first + row < args.rows && output_first + output < args.outputs) {
        ((float *)args.y)[(row_first + row) * args.y_stride + output_first + output] = sum;
    }
}
