/* SPDX-License-Identifier: MIT */
/*
 * Goal: a step may take a multiple of what its tokens have taken lately, engine.hang at least, and
 * twice as long after each one that did not end; health calls it late sooner.
 * Method: step records by hand, times by hand.
 */
#include "selftest/unit/test.h"

#include "appliance/engine/pace.h"

enum { ROWS = 4, ROUNDS = 8, HANG_US = 2000000 };

static struct pace pace;
static struct step step;

static int set_up(void **state)
{
    step.layout = (struct step_layout){.rows_max = ROWS, .steps_max = ROUNDS, .tokens_max = 1 << 17,
                                       .blocks_per_call = 1};
    step_layout_init(&step.layout);
    step.base = arena_take(test_arena(), 1, step.layout.total_bytes);
    pace_init(&pace, HANG_US);
    return 0;
}

static void fill(uint32_t rows, uint32_t fed, uint32_t rounds)
{
    *step_header(&step) = (struct step_header){.rows_count = rows, .tokens_count = fed};
    for (uint32_t i = 0; i < rows; i++) {
        step_row(&step, i)->decode_steps = rounds;
    }
}

/* A step of this cost has taken so long, in so many rounds. */
static void measure(uint32_t rows, uint32_t fed, uint32_t rounds, uint64_t us)
{
    fill(rows, fed, ROUNDS);
    pace_begin(&pace, &step, 100);
    *step_rounds(&step) = rounds;
    pace_end(&pace, &step, 100 + us);
}

static uint64_t allowed_us(uint32_t rows, uint32_t fed)
{
    fill(rows, fed, ROUNDS);
    pace_begin(&pace, &step, 0);
    assert_false(pace_is_overdue(&pace, pace.overdue_us - 1));
    assert_true(pace_is_overdue(&pace, pace.overdue_us));
    return pace.overdue_us;
}

static void test_first_step_has_the_patience_of_a_start(void **state)
{
    assert_int_equal(allowed_us(1, 16), PACE_PATIENCE * HANG_US);
    assert_int_equal(pace.late_us, PACE_PATIENCE * HANG_US);
}

static void test_doubted_step_has_twice_the_cost(void **state)
{
    measure(1, 4000, 0, 4000000);               /* 1 ms for a token */
    uint64_t once_us = allowed_us(1, 2000);
    fill(1, 2000, ROUNDS);
    step_header(&step)->is_doubted = true;
    pace_begin(&pace, &step, 0);
    assert_in_range(pace.overdue_us, 2 * once_us - 20, 2 * once_us + 20);
    *step_rounds(&step) = ROUNDS;
    pace_end(&pace, &step, 2 * 2008 * 1000);    /* it has taken as long: nothing is learnt of it */
    assert_in_range(allowed_us(1, 2000), once_us - 100, once_us + 100);
}

/* It lies in memory that a worker shares. */
static void test_garbled_plan_has_the_cost_of_the_largest_step(void **state)
{
    measure(1, 4000, 0, 4000000);
    *step_header(&step) = (struct step_header){.rows_count = UINT32_MAX, .tokens_count = UINT32_MAX,
                                               .moves_count = UINT32_MAX};
    memset(step_row(&step, 0), 0xff, ROWS * sizeof(struct step_row));
    pace_begin(&pace, &step, 0);
    assert_int_equal(pace.sampled, ROWS * ROUNDS);
    assert_int_equal(pace.fed, step.layout.tokens_max + step.layout.moves_max);
}

static void test_short_step_has_the_time_of_a_hang(void **state)
{
    measure(1, 16, ROUNDS, 2400);               /* 100 us for a token */
    assert_int_equal(allowed_us(1, 16), HANG_US);
    assert_int_equal(pace.late_us, PACE_LATE_US);
}

static void test_long_step_has_a_multiple_of_what_its_tokens_take(void **state)
{
    measure(1, 16, ROUNDS, 24000);              /* 1 ms for a token */
    uint64_t us = allowed_us(ROWS, 1000);
    assert_int_equal(us, PACE_MARGIN * ((1000 + ROWS * ROUNDS) * 1000 + 1));
    assert_int_equal(pace.late_us, us);
}

/* Rounds that were not needed have taken no time. */
static void test_step_that_stopped_early_counts_for_its_rounds(void **state)
{
    measure(ROWS, ROWS, 1, 8 * 1000);
    assert_int_equal(allowed_us(1, 4000), PACE_MARGIN * ((4000 + ROUNDS) * 1000 + 1));
}

/* The number of rounds is the worker's word. */
static void test_lie_about_rounds_has_bounds(void **state)
{
    measure(ROWS, 0, UINT32_MAX, ROWS * ROUNDS * 1000);
    assert_int_equal(allowed_us(1, 4000), PACE_MARGIN * ((4000 + ROUNDS) * 1000 + 1));
    set_up(state);
    measure(1, 0, 0, 1000);
    assert_int_equal(allowed_us(1, 4000), PACE_MARGIN * ((4000 + ROUNDS) * 1000 + 1));
}

static void test_measure_follows_the_engine(void **state)
{
    for (uint32_t i = 0; i < 1000; i++) {
        measure(1, 1000, ROUNDS, 1008 * 1000);
    }
    for (uint32_t i = 0; i < 1000; i++) {
        measure(1, 1000, ROUNDS, 1008 * 100);
    }
    uint64_t us = allowed_us(1, 100000 - ROUNDS);
    assert_true(us >= PACE_MARGIN * UINT64_C(100000) * 100);
    assert_true(us <= PACE_MARGIN * UINT64_C(100000) * 101);
}

static void test_each_step_that_does_not_end_doubles_the_time_of_the_next(void **state)
{
    measure(1, 16, ROUNDS, 2400);
    for (uint32_t i = 0; i < 2 * PACE_DOUBLINGS; i++) {
        uint32_t doublings = i < PACE_DOUBLINGS ? i : PACE_DOUBLINGS;
        assert_int_equal(allowed_us(1, 16), (uint64_t)HANG_US << doublings);
        pace_miss(&pace);
    }
    measure(1, 16, ROUNDS, 2400);
    assert_int_equal(allowed_us(1, 16), HANG_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_first_step_has_the_patience_of_a_start, set_up),
        cmocka_unit_test_setup(test_doubted_step_has_twice_the_cost, set_up),
        cmocka_unit_test_setup(test_garbled_plan_has_the_cost_of_the_largest_step, set_up),
        cmocka_unit_test_setup(test_short_step_has_the_time_of_a_hang, set_up),
        cmocka_unit_test_setup(test_long_step_has_a_multiple_of_what_its_tokens_take, set_up),
        cmocka_unit_test_setup(test_step_that_stopped_early_counts_for_its_rounds, set_up),
        cmocka_unit_test_setup(test_lie_about_rounds_has_bounds, set_up),
        cmocka_unit_test_setup(test_measure_follows_the_engine, set_up),
        cmocka_unit_test_setup(
            test_each_step_that_does_not_end_doubles_the_time_of_the_next, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
