/* SPDX-License-Identifier: MIT
 *
 * Goal: numbers of every type are read exactly and written rounded, by the kernels that do little
 * else: embed, dequantize, swiglu.
 * Method: every half and every bfloat, against the conversions of the compiler and of the CPU
 * engine; random quantisation blocks of Q8_0; the CPU's SwiGLU.
 */
#include "selftest/unit/cuda/gpu_rig.h"

#include "kernels/cuda/device/number.h"
#include "kernels/exp.h"
#include "kernels/matrix.h"
#include "kernels/ops.h"

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

/* ---- weights ---- */

#define COLUMNS 96u
#define TOKENS  7u

/* `tokens` rows of the type; the same numbers as floats go to `floats`. */
static void *table_make(uint32_t type, float *floats)
{
    uint32_t bytes = type == GPU_Q8_0  ? COLUMNS / 32 * 34
                     : type == GPU_F32 ? COLUMNS * 4
                                       : COLUMNS * 2;
    uint8_t *table = rig_take(TOKENS * bytes);
    for (uint32_t i = 0; i < TOKENS * COLUMNS; i++) {
        float value = rig_number();
        uint8_t *block = table + i / 32 * 34;
        if (type == GPU_Q8_0) {
            uint16_t scale = (uint16_t)(0x2000 + i / 32);
            memcpy(block, &scale, 2);
            block[2 + i % 32] = (uint8_t)rig_random(256);
            floats[i] = kernels_half_to_float(scale) * (float)(int8_t)block[2 + i % 32];
        } else {
            gpu_store(table, type, i, value);
            floats[i] = gpu_load(table, type, i);
            assert_true(fabsf(floats[i] - value) < 0x1p-8f);
        }
    }
    return table;
}

static void test_embed_every_type_is_exact(void **state)
{
    (void)state;
    const struct gpu_slot slots[] = {{6, 0, 0}, {0, 0, 1}, {3, 0, GPU_NONE}, {3, 9, 2}};
    for (uint32_t type = GPU_F32; type <= GPU_Q8_0; type++) {
        float floats[TOKENS * COLUMNS];
        float *x = rig_take((3 * 100 + COLUMNS) * sizeof *x);
        struct gpu_embed args = {
            .table = rig_address(table_make(type, floats)),
            .slots = rig_address(rig_copy(slots, sizeof slots)),
            .x = rig_address(x),
            .x_stride = 100,
            .slots_count = 4,
            .dim = COLUMNS,
            .table_type = type,
        };
        RIG_LAUNCH(embed, &args);
        for (uint32_t i = 0; i < 4 * COLUMNS; i++) {
            const struct gpu_slot *slot = &slots[i / COLUMNS];
            float expected =
                slot->row == GPU_NONE ? 0 : floats[slot->token * COLUMNS + i % COLUMNS];
            assert_same_float(x[i / COLUMNS * 100 + i % COLUMNS], expected);
        }
    }
}

static void test_dequantize_to_every_type(void **state)
{
    (void)state;
    const uint32_t count = TOKENS * COLUMNS;
    for (uint32_t type = GPU_F32; type <= GPU_BF16; type++) {
        float floats[TOKENS * COLUMNS];
        void *from = table_make(GPU_Q8_0, floats);
        void *to = rig_take(count * (type == GPU_F32 ? 4 : 2));
        struct gpu_dequantize args = {rig_address(from), rig_address(to), count, type};
        RIG_LAUNCH(dequantize, &args);
        for (uint32_t i = 0; i < count; i++) {
            float expected = type == GPU_F32   ? floats[i]
                             : type == GPU_F16 ? kernels_half_to_float(kernels_half_of(floats[i]))
                                               : gpu_float_of((uint32_t)gpu_bfloat_of(floats[i])
                                                              << 16);
            assert_same_float(gpu_load(to, type, i), expected);
        }
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
    RIG_TEST(test_embed_every_type_is_exact),
    RIG_TEST(test_dequantize_to_every_type),
    RIG_TEST(test_swiglu_equals_the_cpu),
};

rig_main(tests)
