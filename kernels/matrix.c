/* SPDX-License-Identifier: MIT
 *
 * What: packing of file bytes into panels, and the way back for one output.
 *
 * Bounds: a piece is packed in time linear in its bytes; stores go to lines 64 bytes apart, but the
 * sixteen file rows of a panel meet in one cache-sized extent. No memory but the panels.
 *
 * Why not two layouts (rows for the embedding, panels for the product): a token's embedding touches
 * one panel, 64 bytes a column, which is a thousandth of what the same token reads as weights; one
 * layout halves the memory of a tied vocabulary and leaves one thing to test.
 */
#include "kernels/matrix.h"

#include <string.h>

float kernels_half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 31u;
    uint32_t fraction = half & 1023u;
    uint32_t bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000u | fraction << 13;
    } else if (exponent != 0) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        /* Subnormal: the fraction counts units of 2^-24, exact in a float. */
        float value = (float)fraction * 0x1p-24f;
        memcpy(&bits, &value, sizeof bits);
        bits |= sign;
    }
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

static uint64_t panel_bytes(enum gguf_type type, uint32_t columns)
{
    switch (type) {
    case GGUF_F32:
        return (uint64_t)columns * KERNELS_PANEL_LANES * 4;
    case GGUF_F16:
        return (uint64_t)columns * KERNELS_PANEL_LANES * 2;
    case GGUF_Q8_0:
        return (uint64_t)(columns / KERNELS_Q8_COLUMNS) * KERNELS_Q8_PANEL_BYTES;
    }
    ASSERT(!"a type that the scan admits");
    return 0;
}

static uint32_t panels_ceil(uint32_t outputs)
{
    return kernels_lanes_ceil(outputs) / KERNELS_PANEL_LANES;
}

uint64_t kernels_matrix_bytes(enum gguf_type type, uint32_t outputs, uint32_t columns)
{
    uint64_t bytes = panels_ceil(outputs) * panel_bytes(type, columns);
    return (bytes + ARENA_ALIGN_BYTES - 1) / ARENA_ALIGN_BYTES * ARENA_ALIGN_BYTES;
}

void kernels_matrix_init(struct kernels_matrix *matrix, enum gguf_type type, uint32_t outputs,
                         uint32_t columns, void *panels)
{
    ASSERT(outputs > 0 && columns > 0);
    ASSERT(type != GGUF_Q8_0 || columns % KERNELS_Q8_COLUMNS == 0);
    ASSERT((uintptr_t)panels % ARENA_ALIGN_BYTES == 0);
    *matrix = (struct kernels_matrix){
        .type = type,
        .outputs = outputs,
        .columns = columns,
        .panels_count = panels_ceil(outputs),
        .panel_bytes = panel_bytes(type, columns),
        .panels = panels,
    };
}

/* Walks a piece element by element: where in the panels does the next one go? */
struct cursor {
    uint32_t output, column;
};

static void cursor_advance(struct cursor *at, const struct kernels_matrix *matrix, uint32_t columns)
{
    at->column += columns;
    if (at->column == matrix->columns) {
        at->column = 0;
        at->output++;
    }
}

static uint8_t *panel_of(const struct kernels_matrix *matrix, uint32_t output)
{
    return matrix->panels + output / KERNELS_PANEL_LANES * matrix->panel_bytes;
}

static bool pack_f32(struct kernels_matrix *matrix, struct cursor at, const uint8_t *piece,
                     uint64_t count)
{
    uint32_t worst = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, piece + i * 4, sizeof bits);
        uint32_t magnitude = bits & 0x7fffffffu;
        worst = magnitude > worst ? magnitude : worst;
        uint32_t *panel = (uint32_t *)(void *)panel_of(matrix, at.output);
        panel[(uint64_t)at.column * KERNELS_PANEL_LANES + at.output % KERNELS_PANEL_LANES] = bits;
        cursor_advance(&at, matrix, 1);
    }
    return worst < 0x7f800000u;
}

