/* SPDX-License-Identifier: MIT */
/*
 * Goal: means and percentiles of a run.
 * Method: a handful of programs whose figures are computed by hand.
 */
#include "selftest/unit/test.h"

#include <math.h>

#include "tools/lab/figures.h"

static double scratch[200];

static void assert_near(double found, double wanted)
{
    if (fabs(found - wanted) > 1e-9) {
        print_error("got %.12g, expected %.12g\n", found, wanted);
        fail();
    }
}

/* 1 s for 10 tokens, 3 s for 10, 8 s for 1,000: 0.1, 0.3, 0.008; the mean is that of the ratios
 * (0.136), not the ratio of the sums (12 s for 1,020 tokens). */
static void test_mean_is_the_mean_of_the_programs_ratios(void **state)
{
    (void)state;
    const struct figures_program programs[] = {
        {.path_us = 1000000, .whole_us = 2000000, .tokens = 10, .completed = true},
        {.path_us = 3000000, .whole_us = 3000000, .tokens = 10, .completed = true},
        {.path_us = 8000000, .whole_us = 16000000, .tokens = 1000, .completed = true},
    };
    struct figures figures;
    figures_compute(&figures, programs, 0, 3, scratch);
    assert_near(figures.token.mean, (0.1 + 0.3 + 0.008) / 3);
    assert_near(figures.token.p50, 0.1);
    assert_near(figures.token.p99, 0.3);
    assert_near(figures.token_with_gaps.mean, (0.2 + 0.3 + 0.016) / 3);
    assert_near(figures.jct.mean, 7);
    assert_near(figures.jct.p95, 16);
    assert_int_equal(figures.completed, 3);
}

/* Of 100 programs with 1 .. 100 s, in a stirred order, the nearest ranks are the numbers. */
static void test_percentiles_are_nearest_ranks(void **state)
{
    (void)state;
    struct figures_program programs[100];
    struct figures figures;
    for (uint32_t i = 0; i < 100; i++) {
        uint64_t seconds = 1 + i * 37 % 100;
        programs[i] = (struct figures_program){.path_us = seconds * 1000000, .tokens = 1,
                                               .whole_us = seconds * 1000000, .completed = true};
    }
    figures_compute(&figures, programs, 0, 100, scratch);
    assert_near(figures.token.p50, 50);
    assert_near(figures.token.p90, 90);
    assert_near(figures.token.p95, 95);
    assert_near(figures.token.p99, 99);
    assert_near(figures.token.mean, 50.5);
}

static void test_programs_that_did_not_complete_do_not_count(void **state)
{
    (void)state;
    const struct figures_program programs[] = {
        {.path_us = 5, .whole_us = 5, .tokens = 0, .completed = false},
        {.path_us = 2000000, .whole_us = 2000000, .tokens = 1, .completed = true},
    };
    struct figures figures;
    figures_compute(&figures, programs, 0, 2, scratch);
    assert_int_equal(figures.programs, 2);
    assert_int_equal(figures.completed, 1);
    assert_near(figures.token.mean, 2);
    figures_compute(&figures, programs, 0, 1, scratch);
    assert_near(figures.token.mean, 0);
}

static void test_steady_state_is_the_middle_sixty_per_cent(void **state)
{
    (void)state;
    assert_int_equal(figures_steady_first(400), 80);
    assert_int_equal(figures_steady_end(400), 320);
    assert_int_equal(figures_steady_first(3), 0);
    assert_int_equal(figures_steady_end(3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mean_is_the_mean_of_the_programs_ratios),
        cmocka_unit_test(test_percentiles_are_nearest_ranks),
        cmocka_unit_test(test_programs_that_did_not_complete_do_not_count),
        cmocka_unit_test(test_steady_state_is_the_middle_sixty_per_cent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
