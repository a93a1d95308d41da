/* SPDX-License-Identifier: MIT */
/*
 * Goal: which calls are in the batch, with how many tokens, and which lose blocks for it.
 * Method: few calls, small pools, the step record read back row by row.
 */
#include "selftest/unit/sched/bench.h"

#include "sched/engine/queue.h"
#include "sched/engine/residency.h"

static const struct step_row *row_of(struct bench *bench, uint32_t call)
{
    for (uint32_t i = 0; i < step_header(&bench->step)->rows_count; i++) {
        if (step_row(&bench->step, i)->call == call) {
            return step_row(&bench->step, i);
        }
    }
    return NULL;
}

static void finish_step(struct bench *bench)
{
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
}

static void test_nothing_to_run_is_no_plan(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    struct bench *bench = bench_start(&settings, 64);
    assert_false(bench_launch(bench));
    assert_int_equal(step_header(&bench->step)->rows_count, 0);
}

static void test_batch_is_full_at_its_limit_in_order_of_arrival(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    struct bench *bench = bench_start(&settings, 64);
    uint32_t first = bench_call(bench, 1, 1, 4);
    uint32_t second = bench_call(bench, 2, 1, 4);
    uint32_t third = bench_call(bench, 3, 1, 4);
    assert_true(bench_launch(bench));
    assert_int_equal(step_header(&bench->step)->rows_count, 2);
    assert_int_equal(step_row(&bench->step, 0)->call, first);
    assert_int_equal(step_row(&bench->step, 1)->call, second);
    assert_null(row_of(bench, third));
    finish_step(bench);
}

static void test_multi_step_stops_at_max_tokens(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.steps_per_plan = 8;
    struct bench *bench = bench_start(&settings, 64);
    uint32_t call = bench_call(bench, 1, 3, 11);
    assert_true(bench_launch(bench));
    assert_int_equal(row_of(bench, call)->tokens_count, 3);
    assert_int_equal(row_of(bench, call)->decode_steps, 8);
    finish_step(bench);
    assert_int_equal(bench_at(bench, call)->kv_tokens, 3 + 7);  /* the last one is not fed yet */
    assert_true(bench_launch(bench));
    assert_int_equal(row_of(bench, call)->first_position, 10);
    assert_int_equal(row_of(bench, call)->tokens_count, 1);
    assert_int_equal(row_of(bench, call)->decode_steps, 3);
    finish_step(bench);
    assert_int_equal(bench_at(bench, call)->finish, CALL_FINISH_LENGTH);
    assert_true(bench_tokens_are_right(bench_at(bench, call)));
}

static void test_prefill_budget_is_shared_in_order_and_decodes_go_on(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    settings.batch_calls = 4;
    settings.prefill_tokens = 10;
    struct bench *bench = bench_start(&settings, 128);
    uint32_t decoding = bench_call(bench, 4, 1, 9);
    assert_true(bench_step(bench));
    uint32_t first = bench_call(bench, 1, 14, 2);
    uint32_t second = bench_call(bench, 2, 7, 2);
    uint32_t third = bench_call(bench, 3, 5, 2);
    sched_queue_move(bench_engine(bench), bench_job(bench, decoding), 0, false);
    assert_true(bench_launch(bench));
    assert_int_equal(row_of(bench, first)->tokens_count, 10);
    assert_int_equal(row_of(bench, first)->decode_steps, 0);
    assert_null(row_of(bench, second));                     /* the budget is spent */
    assert_int_equal(row_of(bench, decoding)->decode_steps, 1);   /* needs none of it */
    finish_step(bench);
    assert_true(bench_launch(bench));
    assert_int_equal(row_of(bench, first)->tokens_count, 4);
    assert_int_equal(row_of(bench, first)->decode_steps, 1);
    assert_int_equal(row_of(bench, second)->tokens_count, 6);
    assert_null(row_of(bench, third));
    assert_int_equal(step_header(&bench->step)->tokens_count, 4 + 6 + 1);
    finish_step(bench);
    while (bench_step(bench)) {
    }
    assert_int_equal(bench->stats.recomputed_tokens, 0);
    assert_int_equal(bench->stats.tokens_computed, 14 + 7 + 5 + 1 + 1 + 1 + 1 + 8);
}

