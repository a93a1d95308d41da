/* SPDX-License-Identifier: MIT */
/*
 * Goal: a worker is hung once its heartbeat has stood still for long enough, and not before; the
 * engine is given up once its workers failed too often within the window, and not before.
 * Method: ticks and times by hand.
 */
#include "selftest/unit/test.h"

#include "appliance/guard.h"

enum { TICKS = 5, FAILURES = 3, WINDOW_US = 1000 };

static struct guard fresh(void)
{
    struct guard guard;
    guard_init(&guard, TICKS * GUARD_TICK_US, FAILURES, WINDOW_US);
    guard_begin(&guard);
    return guard;
}

/* Ticks without a heartbeat until it is hung; 0: not within `max`. */
static uint32_t ticks_to_hang(struct guard *guard, uint64_t heartbeat, bool is_ready, uint32_t max)
{
    for (uint32_t tick = 1; tick <= max; tick++) {
        if (guard_tick(guard, heartbeat, is_ready)) {
            return tick;
        }
    }
    return 0;
}

static void test_tick_with_a_still_heart_for_long_enough_is_a_hang(void **state)
{
    struct guard guard = fresh();
    assert_false(guard_tick(&guard, 7, true));
    assert_int_equal(ticks_to_hang(&guard, 7, true, 100), TICKS);
}

static void test_tick_with_a_beating_heart_is_no_hang(void **state)
{
    struct guard guard = fresh();
    for (uint64_t beat = 1; beat < 1000; beat++) {
        assert_int_equal(ticks_to_hang(&guard, beat, true, TICKS), 0);
    }
    /* A number that goes back is a sign of life too. */
    assert_false(guard_tick(&guard, 3, true));
    assert_int_equal(ticks_to_hang(&guard, 3, true, 100), TICKS);
}

static void test_tick_of_a_worker_that_starts_is_more_patient(void **state)
{
    struct guard guard = fresh();
    assert_int_equal(ticks_to_hang(&guard, 0, false, 1000), TICKS * GUARD_START_PATIENCE);
    guard_begin(&guard);
    assert_int_equal(ticks_to_hang(&guard, 0, true, 1000), 1 + TICKS);
}

/* It has had its time to start; from now on it has its time between two heartbeats. */
static void test_tick_of_a_worker_that_was_slow_to_start_begins_anew(void **state)
{
    struct guard guard = fresh();
    assert_int_equal(ticks_to_hang(&guard, 0, false, 3 * TICKS), 0);
    assert_int_equal(ticks_to_hang(&guard, 0, true, 1000), 1 + TICKS);
}

/* Its weights go to a GPU piece by piece, however long that takes; then nothing more comes. */
static void test_tick_of_a_worker_that_starts_with_a_beating_heart_is_no_hang(void **state)
{
    struct guard guard = fresh();
    for (uint64_t beat = 1; beat < 100; beat++) {
        assert_int_equal(
            ticks_to_hang(&guard, beat, false, TICKS * GUARD_START_PATIENCE - 1), 0);
    }
    assert_false(guard_tick(&guard, 100, false));
    assert_int_equal(ticks_to_hang(&guard, 100, false, 1000), TICKS * GUARD_START_PATIENCE);
}

static void test_hang_is_rounded_up_to_whole_ticks(void **state)
{
    struct guard guard;
    guard_init(&guard, GUARD_TICK_US + 1, 0, 1);
    assert_false(guard_tick(&guard, 0, true));
    assert_int_equal(ticks_to_hang(&guard, 0, true, 100), 2);
}

static void test_fail_too_often_within_the_window_gives_up(void **state)
{
    struct guard guard = fresh();
    assert_false(guard_fail(&guard, 100));
    assert_false(guard_fail(&guard, 100));
    assert_true(guard_fail(&guard, 100 + WINDOW_US));
}

static void test_fail_now_and_then_never_gives_up(void **state)
{
    struct guard guard = fresh();
    for (uint64_t i = 1; i < 1000; i++) {       /* past the room for times, many times over */
        assert_false(guard_fail(&guard, i * (WINDOW_US / 2 + 1)));
    }
    assert_true(guard_fail(&guard, 999 * (WINDOW_US / 2 + 1)));
}

static void test_fail_once_gives_up_where_one_is_too_often(void **state)
{
    struct guard guard;
    guard_init(&guard, GUARD_TICK_US, 1, WINDOW_US);
    assert_true(guard_fail(&guard, 5));
}

static void test_fail_never_gives_up_where_it_is_told_not_to(void **state)
{
    struct guard guard;
    guard_init(&guard, GUARD_TICK_US, 0, WINDOW_US);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_false(guard_fail(&guard, 5));
    }
}

static void test_fail_counts_the_most_that_there_is_room_for(void **state)
{
    struct guard guard;
    guard_init(&guard, GUARD_TICK_US, GUARD_FAILURES_MAX, WINDOW_US);
    for (uint32_t i = 1; i < GUARD_FAILURES_MAX; i++) {
        assert_false(guard_fail(&guard, i));
    }
    assert_true(guard_fail(&guard, GUARD_FAILURES_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tick_with_a_still_heart_for_long_enough_is_a_hang),
        cmocka_unit_test(test_tick_with_a_beating_heart_is_no_hang),
        cmocka_unit_test(test_tick_of_a_worker_that_starts_is_more_patient),
        cmocka_unit_test(test_tick_of_a_worker_that_was_slow_to_start_begins_anew),
        cmocka_unit_test(test_tick_of_a_worker_that_starts_with_a_beating_heart_is_no_hang),
        cmocka_unit_test(test_hang_is_rounded_up_to_whole_ticks),
        cmocka_unit_test(test_fail_too_often_within_the_window_gives_up),
        cmocka_unit_test(test_fail_now_and_then_never_gives_up),
        cmocka_unit_test(test_fail_once_gives_up_where_one_is_too_often),
        cmocka_unit_test(test_fail_never_gives_up_where_it_is_told_not_to),
        cmocka_unit_test(test_fail_counts_the_most_that_there_is_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
