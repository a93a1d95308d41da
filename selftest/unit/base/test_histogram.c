/* SPDX-License-Identifier: MIT */
/*
 * Goal: a percentile is never below the true one, nor more than an eighth above it.
 * Method: random times of every size beside a sorted list of them.
 */
#include "selftest/unit/test.h"

#include <stdlib.h>

#include "config/base/histogram.h"

enum { TIMES = 2000 };

static struct histogram histogram;

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void test_percentile_without_times_is_zero(void **state)
{
    (void)state;
    memset(&histogram, 0, sizeof histogram);
    assert_int_equal(histogram_percentile_us(&histogram, 0), 0);
    assert_int_equal(histogram_percentile_us(&histogram, 1000), 0);
}

static void test_percentile_is_right_to_an_eighth(void **state)
{
    (void)state;
    static uint64_t times[TIMES];
    uint64_t random = 7;
    memset(&histogram, 0, sizeof histogram);
    for (uint32_t i = 0; i < TIMES; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        times[i] = (random >> 20) >> (random >> 58) % 44;
        histogram_note(&histogram, times[i], 1);
    }
    qsort(times, TIMES, sizeof *times, by_size);
    for (uint32_t permille = 1; permille <= 1000; permille++) {
        uint64_t truth = times[(TIMES * permille + 999) / 1000 - 1];
        uint64_t got = histogram_percentile_us(&histogram, permille);
        assert_true(truth >= UINT64_C(1) << HISTOGRAM_OCTAVES ||
                    (got >= truth && got <= truth + truth / 8));
    }
}

static void test_every_time_has_a_bucket(void **state)
{
    (void)state;
    for (uint32_t bit = 0; bit < 64; bit++) {
        memset(&histogram, 0, sizeof histogram);
        histogram_note(&histogram, (UINT64_C(1) << bit) - 1, 1);
        histogram_note(&histogram, UINT64_C(1) << bit, 1);
        histogram_note(&histogram, UINT64_MAX, 2);
        assert_int_equal(histogram.count, 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentile_without_times_is_zero),
        cmocka_unit_test(test_percentile_is_right_to_an_eighth),
        cmocka_unit_test(test_every_time_has_a_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