static void test_history_for_the_penalty_ends_at_the_fed_token(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    struct bench *bench = bench_start(&settings, 64);
    uint32_t plain = bench_call(bench, 1, 5, 3);
    uint32_t call = bench_take(bench, 2, 5, 3, 2);
    bench_at(bench, call)->sampling.repeat_penalty = 1.5f;
    bench_send(bench, call);
    bench_intake(bench);
    assert_true(bench_launch(bench));
    assert_int_equal(row_of(bench, plain)->history_count, 0);
    finish_step(bench);
    assert_true(bench_launch(bench));
    const struct step_row *row = row_of(bench, call);
    assert_int_equal(row->history_count, 6);
    assert_memory_equal(row->history, bench_at(bench, call)->tokens, 6 * sizeof(uint32_t));
}

static void test_history_holds_the_last_tokens_only(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    struct bench *bench = bench_start(&settings, 64);
    uint32_t call = bench_take(bench, 2, CALL_REPEAT_TOKENS + 7, 3, 2);
    bench_at(bench, call)->sampling.repeat_penalty = 0.5f;
    bench_send(bench, call);
    bench_intake(bench);
    assert_true(bench_launch(bench));
    assert_int_equal(row_of(bench, call)->decode_steps, 0);
    assert_int_equal(row_of(bench, call)->history_count, 0);    /* nothing is sampled yet */
    finish_step(bench);
    assert_true(bench_step(bench));
    assert_true(bench_launch(bench));
    assert_int_equal(row_of(bench, call)->history_count, CALL_REPEAT_TOKENS);
    assert_memory_equal(row_of(bench, call)->history, bench_at(bench, call)->tokens + 7,
                        CALL_REPEAT_TOKENS * sizeof(uint32_t));
}

/* Pool of 10 blocks. The resident call of the lower queue gives up its blocks, newest first. */
static void test_short_blocks_come_from_the_lowest_newest_call(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.batch_calls = 4;
    settings.quantum_us = BENCH_UNIT;
    struct bench *bench = bench_start(&settings, 10);
    uint32_t old = bench_call(bench, 1, 12, 9);     /* 3 blocks, then demoted */
    uint32_t newer = bench_call(bench, 2, 12, 9);   /* 3 blocks, then demoted */
    assert_true(bench_step(bench));
    assert_int_equal(kvmem_available(&bench->kv), 4);
    uint32_t urgent = bench_call(bench, 3, 20, 2);  /* 5 blocks */
    assert_true(bench_launch(bench));
    assert_int_equal(step_row(&bench->step, 0)->call, urgent);
    assert_non_null(row_of(bench, old));
    assert_null(row_of(bench, newer));
    assert_int_equal(bench_at(bench, newer)->preemptions, 1);
    assert_int_equal(bench_at(bench, newer)->kv_tokens, 0);
    assert_int_equal(bench_at(bench, old)->preemptions, 0);
    finish_step(bench);
    while (bench_step(bench)) {
    }
    assert_int_equal(bench->stats.calls_completed, 3);
    assert_true(bench_tokens_are_right(bench_at(bench, newer)));
    assert_int_equal(bench_at(bench, newer)->generated_tokens, 9);
    assert_true(bench->stats.recomputed_tokens >= 12);
}

static void test_call_that_cannot_fit_ends_the_walk_and_costs_no_other(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    settings.batch_calls = 4;
    struct bench *bench = bench_start(&settings, 10);
    uint32_t first = bench_call(bench, 1, 16, 9);
    assert_true(bench_step(bench));
    uint32_t large = bench_call(bench, 2, 28, 9);
    uint32_t small = bench_call(bench, 3, 1, 2);
    assert_true(bench_launch(bench));
    assert_non_null(row_of(bench, first));
    assert_null(row_of(bench, large));      /* 5 blocks are taken, 7 needed */
    assert_null(row_of(bench, small));      /* comes after it: line 37 */
    finish_step(bench);
    assert_int_equal(bench->stats.preemptions, 0);
}

