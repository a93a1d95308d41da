/* SPDX-License-Identifier: MIT
 *
 * Goal: softmax, norm, SwiGLU, halves, levels and the copy of all sets agree to the bit, and are
 * right.
 * Method: odd sizes, with NaN in lanes that do not exist; the exponential against that of libm in
 * double (relative error below 3e-7).
 */
#include "selftest/unit/test.h"

#include "kernels/exp.h"
#include "kernels/half.h"
#include "selftest/unit/kernels/sets.h"
#include "selftest/unit/kernels/tiny_model.h"

#define SETS_MAX (KERNELS_SIMDS + 2)

/* The plain set and those that it is compared with. */
static uint32_t sets_count(void)
{
    return 1 + sets_find().count;
}

static const struct kernels_ops *set_at(uint32_t index)
{
    struct sets sets = sets_find();
    return index == 0 ? &kernels_ops_plain : sets.ops[index - 1];
}

static void test_exp_libm_close(void **state)
{
    (void)state;
    for (float x = -87.0f; x < 88.0f; x += 0.0137f) {
        double expected = exp((double)x);
        assert_true(fabs(kernels_exp(x) - expected) <= 3e-7 * expected);
    }
    assert_true(kernels_exp(0.0f) == 1.0f);
    assert_true(kernels_exp(-1e30f) > 0 && kernels_exp(-INFINITY) < 1e-37f);
    assert_true(isfinite(kernels_exp(INFINITY)) && kernels_exp(1000.0f) > 1e38f);
    assert_true(isnan(kernels_exp(NAN)));
}

static void test_exponentiate_odd_counts_equal_bits(void **state)
{
    (void)state;
    for (uint32_t count = 1; count < 70; count++) {
        float values[SETS_MAX][80], sums[SETS_MAX];
        for (uint32_t s = 0; s < sets_count(); s++) {
            uint64_t random = count;
            memset(values[s], 0xff, sizeof values[s]);
            for (uint32_t i = 0; i < count; i++) {
                values[s][i] = 20 * tiny_uniform(&random);
            }
            sums[s] = set_at(s)->exponentiate(values[s], count, 0.37f);
        }
        double total = 0;
        for (uint32_t i = 0; i < count; i++) {
            assert_true(values[0][i] > 0 && values[0][i] <= 1);
            total += values[0][i];
        }
        assert_true(fabs(total - sums[0]) < 1e-5 * total);
        for (uint32_t s = 1; s < sets_count(); s++) {
            assert_memory_equal(values[0], values[s], count * sizeof(float));
            assert_memory_equal(&sums[0], &sums[s], sizeof sums[0]);
        }
    }
}

static void test_exponentiate_nan_reaches_sum(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < sets_count(); s++) {
        for (uint32_t bad = 0; bad < 19; bad++) {
            float values[24] = {0};
            values[bad] = bad % 2 ? NAN : INFINITY;
            assert_true(isnan(set_at(s)->exponentiate(values, 19, 1.0f)));
        }
        float values[24] = {0};
        values[7] = -INFINITY;              /* gets the smallest weight, and spoils no other */
        assert_true(set_at(s)->exponentiate(values, 19, 1.0f) == 18.0f);
        assert_true(values[7] > 0 && values[7] < 1e-37f);
    }
}

static void test_norm_odd_dims_equal_bits(void **state)
{
    (void)state;
    for (uint32_t dim = 1; dim < 70; dim++) {
        float x[80], weight[80] = {0}, out[SETS_MAX][80] = {{0}};
        uint64_t random = dim;
        memset(x, 0xff, sizeof x);      /* past the end: NaN */
        double squares = 0;
        for (uint32_t i = 0; i < dim; i++) {
            x[i] = tiny_uniform(&random);
            weight[i] = tiny_uniform(&random);
            squares += (double)x[i] * x[i];
        }
        for (uint32_t s = 0; s < sets_count(); s++) {
            set_at(s)->norm(out[s], x, weight, dim, 1e-5f);
        }
        double inverse = 1 / sqrt(squares / dim + 1e-5);
        for (uint32_t i = 0; i < dim; i++) {
            assert_true(fabs(x[i] * inverse * weight[i] - out[0][i]) < 1e-5);
        }
        for (uint32_t s = 1; s < sets_count(); s++) {
            assert_memory_equal(out[0], out[s], dim * sizeof(float));
        }
    }
}

