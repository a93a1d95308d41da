/* SPDX-License-Identifier: MIT */
/*
 * Goal: panels hold the file's weights, rounded where their type asks for it; activations and
 * halves are rounded by the same rules in every set of kernels.
 * Method: random matrices of all types, packed in odd pieces; every half; the plain kernels as
 * twins.
 */
#include "selftest/unit/kernels/product_rig.h"

/* Panels of bfloats from files of floats and halves: each weight rounded, also in odd pieces. */
static void test_pack_rounds_to_bfloats(void **state)
{
    (void)state;
    static float row[COLUMNS_MAX];
    const enum gguf_type from[] = {GGUF_F32, GGUF_F16};
    for (uint32_t t = 0; t < 2; t++) {
        uint32_t outputs = 19, columns = 523, size = gguf_type_block(from[t]).bytes;
        uint64_t random = 9, bytes = (uint64_t)outputs * columns * size;
        struct kernels_matrix matrix;
        void *panels =
            arena_take(test_arena(), 1, kernels_matrix_bytes(GGUF_BF16, outputs, columns));
        kernels_matrix_init(&matrix, GGUF_BF16, outputs, columns, panels);
        matrix.file_type = from[t];
        tiny_fill(file, from[t], (uint64_t)outputs * columns,
                  (struct tiny_range){.scale = 1}, &random);
        for (uint64_t at = 0, count; at < bytes; at += count) {
            count = bytes - at < 777 * size ? bytes - at : 777 * size;
            assert_true(kernels_matrix_pack(&matrix, at, file + at, count));
        }
        for (uint32_t o = 0; o < outputs; o++) {
            kernels_matrix_row(&matrix, o, row);
            for (uint32_t k = 0; k < columns; k++) {
                float weight = (float)tiny_weight(file, from[t], (uint64_t)o * columns + k);
                assert_true(row[k] == kernels_float_of_bfloat(kernels_bfloat_of(weight)));
            }
        }
        memset(file + 40, 0xff, size);
        assert_false(kernels_matrix_pack(&matrix, 0, file, columns * size));
        const uint32_t largest = 0x7f7fffffu;   /* finite, but the bfloat next to it is not */
        memcpy(file + 40, &largest, sizeof largest);
        assert_true(t == 1 || !kernels_matrix_pack(&matrix, 0, file, columns * size));
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
    matrix = make(GGUF_BF16, 2, 32, 4 * 32, 1);
    const uint16_t bad_bfloats[] = {0x7f80, 0xff80, 0x7fc0, 0xffff};
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(file + 40, &bad_bfloats[i], 2);
        assert_false(kernels_matrix_pack(&matrix, 0, file, 2 * 32 * 2));
    }
    matrix = make(GGUF_Q8_0, 2, 32, 34, 1);
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(file + 34, &bad_halves[i], 2);
        assert_false(kernels_matrix_pack(&matrix, 0, file, 2 * 34));
    }
}

/* The same bits of levels, also for numbers that are not ordinary. */
static void test_quantize_twins_agree(void **state)
{
    (void)state;
    static const float odd[] = {0.0f, -0.0f, 0x1p-149f, 0x1p-101f, 0x1p-100f, 0x1p-99f, 1.0f,
                                -1.0f, 0x1.fffffep127f, INFINITY, -INFINITY, NAN};
    uint64_t random = 5;
    int8_t got[2][64];
    struct kernels_quant_block of[2][2];
    for (uint32_t i = 0; i < 4000; i++) {
        for (uint32_t k = 0; k < 64; k++) {
            x[k] = tiny_uniform(&random) * ldexpf(1.0f, (int)(i % 40) - 20);
        }
        for (uint32_t k = 0; k < 64 && i % 3 == 0; k++) {   /* halves are exact ties */
            x[k] = (float)(tiny_random(&random) % 509) * 0.5f - 127.0f;
        }
        if (i % 4 == 0) {
            x[tiny_random(&random) % 64] = odd[i / 4 % (sizeof odd / sizeof odd[0])];
        }
        kernels_ops_plain.quantize(got[0], of[0], x, 64);
        for (uint32_t k = 0; k < 64; k++) {     /* half a level, and 127 times 2^-11 */
            assert_in_range(got[0][k] + KERNELS_LEVEL_MAX, 0, 2 * KERNELS_LEVEL_MAX);
            double scale = (double)of[0][k / 32].scale;
            assert_true(isnan(scale) || fabs(x[k] - scale * got[0][k]) <= scale * 0.563 ||
                        fabsf(x[k]) < KERNELS_LEVEL_TINY);
        }
        if (kernels_simd_best() >= KERNELS_AVX2) {
            kernels_ops_avx2.quantize(got[1], of[1], x, 64);
            assert_memory_equal(got[0], got[1], 64);
            assert_memory_equal(of[0], of[1], sizeof of[0]);
        }
    }
}

