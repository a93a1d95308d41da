/* SPDX-License-Identifier: MIT */
/*
 * Goal: admission refuses what can never run and names why; cancels and deadlines end calls in
 * every state, once.
 * Method: one or two calls on the bench; the clock is turned by hand.
 */
#include "selftest/unit/sched/bench.h"

static struct bench *fresh(void)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    return bench_start(&settings, 8);       /* 32 positions */
}

static void assert_ended(struct bench *bench, uint32_t call, enum call_finish finish,
                         enum status status)
{
    assert_int_equal(bench_at(bench, call)->state, CALL_FINISHED);
    assert_int_equal(bench_at(bench, call)->finish, finish);
    assert_int_equal(bench_at(bench, call)->status, status);
    assert_true(bench_at(bench, call)->in_emit_ring);
    assert_true(sched_is_idle(&bench->sched));
    assert_int_equal(kvmem_owned(&bench->kv), 0);
}

static void test_plan_matches_what_init_takes(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    struct bench *bench = fresh();
    struct memory_plan plan = {0};
    struct arena arena;
    static _Alignas(ARENA_ALIGN_BYTES) uint8_t memory[65536];
    arena_init(&arena, memory, sizeof memory);
    sched_plan_memory(&plan, &settings);
    bench_init_sched(bench, &bench->sched, &settings, &arena);
    assert_int_equal(memory_plan_bytes(&plan, MEMORY_CORE) + memory_plan_bytes(&plan, MEMORY_KEPT),
                     arena.used_bytes);
}

static void test_call_is_queued_and_told(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t call = bench_call(bench, 1, 5, 5);
    assert_int_equal(bench_at(bench, call)->state, CALL_QUEUED);
    assert_true(bench_at(bench, call)->in_emit_ring);
    assert_int_equal(bench->stats.calls_accepted, 1);
    assert_int_equal(bench->stats.tokens_prompt, 5);
}

static void test_call_that_can_never_fit_the_pool_is_refused(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t call = bench_call(bench, 1, 20, 13);
    assert_ended(bench, call, CALL_FINISH_REFUSED, STATUS_BAD_PROMPT_LENGTH);
    bench_free(bench, call);
    call = bench_call(bench, 1, 20, 12);
    assert_int_equal(bench_at(bench, call)->state, CALL_QUEUED);
}

static void test_lengths_that_overflow_are_refused(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t call = bench_take(bench, 1, 1, UINT32_MAX, 0);
    bench_send(bench, call);
    bench_intake(bench);
    assert_ended(bench, call, CALL_FINISH_REFUSED, STATUS_BAD_PROMPT_LENGTH);
    call = bench_call(bench, 1, 1, 0);
    assert_ended(bench, call, CALL_FINISH_REFUSED, STATUS_BAD_PROMPT_LENGTH);
    call = bench_call(bench, 1, 0, 1);
    assert_ended(bench, call, CALL_FINISH_REFUSED, STATUS_BAD_PROMPT_LENGTH);
}

static void test_draining_refuses_new_calls_only(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t old = bench_call(bench, 1, 1, 1);
    bench->sched.draining = true;
    uint32_t call = bench_call(bench, 1, 1, 1);
    assert_status(STATUS_BUSY_DRAINING, bench_at(bench, call)->status);
    assert_true(bench_step(bench));
    assert_ended(bench, old, CALL_FINISH_LENGTH, STATUS_OK);
}

static void test_call_cancelled_before_admission_never_runs(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t call = bench_take(bench, 1, 1, 1, 0);
    bench_send(bench, call);
    bench_cancel(bench, call);
    bench_intake(bench);
    assert_ended(bench, call, CALL_FINISH_CANCELLED, STATUS_GONE_CANCELLED);
    assert_false(bench_step(bench));
}

static void test_call_of_a_gone_connection_is_cancelled(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t call = bench_take(bench, 1, 1, 1, 0);
    bench_at(bench, call)->connection = CALL_NONE;
    bench_send(bench, call);
    bench_intake(bench);
    assert_ended(bench, call, CALL_FINISH_CANCELLED, STATUS_GONE_CANCELLED);
}

static void test_cancel_of_a_waiting_call_ends_it_now(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t call = bench_call(bench, 1, 6, 6);
    assert_true(bench_step(bench));
    bench_cancel(bench, call);
    bench_intake(bench);
    assert_ended(bench, call, CALL_FINISH_CANCELLED, STATUS_GONE_CANCELLED);
}

static void test_cancel_of_a_running_call_ends_it_with_the_step(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t call = bench_call(bench, 1, 6, 6);
    assert_true(bench_launch(bench));
    bench_cancel(bench, call);
    bench_intake(bench);
    assert_int_equal(bench_at(bench, call)->state, CALL_RUNNING);
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    assert_ended(bench, call, CALL_FINISH_CANCELLED, STATUS_GONE_CANCELLED);
    assert_int_equal(bench->sched.programs[bench_at(bench, call)->program].service_us, BENCH_UNIT);
}

static void test_cancel_of_an_older_call_in_the_slot_is_dropped(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t call = bench_call(bench, 1, 1, 1);
    bench_cancel(bench, call);
    bench_at(bench, call)->cancel = false;
    assert_true(bench_step(bench));
    bench_free(bench, call);
    assert_int_equal(bench_call(bench, 1, 1, 3), call);
    assert_int_equal(bench_at(bench, call)->state, CALL_QUEUED);
}

static void test_stop_text_drops_the_tokens_behind_it(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t call = bench_call(bench, 1, 1, 9);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(bench_step(bench));
    }
    bench_at(bench, call)->stop_text_hit = true;
    bench_at(bench, call)->stop_text_tokens = 2;
    bench_cancel(bench, call);
    bench_intake(bench);
    assert_ended(bench, call, CALL_FINISH_STOP_TEXT, STATUS_OK);
    assert_int_equal(bench_at(bench, call)->generated_tokens, 2);
    assert_int_equal(bench->stats.calls_completed, 1);
}

