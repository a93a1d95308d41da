/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the formats of weights: from a quantisation block of columns in the file, of one output, to
 * its place in a panel (kernels/weights/panel.h). The table in format.c has a row for each format.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/model/gguf.h"
#include "kernels/weights/panel.h"

/* A part: columns of one output that share a scale. A weight is scale * level - low. */
struct kernels_part {
    float scale, low;           /* low is 0, except in Q4_K */
    uint32_t columns;           /* 32; in Q6_K 16 */
    int32_t levels[KERNELS_QUANT_COLUMNS];
};

struct kernels_format {
    uint32_t panel_columns;     /* of a block of a panel */
    uint32_t panel_bytes;       /* of such a block of sixteen outputs */
    /* Puts `blocks` quantisation blocks of one output into its lane of a panel, from block `first`
     * on. False: a weight or a scale is not finite. */
    bool (*pack)(uint8_t *panel, uint64_t first, uint32_t lane, const uint8_t *file,
                 uint64_t blocks);
    /* The weights of a lane as floats. NULL: they are integers, in parts. */
    void (*unpack)(const uint8_t *panel, uint32_t lane, float *weights, uint64_t columns);
    /* Part `index` of a lane, counted from the start of the panel. NULL: weights are floats. */
    void (*part)(const uint8_t *panel, uint32_t lane, uint32_t index, struct kernels_part *part);
};
const struct kernels_format *kernels_format(enum gguf_type type);

/* True when weights are integers, and so their products (kernels/ops.h). */
static inline bool kernels_has_levels(enum gguf_type type)
{
    return kernels_format(type)->part != NULL;
}

float kernels_half_to_float(uint16_t half);

/* Element `lane` of a row of sixteen halves, as it lies in a panel. */
static inline float kernels_half_at(const uint8_t *halves, uint32_t lane)
{
    return kernels_half_to_float((uint16_t)(halves[lane * 2] | halves[lane * 2 + 1] << 8));
}