/* A client that does not read must not hold the pool against the others. */
static void test_paused_call_is_skipped_and_yields_its_blocks(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    struct bench *bench = bench_start(&settings, 10);
    uint32_t paused = bench_call(bench, 1, 24, 9);
    uint32_t other = bench_call(bench, 2, 24, 9);
    assert_true(bench_step(bench));
    bench_at(bench, paused)->paused = true;
    assert_true(bench_step(bench));
    assert_int_equal(bench_at(bench, paused)->preemptions, 1);
    assert_int_equal(bench_at(bench, other)->generated_tokens, 1);
    uint64_t waited_us = bench_at(bench, paused)->wait_us;
    while (bench_step(bench)) {
    }
    assert_int_equal(bench_at(bench, paused)->state, CALL_QUEUED);
    bench_at(bench, paused)->paused = false;
    while (bench_step(bench)) {
    }
    assert_int_equal(bench_at(bench, paused)->finish, CALL_FINISH_LENGTH);
    assert_true(bench_tokens_are_right(bench_at(bench, paused)));
    assert_true(bench_at(bench, paused)->wait_us <= waited_us + BENCH_UNIT);
}

/* Quanta of a hundredth of a step, a pool for one call at a time, promotions all the while: two
 * calls that take the pool from each other must both get on. */
static void test_small_quanta_and_a_short_pool_still_make_progress(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.quantum_us = BENCH_UNIT / 100;
    settings.quantum_growth = 1;
    settings.prefill_tokens = 4;
    settings.beta_milli = 1;
    struct bench *bench = bench_start(&settings, 8);
    bench_call(bench, 1, 16, 16);
    bench_call(bench, 2, 16, 16);
    uint32_t steps = 0;
    while (bench_step(bench)) {
        assert_true(++steps < 2000);
    }
    assert_int_equal(bench->stats.calls_completed, 2);
    assert_true(bench->stats.preemptions > 1);
}

/* More waiting calls than one pass looks at: the cursor reaches the last one all the same. */
static void test_starvation_is_seen_in_a_long_queue(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    struct bench *bench = bench_start(&settings, 16);
    struct arena *arena = test_arena();
    struct memory_plan unused = {0};
    settings.service = SCHED_SERVICE_SNAPSHOT;
    settings.wait_max_us = 1000;
    settings.calls = 200;
    settings.programs = 200;
    call_table_init(&bench->calls, 200, BENCH_CONTEXT, arena, arena);
    exchange_init(&bench->exchange, &(struct exchange_counts){.commands = 256, .calls = 200},
                  arena);
    struct kvmem_settings kv = bench_kv(16);
    kv.calls = 200;
    kv.holders = settings.programs;
    kvmem_init(&bench->kv, &kv, arena);
    bench->step.base = arena_take(arena, 1, bench->step.layout.total_bytes);
    sched_plan_memory(&unused, &settings);
    bench_init_sched(bench, &bench->sched, &settings, arena);
    bench_call(bench, 7, 1, 1);
    bench->sched.programs[0].service_us = UINT64_MAX / 2;   /* all enter the last queue */
    bench->sched.programs[0].attained_us = UINT64_MAX / 2;
    for (uint32_t i = 0; i < 190; i++) {
        bench->now_us += i == 189 ? 0 : 1;
        bench_call(bench, 7, 1, 1);
    }
    for (uint32_t i = 0; i < 190; i++) {    /* only the last one has waited long */
        uint32_t at = bench_first(bench, 3);
        bench_job(bench, at)->waiting_since_us = bench->now_us + 5000;
        for (uint32_t j = 0; j < i; j++) {
            at = bench_next(bench, at);
        }
        bench_job(bench, at)->waiting_since_us = bench->now_us + (i == 189 ? 0 : 5000);
    }
    bench->now_us += 2000;
    for (uint32_t pass = 0; pass < 4 && bench->stats.promotions == 0; pass++) {
        sched_engine_plan(bench_engine(bench), bench->now_us);
        sched_check(&bench->sched);
    }
    assert_int_equal(bench->stats.promotions, 1);
}

/* The block that is not full is found in the cache; then the victim leaves an equal one in its
 * place, and the call has to ask again. */