static void test_swiglu_equal_bits(void **state)
{
    (void)state;
    float gate[SETS_MAX][64], up[64];
    for (uint32_t s = 0; s < sets_count(); s++) {
        for (uint32_t i = 0; i < 64; i++) {
            gate[s][i] = ((float)i - 32) * 5;
            up[i] = (float)i * 0.1f;
        }
        set_at(s)->swiglu(gate[s], up, 64);
    }
    for (uint32_t i = 0; i < 64; i++) {
        double g = ((double)i - 32) * 5;
        assert_true(fabs(g / (1 + exp(-g)) * up[i] - gate[0][i]) < 1e-4);
    }
    for (uint32_t s = 1; s < sets_count(); s++) {
        assert_memory_equal(gate[0], gate[s], sizeof gate[0]);
    }
}

static void test_is_finite_each_bad_number_found(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < sets_count(); s++) {
        for (uint32_t i = 0; i < 40; i++) {
            float values[40] = {3e38f, -3e38f, 1e-45f};
            assert_true(set_at(s)->is_finite(values, 40));
            values[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
            assert_false(set_at(s)->is_finite(values, 40));
            assert_true(set_at(s)->is_finite(values, i));
        }
    }
}

static void test_largest_first_of_equals(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < sets_count(); s++) {
        for (uint32_t count = 1; count < 40; count++) {
            for (uint32_t best = 0; best < count; best++) {
                float values[48];
                for (uint32_t i = 0; i < 48; i++) {
                    values[i] = i < count ? -5.0f - (float)(i % 7) : 100.0f;
                }
                values[best] = -1;
                values[count - 1] = -1;
                assert_int_equal(set_at(s)->largest(values, count), best);
            }
        }
    }
}

/* ---- halves ---- */

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The result of halve(), by search: the nearer of the two neighbours, of a tie the even one. */
static uint16_t nearest_half(float value)
{
    uint16_t best = HALF_NAN;
    double least = INFINITY, size = fabs((double)value);
    for (uint16_t half = 0; half <= HALF_FINITE_MAX && size < 65520; half++) {
        double distance = fabs((double)kernels_half_to_float(half) - size);
        if (distance < least || (distance == least && half % 2 == 0)) {
            best = half;
            least = distance;
        }
    }
    return best == HALF_NAN ? best : (uint16_t)(best | (signbit(value) ? 0x8000 : 0));
}

static void test_halve_nearest_and_even(void **state)
{
    (void)state;
    float values[300] = {0.0f, -0.0f, 65504.0f, 65519.996f, 65520.0f, -65520.0f, 1e30f, INFINITY,
                         -INFINITY, NAN, 0x1p-24f, 0x1p-25f, 0x1.000002p-25f, 0x1.8p-24f,
                         0x1p-14f, 0x1.ffcp-15f, 0x1.ffep-15f, -0x1.ffffp-15f, 1e-45f, 2049.0f,
                         2051.0f, -2049.0f, 1.0f, 0x1.ffep0f, 0x1.fff8p15f};
    uint64_t random = 3;
    for (uint32_t i = 25; i < 300; i++) {
        uint32_t exponent = 100 + tiny_random(&random) % 45;
        values[i] = float_of(tiny_random(&random) << 31 | exponent << 23 |
                             (tiny_random(&random) & 0x7fffffu));
    }
    for (uint32_t s = 0; s < sets_count(); s++) {
        for (uint32_t count = 0; count <= 300; count += count < 20 ? 1 : 56) {
            uint16_t halves[301];
            memset(halves, 0x55, sizeof halves);
            set_at(s)->halve(halves, values, count);
            assert_int_equal(halves[count], 0x5555);
            for (uint32_t i = 0; i < count && (count == 300 || count < 20); i++) {
                assert_int_equal(halves[i], nearest_half(values[i]));
            }
        }
    }
}

