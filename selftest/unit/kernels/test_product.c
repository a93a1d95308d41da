/* SPDX-License-Identifier: MIT */
/*
 * Goal: the fast products (sets.h) are the plain one to the bit, in every shape.
 * Method: random matrices of odd sizes and all types; 1 to 20 rows; parts of the panels; columns
 * past CHUNK; the definition (a chain of fmaf over the file's own weights) as a third opinion.
 */
#include "selftest/unit/kernels/product_rig.h"

static void test_product_odd_shapes_equal_bits(void **state)
{
    (void)state;
    for (uint32_t rows = 1; rows <= ROWS_MAX; rows++) {
        for (uint32_t i = 0; i < TINY_TYPES; i++) {
            uint32_t unit = gguf_type_block(tiny_types[i]).values;
            uint32_t columns = unit == 1 ? 1 + rows * 3 : unit * (1 + rows % (1024 / unit));
            check(tiny_types[i], 1 + rows * 6, columns, rows);
        }
    }
}

/* Rows of one group of tiles, and so many rows that halves are converted to floats first. */
static void test_product_long_columns_equal_bits(void **state)
{
    (void)state;
    const uint32_t rows[] = {1, 2, 7, 16, ROWS_MAX};
    for (uint32_t i = 0; i < 5; i++) {
        for (uint32_t more = 1; more <= 4; more++) {
            check(GGUF_F32, 35, CHUNK + more, rows[i]);
            check(GGUF_F16, 35, CHUNK + more, rows[i]);
            check(GGUF_BF16, 35, CHUNK + more, rows[i]);
        }
    }
}

/* One row takes a few panels at a time, more rows take two; a panel may be left over. */
static void test_product_many_panels_equal_bits(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < TINY_TYPES; i++) {
        for (uint32_t rows = 1; rows <= 2; rows++) {
            check(tiny_types[i], OUTPUTS_MAX, 256, rows);
        }
    }
}

/* Sums below 2^-126 become zeros in every set, and no others. */
static void test_product_of_tiny_bfloats_equal_bits(void **state)
{
    (void)state;
    uint64_t random = 3;
    uint32_t zeros = 0, others = 0;
    for (uint32_t trial = 0; trial < 40; trial++) {
        uint32_t columns = 2 + trial % 5;
        struct kernels_matrix matrix = make(GGUF_BF16, 48, columns, 2, trial);
        for (uint32_t i = 0; i < 48 * columns; i++) {
            float weight = tiny_uniform(&random) * ldexpf(1.0f, -64 - (int)(i % 4) * 4);
            uint16_t bfloat = kernels_bfloat_of(weight);
            memcpy(file + i * 2, &bfloat, sizeof bfloat);
        }
        assert_true(kernels_matrix_pack(&matrix, 0, file, 48 * columns * 2));
        for (uint32_t i = 0; i < 20 * X_STRIDE; i++) {
            x[i] = tiny_uniform(&random) * ldexpf(1.0f, -60 - (int)(i % 5) * 3);
        }
        for (uint32_t rows = 1; rows <= ROWS_MAX; rows += 6) {
            run(&kernels_ops_plain, &matrix, rows, y[0]);
            check_sets(&matrix, rows);
        }
        for (uint32_t o = 0; o < 48; o++) {
            zeros += y[0][o] == 0;
            others += y[0][o] != 0;
            assert_true(y[0][o] == 0 || fabsf(y[0][o]) >= 0x1p-126f);
        }
    }
    assert_true(zeros > 100 && others > 100);
}

/* Both orders: the odd column's product comes first, so the even one's is added to 2^-126 and may
 * make it less. A sum that 24 bits round up to 2^-126 stays. */
static void test_product_at_the_edge_of_zero(void **state)
{
    (void)state;
    const struct {
        float factor;           /* of minus itself, or with a weight of 2^-76 */
        float weight, sum;
    } cases[] = {{0x1p-76f, 0x1p-76f, 0x1p-126f},       /* too little to matter */
                 {0x1p-75f, 0x1p-76f, 0x1p-126f},       /* a tie, to even */
                 {0x1p-75f, 0x1p-75f, 0}};
    for (uint32_t i = 0; i < 3; i++) {
        for (float sign = -1; sign <= 1; sign += 2) {
            struct kernels_matrix matrix = make(GGUF_BF16, 16, 2, 2, 1);
            for (uint32_t o = 0; o < 16; o++) {
                uint16_t pair[2] = {kernels_bfloat_of(-sign * cases[i].weight),
                                    kernels_bfloat_of(sign * 0x1p-63f)};
                memcpy(file + o * sizeof pair, pair, sizeof pair);
            }
            assert_true(kernels_matrix_pack(&matrix, 0, file, 16 * 2 * 2));
            x[0] = cases[i].factor;
            x[1] = 0x1p-63f;
            run(&kernels_ops_plain, &matrix, 1, y[0]);
            assert_true(y[0][3] == sign * cases[i].sum);
            check_sets(&matrix, 1);
        }
    }
}

