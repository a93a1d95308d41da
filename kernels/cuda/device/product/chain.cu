/* SPDX-License-Identifier: MIT */
/*
 * What: the product by one chain: of floats where no library is used, and of types that differ. A
 * thread block for each tile of rows and outputs; each of its CUDA threads computes one whole sum.
 */
#include "kernels/cuda/device/panel.h"
#include "kernels/cuda/device/step.h"

#define STRIDE (GPU_PRODUCT_COLUMNS + 1)

struct matrix {
    const void *at;             /* type (rows, columns) */
    uint64_t stride;
    uint32_t type, rows, columns;
};

/* A tile of a matrix, from a row and a column on; zeros past its ends. */
GPU_INLINE void tile_load(float *tile, const struct matrix *m, uint32_t row_first,
                          uint32_t column_first)
{
    uint32_t numbers = GPU_PRODUCT_TILE * GPU_PRODUCT_COLUMNS;
    GPU_ROLLED
    for (uint32_t i = threadIdx.x; i < numbers; i += blockDim.x) {
        uint32_t row = row_first + i / GPU_PRODUCT_COLUMNS;
        uint32_t column = column_first + i % GPU_PRODUCT_COLUMNS;
        tile[i / GPU_PRODUCT_COLUMNS * STRIDE + i % GPU_PRODUCT_COLUMNS] =
            row < m->rows && column < m->columns
                ? gpu_weight(m->at, m->type, m->stride, row, column)
                : 0.0f;
    }
}

GPU_KERNEL(product)
{
    if (gpu_step_has_ended(args.round)) {
        return;
    }
    float *x = (float *)gpu_shared, *w = x + GPU_PRODUCT_TILE * STRIDE;
    const struct matrix x_all = {(const void *)args.x, args.x_stride, args.x_type, args.rows,
                                 args.columns};
    const struct matrix w_all = {(const void *)args.w, args.columns, args.w_type, args.outputs,
                                 args.columns};
    uint32_t row = threadIdx.x / GPU_PRODUCT_TILE, output = threadIdx.x % GPU_PRODUCT_TILE;
    uint32_t row_first = blockIdx.y * GPU_PRODUCT_TILE;
    uint32_t output_first = blockIdx.x * GPU_PRODUCT_TILE;
    float sum = 0.0f;
    for (uint32_t c = 0; c < args.columns; c += GPU_PRODUCT_COLUMNS) {
        tile_load(x, &x_all, row_first, c);
        tile_load(w, &w_all, output_first, c);
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