static void test_victim_may_take_the_place_of_what_was_found(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    settings.sharing = SCHED_SHARING_PROGRAM;
    settings.batch_calls = 4;
    settings.steps_per_plan = 4;
    struct bench *bench = bench_start(&settings, 12);
    bench_call(bench, 1, 6, 12);
    bench_call(bench, 2, 6, 12);
    uint32_t call = bench_call(bench, 3, 6, 12);
    uint32_t victim = bench_call(bench, 3, 6, 12);
    assert_true(bench_step(bench));
    assert_int_equal(bench_at(bench, call)->kv_tokens, 9);
    assert_int_equal(bench_at(bench, victim)->kv_tokens, 9);
    sched_residency_preempt(bench_engine(bench), bench_at(bench, call), bench->now_us);
    assert_true(bench_launch(bench));
    assert_int_equal(bench_at(bench, victim)->preemptions, 1);
    assert_int_equal(step_header(&bench->step)->rows_count, 3);
    assert_int_equal(step_row(&bench->step, 2)->call, call);
    assert_int_equal(step_row(&bench->step, 2)->first_position, 9);
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    while (bench_step(bench)) {
    }
    assert_true(bench_tokens_are_right(bench_at(bench, call)));
    assert_true(bench_tokens_are_right(bench_at(bench, victim)));
}

/* ---- who enters ------------------------------------------------------------------------------ */

/* So many blocks of four tokens. Programs of several calls are active. */
static struct bench *with_active_set(uint32_t blocks, uint32_t host_blocks)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    struct kvmem_settings kv = bench_kv(blocks);
    kv.host_blocks = host_blocks;
    settings.active_programs = 0;
    settings.batch_calls = 4;
    struct bench *bench = bench_start_kv(&settings, &kv);
    sched_engine_serves(bench_engine(bench), true, bench->now_us);
    return bench;
}

/* A program whose two calls have ten of twelve blocks when they have had four tokens each, and will
 * need the others, too; they are in the third queue then. */
static struct bench *filled_by_one_program(void)
{
    struct bench *bench = with_active_set(12, 0);
    for (uint32_t i = 0; i < 2; i++) {
        bench_call(bench, 1, 16, 8);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(bench_step(bench));
    }
    assert_int_equal(bench_engine(bench)->resident_calls, 2);
    assert_int_equal(bench_job(bench, 0)->queue, 2);
    return bench;
}

static void set_credit(struct bench *bench, int64_t us)
{
    bench_engine(bench)->active.credit_us = us;
    bench_engine(bench)->active.credited_us = bench->now_us;
}

static void test_blocks_of_later_calls_are_taken_on_credit_only(void **state)
{
    (void)state;
    struct bench *bench = filled_by_one_program();
    uint32_t call = bench_call(bench, 2, 12, 1);
    set_credit(bench, -1000000);
    assert_true(bench_launch(bench));
    assert_null(row_of(bench, call));
    assert_int_equal(step_header(&bench->step)->rows_count, 2);     /* they go on */
    assert_int_equal(bench->stats.preemptions, 0);
    assert_false(bench_engine(bench)->has_room);
    assert_int_equal(sched_call_reason(&bench->sched, bench_at(bench, call)), SCHED_REASON_KV);
    finish_step(bench);
    set_credit(bench, 0);
    assert_true(bench_launch(bench));
    assert_non_null(row_of(bench, call));
    assert_int_equal(bench->stats.preemptions, 1);
    finish_step(bench);
}

/* It may not take blocks, and goes on as soon as some are free. */
static void test_call_that_was_kept_out_enters_when_there_is_room(void **state)
{
    (void)state;
    struct bench *bench = filled_by_one_program();
    uint32_t call = bench_call(bench, 2, 12, 1);
    for (uint32_t steps = 0; bench_at(bench, call)->state != CALL_FINISHED; steps++) {
        assert_true(steps < 8);
        set_credit(bench, -1000000);
        assert_true(bench_step(bench));
    }
    assert_int_equal(bench->stats.preemptions, 0);
    assert_true(bench_tokens_are_right(bench_at(bench, call)));
}

/* Its first chunk has room, and the rest of its prompt has not. */
static void test_rest_of_a_prompt_counts_when_a_call_enters(void **state)
{
    (void)state;
    struct bench *bench = filled_by_one_program();
    uint32_t call = bench_call(bench, 2, 12, 1);
    bench->sched.settings.prefill_tokens = 4;
    set_credit(bench, -1000000);
    assert_true(bench_launch(bench));
    assert_null(row_of(bench, call));
    assert_int_equal(step_header(&bench->step)->rows_count, 2);
    finish_step(bench);
    set_credit(bench, 0);
    assert_true(bench_launch(bench));
    assert_int_equal(row_of(bench, call)->tokens_count, 4);
    finish_step(bench);
}

/* Two calls of 16 tokens, which are to have 24 more: a quarter of that, twice, is three blocks
 * beside their eight. */
