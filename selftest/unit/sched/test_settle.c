/* SPDX-License-Identifier: MIT */
/*
 * Goal: what comes back from the engine is checked, charged and ends calls for the right reason; a
 * worker that dies costs a recompute and nothing else.
 * Method: the bench's engine computes; the test then bends the outs.
 */
#include "selftest/unit/sched/bench.h"

static struct bench *fresh(uint32_t steps_per_plan)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.steps_per_plan = steps_per_plan;
    return bench_start(&settings, 64);
}

/* The token that the call will sample `ahead` tokens from the start. */
static uint32_t future_token(const struct call *call, uint32_t ahead)
{
    uint32_t tokens[BENCH_CONTEXT];
    bench_oracle(call, call->prompt_tokens, ahead + 1, tokens);
    return tokens[call->prompt_tokens + ahead];
}

static uint32_t call_with_stop(struct bench *bench, uint32_t max_tokens, bool is_eos)
{
    uint32_t call = bench_take(bench, 1, 3, max_tokens, 11);
    struct call *record = bench_at(bench, call);
    record->sampling.stop_ids_count = 2;
    record->sampling.stop_ids[0] = BENCH_VOCAB + 5;     /* never sampled */
    record->sampling.stop_ids[1] = future_token(record, 2);
    assert_int_not_equal(future_token(record, 0), record->sampling.stop_ids[1]);
    assert_int_not_equal(future_token(record, 1), record->sampling.stop_ids[1]);
    record->eos_id_index_plus_1 = is_eos ? 2 : 1;
    bench_send(bench, call);
    bench_intake(bench);
    return call;
}

static void test_eos_and_stop_ids_end_a_call_in_the_middle_of_a_plan(void **state)
{
    (void)state;
    for (uint32_t is_eos = 0; is_eos < 2; is_eos++) {
        struct bench *bench = fresh(8);
        uint32_t call = call_with_stop(bench, 20, is_eos == 1);
        assert_true(bench_step(bench));
        assert_int_equal(bench_at(bench, call)->finish,
                         is_eos ? CALL_FINISH_EOS : CALL_FINISH_STOP_ID);
        assert_int_equal(bench_at(bench, call)->generated_tokens, 3);
    }
}

static void test_stop_id_wins_over_length(void **state)
{
    (void)state;
    struct bench *bench = fresh(8);
    uint32_t call = call_with_stop(bench, 3, false);
    assert_true(bench_step(bench));
    assert_int_equal(bench_at(bench, call)->finish, CALL_FINISH_STOP_ID);
}

static void test_tokens_after_a_stop_are_dropped(void **state)
{
    (void)state;
    struct bench *bench = fresh(8);
    uint32_t call = call_with_stop(bench, 20, false);
    assert_true(bench_launch(bench));
    bench_compute(bench);
    step_out(&bench->step, 0)->produced = 8;    /* an engine that did not look for stops */
    bench_settle(bench, BENCH_UNIT);
    assert_int_equal(bench_at(bench, call)->generated_tokens, 3);
    assert_true(bench_tokens_are_right(bench_at(bench, call)));
}

enum { BAD_RESULT, BAD_MORE, BAD_FLOOD, BAD_NOTHING, BAD_TOKEN, BAD_SILENT, BADS };

/* Makes of the row what no engine that works can say. */
static void bend(struct bench *bench, uint32_t row, uint32_t bad)
{
    struct step_out *out = step_out(&bench->step, row);
    switch (bad) {
    case BAD_RESULT: out->result = 77; break;
    case BAD_MORE: out->produced = 5; break;
    case BAD_FLOOD: out->produced = UINT32_MAX; break;
    case BAD_NOTHING: out->produced = 0; break;
    case BAD_TOKEN: step_out_tokens(&bench->step, row)[1] = BENCH_VOCAB; break;
    default: out->result = UINT32_MAX;      /* what stands there before the worker writes */
    }
}

static void run_to_the_end(struct bench *bench)
{
    while (bench_step(bench)) {
    }
}

