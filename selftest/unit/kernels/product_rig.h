/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: matrices of random weights, and products by each set of kernels against the plain ones.
 */
#include "kernels/half.h"
#include "selftest/unit/test.h"
#include "selftest/unit/kernels/sets.h"
#include "selftest/unit/kernels/tiny_model.h"

#define OUTPUTS_MAX 130
#define COLUMNS_MAX 1100
#define CHUNK       KERNELS_CHUNK_MOST      /* a multiple of the fast products' chunks */
#define ROWS_MAX    20
#define X_STRIDE      (COLUMNS_MAX + 16)
#define ROUNDED_STRIDE 1152u

static _Alignas(64) uint8_t file[OUTPUTS_MAX * COLUMNS_MAX * 4];
static float x[ROWS_MAX * X_STRIDE];
static _Alignas(64) float y[2][ROWS_MAX * 160];

static inline uint64_t file_bytes(enum gguf_type type, uint64_t count)
{
    return gguf_row_bytes(type, count);
}

/* Packs in pieces of `piece_bytes` (whole units). */
static inline struct kernels_matrix make(enum gguf_type type, uint32_t outputs, uint32_t columns,
                                         uint64_t piece_bytes, uint64_t seed)
{
    uint64_t state = seed;
    uint64_t bytes = file_bytes(type, (uint64_t)outputs * columns);
    tiny_fill(file, type, (uint64_t)outputs * columns, (struct tiny_range){.scale = 1}, &state);
    struct kernels_matrix matrix;
    void *panels = arena_take(test_arena(), 1, kernels_matrix_bytes(type, outputs, columns));
    kernels_matrix_init(&matrix, type, outputs, columns, panels);
    for (uint64_t at = 0; at < bytes; at += piece_bytes) {
        uint64_t count = bytes - at < piece_bytes ? bytes - at : piece_bytes;
        assert_true(kernels_matrix_pack(&matrix, at, file + at, count));
    }
    return matrix;
}

static int8_t levels[ROWS_MAX * ROUNDED_STRIDE];
static float bfloats[ROWS_MAX * ROUNDED_STRIDE];
static struct kernels_quant_block blocks[ROWS_MAX * ROUNDED_STRIDE / KERNELS_QUANT_COLUMNS];

static inline void run_at(const struct kernels_ops *ops, const struct kernels_matrix *matrix,
                          uint32_t rows, struct kernels_tuning tuning, float *to)
{
    struct kernels_product product = {
        .matrix = matrix, .rows = rows, .tuning = tuning, .x = x, .x_stride = X_STRIDE,
        .rounded = {levels, blocks, bfloats, ROUNDED_STRIDE},
        .y = to, .y_stride = 160,
    };
    for (uint32_t r = 0; r < rows; r++) {
        struct kernels_rounded row = kernels_rounded_from(product.rounded, r);
        kernels_round(ops, kernels_reads(matrix->type), &row, x + r * X_STRIDE, matrix->columns);
    }
    for (uint32_t panel = 0; panel < matrix->panels_count; panel = product.panel_end) {
        product.panel_first = panel;    /* parts of 1, 2, 4, ... panels */
        product.panel_end = 2 * panel + 1;
        if (product.panel_end > matrix->panels_count) {
            product.panel_end = matrix->panels_count;
        }
        ops->product(&product);
    }
}

static inline void run(const struct kernels_ops *ops, const struct kernels_matrix *matrix,
                       uint32_t rows, float *to)
{
    run_at(ops, matrix, rows, (struct kernels_tuning){0, 0, NULL}, to);
}

/* Numbers that are levels times a scale: then products with integers are as exact as others. */
static inline void fill_levels(uint32_t rows, uint64_t *state)
{
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t k = 0; k < X_STRIDE; k++) {
            float scale = 0x1p-7f * (float)(1 + (r + k / 32) % 7);
            int32_t level = k % 32 == r % 32 ? KERNELS_LEVEL_MAX
                                             : (int32_t)(tiny_random(state) % 255) - 127;
            x[r * X_STRIDE + k] = scale * (float)level;
        }
    }
}

/* The next column by the definition: of a pair of bfloats the odd one comes first. */
static inline uint32_t column_at(enum gguf_type type, uint32_t k, uint32_t columns)
{
    bool is_alone = k % 2 == 0 && k + 1 == columns;
    return type == GGUF_BF16 && !is_alone ? k ^ 1u : k;
}

/* What a product reads of x, if it does not read levels. */
static inline float x_at(enum gguf_type type, const float *row, uint32_t k)
{
    return type == GGUF_BF16 ? kernels_float_of_bfloat(kernels_bfloat_of(row[k])) : row[k];
}

/* The last row of the plain product against the file's own weights: floats to the bit. */
static inline void check_definition(const struct kernels_matrix *matrix, uint32_t rows)
{
    const float *last = x + (rows - 1) * X_STRIDE;
    for (uint32_t o = 0; o < matrix->outputs; o += 37) {
        float sum = 0;
        double exact = 0, magnitude = 0;
        for (uint32_t i = 0; i < matrix->columns; i++) {
            uint32_t k = column_at(matrix->type, i, matrix->columns);
            double weight = tiny_weight(file, matrix->type, (uint64_t)o * matrix->columns + k);
            sum = fmaf(x_at(matrix->type, last, k), (float)weight, sum);
            exact += last[k] * weight;
            magnitude += fabs(last[k] * weight);
        }
        const float *found = &y[0][(rows - 1) * 160 + o];
        if (kernels_has_levels(matrix->type)) {
            assert_true(fabs(*found - exact) <= 1e-5 * magnitude);
        } else {
            assert_memory_equal(&sum, found, sizeof sum);
        }
    }
}

/* All rows of each set's product against the plain product's, with every tuning. */
static inline void check_sets(const struct kernels_matrix *matrix, uint32_t rows)
{
    static _Alignas(64) float widened[KERNELS_CHUNK_PANELS * KERNELS_CHUNK_MOST *
                                      KERNELS_PANEL_LANES];
    const struct kernels_tuning tunings[] = {{0, 0, NULL},
                                         {KERNELS_PREFETCH_BYTES, KERNELS_CHUNK_LEAST, widened},
                                         {KERNELS_PREFETCH_BYTES, KERNELS_CHUNK_MOST, widened}};
    struct sets sets = sets_find();
    for (uint32_t i = 0; i < sets.count * 3; i++) {
        memset(y[1], 0xff, sizeof y[1]);
        run_at(sets.ops[i / 3], matrix, rows, tunings[i % 3], y[1]);
        for (uint32_t r = 0; r < rows; r++) {
            assert_memory_equal(y[0] + r * 160, y[1] + r * 160, matrix->outputs * sizeof(float));
        }
    }
}

static inline void check(enum gguf_type type, uint32_t outputs, uint32_t columns, uint32_t rows)
{
    uint64_t state = outputs + columns;
    struct kernels_matrix matrix = make(type, outputs, columns,
                                        gguf_type_block(type).bytes * 28, rows);
    fill_levels(rows, &state);
    run(&kernels_ops_plain, &matrix, rows, y[0]);
    check_definition(&matrix, rows);
    for (uint32_t i = 0; i < rows * X_STRIDE; i++) {
        x[i] = tiny_uniform(&state);
    }
    run(&kernels_ops_plain, &matrix, rows, y[0]);
    check_sets(&matrix, rows);
}
