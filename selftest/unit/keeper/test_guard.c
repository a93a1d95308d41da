/* SPDX-License-Identifier: MIT */
/*
 * Goal: a worker is hung once its heartbeat has stood still for long enough, and not before; a
 * start ends, whatever the heartbeat says; once workers failed too often within the window, and not
 * before, the next one waits, twice as long each time; only an engine of which none was ever ready
 * is given up.
 * Method: ticks and times by hand.
 */
#include "selftest/unit/test.h"

#include "appliance/keeper/guard.h"

enum { TICKS = 5, LOAD_TICKS = 700, FAILURES = 3, WINDOW_US = 1000 };

static struct guard fresh_with(uint32_t failures_max)
{
    struct guard guard;
    guard_init(&guard, &(struct guard_settings){
        .hang_us = TICKS * GUARD_TICK_US, .load_us = LOAD_TICKS * GUARD_TICK_US,
        .failures_max = failures_max, .window_us = WINDOW_US});
    guard_begin(&guard);
    return guard;
}

static struct guard fresh(void)
{
    return fresh_with(FAILURES);
}

/* Of a worker that owes an answer. */
static bool tick_owing(struct guard *guard, uint64_t heartbeat, bool is_ready)
{
    return guard_tick(guard, &(struct guard_signs){heartbeat, is_ready, true, false});
}

/* Ticks without a heartbeat until it is hung; 0: not within `max`. */
static uint32_t ticks_to_hang(struct guard *guard, uint64_t heartbeat, bool is_ready, uint32_t max)
{
    for (uint32_t tick = 1; tick <= max; tick++) {
        if (tick_owing(guard, heartbeat, is_ready)) {
            return tick;
        }
    }
    return 0;
}

static void test_tick_with_a_still_heart_for_long_enough_is_a_hang(void **state)
{
    struct guard guard = fresh();
    assert_false(tick_owing(&guard, 7, true));
    assert_int_equal(ticks_to_hang(&guard, 7, true, 100), TICKS);
}

static void test_tick_with_a_beating_heart_is_no_hang(void **state)
{
    struct guard guard = fresh();
    for (uint64_t beat = 1; beat < 1000; beat++) {
        assert_int_equal(ticks_to_hang(&guard, beat, true, TICKS), 0);
    }
    /* A number that goes back is a sign of life too. */
    assert_false(tick_owing(&guard, 3, true));
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

/* Its weights go to a GPU piece by piece, which takes time; then nothing more comes. */
static void test_tick_of_a_worker_that_starts_with_a_beating_heart_is_no_hang(void **state)
{
    struct guard guard = fresh();
    for (uint64_t beat = 1; beat < 10; beat++) {
        assert_int_equal(
            ticks_to_hang(&guard, beat, false, TICKS * GUARD_START_PATIENCE - 1), 0);
    }
    assert_false(tick_owing(&guard, 100, false));
    assert_int_equal(ticks_to_hang(&guard, 100, false, 1000), TICKS * GUARD_START_PATIENCE);
}

static void test_tick_of_a_start_that_does_not_end_is_a_hang_whatever_the_heart_says(void **state)
{
    struct guard guard = fresh();
    uint32_t ticks = 1;
    while (!tick_owing(&guard, ticks, false)) {
        ticks++;
    }
    assert_int_equal(ticks, TICKS * GUARD_START_PATIENCE + LOAD_TICKS);
    guard_begin(&guard);                /* its successor has as long */
    assert_false(tick_owing(&guard, 1, false));
    for (ticks = 0; ticks < 10000; ticks++) {
        assert_false(tick_owing(&guard, ticks + 2, true));
    }
}

/* What a dead worker has left as its heartbeat is no sign of life of the next one. */
static void test_begin_forgets_the_heartbeat(void **state)
{
    struct guard guard = fresh();
    assert_false(tick_owing(&guard, 7, true));
    guard_begin(&guard);
    assert_int_equal(ticks_to_hang(&guard, 0, false, 1000), TICKS * GUARD_START_PATIENCE);
}

/* Nothing was asked of it, and nothing is heard. */
static void test_tick_of_a_worker_that_owes_nothing_is_no_hang(void **state)
{
    struct guard guard = fresh();
    for (uint32_t i = 0; i < 100 * TICKS; i++) {
        assert_false(guard_tick(&guard, &(struct guard_signs){7, true, false, false}));
    }
    assert_int_equal(ticks_to_hang(&guard, 7, true, 100), TICKS);
}

static void test_hang_is_rounded_up_to_whole_ticks(void **state)
{
    struct guard guard;
    guard_init(&guard, &(struct guard_settings){.hang_us = GUARD_TICK_US + 1, .window_us = 1});
    assert_false(tick_owing(&guard, 0, true));
    assert_int_equal(ticks_to_hang(&guard, 0, true, 100), 2);
}

static void test_fail_too_often_within_the_window_waits_twice_as_long_each_time(void **state)
{
    static const uint32_t seconds[] = {1, 2, 4, 8, 16, 32, 60, 60, 60};
    struct guard guard = fresh();
    for (uint32_t i = 1; i < FAILURES; i++) {
        assert_int_equal(guard_fail(&guard, true, 100), 0);
        assert_false(guard_backs_off(&guard));
    }
    for (uint32_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++) {
        uint32_t ticks = guard_fail(&guard, i % 2 == 0, 100 + WINDOW_US);
        assert_int_equal(ticks * GUARD_TICK_US, seconds[i] * UINT64_C(1000000));
        assert_true(guard_backs_off(&guard));
    }
    assert_int_equal(guard_fail(&guard, true, 200 + 2 * WINDOW_US), 0);     /* long after them */
    assert_false(guard_backs_off(&guard));
}

static void test_fail_now_and_then_never_waits(void **state)
{
    struct guard guard = fresh();
    for (uint64_t i = 1; i < 1000; i++) {       /* past the room for times, many times over */
        assert_int_equal(guard_fail(&guard, true, i * (WINDOW_US / 2 + 1)), 0);
    }
    assert_int_equal(guard_fail(&guard, true, 999 * (WINDOW_US / 2 + 1)), GUARD_WAIT_TICKS);
}

static void test_fail_before_it_was_ready_waits_a_second(void **state)
{
    struct guard guard = fresh();
    assert_int_equal(guard_fail(&guard, false, 100), GUARD_WAIT_TICKS);
    assert_false(guard_backs_off(&guard));
}

static void test_fail_too_often_before_any_was_ready_gives_up(void **state)
{
    struct guard guard = fresh();
    for (uint32_t i = 1; i < FAILURES; i++) {
        assert_int_equal(guard_fail(&guard, false, 100), GUARD_WAIT_TICKS);
    }
    assert_int_equal(guard_fail(&guard, false, 100), GUARD_NEVER);
    guard = fresh();
    assert_int_equal(guard_fail(&guard, true, 100), 0);
    for (uint32_t i = 0; i < 1000; i++) {       /* one was: it may be again */
        assert_int_not_equal(guard_fail(&guard, false, 100), GUARD_NEVER);
    }
}

static void test_fail_once_waits_where_one_is_too_often(void **state)
{
    struct guard guard = fresh_with(1);
    assert_int_equal(guard_fail(&guard, true, 5), GUARD_WAIT_TICKS);
    assert_true(guard_backs_off(&guard));
}

static void test_fail_never_waits_where_it_is_told_not_to(void **state)
{
    struct guard guard = fresh_with(0);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(guard_fail(&guard, true, 5), 0);
    }
}