static bool pack_f16(struct kernels_matrix *matrix, struct cursor at, const uint8_t *piece,
                     uint64_t count)
{
    uint32_t worst = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, piece + i * 2, sizeof half);
        uint32_t magnitude = half & 0x7fffu;
        worst = magnitude > worst ? magnitude : worst;
        uint16_t *panel = (uint16_t *)(void *)panel_of(matrix, at.output);
        panel[(uint64_t)at.column * KERNELS_PANEL_LANES + at.output % KERNELS_PANEL_LANES] = half;
        cursor_advance(&at, matrix, 1);
    }
    return worst < 0x7c00u;
}

static bool pack_q8(struct kernels_matrix *matrix, struct cursor at, const uint8_t *piece,
                    uint64_t count)
{
    bool finite = true;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *block = piece + i * KERNELS_Q8_FILE_BYTES;
        uint32_t lane = at.output % KERNELS_PANEL_LANES;
        uint8_t *packed = panel_of(matrix, at.output) +
                          (uint64_t)(at.column / KERNELS_Q8_COLUMNS) * KERNELS_Q8_PANEL_BYTES;
        finite = finite && ((block[1] & 0x7cu) != 0x7cu);
        memcpy(packed + lane * 2, block, 2);
        packed += KERNELS_PANEL_LANES * 2;
        for (uint32_t k = 0; k < KERNELS_Q8_COLUMNS; k++) {
            packed[k * KERNELS_PANEL_LANES + lane] = block[2 + k];
        }
        cursor_advance(&at, matrix, KERNELS_Q8_COLUMNS);
    }
    return finite;
}

bool kernels_matrix_pack(struct kernels_matrix *matrix, uint64_t offset, const uint8_t *piece,
                         uint64_t bytes)
{
    uint32_t unit_bytes = matrix->type == GGUF_F32 ? 4 : matrix->type == GGUF_F16 ? 2 :
                          KERNELS_Q8_FILE_BYTES;
    uint32_t unit_columns = matrix->type == GGUF_Q8_0 ? KERNELS_Q8_COLUMNS : 1;
    ASSERT(offset % unit_bytes == 0 && bytes % unit_bytes == 0);
    uint64_t first = offset / unit_bytes * unit_columns;
    uint64_t count = bytes / unit_bytes;
    ASSERT(first + count * unit_columns <= (uint64_t)matrix->outputs * matrix->columns);
    struct cursor at = {
        .output = (uint32_t)(first / matrix->columns),
        .column = (uint32_t)(first % matrix->columns),
    };
    if (matrix->type == GGUF_F32) {
        return pack_f32(matrix, at, piece, count);
    }
    if (matrix->type == GGUF_F16) {
        return pack_f16(matrix, at, piece, count);
    }
    return pack_q8(matrix, at, piece, count);
}

void kernels_matrix_row(const struct kernels_matrix *matrix, uint32_t output, float *row)
{
    ASSERT(output < matrix->outputs);
    const uint8_t *panel = panel_of(matrix, output);
    uint32_t lane = output % KERNELS_PANEL_LANES;
    for (uint32_t k = 0; k < matrix->columns; k++) {
        uint64_t at = (uint64_t)k * KERNELS_PANEL_LANES + lane;
        if (matrix->type == GGUF_F32) {
            row[k] = ((const float *)(const void *)panel)[at];
        } else if (matrix->type == GGUF_F16) {
            row[k] = kernels_half_to_float(((const uint16_t *)(const void *)panel)[at]);
        } else {
            const uint8_t *block =
                panel + (uint64_t)(k / KERNELS_Q8_COLUMNS) * KERNELS_Q8_PANEL_BYTES;
            const uint16_t *scales = (const uint16_t *)(const void *)block;
            const int8_t *values = (const int8_t *)block + KERNELS_PANEL_LANES * 2;
            row[k] = kernels_half_to_float(scales[lane]) *
                     (float)values[k % KERNELS_Q8_COLUMNS * KERNELS_PANEL_LANES + lane];
        }
    }
}
