/* SPDX-License-Identifier: MIT
 *
 * Goal: the fast product is the plain one to the bit, in every shape, and panels hold the file's
 * weights. Method: random matrices of odd sizes and all types; 1 to 20 rows; parts of the panels;
 * columns past KERNELS_CHUNK; the definition (a chain of fmaf over the file's own weights) as a
 * third opinion.
 */
#include "selftest/unit/test.h"

#include "selftest/unit/kernels/tiny_model.h"

#define OUTPUTS_MAX 130
#define COLUMNS_MAX 1100
#define ROWS_MAX    20

static _Alignas(64) uint8_t file[OUTPUTS_MAX * COLUMNS_MAX * 4];
static float x[ROWS_MAX * (COLUMNS_MAX + 16)];
static _Alignas(64) float y[2][ROWS_MAX * 160];
static _Alignas(64) float scratch[KERNELS_CHUNK * KERNELS_PANEL_LANES];

static uint64_t file_bytes(enum gguf_type type, uint64_t count)
{
    return type == GGUF_F32 ? count * 4 : type == GGUF_F16 ? count * 2 : count / 32 * 34;
}

/* Packs in pieces of `piece_bytes` (whole units). */
static struct kernels_matrix make(enum gguf_type type, uint32_t outputs, uint32_t columns,
                                  uint64_t piece_bytes, uint64_t seed)
{
    uint64_t state = seed;
    uint64_t bytes = file_bytes(type, (uint64_t)outputs * columns);
    tiny_fill(file, type, (uint64_t)outputs * columns, 1.0f, 0.0f, &state);
    struct kernels_matrix matrix;
    void *panels = arena_take(test_arena(), 1, kernels_matrix_bytes(type, outputs, columns));
    kernels_matrix_init(&matrix, type, outputs, columns, panels);
    for (uint64_t at = 0; at < bytes; at += piece_bytes) {
        uint64_t count = bytes - at < piece_bytes ? bytes - at : piece_bytes;
        assert_true(kernels_matrix_pack(&matrix, at, file + at, count));
    }
    return matrix;
}

static void run(const struct kernels_ops *ops, const struct kernels_matrix *matrix, uint32_t rows,
                float *to)
{
    struct kernels_product product = {
        .matrix = matrix, .rows = rows, .x = x, .x_stride = COLUMNS_MAX + 16,
        .y = to, .y_stride = 160, .scratch = scratch,
    };
    for (uint32_t panel = 0; panel < matrix->panels_count; panel = product.panel_end) {
        product.panel_first = panel;    /* parts of 1, 2, 3, ... panels */
        product.panel_end = panel + panel / 2 + 1;
        if (product.panel_end > matrix->panels_count) {
            product.panel_end = matrix->panels_count;
        }
        ops->product(&product);
    }
}

static void check(enum gguf_type type, uint32_t outputs, uint32_t columns, uint32_t rows)
{
    uint64_t state = outputs + columns;
    struct kernels_matrix matrix = make(type, outputs, columns, 34 * 4 * 7, rows);
    for (uint32_t i = 0; i < rows * (COLUMNS_MAX + 16); i++) {
        x[i] = tiny_uniform(&state);
    }
    run(&kernels_ops_plain, &matrix, rows, y[0]);
    for (uint32_t o = 0; o < outputs; o += 37) {
        static float weights[COLUMNS_MAX];
        kernels_matrix_row(&matrix, o, weights);
        float sum = 0;
        for (uint32_t k = 0; k < columns; k++) {
            sum = fmaf(x[(rows - 1) * (COLUMNS_MAX + 16) + k], weights[k], sum);
        }
        assert_memory_equal(&sum, &y[0][(rows - 1) * 160 + o], sizeof sum);
    }
    if (kernels_simd_best() != KERNELS_AVX2) {
        return;
    }
    run(&kernels_ops_avx2, &matrix, rows, y[1]);
    for (uint32_t r = 0; r < rows; r++) {
        assert_memory_equal(y[0] + r * 160, y[1] + r * 160, outputs * sizeof(float));
    }
}

