/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: random levels in panels for the GPU, and the halves that they are, as
 * kernels/cuda/device/product.h defines them: by what the CPU engine takes from the panel, and by
 * the compiler's halves.
 */
#include "kernels/weights/matrix.h"
#include "selftest/unit/cuda/gpu_rig.h"
#include "selftest/unit/kernels/tiny_model.h"

static const enum gguf_type level_types[] = {GGUF_Q8_0, GGUF_Q4_0, GGUF_Q4_K, GGUF_Q6_K};
#define LEVEL_TYPES (sizeof level_types / sizeof *level_types)

static inline float panel_half(const struct kernels_matrix *matrix, uint32_t output,
                               uint32_t column)
{
    const uint8_t *panel =
        matrix->panels + output / KERNELS_PANEL_LANES * matrix->panel_bytes;
    uint32_t of_part = matrix->type == GGUF_Q6_K ? 16 : 32;
    struct kernels_part part;
    kernels_format(matrix->type)->part(panel, output % KERNELS_PANEL_LANES, column / of_part,
                                       &part);
    double scale = (double)(_Float16)part.scale, low = (double)(_Float16)part.low;
    return (float)(_Float16)(scale * part.levels[column % of_part] - low);
}

/* Random levels in panels, right to the last byte; the weights that they are go to `floats`. */
static inline void *panels_make(enum gguf_type type, uint32_t outputs, uint32_t columns,
                                float *floats)
{
    uint64_t count = (uint64_t)outputs * columns, state = rig_random(1u << 30);
    uint64_t file_bytes = outputs * gguf_row_bytes(type, columns);
    uint8_t *file = malloc(file_bytes);
    struct kernels_matrix matrix;
    assert_non_null(file);
    tiny_fill(file, type, count, (struct tiny_range){.scale = 1}, &state);
    uint64_t bytes = kernels_matrix_bytes(type, outputs, columns);
    uint8_t *panels = aligned_alloc(ARENA_ALIGN_BYTES, bytes);
    assert_non_null(panels);
    kernels_matrix_init(&matrix, type, outputs, columns, memset(panels, 0, bytes));
    assert_true(kernels_matrix_pack(&matrix, 0, file, file_bytes));
    for (uint64_t i = 0; i < count; i++) {
        floats[i] = panel_half(&matrix, (uint32_t)(i / columns), (uint32_t)(i % columns));
    }
    void *at = rig_copy(panels, matrix.panels_count * matrix.panel_bytes);
    free(panels);
    free(file);
    return at;
}