static void test_impossible_outs_refute_the_step_and_nothing_of_it_counts(void **state)
{
    (void)state;
    for (uint32_t bad = 0; bad < BADS; bad++) {
        struct bench *bench = fresh(4);
        uint32_t good = bench_call(bench, 1, 3, 9);
        uint32_t call = bench_call(bench, 2, 3, 9);
        assert_true(bench_launch(bench));
        bench_compute(bench);
        bend(bench, 1, bad);
        assert_int_equal(bench_hear(bench, BENCH_UNIT), SCHED_REFUTED);
        assert_int_equal(bench_at(bench, good)->generated_tokens, 0);
        assert_int_equal(bench_at(bench, good)->service_us, 0);
        bench_lose(bench);
        assert_int_equal(bench_at(bench, call)->faults, 1);
        assert_int_equal(bench_at(bench, good)->faults, 0);
        run_to_the_end(bench);
        assert_int_equal(bench->stats.calls_completed, 2);
        assert_true(bench_tokens_are_right(bench_at(bench, good)));
        assert_true(bench_tokens_are_right(bench_at(bench, call)));
    }
}

/* Twice the engine's word on the same call is impossible: the call may be why. */
static void test_second_impossible_out_of_a_call_ends_it(void **state)
{
    (void)state;
    struct bench *bench = fresh(4);
    uint32_t good = bench_call(bench, 1, 3, 9);
    uint32_t call = bench_call(bench, 2, 3, 9);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(bench_launch(bench));
        while (bench_engine(bench)->planned[bench_engine(bench)->planned_count - 1].call != call) {
            bench_compute(bench);                       /* each of them alone, after the first */
            bench_settle(bench, BENCH_UNIT);
            assert_true(bench_launch(bench));
        }
        bench_compute(bench);
        bend(bench, bench_engine(bench)->planned_count - 1, BAD_TOKEN);
        assert_int_equal(bench_hear(bench, BENCH_UNIT), SCHED_REFUTED);
        bench_lose(bench);
    }
    assert_int_equal(bench_at(bench, call)->finish, CALL_FINISH_FAILED);
    assert_int_equal(bench_at(bench, call)->status, STATUS_DEVICE_FAILED);
    run_to_the_end(bench);
    assert_true(bench_tokens_are_right(bench_at(bench, good)));
    assert_int_equal(bench->stats.calls_failed, 1);
    assert_int_equal(bench->stats.calls_completed, 1);
}

/* A standby that never entered, a call that is gone and one that was cancelled can be in it too. */
static void test_refuted_step_ends_no_call_for_another(void **state)
{
    (void)state;
    struct bench *bench = fresh(4);
    uint32_t cancelled = bench_call(bench, 1, 3, 9);
    uint32_t call = bench_call(bench, 2, 3, 9);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(bench_launch(bench));
        bench_compute(bench);
        bend(bench, 0, BAD_RESULT);
        if (i == 1) {
            bench_cancel(bench, cancelled);
            bench_intake(bench);
        }
        assert_int_equal(bench_hear(bench, BENCH_UNIT), SCHED_REFUTED);
        bench_lose(bench);
    }
    assert_int_equal(bench_at(bench, cancelled)->finish, CALL_FINISH_CANCELLED);
    assert_int_equal(bench->stats.calls_failed, 0);
    run_to_the_end(bench);
    assert_true(bench_tokens_are_right(bench_at(bench, call)));
}

static void launch_not_finite(struct bench *bench, uint32_t row)
{
    assert_true(bench_launch(bench));
    bench_compute(bench);
    *step_out(&bench->step, row) = (struct step_out){.result = STEP_ROW_NOT_FINITE};
}

static void test_row_that_is_not_finite_is_computed_again(void **state)
{
    (void)state;
    struct bench *bench = fresh(4);
    uint32_t good = bench_call(bench, 1, 3, 9);
    uint32_t call = bench_call(bench, 2, 3, 9);
    launch_not_finite(bench, 1);
    assert_int_equal(bench_hear(bench, BENCH_UNIT), SCHED_NOT_FINITE);
    assert_int_equal(bench_at(bench, good)->generated_tokens, 4);
    assert_int_equal(bench_at(bench, call)->state, CALL_QUEUED);
    assert_int_equal(bench_at(bench, call)->generated_tokens, 0);
    assert_int_equal(bench_at(bench, call)->service_us, BENCH_UNIT);
    assert_int_equal(kvmem_call_blocks(&bench->kv, call), 0);
    run_to_the_end(bench);
    assert_int_equal(bench->stats.calls_completed, 2);
    assert_true(bench_tokens_are_right(bench_at(bench, call)));
}