static void check_shorten(const struct kernels_ops *ops, uint32_t columns)
{
    float got[73];
    uint32_t count = columns + columns % 2;
    memset(got, 0x55, sizeof got);
    ops->shorten(got, x, columns);
    for (uint32_t k = 0; k < count; k++) {
        uint16_t bfloat = k < columns ? kernels_bfloat_of(x[k]) : 0;
        float wide = kernels_float_of_bfloat(bfloat);
        if (sets_shortens_to_pairs(ops)) {
            assert_memory_equal(&bfloat, (uint16_t *)(void *)got + k, sizeof bfloat);
        } else {
            assert_memory_equal(&wide, got + k, sizeof wide);
        }
    }
    uint64_t end = count * (sets_shortens_to_pairs(ops) ? sizeof(uint16_t) : sizeof(float));
    assert_int_equal(((const uint8_t *)got)[end], 0x55);
}

/* The same bits of bfloats, the nearest ones, also for numbers that are not ordinary. */
static void test_shorten_twins_agree(void **state)
{
    (void)state;
    static const float odd[] = {0.0f, -0.0f, 0x1p-149f, 0x1.fffffcp-127f, -0x1.fffffcp-127f,
                                0x1p-126f, 0x1.fffffep127f, -0x1.fep127f, 0x1.ffp127f, INFINITY,
                                -INFINITY, NAN, -NAN, 0x1.01p0f, 0x1.03p0f, 0x1.010002p0f};
    static const uint16_t shortened[] = {0, 0x8000, 0, 0, 0x8000, 0x80, 0x7f80, 0xff7f, 0x7f80,
                                         0x7f80, 0xff80, 0x7fc0, 0x7fc0, 0x3f80, 0x3f82, 0x3f81};
    uint64_t random = 5;
    for (uint32_t i = 0; i < 16; i++) {
        assert_int_equal(kernels_bfloat_of(odd[i]), shortened[i]);
    }
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t columns = 1 + i % 70;
        for (uint32_t k = 0; k < columns; k++) {
            x[k] = tiny_uniform(&random) * ldexpf(1.0f, (int)(i % 40) - 20);
            float back = kernels_float_of_bfloat(kernels_bfloat_of(x[k]));
            assert_true(fabsf(back - x[k]) <= fabsf(x[k]) * 0x1p-8f);
        }
        x[tiny_random(&random) % columns] = odd[i % 16];
        struct sets sets = sets_find();
        check_shorten(&kernels_ops_plain, columns);
        for (uint32_t s = 0; s < sets.count; s++) {
            check_shorten(sets.ops[s], columns);
        }
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

/* Equal to a half in the range of halves, and with a half's precision outside it. */
static void test_half_rounded_is_a_half_of_any_range(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (uint32_t i = 0; i < 4000; i++) {
        float value = tiny_uniform(&random) * ldexpf(1.0f, (int)(i % 28) - 12);
        float rounded = kernels_half_rounded(value);
        if (fabsf(value) >= 0x1p-14f) {
            assert_true(rounded == kernels_half_to_float(kernels_half_of(value)));
        }
        assert_true(kernels_half_rounded(value * 0x1p80f) == rounded * 0x1p80f);
    }
    assert_true(kernels_half_rounded(1.0f + 0x1p-11f) == 1.0f);
    assert_true(kernels_half_rounded(1.0f + 0x3p-11f) == 1.0f + 0x1p-9f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pack_rounds_to_bfloats),
        cmocka_unit_test(test_pack_file_weights_come_back),
        cmocka_unit_test(test_pack_not_finite_refused),
        cmocka_unit_test(test_quantize_twins_agree),
        cmocka_unit_test(test_shorten_twins_agree),
        cmocka_unit_test(test_half_every_value_exact),
        cmocka_unit_test(test_half_rounded_is_a_half_of_any_range),
    };
    sets_say();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
