/* SPDX-License-Identifier: MIT */
/*
 * Goal: promises say who is to go on: with many short programs those that are new, with programs of
 * one length those that have begun; and how much service a program needs to its end.
 * Method: services are noted by hand; what a promise is worth follows from them on paper.
 */
#include "selftest/unit/test.h"

#include "sched/class/promise.h"

enum { SECOND = 1000000 };

static struct sched_promises promises;

static void learn(uint64_t short_us, uint64_t long_us)
{
    promises = (struct sched_promises){.of = {0}};
    for (uint32_t i = 0; i < 64; i++) {
        sched_promise_note(&promises, i % 8 == 0 ? long_us : short_us);
    }
    sched_promise_learn(&promises);
}

static void test_it_sinks_where_most_are_short(void **state)
{
    (void)state;
    learn(1000, SECOND);
    assert_true(sched_promise_of(&promises, 0) > 100 * sched_promise_of(&promises, 10000));
    assert_int_equal(sched_promise_of(&promises, 10 * SECOND), 0);
}

static void test_it_grows_where_all_are_alike(void **state)
{
    (void)state;
    learn(SECOND, SECOND);
    assert_true(sched_promise_of(&promises, 900000) > sched_promise_of(&promises, 0));
}

/* Of programs that all need a second: at the beginning a second; after three quarters half of that,
 * the geometric mean of a second and a quarter. A bucket is a quarter of an octave wide. */
static void test_what_remains_is_between_the_rest_and_the_whole(void **state)
{
    (void)state;
    learn(SECOND, SECOND);
    uint64_t whole_us = sched_promise_remaining_us(&promises, 0);
    uint64_t rest_us = sched_promise_remaining_us(&promises, SECOND * 3 / 4);
    assert_true(whole_us > SECOND * 4 / 5 && whole_us < SECOND * 5 / 4);
    assert_true(rest_us > SECOND * 3 / 8 && rest_us < SECOND * 3 / 4);
}

static void test_of_what_is_unknown_nothing_is_foreseen(void **state)
{
    (void)state;
    promises = (struct sched_promises){.of = {0}};
    sched_promise_note(&promises, SECOND);
    sched_promise_learn(&promises);                     /* one is too few */
    assert_int_equal(sched_promise_remaining_us(&promises, 0), UINT64_MAX);
    learn(1000, SECOND);
    assert_int_equal(sched_promise_remaining_us(&promises, 10 * SECOND), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_sinks_where_most_are_short),
        cmocka_unit_test(test_it_grows_where_all_are_alike),
        cmocka_unit_test(test_what_remains_is_between_the_rest_and_the_whole),
        cmocka_unit_test(test_of_what_is_unknown_nothing_is_foreseen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