static void test_fail_counts_the_most_that_there_is_room_for(void **state)
{
    struct guard guard = fresh_with(GUARD_FAILURES_MAX);
    for (uint32_t i = 1; i < GUARD_FAILURES_MAX; i++) {
        assert_int_equal(guard_fail(&guard, true, i), 0);
    }
    assert_int_equal(guard_fail(&guard, true, GUARD_FAILURES_MAX), GUARD_WAIT_TICKS);
}

/* The core that has died would have condemned it; the next one has no time for that step. */
static void test_tick_with_a_step_that_a_dead_core_left_is_a_hang_at_last(void **state)
{
    struct guard guard = fresh();
    uint64_t beat = 0;
    for (uint32_t tick = 1; tick < GUARD_START_PATIENCE * TICKS; tick++) {
        assert_false(guard_tick(&guard, &(struct guard_signs){++beat, true, true, true}));
    }
    struct guard other = guard;
    assert_false(guard_tick(&other, &(struct guard_signs){++beat, true, true, false}));
    assert_false(guard_tick(&other, &(struct guard_signs){++beat, true, true, true}));
    assert_true(guard_tick(&guard, &(struct guard_signs){++beat, true, true, true}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tick_with_a_still_heart_for_long_enough_is_a_hang),
        cmocka_unit_test(test_tick_with_a_step_that_a_dead_core_left_is_a_hang_at_last),
        cmocka_unit_test(test_tick_with_a_beating_heart_is_no_hang),
        cmocka_unit_test(test_tick_of_a_worker_that_starts_is_more_patient),
        cmocka_unit_test(test_tick_of_a_worker_that_was_slow_to_start_begins_anew),
        cmocka_unit_test(test_tick_of_a_worker_that_starts_with_a_beating_heart_is_no_hang),
        cmocka_unit_test(test_tick_of_a_start_that_does_not_end_is_a_hang_whatever_the_heart_says),
        cmocka_unit_test(test_begin_forgets_the_heartbeat),
        cmocka_unit_test(test_tick_of_a_worker_that_owes_nothing_is_no_hang),
        cmocka_unit_test(test_hang_is_rounded_up_to_whole_ticks),
        cmocka_unit_test(test_fail_too_often_within_the_window_waits_twice_as_long_each_time),
        cmocka_unit_test(test_fail_now_and_then_never_waits),
        cmocka_unit_test(test_fail_before_it_was_ready_waits_a_second),
        cmocka_unit_test(test_fail_too_often_before_any_was_ready_gives_up),
        cmocka_unit_test(test_fail_once_waits_where_one_is_too_often),
        cmocka_unit_test(test_fail_never_waits_where_it_is_told_not_to),
        cmocka_unit_test(test_fail_counts_the_most_that_there_is_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