static void test_halve_every_half_is_itself(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < sets_count(); s++) {
        for (uint32_t half = 0; half < 0x10000; half += 16) {
            uint16_t halves[16];
            float values[16];
            for (uint32_t i = 0; i < 16; i++) {
                values[i] = kernels_half_to_float((uint16_t)(half + i));
            }
            set_at(s)->halve(halves, values, 16);
            for (uint32_t i = 0; i < 16; i++) {
                bool is_number = ((half + i) & 0x7fff) <= HALF_FINITE_MAX;
                assert_int_equal(halves[i], is_number ? half + i : HALF_NAN);
            }
        }
    }
}

/* ---- levels ---- */

static void levels_fill(float *values, uint32_t trial, uint64_t *random)
{
    static const float specials[] = {0.0f, -0.0f, 0x1p-101f, 0x1p-100f, INFINITY, -INFINITY, NAN,
                                     3e38f};
    for (uint32_t i = 0; i < 160; i++) {
        values[i] = trial % 3 == 0 ? (float)(tiny_random(random) % 509) / 2 - 127     /* ties */
                                   : tiny_uniform(random);
    }
    if (trial % 4 == 3) {
        values[tiny_random(random) % 160] = specials[tiny_random(random) % 8];
    }
    if (trial % 16 == 0) {
        memset(values, 0, 160 * sizeof *values);
        values[trial % 7] = specials[trial / 16 % 8];
    }
}

/* All sets as the plain one, which is near; a number that is not finite spoils the scale. */
static void test_level_near_and_alike(void **state)
{
    (void)state;
    uint64_t random = 5;
    for (uint32_t trial = 0; trial < 400; trial++) {
        float values[160], scale, max = 0;
        int8_t expected[161];
        uint32_t count = 1 + tiny_random(&random) % 160;
        bool finite = true;
        levels_fill(values, trial, &random);
        memset(expected, 0x55, sizeof expected);
        scale = kernels_ops_plain.level(expected, values, count);
        assert_int_equal(expected[count], 0x55);
        for (uint32_t i = 0; i < count; i++) {
            finite = finite && isfinite(values[i]);
            max = fabsf(values[i]) > max ? fabsf(values[i]) : max;
        }
        assert_int_equal(isfinite(scale), finite);
        for (uint32_t i = 0; i < count && finite; i++) {
            double off = fabs((double)expected[i] * (double)scale - (double)values[i]);
            assert_true(off <= (double)max / 253 || max < KERNELS_LEVEL_TINY);
        }
        for (uint32_t s = 0; s < sets_count(); s++) {
            int8_t levels[161];
            memset(levels, 0x55, sizeof levels);
            float got = set_at(s)->level(levels, values, count);
            assert_true(memcmp(&got, &scale, sizeof got) == 0 || (isnan(got) && isnan(scale)));
            assert_memory_equal(levels, expected, sizeof levels);
        }
    }
}