static void test_deadline_of_a_waiting_call_ends_it(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t call = bench_take(bench, 1, 1, 1, 0);
    bench_at(bench, call)->deadline_us = 50;
    bench_send(bench, call);
    bench_intake(bench);
    assert_int_equal(sched_next_us(&bench->sched, bench->now_us), 50);
    bench->now_us = 49;
    bench_intake(bench);
    assert_int_equal(bench_at(bench, call)->state, CALL_QUEUED);
    bench->now_us = 50;
    bench_intake(bench);
    assert_ended(bench, call, CALL_FINISH_DEADLINE, STATUS_GONE_DEADLINE);
    assert_int_equal(bench->stats.calls_expired, 1);
}

static void test_deadline_of_a_running_call_ends_it_with_the_step(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t call = bench_take(bench, 1, 1, 9, 0);
    bench_at(bench, call)->deadline_us = 50;
    bench_send(bench, call);
    bench_intake(bench);
    assert_true(bench_launch(bench));
    bench->now_us = 60;
    bench_intake(bench);
    assert_true(sched_next_us(&bench->sched, bench->now_us) > 60);  /* no busy waiting */
    bench_compute(bench);
    bench_settle(bench, 1);
    assert_ended(bench, call, CALL_FINISH_DEADLINE, STATUS_GONE_DEADLINE);
    assert_int_equal(bench_at(bench, call)->generated_tokens, 1);
}

/* There is a row for it, but it cannot make use of one. */
static void test_call_that_comes_after_its_deadline_ends_no_step(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.cut_steps = true;
    settings.steps_per_plan = 4;
    struct bench *bench = bench_start(&settings, 8);
    bench_call(bench, 1, 1, 9);
    assert_true(bench_launch(bench));
    for (uint32_t late = 0; late < 2; late++) {
        uint32_t call = bench_take(bench, 2, 1, 1, 0);
        bench_at(bench, call)->deadline_us = bench->now_us + late;
        bench_send(bench, call);
        bench_intake(bench);
        assert_int_equal(step_early_stop(&bench->step),
                         late == 0 ? STEP_STOP_ROW : STEP_STOP_ROUND);
    }
}

/* What net asked for before the shutdown is how the call ends, not that we shut down. */
static void test_fail_all_ends_a_running_call_as_it_was_asked_to(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t cancelled = bench_call(bench, 0, 1, 5);
    uint32_t expired = bench_take(bench, 1, 1, 5, 1);
    bench_at(bench, expired)->deadline_us = bench->now_us + 100;
    bench_send(bench, expired);
    bench_intake(bench);
    assert_true(bench_launch(bench));
    bench->now_us += 300;
    bench_cancel(bench, cancelled);
    bench_intake(bench);
    assert_int_equal(bench_at(bench, cancelled)->state, CALL_RUNNING);
    sched_fail_all(&bench->sched, STATUS_GONE_SHUTDOWN, bench->now_us);
    assert_ended(bench, cancelled, CALL_FINISH_CANCELLED, STATUS_GONE_CANCELLED);
    assert_ended(bench, expired, CALL_FINISH_DEADLINE, STATUS_GONE_DEADLINE);
    assert_int_equal(bench->stats.calls_failed, 0);
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
}

static void test_fail_all_ends_waiting_and_running_calls(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    uint32_t calls[3];
    for (uint32_t i = 0; i < 3; i++) {
        calls[i] = bench_call(bench, i, 1, 5);
    }
    assert_true(bench_launch(bench));
    bench->now_us += 300;
    sched_fail_all(&bench->sched, STATUS_GONE_SHUTDOWN, bench->now_us);
    for (uint32_t i = 0; i < 3; i++) {
        assert_ended(bench, calls[i], CALL_FINISH_FAILED, STATUS_GONE_SHUTDOWN);
        assert_int_equal(bench_at(bench, calls[i])->service_us, i < 2 ? 300 : 0);
        assert_int_equal(bench_at(bench, calls[i])->wait_us, i < 2 ? 0 : 300);
    }
    for (uint32_t i = 0; i < 3; i++) {
        bench_free(bench, calls[i]);
    }
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);        /* the step comes back to calls that are gone */
    assert_int_equal(bench->stats.late_results, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_matches_what_init_takes),
        cmocka_unit_test(test_call_is_queued_and_told),
        cmocka_unit_test(test_call_that_can_never_fit_the_pool_is_refused),
        cmocka_unit_test(test_lengths_that_overflow_are_refused),
        cmocka_unit_test(test_draining_refuses_new_calls_only),
        cmocka_unit_test(test_call_cancelled_before_admission_never_runs),
        cmocka_unit_test(test_call_of_a_gone_connection_is_cancelled),
        cmocka_unit_test(test_cancel_of_a_waiting_call_ends_it_now),
        cmocka_unit_test(test_cancel_of_a_running_call_ends_it_with_the_step),
        cmocka_unit_test(test_cancel_of_an_older_call_in_the_slot_is_dropped),
        cmocka_unit_test(test_stop_text_drops_the_tokens_behind_it),
        cmocka_unit_test(test_deadline_of_a_waiting_call_ends_it),
        cmocka_unit_test(test_deadline_of_a_running_call_ends_it_with_the_step),
        cmocka_unit_test(test_call_that_comes_after_its_deadline_ends_no_step),
        cmocka_unit_test(test_fail_all_ends_waiting_and_running_calls),
        cmocka_unit_test(test_fail_all_ends_a_running_call_as_it_was_asked_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
