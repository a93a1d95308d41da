/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what the kernels of the GPU share: types of numbers, a launch, and the form of a step and
 * its KV on the device.
 */
#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define GPU_BOTH __host__ __device__    /* for the kernel and the code that launches it */
#else
#define GPU_BOTH
#endif

#define GPU_NONE UINT32_MAX

/* Weights from Q8_0 on are levels, in panels (kernels/weights/panel.h). */
enum gpu_type { GPU_F32, GPU_F16, GPU_BF16, GPU_Q8_0, GPU_Q4_0, GPU_Q4_K, GPU_Q6_K };

static inline GPU_BOTH bool gpu_has_levels(uint32_t type)
{
    return type >= GPU_Q8_0;
}

struct gpu_launch {
    uint32_t grid[3], block[3];
    uint32_t shared_bytes;
};

static inline struct gpu_launch gpu_launch(uint32_t x, uint32_t y, uint32_t threads)
{
    struct gpu_launch launch = {{x, y, 1}, {threads, 1, 1}, 0};
    return launch;
}

static inline GPU_BOTH uint32_t gpu_smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline GPU_BOTH uint32_t gpu_ceil(uint32_t count, uint32_t of)
{
    return (count + of - 1) / of;
}

/* ---- a step on the device ---- */

/* A token slot: one token at one position of one row of the step; a row of the activations. */
struct gpu_slot {
    uint32_t token, position;
    uint32_t row;               /* GPU_NONE: an empty slot, whose activations are unused */
};

/* One of the rows that run at a time, or a token of its draft (config/base/step.h); and one row of
 * the logits. Places of drafts come after those of rows. */
struct gpu_place {
    uint32_t row;               /* of the step, or GPU_NONE: empty */
    uint32_t slot;              /* the slot whose logits are sampled, or GPU_NONE */
    uint32_t ahead;             /* tokens of the row's draft that are fed up to here; 0: the row's
                                   own place */
    uint32_t token;             /* that was sampled; GPU_NONE: a logit is not finite */
};

/* The KV of one layer. Position t of a row lies in KV block table[t / block_tokens]. */
struct gpu_kv {
    uint64_t blocks;            /* type (blocks, block_bytes) */
    uint64_t block_bytes;
    uint64_t tables;            /* uint32_t (rows of the step, tables_stride) */
    uint64_t tables_stride;
    uint32_t type;              /* F32, F16 or BF16 */
    uint32_t layer, kv_heads, head_dim, block_tokens;
};
