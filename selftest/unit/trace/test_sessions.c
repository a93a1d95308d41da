/* SPDX-License-Identifier: MIT */
/*
 * Goal: the figures of a closed load are those of its middle, and of nothing before or after it.
 * Method: two sessions, six programs of one call; what ends outside the middle has numbers that
 * would be seen.
 */
#include "selftest/unit/test.h"

#include "tools/trace/sessions.h"

#define LOUD 1000000

static void end_program(struct sessions *sessions, uint32_t tokens, uint64_t path_us,
                        uint64_t now_us)
{
    sessions_call(sessions, tokens, 10 * tokens, 5 * tokens);
    sessions_program(sessions, path_us, tokens, now_us);
}

static void test_middle_counts_what_ends_in_it(void **state)
{
    (void)state;
    struct sessions sessions;
    sessions_init(&sessions, 2, 6);
    end_program(&sessions, LOUD, 1, 1000000);
    end_program(&sessions, LOUD, 1, 2000000);       /* the middle begins */
    end_program(&sessions, 100, 500, 3000000);
    end_program(&sessions, 300, 600, 6000000);      /* the last one starts */
    end_program(&sessions, LOUD, 1, 7000000);
    end_program(&sessions, LOUD, 1, 9000000);
    struct sessions_figures figures = sessions_figures(&sessions);
    assert_int_equal(figures.programs, 2);
    assert_true(figures.seconds == 4);
    assert_true(figures.programs_per_s == 0.5);
    assert_true(figures.tokens_per_s == 100);
    assert_true(figures.hit_ratio == 0.5);
    assert_true(figures.token_latency_s == (5 + 2) / 2.0 / 1e6);
}

static void test_failed_program_ends_and_is_not_counted(void **state)
{
    (void)state;
    struct sessions sessions;
    sessions_init(&sessions, 1, 4);
    sessions_failure(&sessions, 1000000);
    end_program(&sessions, 50, 100, 2000000);
    sessions_failure(&sessions, 3000000);
    end_program(&sessions, LOUD, 1, 4000000);
    struct sessions_figures figures = sessions_figures(&sessions);
    assert_int_equal(figures.programs, 1);
    assert_true(figures.seconds == 2 && figures.tokens_per_s == 25);
}

static void test_open_load_has_no_middle(void **state)
{
    (void)state;
    struct sessions sessions;
    sessions_init(&sessions, 0, 2);
    end_program(&sessions, 50, 100, 1000000);
    end_program(&sessions, 50, 100, 2000000);
    struct sessions_figures figures = sessions_figures(&sessions);
    assert_int_equal(figures.programs, 0);
    assert_true(figures.tokens_per_s == 0);
}

static void test_programs_of_three_sessions_fit_from_nine(void **state)
{
    (void)state;
    assert_true(sessions_fit(3, 9) && !sessions_fit(3, 8) && sessions_fit(0, 1));
    assert_false(sessions_fit(UINT32_MAX, 1u << 24));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_middle_counts_what_ends_in_it),
        cmocka_unit_test(test_failed_program_ends_and_is_not_counted),
        cmocka_unit_test(test_open_load_has_no_middle),
        cmocka_unit_test(test_programs_of_three_sessions_fit_from_nine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