static bool floats_alike(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* A key's numbers: around zero, far from it on one side, or in a narrow range. */
static void key_fill(float *values, uint32_t trial, uint64_t *random)
{
    levels_fill(values, trial, random);
    for (uint32_t i = 0; i < 160; i++) {
        values[i] = trial % 5 == 1 ? values[i] * 1e-3f + 20 : trial % 5 == 2 ? values[i] * 1e-6f
                    : trial % 5 == 3 ? fabsf(values[i]) : values[i];
    }
}

/* All sets as the plain one, which is near: half a step from each number. What is not finite, or
 * beyond a half, spoils the frame. */
static void test_level_key_near_and_alike(void **state)
{
    (void)state;
    uint64_t random = 6;
    for (uint32_t trial = 0; trial < 400; trial++) {
        float values[160], low = INFINITY, high = -INFINITY;
        int16_t expected[161];
        uint32_t count = 1 + tiny_random(&random) % 160;
        bool finite = true;
        key_fill(values, trial, &random);
        memset(expected, 0x55, sizeof expected);
        struct kernels_key_frame frame = kernels_ops_plain.level_key(expected, values, count);
        float step = kernels_half_to_float(frame.step);
        float middle = kernels_half_to_float(frame.middle);
        assert_int_equal(expected[count], 0x5555);
        for (uint32_t i = 0; i < count; i++) {
            finite = finite && fabsf(values[i]) < 65504;
            low = values[i] < low ? values[i] : low;
            high = values[i] > high ? values[i] : high;
        }
        assert_int_equal(isfinite(step) && isfinite(middle), finite);
        for (uint32_t i = 0; i < count && finite; i++) {
            double off = fabs((double)expected[i] * (double)step + (double)middle - values[i]);
            double range = (double)(high - low) + fabs((double)middle) / 1024;
            assert_in_range(expected[i] + 255, 0, 510);
            assert_true(off <= range / 1010 || off <= 0x1p-17);
        }
        for (uint32_t s = 0; s < sets_count(); s++) {
            int16_t levels[161];
            memset(levels, 0x55, sizeof levels);
            struct kernels_key_frame got = set_at(s)->level_key(levels, values, count);
            assert_memory_equal(&got, &frame, sizeof got);
            assert_memory_equal(levels, expected, sizeof levels);
        }
    }
}

static void test_level_query_near_and_alike(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (uint32_t trial = 0; trial < 400; trial++) {
        float values[160], max = 0;
        double sum = 0;
        int16_t expected[161];
        uint32_t count = 1 + tiny_random(&random) % 160;
        bool finite = true;
        levels_fill(values, trial, &random);
        memset(expected, 0x55, sizeof expected);
        struct kernels_query_frame frame = kernels_ops_plain.level_query(expected, values, count);
        assert_int_equal(expected[count], 0x5555);
        for (uint32_t i = 0; i < count; i++) {
            finite = finite && isfinite(values[i]);
            max = fabsf(values[i]) > max ? fabsf(values[i]) : max;
            sum += (double)values[i];
        }
        assert_int_equal(isfinite(frame.scale), finite);
        assert_true(!finite || fabs(frame.sum - sum) <= 1e-5 * (double)max * count);
        for (uint32_t i = 0; i < count && finite; i++) {
            double off = fabs((double)expected[i] * (double)frame.scale - (double)values[i]);
            assert_true(off <= (double)max / 16300 || max < KERNELS_LEVEL_TINY);
        }
        for (uint32_t s = 0; s < sets_count(); s++) {
            int16_t levels[161];
            memset(levels, 0x55, sizeof levels);
            struct kernels_query_frame got = set_at(s)->level_query(levels, values, count);
            assert_true(floats_alike(got.scale, frame.scale) && floats_alike(got.sum, frame.sum));
            assert_memory_equal(levels, expected, sizeof levels);
        }
    }
}

/* ---- copy ---- */

/* Every bit arrives, NaN included, and no byte beside them is written. */
static void test_copy_every_bit_and_no_more(void **state)
{
    (void)state;
    enum { COUNT_MAX = 9 * KERNELS_COPY_FLOATS, BESIDE = 16 };
    static _Alignas(64) uint32_t from[COUNT_MAX], to[BESIDE + COUNT_MAX + BESIDE];
    for (uint32_t i = 0; i < COUNT_MAX; i++) {
        from[i] = (i + 1) * UINT32_C(2654435761);
    }
    for (uint32_t s = 0; s < sets_count(); s++) {
        for (uint32_t count = 0; count <= COUNT_MAX; count += KERNELS_COPY_FLOATS) {
            memset(to, 0, sizeof to);
            set_at(s)->copy((float *)(void *)(to + BESIDE), (const float *)(const void *)from,
                          count);
            assert_memory_equal(to + BESIDE, from, count * sizeof *from);
            for (uint32_t j = 0; j < BESIDE; j++) {
                assert_int_equal(to[j], 0);
                assert_int_equal(to[BESIDE + count + j], 0);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_libm_close),
        cmocka_unit_test(test_exponentiate_odd_counts_equal_bits),
        cmocka_unit_test(test_exponentiate_nan_reaches_sum),
        cmocka_unit_test(test_norm_odd_dims_equal_bits),
        cmocka_unit_test(test_swiglu_equal_bits),
        cmocka_unit_test(test_is_finite_each_bad_number_found),
        cmocka_unit_test(test_largest_first_of_equals),
        cmocka_unit_test(test_halve_nearest_and_even),
        cmocka_unit_test(test_halve_every_half_is_itself),
        cmocka_unit_test(test_level_near_and_alike),
        cmocka_unit_test(test_level_key_near_and_alike),
        cmocka_unit_test(test_level_query_near_and_alike),
        cmocka_unit_test(test_copy_every_bit_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
