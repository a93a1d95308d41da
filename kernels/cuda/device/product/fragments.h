/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: from a chunk in shared memory to fragments in registers (mma.h): of sixteen outputs or
 * eight rows, a part of the chunk, which is 32 columns and two instructions.
 *
 * Levels become halves here. In a panel four columns of an output lie together, so that is what a
 * lane takes: for an instruction of 16 columns its numbers `pair`, `pair + 1`, `pair + 8` and `pair
 * + 9` are columns 4 * (lane % 4) and the next three. The rows lie in the same order.
 */
#include "kernels/cuda/device/panel.h"
#include "kernels/cuda/device/product/copy.h"

/* Sixteen outputs, for each instruction; eight rows, for both. */
struct outputs {
    uint32_t at[2][4];
};
struct inputs {
    uint32_t at[4];
};

/* ---- halves ---- */

GPU_INLINE void outputs_load_halves(struct outputs *to, unsigned char *tile, uint32_t first,
                                    uint32_t part, struct shape s)
{
    uint32_t lane = threadIdx.x % GPU_WARP;
    GPU_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        gpu_load_matrices(to->at[i], piece_at(tile, first + lane % 16,
                                              part * 4 + i * 2 + lane / 16, s));
    }
}

GPU_INLINE void inputs_load_halves(struct inputs *to, unsigned char *tile, uint32_t first,
                                   uint32_t part, struct shape s)
{
    uint32_t lane = threadIdx.x % GPU_WARP;
    gpu_load_matrices(to->at, piece_at(tile, first + lane % 8, part * 4 + lane / 8, s));
}

/* ---- levels ---- */

/* A part of a panel, and the head of its block. */
struct levels {
    const uint8_t *head, *at;
};

/* Of one output, numbers `at[0]` and `at[2]` of a fragment. */
GPU_INLINE void quad_widen(uint32_t *at, struct levels levels, uint32_t output, uint32_t step,
                           struct shape s)
{
    const struct gpu_frame frame = gpu_frame_of(s.type, levels.head, levels.at, output, step);
    uint32_t quad = gpu_quad_of(s.type, levels.at, output, step, threadIdx.x % 4);
    at[0] = gpu_weights_of(s.type, quad, step, 0, frame);
    at[2] = gpu_weights_of(s.type, quad, step, 1, frame);
}

/* Outputs `lane / 4` and eight more. Lanes of the upper quads read the banks of the lower ones; to
 * read them at another time would take more instructions than that costs. */
GPU_INLINE void outputs_load_levels(struct outputs *to, const unsigned char *block, uint32_t index,
                                    struct shape s)
{
    const struct gpu_panel panel = gpu_panel_of(s.type);
    const struct levels levels = {block, block + panel.head + index * panel.part};
    uint32_t output = threadIdx.x % GPU_WARP / 4;
    GPU_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        quad_widen(to->at[i], levels, output, i, s);
        quad_widen(to->at[i] + 1, levels, output + 8, i, s);
    }
}

/* Two words of a row, one after the other. */
struct GPU_ALIGNED(8) two_words {
    uint32_t at[2];
};

GPU_INLINE void inputs_load_beside_levels(struct inputs *to, unsigned char *tile, uint32_t first,
                                          uint32_t part, struct shape s)
{
    uint32_t lane = threadIdx.x % GPU_WARP, quad = lane % 4;
    GPU_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const unsigned char *piece = piece_at(tile, first + lane / 4, part * 4 + i * 2 + quad / 2,
                                              s);
        const struct two_words words =
            *(const struct two_words *)(const void *)(piece + quad % 2 * 8);
        to->at[i * 2] = words.at[0];
        to->at[i * 2 + 1] = words.at[1];
    }
}

/* ---- both ---- */

/* From output `first` of the tile on. */
GPU_INLINE void outputs_load(struct outputs *to, unsigned char *tile, uint32_t first, uint32_t part,
                             struct shape s)
{
    if (gpu_has_levels(s.type)) {
        uint64_t before = gpu_chunk_bytes(s.type, first);
        outputs_load_levels(to, tile + before, part, s);
    } else {
        outputs_load_halves(to, tile, first, part, s);
    }
}

GPU_INLINE void inputs_load(struct inputs *to, unsigned char *tile, uint32_t first, uint32_t part,
                            struct shape s)
{
    if (gpu_has_levels(s.type)) {
        inputs_load_beside_levels(to, tile, first, part, s);
    } else {
        inputs_load_halves(to, tile, first, part, s);
    }
}

GPU_INLINE void fragments_multiply(float *sums, const uint32_t *outputs, const uint32_t *inputs,
                                   struct shape s)
{
    if (s.type == GPU_BF16) {
        gpu_mma_bf16(sums, outputs, inputs);
    } else {
        gpu_mma_f16(sums, outputs, inputs);
    }
}
