/* SPDX-License-Identifier: MIT */
/*
 * What: products. By the library if there is one and the weights are no levels, else by our own
 * kernels (device/product): levels and halves on tensor cores, floats by one chain.
 *
 * Our own kernels sum a row in one order, which the matrix's shape gives. The library chooses the
 * order by the shape of the product, so every product of it has GPU_PRODUCT_ROWS rows: a row gets
 * the same bits alone, in a batch and in a chunk. That needs two more conditions:
 *
 *   alignment   the library looks at addresses too. Those of products are whole products apart, so
 *               their alignment is the same
 *   rows        one product sums all of its rows in the same order. NVIDIA does not document it (a
 *               split of the rest among the last multiprocessors would break it), so boot tries it.
 *               It does not document the sums of tensor cores either: boot tries our own kernels
 *               on them too, with each number of rows that has a tile of its own
 *
 * Elements have one type: the input of a product is rounded to the type of the weights when it is
 * written. The chain computes products by matrices whose type differs from that of another matrix
 * with the same input.
 */
#include <stdio.h>
#include <string.h>

#include "config/base/assert.h"
#include "kernels/cuda/engine_state.h"

STATIC_ASSERT(GPU_PRODUCT_ROWS * sizeof(uint16_t) % GPU_ALIGN_BYTES == 0, "products are aligned");
STATIC_ASSERT((GPU_PRODUCT_ROWS & (GPU_PRODUCT_ROWS - 1)) == 0, "so many by doubling");

static bool is_of_library(const struct gpu_engine *e, const struct gpu_matrix *matrix)
{
    return e->blas != NULL && !gpu_has_levels(matrix->type);
}

static uint32_t element_bytes(uint32_t type)
{
    return type == GPU_F32 ? sizeof(float) : sizeof(uint16_t);
}

static enum blas_type blas_type_of(uint32_t type)
{
    return type == GPU_F32 ? BLAS_F32 : type == GPU_F16 ? BLAS_F16 : BLAS_BF16;
}

static uint32_t input_type(const struct gpu_matrix *matrix)
{
    return gpu_has_levels(matrix->type) ? (uint32_t)GPU_F16 : matrix->type;
}

struct gpu_buffer gpu_input_of(const struct gpu_matrix *matrix, struct gpu_buffer buffer)
{
    buffer.type = input_type(matrix);
    return buffer;
}

static void queue_chain(struct gpu_engine *e, const struct gpu_matrix *matrix,
                        struct gpu_buffer from, struct gpu_buffer to, uint32_t rows)
{
    const struct gpu_product args = {
        .x = from.at, .w = matrix->at, .y = to.at, .round = e->round,
        .x_stride = from.width, .y_stride = to.width,
        .rows = rows, .outputs = matrix->outputs, .columns = matrix->columns,
        .x_type = from.type, .w_type = matrix->type,
    };
    GPU_LAUNCH(e->queue, product, &args);
}

static void queue_tiled(struct gpu_engine *e, const struct gpu_matrix *matrix,
                        struct gpu_buffer from, struct gpu_buffer to, uint32_t rows)
{
    const struct gpu_product_tiled tiled = {
        .x = from.at, .w = matrix->at, .y = to.at,
        .partials = e->product_partials, .tickets = e->product_tickets,
        .round = e->round,
        .x_stride = from.width, .y_stride = to.width,
        .rows = rows, .outputs = matrix->outputs, .columns = matrix->columns,
        .type = matrix->type,
    };
    const struct gpu_product_few few = {tiled};
    const struct gpu_product_many many = {tiled};
    const struct gpu_product_few_levels few_levels = {tiled};
    const struct gpu_product_many_levels many_levels = {tiled};
    if (gpu_has_levels(matrix->type)) {
        if (rows <= GPU_FEW_ROWS) {
            GPU_LAUNCH(e->queue, product_few_levels, &few_levels);
        } else {
            GPU_LAUNCH(e->queue, product_many_levels, &many_levels);
        }
    } else if (rows <= GPU_FEW_ROWS) {
        GPU_LAUNCH(e->queue, product_few, &few);
    } else {
        GPU_LAUNCH(e->queue, product_many, &many);
    }
}

/* GPU_PRODUCT_ROWS rows from `row` on. */
static void queue_library(struct gpu_engine *e, const struct gpu_matrix *matrix,
                          struct gpu_buffer from, struct gpu_buffer to, uint32_t row)
{
    const struct blas_product product = {
        .out = to.at + (uint64_t)row * to.width * sizeof(float),
        .in = from.at + (uint64_t)row * from.width * element_bytes(from.type),
        .weights = matrix->at,
        .rows = GPU_PRODUCT_ROWS, .outputs = matrix->outputs, .columns = matrix->columns,
        .type = blas_type_of(from.type),
    };
    gpu_multiply(e->queue, e->blas, &product);
}

void gpu_product_queue(struct gpu_engine *engine, const struct gpu_matrix *matrix,
                       struct gpu_buffer from, struct gpu_buffer to, uint32_t rows)
{
    bool is_library = is_of_library(engine, matrix);
    if (from.type != input_type(matrix) || (!is_library && matrix->type == GPU_F32)) {
        queue_chain(engine, matrix, from, to, rows);
    } else if (!is_library) {
        queue_tiled(engine, matrix, from, to, rows);
    } else {
        for (uint32_t row = 0; row < rows; row += GPU_PRODUCT_ROWS) {
            queue_library(engine, matrix, from, to, row);
        }
    }
}

/* ---- boot ---- */

