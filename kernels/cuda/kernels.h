/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the kernels of the GPU: what each takes, what it does to the bit, and how it is launched.
 * Plain C, for the kernels (nvcc), their tests and who launches them.
 *
 *   arguments   one struct a kernel, by value: device addresses as uint64_t, sizes, units in the
 *               names. `(a, b)` behind an address is a matrix of a rows, whose stride counts
 *               elements. Activations are F32 but for what products read (`_type`)
 *   launch      gpu_NAME_launch() of the arguments: grid, block and shared bytes. Beyond 48 KiB
 *               shared memory must be asked for (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
 *   trust       arguments and lists are the engine's, which has checked them: ids, positions and
 *               tokens are in range
 *
 * Promise: a row's numbers depend on its own call and the model only. Sums have one order, which
 * the comment of the kernel states; it knows of no other row, no grid, no SM. So decode, prefill in
 * chunks of any size and a recompute give the same bits. No sum uses atomics but those of integers.
 *
 * KV is block-major: [block][layer][K|V][kv_head][token][head_dim], keys and values alike, without
 * padding; from one block to the next it is block_bytes, a multiple of 16.
 */
#include <stdbool.h>
#include <stdint.h>

#define GPU_NONE UINT32_MAX

enum gpu_type { GPU_F32, GPU_F16, GPU_BF16, GPU_Q8_0 };     /* Q8_0: weights only */
#define GPU_Q8_0_COLUMNS 32u
#define GPU_Q8_0_BYTES   34u

struct gpu_launch {
    uint32_t grid[3], block[3];
    uint32_t shared_bytes;
};

static inline struct gpu_launch gpu_launch(uint32_t x, uint32_t y, uint32_t threads)
{
    struct gpu_launch launch = {{x, y, 1}, {threads, 1, 1}, 0};
    return launch;
}

/* ---- what a step is on the device ---- */

/* One token at one position of one row of the step: a row of the activations. */
struct gpu_feed {
    uint32_t token, position;
    uint32_t row;               /* GPU_NONE: none; its activations are nobody's */
};

/* One of the rows that run at a time, and of the logits. */
struct gpu_place {
    uint32_t row;               /* of the step, or GPU_NONE: empty */
    uint32_t feed;              /* whose logits are sampled, or GPU_NONE */
};

/* ---- norm ---- */

/* Row r: x += add where there is one; y = (x * inverse) * weight, inverse = 1 / sqrt(sum / dim +
 * epsilon). The sum of squares: thread i % 256, i ascending, by fmaf; then gpu_block_sum(). With
 * `places`, row r of y is of the x and add of the feed that place r samples; if none, it stays. */
struct gpu_rms_norm {
    uint64_t x;                 /* float (feeds, dim); the residual */
    uint64_t add;               /* float (feeds, dim), or 0 */
    uint64_t weight;            /* float (dim) */
    uint64_t places;            /* struct gpu_place (rows), or 0: row r is of x r */
    uint64_t y;                 /* y_type (rows, dim) */
    uint64_t x_stride, add_stride, y_stride;
    uint32_t rows, dim, y_type;
    float epsilon;
};
static inline struct gpu_launch gpu_rms_norm_launch(const struct gpu_rms_norm *args)
{
    struct gpu_launch launch = gpu_launch(args->rows, 1, 256);
    launch.shared_bytes = 8 * sizeof(float);
    return launch;
}