static void test_product_odd_shapes_equal_bits(void **state)
{
    (void)state;
    if (kernels_simd_best() != KERNELS_AVX2) {
        print_message("no AVX2 on this machine: only the plain kernels are checked\n");
    }
    for (uint32_t rows = 1; rows <= ROWS_MAX; rows++) {
        check(GGUF_F32, 1 + rows * 6, 1 + rows * 3, rows);
        check(GGUF_F16, 1 + rows * 6, 1 + rows * 3, rows);
        check(GGUF_Q8_0, 1 + rows * 6, 32 * (1 + rows % 5), rows);
    }
}

static void test_product_long_columns_equal_bits(void **state)
{
    (void)state;
    const uint32_t rows[] = {1, 2, 7};
    for (uint32_t i = 0; i < 3; i++) {
        check(GGUF_F32, 35, KERNELS_CHUNK * 2 + 1, rows[i]);
        check(GGUF_F16, 35, KERNELS_CHUNK + 1, rows[i]);
        check(GGUF_Q8_0, 35, KERNELS_CHUNK + 32, rows[i]);
    }
}

static void test_pack_file_weights_come_back(void **state)
{
    (void)state;
    static float row[COLUMNS_MAX];
    make(GGUF_F32, 33, 41, 4, 1);       /* one float at a time */
    struct kernels_matrix matrix = make(GGUF_F32, 33, 41, 4 * 100, 1);
    for (uint32_t o = 0; o < 33; o++) {
        kernels_matrix_row(&matrix, o, row);
        assert_memory_equal(row, file + o * 41 * 4, 41 * 4);
    }
}

static void test_pack_not_finite_refused(void **state)
{
    (void)state;
    struct kernels_matrix matrix = make(GGUF_F32, 2, 32, 4 * 32, 1);
    const uint32_t bad_floats[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffffffffu};
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(file + 40, &bad_floats[i], 4);
        assert_false(kernels_matrix_pack(&matrix, 0, file, 2 * 32 * 4));
    }
    matrix = make(GGUF_F16, 2, 32, 4 * 32, 1);
    const uint16_t bad_halves[] = {0x7c00, 0xfc00, 0x7e00, 0xffff};
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(file + 40, &bad_halves[i], 2);
        assert_false(kernels_matrix_pack(&matrix, 0, file, 2 * 32 * 2));
    }
    matrix = make(GGUF_Q8_0, 2, 32, 34, 1);
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(file + 34, &bad_halves[i], 2);
        assert_false(kernels_matrix_pack(&matrix, 0, file, 2 * 34));
    }
}

static void test_half_every_value_exact(void **state)
{
    (void)state;
    assert_true(kernels_half_to_float(0x3c00) == 1.0f);
    assert_true(kernels_half_to_float(0xc000) == -2.0f);
    assert_true(kernels_half_to_float(0x0001) == 0x1p-24f);
    assert_true(kernels_half_to_float(0x83ff) == -1023 * 0x1p-24f);
    assert_true(kernels_half_to_float(0x7bff) == 65504.0f);
    assert_true(kernels_half_to_float(0x8000) == 0.0f && signbit(kernels_half_to_float(0x8000)));
    for (uint32_t half = 0; half < 0x7c00; half++) {    /* neighbours grow */
        assert_true(half == 0 || kernels_half_to_float((uint16_t)half) >
                                     kernels_half_to_float((uint16_t)(half - 1)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product_odd_shapes_equal_bits),
        cmocka_unit_test(test_product_long_columns_equal_bits),
        cmocka_unit_test(test_pack_file_weights_come_back),
        cmocka_unit_test(test_pack_not_finite_refused),
        cmocka_unit_test(test_half_every_value_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
