/* SPDX-License-Identifier: MIT
 *
 * What: packs file bytes into panels, and unpacks one output.
 *
 * Why not two layouts (rows for the embedding, panels for the product): a token's embedding reads
 * one panel, at most 64 bytes a column, which is a thousandth of the weights that the token reads.
 * One layout halves the memory of a tied vocabulary and leaves one thing to test.
 */
#include "kernels/weights/matrix.h"

#include <string.h>

#include "kernels/half.h"

#define ROUNDED_TOGETHER 256u

uint64_t kernels_columns_bytes(enum gguf_type type, uint32_t columns)
{
    const struct kernels_format *format = kernels_format(type);
    uint64_t blocks = (columns + format->panel_columns - 1) / format->panel_columns;
    return blocks * format->panel_bytes;
}

static uint32_t panels_ceil(uint32_t outputs)
{
    return kernels_lanes_ceil(outputs) / KERNELS_PANEL_LANES;
}

uint64_t kernels_matrix_bytes(enum gguf_type type, uint32_t outputs, uint32_t columns)
{
    uint64_t bytes = panels_ceil(outputs) * kernels_columns_bytes(type, columns);
    return (bytes + ARENA_ALIGN_BYTES - 1) / ARENA_ALIGN_BYTES * ARENA_ALIGN_BYTES;
}

void kernels_matrix_init(struct kernels_matrix *matrix, enum gguf_type type, uint32_t outputs,
                         uint32_t columns, void *panels)
{
    ASSERT(outputs > 0 && columns > 0);
    ASSERT(columns % gguf_type_block(type).values == 0);
    ASSERT((uintptr_t)panels % ARENA_ALIGN_BYTES == 0);
    *matrix = (struct kernels_matrix){
        .type = type,
        .file_type = type,
        .outputs = outputs,
        .columns = columns,
        .panels_count = panels_ceil(outputs),
        .panel_bytes = kernels_columns_bytes(type, columns),
        .panels = panels,
    };
}

static uint8_t *panel_of(const struct kernels_matrix *matrix, uint32_t output)
{
    return matrix->panels + output / KERNELS_PANEL_LANES * matrix->panel_bytes;
}

/* Puts floats or halves of the file into a panel of bfloats. */
static bool pack_rounded(struct kernels_matrix *matrix, uint32_t output, uint64_t first,
                         const uint8_t *file, uint64_t count)
{
    const struct kernels_format *format = kernels_format(matrix->type);
    enum gguf_type from = matrix->file_type;
    uint8_t *panel = panel_of(matrix, output);
    bool finite = true;
    uint16_t bfloats[ROUNDED_TOGETHER];
    ASSERT(matrix->type == GGUF_BF16);
    for (uint64_t done = 0, now; done < count; done += now) {
        now = count - done < ROUNDED_TOGETHER ? count - done : ROUNDED_TOGETHER;
        for (uint64_t i = 0; i < now; i++, file += gguf_type_block(from).bytes) {
            float value;
            if (from == GGUF_F16) {
                value = kernels_half_at(file, 0);
            } else {
                memcpy(&value, file, sizeof value);
            }
            bfloats[i] = kernels_bfloat_of(value);
        }
        finite = format->pack(panel, first + done, output % KERNELS_PANEL_LANES,
                              (const uint8_t *)bfloats, now) && finite;
    }
    return finite;
}

static bool pack_blocks(struct kernels_matrix *matrix, uint32_t output, uint64_t first,
                        const uint8_t *file, uint64_t blocks)
{
    if (matrix->file_type != matrix->type) {
        return pack_rounded(matrix, output, first, file, blocks);
    }
    const struct kernels_format *format = kernels_format(matrix->type);
    return format->pack(panel_of(matrix, output), first, output % KERNELS_PANEL_LANES, file,
                        blocks);
}

bool kernels_matrix_pack(struct kernels_matrix *matrix, uint64_t offset, const uint8_t *piece,
                         uint64_t bytes)
{
    const struct gguf_block block = gguf_type_block(matrix->file_type);
    ASSERT(offset % block.bytes == 0 && bytes % block.bytes == 0);
    uint64_t row_blocks = matrix->columns / block.values;
    uint64_t at = offset / block.bytes, end = at + bytes / block.bytes;
    ASSERT(end <= matrix->outputs * row_blocks);
    bool finite = true;
    for (uint64_t blocks = 0; at < end; at += blocks) {
        uint32_t output = (uint32_t)(at / row_blocks);
        uint64_t left = row_blocks - at % row_blocks;
        blocks = end - at < left ? end - at : left;
        finite = pack_blocks(matrix, output, at % row_blocks, piece, blocks) && finite;
        piece += blocks * block.bytes;
    }
    return finite;
}

void kernels_matrix_row(const struct kernels_matrix *matrix, uint32_t output, float *row)
{
    const struct kernels_format *format = kernels_format(matrix->type);
    const uint8_t *panel = panel_of(matrix, output);
    uint32_t lane = output % KERNELS_PANEL_LANES;
    ASSERT(output < matrix->outputs);
    if (!kernels_has_levels(matrix->type)) {
        format->unpack(panel, lane, row, matrix->columns);
        return;
    }
    struct kernels_part part = {0};
    for (uint32_t i = 0, column = 0; column < matrix->columns; i++, column += part.columns) {
        format->part(panel, lane, i, &part);
        for (uint32_t k = 0; k < part.columns; k++) {
            row[column + k] = part.scale * (float)part.levels[k] - part.low;
        }
    }
}