/* A row of numbers 1 <= |x| < 2 of a type; their sums depend on the order. */
static void fill_row(uint8_t *row, uint32_t type, uint32_t columns)
{
    static const uint32_t ones[] = {[GPU_F32] = 0x3f800000, [GPU_F16] = 0x3c00,
                                    [GPU_BF16] = 0x3f80};
    static const uint32_t others[] = {[GPU_F32] = 0x807fffff, [GPU_F16] = 0x83ff,
                                      [GPU_BF16] = 0x807f};     /* sign and mantissa */
    uint32_t state = 1, bytes = element_bytes(type);
    for (uint32_t i = 0; i < columns; i++) {
        state = state * 1664525 + 1013904223;
        uint32_t bits = ones[type] | (state >> (32 - 8 * bytes) & others[type]);
        memcpy(row + (uint64_t)i * bytes, &bits, bytes);
    }
}

/* Equal rows: each copy doubles their number. */
static void fill_rows(struct gpu_engine *e, struct gpu_buffer to, uint32_t columns)
{
    uint64_t bytes = (uint64_t)columns * element_bytes(to.type);
    fill_row(e->staging, to.type, columns);
    gpu_upload(e->queue, to.at, e->staging, bytes);
    for (uint32_t rows = 1; rows < GPU_PRODUCT_ROWS; rows *= 2) {
        gpu_copy(e->queue, to.at + rows * bytes, to.at, rows * bytes);
    }
}

/* True when rows first .. first + count - 1 have the bits of the row at the begin of staging. */
static bool are_alike(struct gpu_engine *e, struct gpu_buffer of, uint32_t first, uint32_t count)
{
    uint64_t bytes = (uint64_t)of.width * sizeof(float);
    gpu_download(e->queue, e->staging + bytes, of.at + first * bytes, count * bytes);
    bool alike = gpu_wait(e->queue) == STATUS_OK;
    for (uint32_t row = 1; row <= count && alike; row++) {
        alike = memcmp(e->staging, e->staging + row * bytes, bytes) == 0;
    }
    *e->heartbeat += 1;
    return alike;
}

/* True when a product of so many equal rows has equal rows: those of the product before, unless it
 * is the first. */
static bool try_rows(struct gpu_engine *e, const struct gpu_matrix *matrix, struct gpu_buffer from,
                     struct gpu_buffer to, uint32_t rows)
{
    uint64_t bytes = (uint64_t)to.width * sizeof(float), fit = GPU_STAGING_BYTES / bytes;
    if (fit < 2) {
        return false;
    }
    uint32_t at_once = gpu_smaller((uint32_t)fit - 1, rows);
    bool alike = true;
    gpu_clear(e->queue, to.at, rows * bytes);
    gpu_product_queue(e, matrix, from, to, rows);
    if (rows == GPU_PRODUCT_ROWS) {
        gpu_download(e->queue, e->staging, to.at, bytes);
    }
    for (uint32_t row = 0; row < rows && alike; row += at_once) {
        alike = are_alike(e, to, row, gpu_smaller(at_once, rows - row));
    }
    return alike;
}

/* A chain is defined to the bit. */
static enum status try_product(struct gpu_engine *e, const struct gpu_matrix *matrix,
                               struct gpu_buffer from, struct gpu_buffer to,
                               struct config_error *error)
{
    static const uint32_t rows[] = {GPU_PRODUCT_ROWS, GPU_FEW_ROWS, 32, 16, 8, 1};
    bool is_library = is_of_library(e, matrix);
    uint32_t tries = is_library ? 1 : matrix->type == GPU_F32 ? 0 : sizeof rows / sizeof *rows;
    bool alike = true;
    if (tries == 0) {
        return STATUS_OK;
    }
    from = gpu_input_of(matrix, from);
    fill_rows(e, from, matrix->columns);
    for (uint32_t i = 0; i < tries && alike; i++) {
        alike = try_rows(e, matrix, from, to, rows[i]);
    }
    TRY(gpu_check(e->queue, error));
    if (!alike) {
        snprintf(error->text, sizeof error->text,
                 "%s: rows of one product (%u outputs, %u columns) are summed in different "
                 "orders on this GPU, or are too long to try",
                 is_library ? "cuBLAS" : "the engine's own products", matrix->outputs,
                 matrix->columns);
        return STATUS_DEVICE_FAILED;
    }
    return STATUS_OK;
}

static enum status try_layer(struct gpu_engine *e, const struct gpu_layer *layer,
                             struct config_error *error)
{
    const struct gpu_matrix *qkv = &layer->attn_qkv, *gate_up = &layer->ffn_gate_up;
    if (qkv->outputs > 0) {
        TRY(try_product(e, qkv, e->normed, gpu_joined(e->q, qkv), error));
    } else {
        TRY(try_product(e, &layer->attn_q, e->normed, e->q, error));
        TRY(try_product(e, &layer->attn_k, e->normed, e->k, error));
        TRY(try_product(e, &layer->attn_v, e->normed, e->v, error));
    }
    TRY(try_product(e, &layer->attn_output, e->attended, e->delta, error));
    if (gate_up->outputs > 0) {
        TRY(try_product(e, gate_up, e->normed, gpu_joined(e->gate, gate_up), error));
    } else {
        TRY(try_product(e, &layer->ffn_gate, e->normed, e->gate, error));
        TRY(try_product(e, &layer->ffn_up, e->normed, e->up, error));
    }
    return try_product(e, &layer->ffn_down, e->inner, e->delta, error);
}

enum status gpu_products_start(struct gpu_engine *engine, struct config_error *error)
{
    struct gpu_engine *e = engine;
    if (e->blas != NULL) {
        TRY(blas_start(e->blas, e->queue->stream, e->blas_workspace, error));
    }
    for (uint32_t i = 0; i < e->weights.shape.layers; i++) {
        TRY(try_layer(e, &e->weights.layers[i], error));
    }
    return try_product(e, &e->weights.output, e->gathered, e->logits, error);
}
