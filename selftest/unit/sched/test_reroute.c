/* SPDX-License-Identifier: MIT */
/* What: what becomes of calls when an engine stops serving, and when one begins to. */
#include "selftest/unit/sched/box.h"

static bool is_open(struct box *box, uint32_t call)
{
    return bench_at(box->bench, call)->state != CALL_FINISHED;
}

/* ---- an engine stops ------------------------------------------------------------------------- */

static void test_calls_of_a_lost_engine_go_to_others(void **state)
{
    (void)state;
    struct box *box = box_start_by(SCHED_BALANCE_PROGRAM, 2);
    uint32_t running = bench_call(box->bench, 1, 5, 6), other = bench_call(box->bench, 2, 5, 6);
    uint32_t waiting[4];
    for (uint32_t i = 0; i < 4; i++) {
        waiting[i] = bench_call(box->bench, 1, 6 + i, 3);
    }
    assert_true(box_step(box) && box_launch(box, 0));
    assert_int_equal(bench_at(box->bench, running)->state, CALL_RUNNING);
    uint64_t service_us = bench_at(box->bench, running)->service_us;
    box_lose(box, 0);
    assert_int_equal(box_engine_of(box, running), 1);
    assert_int_equal(bench_at(box->bench, running)->service_us, service_us);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(box_engine_of(box, waiting[i]), 1);
    }
    assert_int_equal(box_engine_of(box, other), 1);
    assert_int_equal(box_program_of(box, running)->engine, 1);      /* assigned anew */
    assert_int_equal(box->bench->stats.calls_rerouted, 5);
    assert_int_equal(box_engine(box, 0)->open_calls, 0);
    box_run_all(box);
    assert_int_equal(box->bench->stats.calls_completed, 6);
}

static void test_new_calls_go_to_engines_that_serve(void **state)
{
    (void)state;
    for (uint32_t balance = 0; balance <= SCHED_BALANCE_PREBLE; balance++) {
        struct box *box = box_start_by((enum sched_balance)balance, 3);
        box_lose(box, 1);
        for (uint32_t i = 0; i < 6; i++) {
            assert_int_not_equal(box_engine_of(box, bench_call(box->bench, i, 10 + 4 * i, 2)), 1);
        }
        box_serve(box, 1, true);
        for (uint32_t i = 0; i < 6; i++) {
            bench_call(box->bench, 6, 4, 2);
        }
        box_run_all(box);
    }
}

static void test_where_none_serves_calls_wait_for_the_first_that_does(void **state)
{
    (void)state;
    struct box *box = box_start_by(SCHED_BALANCE_LEAST, 3);
    uint32_t first = bench_call(box->bench, 1, 5, 2);
    for (uint32_t i = 0; i < 3; i++) {
        box_lose(box, i);
    }
    uint32_t late = bench_call(box->bench, 2, 5, 2);
    assert_true(is_open(box, first) && is_open(box, late));
    box_serve(box, 2, true);
    assert_int_equal(box_engine_of(box, first), 2);
    assert_int_equal(box_engine_of(box, late), 2);
    box_run_all(box);
}

/* A condemned worker's step is in flight until it is gone. What waits need not wait for that. */
static void test_what_runs_on_a_condemned_engine_stays_until_it_is_lost(void **state)
{
    (void)state;
    struct box *box = box_start_by(SCHED_BALANCE_PROGRAM, 2);
    uint32_t running = bench_call(box->bench, 1, 5, 6);
    assert_int_equal(box_engine_of(box, running), 0);
    assert_true(box_launch(box, 0));
    uint32_t waiting = bench_call(box->bench, 1, 5, 2);
    assert_int_equal(box_engine_of(box, waiting), 0);
    box_serve(box, 0, false);
    assert_int_equal(box_engine_of(box, waiting), 1);
    uint32_t late = bench_call(box->bench, 1, 5, 2);
    assert_int_equal(box_engine_of(box, late), 1);
    assert_int_equal(box_engine_of(box, running), 0);
    box_lose(box, 0);
    assert_int_equal(box_engine_of(box, running), 1);
    box_run_all(box);
}

static void test_a_call_takes_its_waiting_along(void **state)
{
    (void)state;
    struct box *box = box_start_by(SCHED_BALANCE_RR, 2);
    uint32_t call = bench_call(box->bench, 1, 5, 2);
    box->bench->now_us += 5000;
    box_lose(box, 0);
    assert_int_equal(bench_job(box->bench, call)->waiting_since_us,
                     bench_at(box->bench, call)->waiting_since_us);
    assert_true(bench_job(box->bench, call)->waiting_since_us + 5000 <= box->bench->now_us);
}