static void test_second_row_of_a_call_that_is_not_finite_ends_it(void **state)
{
    (void)state;
    struct bench *bench = fresh(4);
    uint32_t call = bench_call(bench, 2, 3, 9);
    for (uint32_t i = 0; i < 2; i++) {
        launch_not_finite(bench, 0);
        assert_int_equal(bench_hear(bench, BENCH_UNIT), SCHED_NOT_FINITE);
    }
    assert_int_equal(bench_at(bench, call)->finish, CALL_FINISH_FAILED);
    assert_int_equal(bench_at(bench, call)->status, STATUS_DEVICE_NUMERIC);
    assert_int_equal(kvmem_owned(&bench->kv), 0);
    assert_int_equal(bench->stats.rows_not_finite, 2);
}

/* What it would find may be what is wrong, also where another call holds it. */
static void test_call_with_a_fault_shares_no_kv(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.sharing = SCHED_SHARING_DOMAIN;
    struct bench *bench = bench_start(&settings, 64);
    uint32_t first = bench_take(bench, 1, 9, 20, 5);
    bench_send(bench, first);
    bench_intake(bench);
    assert_true(bench_step(bench));
    uint32_t second = bench_take(bench, 2, 9, 20, 5);
    bench_send(bench, second);
    bench_intake(bench);
    launch_not_finite(bench, 1);
    assert_int_equal(bench_engine(bench)->planned[1].first_position, 8);
    assert_int_equal(bench_hear(bench, BENCH_UNIT), SCHED_NOT_FINITE);
    assert_true(bench_launch(bench));
    /* The first one was demoted. */
    assert_int_equal(bench_engine(bench)->planned[0].call, second);
    assert_int_equal(bench_engine(bench)->planned[0].first_position, 0);
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    run_to_the_end(bench);
    assert_true(bench_tokens_are_right(bench_at(bench, second)));
}

static void test_rows_that_the_worker_scribbled_on_do_not_matter(void **state)
{
    (void)state;
    struct bench *bench = fresh(1);
    uint32_t call = bench_call(bench, 1, 3, 9);
    assert_true(bench_launch(bench));
    bench_compute(bench);
    memset(step_row(&bench->step, 0), 0xff, sizeof(struct step_row));
    step_header(&bench->step)->rows_count = UINT32_MAX;
    bench_settle(bench, BENCH_UNIT);
    assert_int_equal(bench_at(bench, call)->generated_tokens, 1);
    assert_int_equal(bench_at(bench, call)->kv_tokens, 3);
}

static void test_step_is_charged_to_each_of_its_calls(void **state)
{
    (void)state;
    struct bench *bench = fresh(1);
    uint32_t first = bench_call(bench, 1, 1, 9);
    uint32_t second = bench_call(bench, 2, 1, 9);
    uint32_t third = bench_call(bench, 3, 1, 9);
    assert_true(bench_launch(bench));
    bench_compute(bench);
    bench_settle(bench, 1500);
    assert_int_equal(bench_at(bench, first)->service_us, 1500);
    assert_int_equal(bench_job(bench, second)->quantum_left_us, 500);
    assert_int_equal(bench_at(bench, third)->service_us, 0);
    assert_true(bench_launch(bench));
    assert_int_equal(bench_at(bench, first)->wait_us, 0);
    bench_compute(bench);
    bench_settle(bench, 1500);
    assert_int_equal(bench_job(bench, first)->queue, 1);    /* 3000 of 2000 used: demoted */
    assert_int_equal(bench_job(bench, first)->quantum_left_us, 4000);
    assert_true(bench_launch(bench));
    assert_int_equal(bench_at(bench, third)->wait_us, 3000);
    assert_int_equal(bench->stats.engine_busy_us, 3000);
}

static void test_new_tokens_are_told_and_stamped(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.prefill_tokens = 4;
    struct bench *bench = bench_start(&settings, 64);
    uint32_t call = bench_call(bench, 1, 6, 9);
    bench_drain(bench);
    assert_true(bench_step(bench));
    assert_false(bench_at(bench, call)->in_emit_ring);   /* half a prompt is no news */
    assert_int_equal(bench_at(bench, call)->first_run_us, 1);
    assert_int_equal(bench_at(bench, call)->first_token_us, 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(bench_step(bench));
        assert_true(bench_at(bench, call)->in_emit_ring);
        bench_drain(bench);
    }
    assert_int_equal(bench_at(bench, call)->first_run_us, 1);
    assert_int_equal(bench_at(bench, call)->first_token_us, 1 + 2 * BENCH_UNIT);
}