static void test_call_enters_where_there_is_room_for_what_is_expected(void **state)
{
    (void)state;
    static const struct {
        uint32_t blocks, host_blocks, mean;
        bool enters;
    } cases[] = {
        {11, 0, 32, true},  {10, 0, 32, false},
        {10, 0, 0, true},               /* no call has ended yet */
        {10, 64, 32, true},             /* the host holds what a call loses */
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench *bench = with_active_set(cases[i].blocks, cases[i].host_blocks);
        bench->sched.output_tokens = cases[i].mean;
        uint32_t first = bench_call(bench, 1, 16, 24), second = bench_call(bench, 1, 16, 24);
        assert_true(bench_launch(bench));
        assert_non_null(row_of(bench, first));
        assert_int_equal(row_of(bench, second) != NULL, cases[i].enters);
        assert_int_equal(bench_engine(bench)->has_room, cases[i].enters);
        finish_step(bench);
        while (bench_step(bench)) {
        }
        assert_true(bench_tokens_are_right(bench_at(bench, second)));
    }
}

/* Nothing without blocks enters behind it, so a call that comes later ends no step. */
static void test_arrival_behind_a_call_that_was_kept_out_ends_no_step(void **state)
{
    (void)state;
    struct bench *bench = filled_by_one_program();
    bench->sched.settings.cut_steps = true;
    bench_call(bench, 2, 12, 1);
    set_credit(bench, -1000000);
    assert_true(bench_launch(bench));
    enum step_stop stop = step_early_stop(&bench->step);
    bench_call(bench, 3, 12, 1);
    assert_int_equal(step_early_stop(&bench->step), stop);
    assert_int_not_equal(stop, STEP_STOP_ROUND);
    finish_step(bench);
}

/* What is free is for the call that was kept out, and for none that comes later. */
static void test_nothing_moves_in_behind_a_call_that_was_kept_out(void **state)
{
    (void)state;
    struct bench *bench = with_active_set(12, 24);
    bench->sched.settings.active_programs = 8;
    bench_call(bench, 1, 24, 24);
    uint32_t later = bench_call(bench, 1, 8, 8);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(bench_step(bench));
    }
    set_credit(bench, 1000000);
    bench_call(bench, 2, 20, 1);                        /* takes what the later one had */
    assert_true(bench_step(bench));
    assert_int_equal(bench_at(bench, later)->kv_tokens, 0);
    bench->sched.settings.batch_calls = 1;
    bench->sched.settings.prefetch = true;
    uint32_t call = bench_call(bench, 3, 24, 4);
    set_credit(bench, -1000000);
    assert_true(bench_launch(bench));
    assert_int_equal(bench_engine(bench)->lanes[0].hand.kept_out, call);
    assert_int_equal(bench->stats.prefetched_calls, 0);
    finish_step(bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_to_run_is_no_plan),
        cmocka_unit_test(test_batch_is_full_at_its_limit_in_order_of_arrival),
        cmocka_unit_test(test_multi_step_stops_at_max_tokens),
        cmocka_unit_test(test_prefill_budget_is_shared_in_order_and_decodes_go_on),
        cmocka_unit_test(test_history_for_the_penalty_ends_at_the_fed_token),
        cmocka_unit_test(test_history_holds_the_last_tokens_only),
        cmocka_unit_test(test_short_blocks_come_from_the_lowest_newest_call),
        cmocka_unit_test(test_call_that_cannot_fit_ends_the_walk_and_costs_no_other),
        cmocka_unit_test(test_paused_call_is_skipped_and_yields_its_blocks),
        cmocka_unit_test(test_small_quanta_and_a_short_pool_still_make_progress),
        cmocka_unit_test(test_starvation_is_seen_in_a_long_queue),
        cmocka_unit_test(test_victim_may_take_the_place_of_what_was_found),
        cmocka_unit_test(test_blocks_of_later_calls_are_taken_on_credit_only),
        cmocka_unit_test(test_call_that_was_kept_out_enters_when_there_is_room),
        cmocka_unit_test(test_rest_of_a_prompt_counts_when_a_call_enters),
        cmocka_unit_test(test_call_enters_where_there_is_room_for_what_is_expected),
        cmocka_unit_test(test_nothing_moves_in_behind_a_call_that_was_kept_out),
        cmocka_unit_test(test_arrival_behind_a_call_that_was_kept_out_ends_no_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