static uint32_t calls_at(struct box *box, uint32_t engine, const uint32_t *calls, uint32_t count)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        at += box_engine_of(box, calls[i]) == engine;
    }
    return at;
}

/* All engines die; the first one that is back gets all calls. Each of the next takes its share,
 * the first ones in order. */
static void test_an_engine_that_begins_to_serve_takes_its_share(void **state)
{
    enum sched_balance balance = *(enum sched_balance *)*state;
    struct box *box = box_start_by(balance, 3);
    uint32_t calls[7];
    for (uint32_t i = 0; i < 7; i++) {
        calls[i] = bench_call(box->bench, i, 20, 2);
    }
    for (uint32_t i = 0; i < 3; i++) {
        box_lose(box, i);
    }
    box_serve(box, 2, true);
    assert_int_equal(calls_at(box, 2, calls, 7), 7);
    box_serve(box, 0, true);
    assert_int_equal(calls_at(box, 2, calls, 7), 4);
    assert_int_equal(calls_at(box, 0, calls, 7), 3);
    box_serve(box, 1, true);
    assert_int_equal(calls_at(box, 2, calls, 7), 3);
    assert_int_equal(calls_at(box, 0, calls, 7), 2);
    assert_int_equal(calls_at(box, 1, calls, 7), 2);
    for (uint32_t i = 0; i < 7 && balance == SCHED_BALANCE_AUTO; i++) {
        assert_int_equal(box_program_of(box, calls[i])->engine, box_engine_of(box, calls[i]));
    }
    box_run_all(box);
}

/* What runs or has KV stays; and so does a program that sched.balance = program keeps together. */
static void test_what_runs_stays_when_another_engine_begins_to_serve(void **state)
{
    (void)state;
    struct box *box = box_start_by(SCHED_BALANCE_PROGRAM, 2);
    box_lose(box, 1);
    uint32_t wide[4], alone[2], run[2];
    for (uint32_t i = 0; i < 2; i++) {
        run[i] = bench_call(box->bench, 5, 4, 20);
    }
    assert_true(box_step(box));
    for (uint32_t i = 0; i < 4; i++) {
        wide[i] = bench_call(box->bench, 6, 4, 4);
    }
    for (uint32_t i = 0; i < 2; i++) {
        alone[i] = bench_call(box->bench, 7 + i, 4, 4);
    }
    box_serve(box, 1, true);
    assert_int_equal(calls_at(box, 0, run, 2), 2);
    assert_int_equal(calls_at(box, 0, wide, 4), 4);
    assert_int_equal(calls_at(box, 1, alone, 2), 2);
    assert_int_equal(box_program_of(box, alone[0])->engine, 1);
    box_run_all(box);
}

/* What stays is not expected any more: the engine has room for others when it is back. */
static void test_no_program_is_active_on_a_lost_engine(void **state)
{
    (void)state;
    struct sched_settings settings = box_settings(SCHED_BALANCE_PROGRAM, 2);
    settings.active_programs = 0;
    struct box *box = box_start(&settings, 16);
    bench_call(box->bench, 1, 30, 8);
    uint32_t other = bench_call(box->bench, 2, 30, 8);
    assert_true(box_step(box));
    assert_int_equal(box_engine(box, 0)->active.programs, 1);
    box_lose(box, 0);
    assert_int_equal(box_engine(box, 0)->active.programs, 0);
    assert_int_equal(box_engine(box, 0)->active.blocks, 0);
    assert_int_equal(box_engine_of(box, other), 1);
    box_run_all(box);
}

#define FOR(balance, test) cmocka_unit_test_prestate(test, &(enum sched_balance){balance})

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_of_a_lost_engine_go_to_others),
        cmocka_unit_test(test_new_calls_go_to_engines_that_serve),
        cmocka_unit_test(test_where_none_serves_calls_wait_for_the_first_that_does),
        cmocka_unit_test(test_what_runs_on_a_condemned_engine_stays_until_it_is_lost),
        cmocka_unit_test(test_a_call_takes_its_waiting_along),
        FOR(SCHED_BALANCE_AUTO, test_an_engine_that_begins_to_serve_takes_its_share),
        FOR(SCHED_BALANCE_LEAST, test_an_engine_that_begins_to_serve_takes_its_share),
        FOR(SCHED_BALANCE_PROGRAM, test_an_engine_that_begins_to_serve_takes_its_share),
        cmocka_unit_test(test_what_runs_stays_when_another_engine_begins_to_serve),
        cmocka_unit_test(test_no_program_is_active_on_a_lost_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