static void test_finished_call_is_not_demoted_as_well(void **state)
{
    (void)state;
    struct bench *bench = fresh(1);
    uint32_t call = bench_call(bench, 1, 1, 1);
    assert_true(bench_launch(bench));
    bench_compute(bench);
    bench_settle(bench, 1000000);
    assert_int_equal(bench_at(bench, call)->finish, CALL_FINISH_LENGTH);
    assert_int_equal(bench->stats.demotions, 0);
}

static void test_demotion_stops_at_the_last_queue(void **state)
{
    (void)state;
    struct bench *bench = fresh(1);
    uint32_t call = bench_call(bench, 1, 1, 12);
    for (uint32_t i = 0; i < 10; i++) {
        assert_true(bench_launch(bench));
        bench_compute(bench);
        bench_settle(bench, 100 * BENCH_UNIT);
    }
    assert_int_equal(bench_at(bench, call)->queue, 3);
    assert_int_equal(bench->stats.demotions, 3);
}

static void test_lost_worker_costs_a_recompute_and_no_place_in_the_queue(void **state)
{
    (void)state;
    struct bench *bench = fresh(2);
    uint32_t first = bench_call(bench, 1, 6, 9);
    uint32_t second = bench_call(bench, 2, 6, 9);
    assert_true(bench_step(bench));
    uint64_t served_us = bench_at(bench, first)->service_us;
    assert_true(bench_launch(bench));
    bench->now_us += 700;
    bench_lose(bench);
    assert_int_equal(bench_first(bench, bench_at(bench, first)->queue), first);
    assert_int_equal(bench_at(bench, first)->service_us, served_us);
    assert_int_equal(bench_at(bench, first)->kv_tokens, 0);
    assert_int_equal(kvmem_owned(&bench->kv), 0);
    assert_int_equal(bench->stats.steps_lost, 1);
    assert_int_equal(bench->stats.engine_busy_us, BENCH_UNIT + 700);
    while (bench_step(bench)) {
    }
    assert_true(bench_tokens_are_right(bench_at(bench, first)));
    assert_true(bench_tokens_are_right(bench_at(bench, second)));
    /* The lost step, and the one in which the other was tried alone. */
    assert_int_equal(bench_at(bench, first)->wait_us, 700 + BENCH_UNIT);
    assert_int_equal(bench->stats.calls_completed, 2);
    assert_int_equal(bench->stats.recomputed_tokens, 2 * 7);
}

/* All that a call has received and where that has brought it. */
struct attained {
    uint64_t service_us, of_job_us, quantum_left_us, priority_us;
    uint32_t queue, computed;
};

static struct attained attained_by(struct bench *bench, uint32_t index)
{
    const struct call *call = bench_at(bench, index);
    const struct sched_job *job = bench_job(bench, index);
    return (struct attained){
        .service_us = call->service_us, .of_job_us = job->service_us,
        .quantum_left_us = job->quantum_left_us, .priority_us = call->priority_us,
        .queue = job->queue, .computed = call->computed_tokens};
}

static void test_lost_worker_takes_no_attained_service(void **state)
{
    (void)state;
    struct bench *bench = fresh(1);
    uint32_t call = bench_call(bench, 1, 3, 9);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(bench_step(bench));
    }
    const struct attained before = attained_by(bench, call);
    assert_int_equal(before.queue, 1);                  /* demoted, and into its next quantum */
    assert_int_equal(before.of_job_us, 3 * BENCH_UNIT);
    for (uint32_t deaths = 0; deaths < CALL_DEATHS_MAX - 1; deaths++) {
        assert_true(bench_launch(bench));
        bench->now_us += 700;
        bench_lose(bench);
        const struct attained after = attained_by(bench, call);
        assert_memory_equal(&after, &before, sizeof after);
    }
    while (bench_step(bench)) {
    }
    assert_true(bench_tokens_are_right(bench_at(bench, call)));
    uint32_t program = bench_at(bench, call)->program;
    assert_int_equal(bench->sched.programs[program].service_us,
                     bench_at(bench, call)->service_us);
}