static void product_even_first(const struct kernels_product *p)
{
    const float *rounded = p->rounded.bfloats;
    float swapped[ROWS_MAX * 64];
    struct kernels_product other = *p;
    static uint16_t panel[64 * 16];
    struct kernels_matrix matrix = *p->matrix;
    assert_true(p->rows <= ROWS_MAX && matrix.columns <= 64 && p->rounded.stride == 64);
    for (uint32_t i = 0; i < p->rows * 64; i++) {
        swapped[i] = rounded[i ^ 1];
    }
    for (uint32_t i = 0; i < 64 * 16; i++) {
        panel[i] = ((const uint16_t *)(const void *)matrix.panels)[i ^ 1];
    }
    matrix.panels = (uint8_t *)panel;
    other.matrix = &matrix;
    other.rounded.bfloats = swapped;
    kernels_ops_plain.product(&other);
}

/* As a product of floats: sums below 2^-126 stay. */
static void product_unflushed(const struct kernels_product *p)
{
    const uint16_t *weights = (const uint16_t *)(const void *)p->matrix->panels;
    for (uint32_t r = 0; r < p->rows; r++) {
        for (uint32_t lane = 0; lane < 16; lane++) {
            float sum = 0;
            for (uint32_t i = 0; i < p->matrix->columns; i++) {
                uint32_t k = i ^ 1;
                float weight = kernels_float_of_bfloat(weights[(k / 2 * 16 + lane) * 2 + k % 2]);
                sum = fmaf(p->rounded.bfloats[r * p->rounded.stride + k], weight, sum);
            }
            p->y[r * p->y_stride + lane] = sum;
        }
    }
}

/* A pair of products is added before it is rounded. */
static void product_rounded_once(const struct kernels_product *p)
{
    const uint16_t *weights = (const uint16_t *)(const void *)p->matrix->panels;
    for (uint32_t r = 0; r < p->rows; r++) {
        const float *row = p->rounded.bfloats + r * p->rounded.stride;
        for (uint32_t lane = 0; lane < 16; lane++) {
            float sum = 0;
            for (uint32_t k = 0; k < p->matrix->columns; k += 2) {
                const uint16_t *pair = weights + (k / 2 * 16 + lane) * 2;
                double both = (double)row[k] * kernels_float_of_bfloat(pair[0]) +
                              (double)row[k + 1] * kernels_float_of_bfloat(pair[1]);
                sum = (float)(sum + both);
                sum = fabsf(sum) < 0x1p-126f ? copysignf(0, sum) : sum;
            }
            p->y[r * p->y_stride + lane] = sum;
        }
    }
}

static void test_trial_finds_other_sums(void **state)
{
    (void)state;
    struct kernels_ops other = kernels_ops_plain;
    assert_true(kernels_sums_bfloats_alike(&other));
    other.product = product_even_first;
    assert_false(kernels_sums_bfloats_alike(&other));
    other.product = product_unflushed;
    assert_false(kernels_sums_bfloats_alike(&other));
    other.product = product_rounded_once;
    assert_false(kernels_sums_bfloats_alike(&other));
}

/* The largest sums that sixteen bits must hold, in both directions. */
static void test_product_extremes_do_not_overflow(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < TINY_TYPES; i++) {
        uint32_t columns = 256, outputs = 16;
        if (gguf_type_block(tiny_types[i]).values == 1) {
            continue;
        }
        for (uint32_t byte = 0; byte < 256; byte += 15) {
            struct kernels_matrix matrix = make(tiny_types[i], outputs, columns,
                                                gguf_type_block(tiny_types[i]).bytes, byte);
            memset(file, (int)byte & 0x7b, sizeof file);    /* as scales, too: finite halves */
            assert_true(kernels_matrix_pack(&matrix, 0, file,
                                            outputs * gguf_row_bytes(tiny_types[i], columns)));
            for (uint32_t k = 0; k < ROWS_MAX * X_STRIDE; k++) {
                x[k] = k % 3 == 0 && byte % 2 == 0 ? -127.0f : 127.0f;
            }
            for (uint32_t rows = 1; rows <= 6; rows++) {
                run(&kernels_ops_plain, &matrix, rows, y[0]);
                check_definition(&matrix, rows);
                check_sets(&matrix, rows);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product_odd_shapes_equal_bits),
        cmocka_unit_test(test_product_long_columns_equal_bits),
        cmocka_unit_test(test_product_many_panels_equal_bits),
        cmocka_unit_test(test_product_of_tiny_bfloats_equal_bits),
        cmocka_unit_test(test_product_at_the_edge_of_zero),
        cmocka_unit_test(test_trial_finds_other_sums),
        cmocka_unit_test(test_product_extremes_do_not_overflow),
    };
    sets_say();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
