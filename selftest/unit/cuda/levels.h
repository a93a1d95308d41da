/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the weights of a panel of levels as halves, as kernels/cuda/device/product.h defines them,
 * by what the CPU engine takes from the panel and by the compiler's halves.
 */
#include "kernels/weights/matrix.h"
#include "selftest/unit/kernels/tiny_model.h"

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