static void test_lost_worker_ends_calls_that_were_cancelled(void **state)
{
    (void)state;
    struct bench *bench = fresh(2);
    uint32_t call = bench_call(bench, 1, 6, 9);
    assert_true(bench_launch(bench));
    bench_cancel(bench, call);
    bench_intake(bench);
    bench_lose(bench);
    assert_int_equal(bench_at(bench, call)->finish, CALL_FINISH_CANCELLED);
    bench_lose(bench);                      /* and once more with nothing in flight */
    assert_int_equal(bench->stats.steps_lost, 1);
}

static void test_lost_worker_ends_calls_whose_deadline_passed_in_the_step(void **state)
{
    (void)state;
    struct bench *bench = fresh(2);
    uint32_t call = bench_take(bench, 1, 6, 9, 1);
    bench_at(bench, call)->deadline_us = bench->now_us + 500;
    bench_send(bench, call);
    bench_intake(bench);
    assert_true(bench_launch(bench));
    bench->now_us += 700;
    bench_intake(bench);
    assert_int_equal(bench_at(bench, call)->state, CALL_RUNNING);
    bench_lose(bench);
    assert_int_equal(bench_at(bench, call)->finish, CALL_FINISH_DEADLINE);
    assert_int_equal(bench_at(bench, call)->wait_us, 700);
    assert_int_equal(bench_at(bench, call)->service_us, 0);
}

/* The prompt is read in chunks again: each chunk counts once, and new positions not at all. */
static void test_recomputed_tokens_are_counted_once_over_chunks(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.prefill_tokens = 4;
    struct bench *bench = bench_start(&settings, 64);
    bench_call(bench, 1, 10, 2);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(bench_step(bench));
    }
    bench_lose(bench);
    while (bench_step(bench)) {
    }
    assert_int_equal(bench->stats.recomputed_tokens, 10);
    assert_int_equal(bench->stats.tokens_computed, 10 + 10 + 1);
}

static void test_report_counts_calls_by_state(void **state)
{
    (void)state;
    struct bench *bench = fresh(1);
    uint32_t refused = bench_call(bench, 9, 1, BENCH_CONTEXT);
    assert_int_equal(bench_at(bench, refused)->finish, CALL_FINISH_REFUSED);
    for (uint32_t i = 0; i < 4; i++) {
        bench_call(bench, i, 1, 1);
    }
    bench_at(bench, refused + 4)->paused = true;
    assert_true(bench_launch(bench));
    sched_report(&bench->sched);
    assert_int_equal(bench->stats.calls_open, 4);
    assert_int_equal(bench->stats.calls_running, 2);
    assert_int_equal(bench->stats.calls_waiting, 1);
    assert_int_equal(bench->stats.calls_paused, 1);
    assert_int_equal(bench->stats.programs_open, 4);
    assert_int_equal(bench->stats.kv_blocks_used, 2);
    assert_int_equal(bench->stats.kv_blocks_total, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eos_and_stop_ids_end_a_call_in_the_middle_of_a_plan),
        cmocka_unit_test(test_stop_id_wins_over_length),
        cmocka_unit_test(test_tokens_after_a_stop_are_dropped),
        cmocka_unit_test(test_impossible_outs_refute_the_step_and_nothing_of_it_counts),
        cmocka_unit_test(test_second_impossible_out_of_a_call_ends_it),
        cmocka_unit_test(test_refuted_step_ends_no_call_for_another),
        cmocka_unit_test(test_row_that_is_not_finite_is_computed_again),
        cmocka_unit_test(test_second_row_of_a_call_that_is_not_finite_ends_it),
        cmocka_unit_test(test_call_with_a_fault_shares_no_kv),
        cmocka_unit_test(test_rows_that_the_worker_scribbled_on_do_not_matter),
        cmocka_unit_test(test_step_is_charged_to_each_of_its_calls),
        cmocka_unit_test(test_new_tokens_are_told_and_stamped),
        cmocka_unit_test(test_finished_call_is_not_demoted_as_well),
        cmocka_unit_test(test_demotion_stops_at_the_last_queue),
        cmocka_unit_test(test_lost_worker_costs_a_recompute_and_no_place_in_the_queue),
        cmocka_unit_test(test_lost_worker_takes_no_attained_service),
        cmocka_unit_test(test_lost_worker_ends_calls_that_were_cancelled),
        cmocka_unit_test(test_lost_worker_ends_calls_whose_deadline_passed_in_the_step),
        cmocka_unit_test(test_recomputed_tokens_are_counted_once_over_chunks),
        cmocka_unit_test(test_report_counts_calls_by_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
