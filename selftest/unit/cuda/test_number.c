/* SPDX-License-Identifier: MIT
 *
 * Goal: numbers of every type are read exactly and written rounded, by the kernels that do little
 * else: embed, swiglu.
 * Method: every half and every bfloat, against the conversions of the compiler and of the CPU
 * engine; random levels, as the CPU engine takes them from a panel; the CPU's SwiGLU.
 */
#include "selftest/unit/cuda/gpu_rig.h"

#include "kernels/cuda/device/number.h"
#include "kernels/cuda/weights.h"
#include "kernels/exp.h"
#include "kernels/ops.h"
#include "selftest/unit/cuda/levels.h"

static void assert_same_float(float a, float b)
{
    assert_true((isnan(a) && isnan(b)) || gpu_bits_of(a) == gpu_bits_of(b));
}

static void test_load_every_half_as_the_cpu(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        assert_same_float(gpu_half_load((uint16_t)bits), kernels_half_to_float((uint16_t)bits));
    }
}

static void test_store_bfloat_rounds_to_nearest_even(void **state)
{
    (void)state;
    const struct {
        uint32_t bits;
        uint16_t expected;
    } cases[] = {
        {0x3f800000, 0x3f80}, {0x3f807fff, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f808001, 0x3f81},
        {0x3f818000, 0x3f82}, {0xbf818000, 0xbf82}, {0x7f7fffff, 0x7f80}, {0x7f800000, 0x7f80},
        {0xff800000, 0xff80}, {0x7f800001, 0x7fc0}, {0x7fffffff, 0x7fc0}, {0x00008000, 0x0000},
        {0x00018000, 0x0002}, {0x80000000, 0x8000},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(gpu_bfloat_of(gpu_float_of(cases[i].bits)), cases[i].expected);
    }
    for (uint32_t bits = 0; bits < 0x7f80; bits++) {        /* what it can hold it keeps */
        assert_int_equal(gpu_bfloat_of(gpu_float_of(bits << 16)), bits);
    }
}

/* Products and sums of all kinds, and near ties, which a float between would round twice. */
static void test_pairs_are_multiplied_and_added_with_one_rounding(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2000000; i++) {
        uint32_t a = rig_random(1u << 16), b = rig_random(1u << 16), c = rig_random(1u << 16);
        if (i % 2 == 0) {       /* of about one size: the exponents are near each other */
            a = (a & 0x83ffu) | 0x3c00u;
            b = (b & 0x83ffu) | 0x3c00u;
            c = (c & 0x93ffu) | 0x2c00u;
        }
        double exact = (double)gpu_half_load((uint16_t)a) * (double)gpu_half_load((uint16_t)b) +
                       (double)gpu_half_load((uint16_t)c);
        uint32_t pair = gpu_pair_fma(a << 16 | b, b << 16 | a, c << 16 | c);
        assert_int_equal(pair >> 16, pair & 0xffffu);
        assert_same_float(gpu_half_load((uint16_t)pair), (float)(_Float16)exact);
    }
}

/* ---- weights ---- */

#define COLUMNS 96u
#define LONG_COLUMNS 512u
#define TOKENS  7u

/* `tokens` rows of the type; the same numbers as floats go to `floats`. */
static void *table_make(uint32_t type, float *floats)
{
    uint8_t *table = rig_take(TOKENS * COLUMNS * (type == GPU_F32 ? 4 : 2));
    for (uint32_t i = 0; i < TOKENS * COLUMNS; i++) {
        float value = rig_number();
        gpu_store(table, type, i, value);
        floats[i] = gpu_load(table, type, i);
        assert_true(fabsf(floats[i] - value) < 0x1p-8f);
    }
    return table;
}

static void check_embed(void *table, uint32_t type, uint32_t columns, const float *floats)
{
    const struct gpu_slot slots[] = {{6, 0, 0}, {0, 0, 1}, {3, 0, GPU_NONE}, {3, 9, 2}};
    uint32_t stride = columns + 4;
    float *x = rig_take((3 * stride + columns) * sizeof *x);
    struct gpu_embed args = {
        .table = rig_address(table),
        .slots = rig_address(rig_copy(slots, sizeof slots)),
        .x = rig_address(x),
        .x_stride = stride,
        .slots_count = 4,
        .dim = columns,
        .table_type = type,
    };
    RIG_LAUNCH(embed, &args);
    for (uint32_t i = 0; i < 4 * columns; i++) {
        const struct gpu_slot *slot = &slots[i / columns];
        float expected = slot->row == GPU_NONE ? 0 : floats[slot->token * columns + i % columns];
        assert_same_float(x[i / columns * stride + i % columns], expected);
    }
}

static void test_embed_every_type_is_exact(void **state)
{
    (void)state;
    for (uint32_t type = GPU_F32; type <= GPU_BF16; type++) {
        float floats[TOKENS * COLUMNS];
        void *table = table_make(type, floats);
        check_embed(table, type, COLUMNS, floats);
    }
}

static void test_embed_of_levels_has_the_weights_of_products(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LEVEL_TYPES; i++) {
        static float floats[TOKENS * LONG_COLUMNS];
        uint32_t columns = gguf_type_block(level_types[i]).values == 32 ? COLUMNS : LONG_COLUMNS;
        void *table = panels_make(level_types[i], TOKENS, columns, floats);
        check_embed(table, gpu_type_of(level_types[i]), columns, floats);
    }
}

/* ---- the gate ---- */

static void test_swiglu_equals_the_cpu(void **state)
{
    (void)state;
    const uint32_t rows = 3, columns = 336;
    float *gate = rig_floats(rows * columns), *up = rig_floats(rows * columns);
    for (uint32_t i = 0; i < rows * columns; i++) {
        gate[i] *= (float)(1 << i % 9);
    }
    gate[5] = -INFINITY;
    gate[6] = NAN;
    float expected[3 * 336];
    memcpy(expected, gate, sizeof expected);
    kernels_ops_plain.swiglu(expected, up, rows * columns);
    float *y = rig_take((rows * 340 - 4) * sizeof *y);
    struct gpu_swiglu args = {
        .gate = rig_address(gate),
        .up = rig_address(up),
        .y = rig_address(y),
        .gate_stride = columns,
        .up_stride = columns,
        .y_stride = 340,
        .rows = rows,
        .columns = columns,
        .y_type = GPU_F32,
    };
    RIG_LAUNCH(swiglu, &args);
    for (uint32_t i = 0; i < rows * columns; i++) {
        assert_same_float(y[i / columns * 340 + i % columns], expected[i]);
    }
    assert_true(isnan(y[columns]));     /* between rows nothing is written */
}

static const struct CMUnitTest tests[] = {
    RIG_TEST(test_load_every_half_as_the_cpu),
    RIG_TEST(test_store_bfloat_rounds_to_nearest_even),
    RIG_TEST(test_pairs_are_multiplied_and_added_with_one_rounding),
    RIG_TEST(test_embed_every_type_is_exact),
    RIG_TEST(test_embed_of_levels_has_the_weights_of_products),
    RIG_TEST(test_swiglu_equals_the_cpu),
};

rig_main(tests)
