/* SPDX-License-Identifier: MIT */
/*
 * Goal: a call that kills each worker ends alone, after few of them, with a status of its own; the
 * others of its steps end with their tokens, and calls of no such step wait for none of this.
 * Method: the bench; workers die in steps that have a certain call.
 */
#include "selftest/unit/sched/bench.h"

enum { CALLS = 8 };

static struct bench *fresh(void)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.batch_calls = CALLS;
    settings.standby_calls = 2;
    settings.steps_per_plan = 4;
    settings.programs = 2 * CALLS;
    return bench_start(&settings, 512);
}

/* One call each of so many programs. */
static void add_calls(struct bench *bench, uint32_t count, uint32_t *calls)
{
    for (uint32_t i = 0; i < count; i++) {
        calls[i] = bench_call(bench, 1 + i, 3, 12);
    }
}

static bool has_row(const struct bench *bench, uint32_t call)
{
    const struct sched_engine *engine = bench_engine(bench);
    for (uint32_t i = 0; i < engine->planned_count; i++) {
        if (engine->planned[i].call == call) {
            return true;
        }
    }
    return false;
}

static uint32_t rows(const struct bench *bench)
{
    return bench_engine(bench)->planned_count;
}

static void compute(struct bench *bench)
{
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
}

/* Runs until nothing is left to run; each step with the call kills its worker. Returns how many
 * did. */
static uint32_t run_with_poison(struct bench *bench, uint32_t poison)
{
    uint32_t deaths = 0;
    while (bench_launch(bench)) {
        if (has_row(bench, poison)) {
            deaths++;
            bench_lose(bench);
        } else {
            compute(bench);
        }
        assert_true(deaths < 100);
    }
    return deaths;
}

static void test_poison_ends_alone_and_the_others_get_their_tokens(void **state)
{
    for (uint32_t poison = 0; poison < CALLS; poison++) {
        uint32_t calls[CALLS];
        struct bench *bench = fresh();
        add_calls(bench, CALLS, calls);
        uint32_t deaths = run_with_poison(bench, calls[poison]);
        assert_int_equal(deaths, 3 + CALL_DEATHS_MAX);  /* 8, 4, 2 rows, and then 1 */
        for (uint32_t i = 0; i < CALLS; i++) {
            struct call *call = bench_at(bench, calls[i]);
            assert_int_equal(call->state, CALL_FINISHED);
            assert_int_equal(call->finish,
                             i == poison ? CALL_FINISH_FAILED : CALL_FINISH_LENGTH);
            assert_true(i == poison || bench_tokens_are_right(call));
        }
        assert_int_equal(bench_at(bench, calls[poison])->status, STATUS_DEVICE_POISON);
        assert_int_equal(bench->stats.calls_poisonous, 1);
        assert_int_equal(bench->sched.suspects, 0);
    }
}

static void test_second_plan_is_for_those_that_were_not_there(void **state)
{
    uint32_t calls[2];
    struct bench *bench = fresh();
    add_calls(bench, 2, calls);
    assert_true(bench_launch(bench));
    bench_lose(bench);
    uint32_t other = bench_call(bench, 5, 4, 12);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(bench_launch(bench));               /* alone, for its turn */
        assert_int_equal(rows(bench), 1);
        assert_true(has_row(bench, calls[i]));
        compute(bench);
        assert_true(bench_launch(bench));
        assert_true(has_row(bench, other));
        assert_int_equal(rows(bench), 2 + i);           /* and those that are acquitted */
        compute(bench);
    }
    assert_int_equal(bench->sched.suspects, 0);
}

/* That what was computed before is computed again shows nothing. */
static void test_only_new_progress_acquits(void **state)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.prefill_tokens = 4;
    struct bench *bench = bench_start(&settings, 64);
    uint32_t call = bench_call(bench, 1, 10, 5);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(bench_launch(bench));
        compute(bench);                                 /* 4, then 8 of 10 tokens */
    }
    assert_true(bench_launch(bench));
    bench_lose(bench);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(bench_launch(bench));
        compute(bench);
        assert_int_equal(bench->sched.suspects, 1);
    }
    assert_true(bench_launch(bench));
    compute(bench);
    assert_int_equal(bench->sched.suspects, 0);
    assert_int_equal(bench_at(bench, call)->deaths_alone, 0);
}

/* Deaths that come now and then are no call's fault. */
static void test_call_that_gets_further_between_deaths_never_fails(void **state)
{
    uint32_t call, deaths = 0;
    struct bench *bench = fresh();
    call = bench_call(bench, 1, 3, 24);
    while (bench_launch(bench)) {
        if (deaths++ % 2 == 0) {
            bench_lose(bench);
        } else {
            compute(bench);
        }
    }
    assert_true(deaths > 10);
    assert_int_equal(bench_at(bench, call)->finish, CALL_FINISH_LENGTH);
    assert_true(bench_tokens_are_right(bench_at(bench, call)));
}

static void test_suspect_that_cannot_run_holds_up_no_other(void **state)
{
    uint32_t calls[2];
    struct bench *bench = fresh();
    add_calls(bench, 2, calls);
    assert_true(bench_launch(bench));
    bench_lose(bench);
    bench_at(bench, calls[0])->paused = bench_at(bench, calls[1])->paused = true;
    uint32_t other = bench_call(bench, 5, 4, 12);
    while (bench_launch(bench)) {
        assert_true(has_row(bench, other));
        compute(bench);
    }
    assert_int_equal(bench_at(bench, other)->finish, CALL_FINISH_LENGTH);
    bench_at(bench, calls[0])->paused = false;
    bench_cancel(bench, calls[1]);
    bench_intake(bench);
    assert_int_equal(bench->sched.suspects, 1);
    assert_true(bench_launch(bench));
    compute(bench);
    assert_int_equal(bench->sched.suspects, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_poison_ends_alone_and_the_others_get_their_tokens),
        cmocka_unit_test(test_second_plan_is_for_those_that_were_not_there),
        cmocka_unit_test(test_only_new_progress_acquits),
        cmocka_unit_test(test_call_that_gets_further_between_deaths_never_fails),
        cmocka_unit_test(test_suspect_that_cannot_run_holds_up_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
