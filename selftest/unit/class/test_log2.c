/* SPDX-License-Identifier: MIT */
/*
 * Goal: logarithms and powers of two in fixed point are right to their last bit, from 1 to 2^64.
 * Method: libm beside them, over numbers that grow by a seventh.
 */
#include <math.h>

#include "selftest/unit/test.h"

#include "sched/class/log2.h"

static void test_logarithm_is_libm_s_rounded_down(void **state)
{
    (void)state;
    for (uint64_t number = 1; number < UINT64_MAX / 8 * 7; number += number / 7 + 1) {
        double wanted = log2((double)number) * 256, got = log2_fixed(number);
        assert_true(got <= wanted + 1e-3 && got > wanted - 1.001);
    }
    assert_int_equal(log2_fixed(1), 0);
    assert_int_equal(log2_fixed(1024), 10 * 256);
    assert_int_equal(log2_fixed(UINT64_MAX), 64 * 256 - 1);
}

static void test_power_is_libm_s(void **state)
{
    (void)state;
    for (int32_t log = -20 * 256; log <= 20 * 256; log++) {
        double wanted = 1e6 * exp2(log / 256.0), got = (double)log2_scale(1000000, log);
        assert_true(fabs(got - wanted) <= 1 + wanted * 1e-8);
    }
}

static void test_power_saturates(void **state)
{
    (void)state;
    assert_true(log2_scale(3, 63 * 256) == UINT64_MAX);
    assert_true(log2_scale(1, 63 * 256) == UINT64_C(1) << 63);
    assert_true(log2_scale(1, 100 * 256) == UINT64_MAX);
    assert_int_equal(log2_scale(UINT64_MAX, -64 * 256), 0);
    assert_int_equal(log2_scale(UINT64_MAX, -63 * 256), 1);
    assert_int_equal(log2_scale(0, 100 * 256), 0);
    assert_true(log2_scale(UINT64_MAX, 0) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logarithm_is_libm_s_rounded_down),
        cmocka_unit_test(test_power_is_libm_s),
        cmocka_unit_test(test_power_saturates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
