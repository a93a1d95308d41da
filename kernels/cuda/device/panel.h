/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: weights that are levels, where they lie in a panel (kernels/weights/panel.h) and as halves,
 * which product.h defines. A part of a panel is 32 columns, in two steps of 16; a quad is four
 * columns of one output.
 *
 * Why halves, two at a time: a weight takes two and a half instructions. As floats it took four and
 * a half, so that a chip would have waited for them, and not for the memory.
 */
#include "kernels/cuda/device/number.h"
#include "kernels/weights/panel.h"

/* Pairs of equal halves. */
#define GPU_PAIR_ONE        0x3c003c00u
#define GPU_PAIR_SIXTEENTH  0x2c002c00u
#define GPU_PAIR_MINUS_ZERO 0x80008000u
#define GPU_PAIR_MINUS_1024 0xe400e400u
#define GPU_PAIR_MINUS_1152 0xe480e480u

/* The scale of a step, and minus its low. */
struct gpu_frame {
    uint32_t scale, low;
};

GPU_INLINE uint32_t gpu_half_of_row(const uint8_t *halves, uint32_t output)
{
    return ((const uint16_t *)(const void *)halves)[output];
}

GPU_INLINE uint32_t gpu_first_twice(uint32_t pair)
{
    return __byte_perm(pair, 0, 0x1010u);
}

/* Of a step of a part, for one output. `head` is that of the part's block. Bytes become halves
 * under the exponent of 2^10, whose last place is 1. */
GPU_INLINE struct gpu_frame gpu_frame_of(uint32_t type, const uint8_t *head, const uint8_t *part,
                                         uint32_t output, uint32_t step)
{
    struct gpu_frame frame = {0, GPU_PAIR_MINUS_ZERO};
    if (type == GPU_Q4_K) {
        uint32_t both = 0x64006400u | part[output] |
                        (uint32_t)part[KERNELS_PANEL_LANES + output] << 16;
        uint32_t by = gpu_half_of_row(head, output) |
                      gpu_half_of_row(head + KERNELS_SCALES_BYTES, output) << 16;
        both = gpu_pair_fma(both, GPU_PAIR_ONE, GPU_PAIR_MINUS_1024);
        both = gpu_pair_fma(both, by, GPU_PAIR_MINUS_ZERO);
        frame.scale = gpu_first_twice(both);
        frame.low = __byte_perm(both, 0, 0x3232u) ^ GPU_PAIR_MINUS_ZERO;
    } else if (type == GPU_Q6_K) {
        uint32_t scale = 0x6400u | (part[step * KERNELS_PANEL_LANES + output] ^ 0x80u);
        scale = gpu_pair_fma(scale, GPU_PAIR_ONE, GPU_PAIR_MINUS_1152);
        scale = gpu_pair_fma(scale, gpu_half_of_row(head, output), GPU_PAIR_MINUS_ZERO);
        frame.scale = gpu_first_twice(scale);
    } else {
        frame.scale = gpu_first_twice(gpu_half_of_row(part, output));
    }
    return frame;
}

/* Of Q4_0 and Q4_K the second step's levels stay where they lie, in the high halves of bytes. */
GPU_INLINE bool gpu_is_sixteenfold(uint32_t type, uint32_t step)
{
    return (type == GPU_Q4_0 || type == GPU_Q4_K) && step == 1;
}

/* The four bytes of quad `quad` (0 .. 3) of a step, the first column's in the lowest: levels plus a
 * bias, or sixteen times those. */
GPU_INLINE uint32_t gpu_quad_of(uint32_t type, const uint8_t *part, uint32_t output, uint32_t step,
                                uint32_t quad)
{
    const uint32_t *words = (const uint32_t *)(const void *)(part + KERNELS_SCALES_BYTES) + output;
    const uint32_t lanes = KERNELS_PANEL_LANES;
    if (type == GPU_Q8_0) {
        return words[(step * 4 + quad) * lanes] ^ 0x80808080u;
    }
    if (type == GPU_Q6_K) {
        uint32_t low = words[quad * lanes] >> step * 4 & 0x0f0f0f0fu;
        return low | (words[(4 + step) * lanes] >> quad * 2 & 0x03030303u) << 4;
    }
    return words[quad * lanes] & (step == 0 ? 0x0f0f0f0fu : 0xf0f0f0f0u);
}

/* What takes off the bias, and the 1024 (or a sixteenth) of the exponent. */
GPU_INLINE uint32_t gpu_bias_of(uint32_t type, bool is_sixteenfold)
{
    switch (type) {
    case GPU_Q8_0: return GPU_PAIR_MINUS_1152;
    case GPU_Q6_K: return 0xe420e420u;                                  /* -1056 */
    case GPU_Q4_0: return is_sixteenfold ? 0xd480d480u : 0xe408e408u;   /* -72, -1032 */
    default: return is_sixteenfold ? 0xd400d400u : GPU_PAIR_MINUS_1024; /* -64 */
    }
}

/* Weights 2 * index and 2 * index + 1 of a quad of a step. */
GPU_INLINE uint32_t gpu_weights_of(uint32_t type, uint32_t quad, uint32_t step, uint32_t index,
                                   struct gpu_frame frame)
{
    bool is_sixteenfold = gpu_is_sixteenfold(type, step);
    uint32_t levels = __byte_perm(quad, 0x64646464u, index == 0 ? 0x4140u : 0x4342u);
    levels = gpu_pair_fma(levels, is_sixteenfold ? GPU_PAIR_SIXTEENTH : GPU_PAIR_ONE,
                          gpu_bias_of(type, is_sixteenfold));
    return gpu_pair_fma(levels, frame.scale, frame.low);
}

/* One weight of panels. */
GPU_INLINE float gpu_panel_weight(const void *panels, uint32_t type, uint32_t columns,
                                  uint32_t output, uint32_t column)
{
    const struct gpu_panel panel = gpu_panel_of(type);
    uint32_t part = column / KERNELS_QUANT_COLUMNS, lane = output % KERNELS_PANEL_LANES;
    uint32_t step = column / 16 % 2;
    uint64_t before =
        (uint64_t)(output / KERNELS_PANEL_LANES) * (columns / KERNELS_QUANT_COLUMNS) + part;
    const uint8_t *head = (const uint8_t *)panels + before / panel.parts * panel.block;
    const uint8_t *at = head + panel.head + before % panel.parts * panel.part;
    uint32_t quad = gpu_quad_of(type, at, lane, step, column / 4 % 4);
    uint32_t pair = gpu_weights_of(type, quad, step, column / 2 % 2,
                                   gpu_frame_of(type, head, at, lane, step));
    return gpu_half_load((uint16_t)(pair >> column % 2 * 16));
}

/* One number of a matrix of any type. `stride`: from row to row; of panels, the columns. */
GPU_INLINE float gpu_weight(const void *matrix, uint32_t type, uint64_t stride, uint32_t row,
                            uint32_t column)
{
    return gpu_has_levels(type) ? gpu_panel_weight(matrix, type, (uint32_t)stride, row, column)
                                : gpu_load(matrix, type, row * stride + column);
}
