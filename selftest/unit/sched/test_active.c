/* SPDX-License-Identifier: MIT */
/*
 * Goal: the active set: who becomes active, who has to leave, and what each counts for.
 * Method: a device of few blocks on the bench. Prices, credit and promises are set where a rule
 * depends on them: what they are learnt from has tests of its own below.
 */
#include "sched/engine/active/exchange.h"
#include "sched/class/promise.h"
#include "selftest/unit/sched/bench.h"

#define BLOCKS 16u                      /* of four tokens */

static struct bench *fresh(struct sched_settings settings, uint32_t host_blocks)
{
    struct kvmem_settings kv = bench_kv(BLOCKS);
    kv.host_blocks = host_blocks;
    settings.active_programs = settings.active_programs == SCHED_ACTIVE_ALL
                                   ? 0 : settings.active_programs;
    settings.batch_calls = 4;
    return bench_start_kv(&settings, &kv);
}

static struct bench *fresh_plas(void)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.sharing = SCHED_SHARING_PROGRAM;
    return fresh(settings, 32);
}

static const struct program *program_of(const struct bench *bench, uint32_t call)
{
    return &bench->sched.programs[bench->calls.calls[call].program];
}

static bool is_active(const struct bench *bench, uint32_t call)
{
    return sched_program_is_active(&bench->sched, bench->calls.calls[call].program);
}

static void run_to_end(struct bench *bench, uint32_t call)
{
    uint32_t steps = 0;
    while (bench_at(bench, call)->state != CALL_FINISHED) {
        assert_true(bench_step(bench));
        assert_true(++steps < 1000);
    }
}

/* ---- room ------------------------------------------------------------------------------------ */

static void test_programs_that_do_not_fit_wait(void **state)
{
    (void)state;
    struct bench *bench = fresh_plas();
    uint32_t first = bench_call(bench, 1, 20, 4), second = bench_call(bench, 2, 20, 4);
    uint32_t third = bench_call(bench, 3, 20, 4);
    assert_int_equal(bench_engine(bench)->active.blocks, 12);
    assert_true(is_active(bench, first) && is_active(bench, second) && !is_active(bench, third));
    assert_int_equal(bench_engine(bench)->lanes[0].held[0].calls_count, 1);
    assert_int_equal(bench->stats.programs_held, 1);
    assert_true(bench_launch(bench));
    assert_int_equal(bench_engine(bench)->planned_count, 2);
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    run_to_end(bench, first);
    bench_free(bench, first);
    assert_int_equal(bench_program(bench, COMMAND_PROGRAM_END, 1).status, STATUS_OK);
    assert_true(bench_step(bench));
    assert_true(is_active(bench, third));
    run_to_end(bench, third);
    assert_true(bench_tokens_are_right(bench_at(bench, third)));
}

static void test_a_number_is_the_most_that_are_active(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    settings.active_programs = 1;
    struct bench *bench = fresh(settings, 0);
    uint32_t first = bench_call(bench, 1, 4, 1), second = bench_call(bench, 2, 4, 1);
    assert_true(is_active(bench, first) && !is_active(bench, second));
    assert_int_equal(bench_engine(bench)->active.programs, 1);
}

static void test_small_first_calls_use_what_is_left_to_them(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.small_permille = 250;                      /* four blocks */
    struct bench *bench = fresh(settings, 0);
    bench_call(bench, 1, 36, 4);                        /* ten blocks */
    uint32_t large = bench_call(bench, 2, 16, 4), small = bench_call(bench, 3, 8, 4);
    assert_true(!is_active(bench, large) && is_active(bench, small));
    assert_int_equal(bench_engine(bench)->active.blocks, 13);
}

/* ---- what counts ----------------------------------------------------------------------------- */

static void test_what_siblings_begin_with_counts_once(void **state)
{
    (void)state;
    struct bench *bench = fresh_plas();
    bench_call(bench, 1, 24, 4);                        /* seven blocks */
    uint32_t second = bench_call(bench, 1, 24, 4);      /* the same prompt: six in common */
    assert_int_equal(bench_at(bench, second)->new_blocks, 1);
    assert_int_equal(bench_member(bench, second)->new_blocks, 8);
}

static void test_history_counts_until_the_next_call(void **state)
{
    (void)state;
    struct bench *bench = fresh_plas();
    uint32_t call = bench_call(bench, 1, 20, 4);
    run_to_end(bench, call);
    assert_int_equal(bench_member(bench, call)->history_blocks, 6);       /* of 23 positions */
    assert_int_equal(bench_member(bench, call)->new_blocks, 0);
    assert_int_equal(bench_engine(bench)->active.blocks, 6);
}

static void test_output_beyond_what_was_expected_counts(void **state)
{
    (void)state;
    struct bench *bench = fresh_plas();
    run_to_end(bench, bench_call(bench, 1, 4, 2));
    uint32_t call = bench_call(bench, 2, 8, 20);
    uint32_t before = bench_member(bench, call)->new_blocks;
    assert_true(before < 7);                            /* calls have two tokens on average */
    for (uint32_t i = 0; i < 12; i++) {
        assert_true(bench_step(bench));
    }
    assert_true(bench_member(bench, call)->new_blocks > before);
    assert_true(bench_member(bench, call)->new_blocks * 4 >=
                bench_at(bench, call)->prompt_tokens + bench_at(bench, call)->generated_tokens);
    run_to_end(bench, call);
}

/* Three programs of the same prompt in one domain: what they have in common counts once. */
static void test_what_programs_have_in_common_counts_once(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.sharing = SCHED_SHARING_DOMAIN;
    struct bench *bench = fresh(settings, 0);
    for (uint32_t program = 1; program <= 3; program++) {
        uint32_t call = bench_take(bench, program, 21, 2, 5);
        bench_send(bench, call);
        bench_intake(bench);
        run_to_end(bench, call);
        bench_free(bench, call);
    }
    for (uint32_t program = 2; program <= 3; program++) {
        uint32_t call = bench_take(bench, program, 21, 2, 5);
        bench_send(bench, call);
        bench_intake(bench);
        assert_true(bench_member(bench, call)->common_blocks >= 5);
        assert_true(bench_member(bench, call)->group != SCHED_GROUP_NONE);
    }
    assert_int_equal(bench_engine(bench)->active.common_blocks, 5);
}

/* ---- who leaves ------------------------------------------------------------------------------ */

/* Two programs fill the device; a call of the first one has ended. Prices are known. */
static uint32_t fill(struct bench *bench)
{
    uint32_t first = bench_call(bench, 1, 20, 4), second = bench_call(bench, 2, 16, 16);
    run_to_end(bench, first);
    bench_free(bench, first);
    bench_engine(bench)->active.token_ns = 1000000;     /* a block: 4 ms, moved 250 us */
    return second;
}

static void test_idle_program_leaves_after_the_break_even_time(void **state)
{
    (void)state;
    struct bench *bench = fresh_plas();
    uint32_t running = fill(bench);
    uint64_t even_us = sched_exchange_break_even_us(bench_engine(bench), 0);
    assert_int_equal(even_us, 2 * BLOCKS * 250);
    bench_engine(bench)->active.credit_us = -1000000000;
    uint32_t third = bench_call(bench, 3, 20, 4);
    uint64_t idle_since_us = heap_first_key(&bench_engine(bench)->active.idle);
    bench_engine(bench)->is_underused = true;
    bench->now_us = idle_since_us + even_us - 1;
    assert_true(bench_launch(bench));
    assert_false(is_active(bench, third));
    bench_compute(bench);
    bench_settle(bench, 1);
    bench_engine(bench)->active.token_ns = 1000000;
    bench_engine(bench)->is_underused = true;
    assert_true(bench_launch(bench));
    assert_true(is_active(bench, third) && is_active(bench, running));
    assert_int_equal(bench->stats.programs_displaced, 1);
}

static void test_idle_program_may_wait_longer_beside_a_busy_engine(void **state)
{
    (void)state;
    struct bench *bench = fresh_plas();
    fill(bench);
    uint64_t even_us = sched_exchange_break_even_us(bench_engine(bench), 0);
    bench_engine(bench)->active.credit_us = -1000000000;
    uint32_t third = bench_call(bench, 3, 20, 4);
    uint64_t idle_since_us = heap_first_key(&bench_engine(bench)->active.idle);
    bench_engine(bench)->is_underused = false;
    bench->now_us = idle_since_us + 8 * even_us - 1;
    assert_true(bench_launch(bench));
    assert_false(is_active(bench, third));
    bench_compute(bench);
    bench_settle(bench, 1);
    bench_engine(bench)->active.token_ns = 1000000;
    bench_engine(bench)->is_underused = false;
    assert_true(bench_launch(bench));
    assert_true(is_active(bench, third));
}

/* A program in the second queue, one that fills the rest, and a new one that wants its place. */
static uint32_t rival(struct bench *bench, uint32_t *old)
{
    *old = bench_call(bench, 1, 40, 24);                /* all 16 blocks */
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(bench_step(bench));
    }
    assert_true(bench_job(bench, *old)->queue > 0);
    bench_engine(bench)->active.token_ns = 1000;
    return bench_call(bench, 2, 8, 4);
}

static void test_order_displaces_where_the_promise_is_worth_it(void **state)
{
    (void)state;
    for (uint32_t worth = 0; worth < 2; worth++) {
        struct bench *bench = fresh_plas();
        uint32_t old, new = rival(bench, &old);
        for (uint32_t i = 0; i < SCHED_SERVICE_BUCKETS; i++) {
            bench->sched.promises.of[i] = i == 0 ? (worth ? 203 : 200) : 100;
        }
        bench_engine(bench)->active.credit_us = 0;
        bench_engine(bench)->active.credited_us = bench->now_us;
        assert_true(bench_launch(bench));
        assert_int_equal(is_active(bench, new), worth);
        assert_int_equal(is_active(bench, old), !worth);
        assert_int_equal(program_of(bench, old)->displacements, worth);
        assert_int_equal(bench_at(bench, old)->preemptions, worth);
        bench_compute(bench);
        bench_settle(bench, BENCH_UNIT);
        run_to_end(bench, new);
        run_to_end(bench, old);
        assert_true(bench_tokens_are_right(bench_at(bench, old)));
        assert_true(!worth || bench->stats.restored_tokens > 0);
    }
}

static void test_order_displaces_on_credit_only(void **state)
{
    (void)state;
    struct bench *bench = fresh_plas();
    uint32_t old, new = rival(bench, &old);
    for (uint32_t i = 0; i < SCHED_SERVICE_BUCKETS; i++) {
        bench->sched.promises.of[i] = i == 0 ? 1000 : 1;
    }
    bench_engine(bench)->active.credit_us = -1;
    bench_engine(bench)->active.credited_us = bench->now_us;
    assert_true(bench_launch(bench));
    assert_true(!is_active(bench, new) && is_active(bench, old));
}

static void test_starved_program_needs_no_promise(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.wait_max_us = 16 * BENCH_UNIT;
    settings.exchange_permille = 10;
    struct bench *bench = fresh(settings, 32);
    uint32_t old, new = rival(bench, &old);
    bench_engine(bench)->active.starved_us = bench->now_us;
    bench_engine(bench)->active.credit_us = 0;
    uint64_t came_us = bench->now_us;
    while (!is_active(bench, new)) {
        assert_true(bench_step(bench));
        assert_true(bench->now_us <= came_us + 18 * BENCH_UNIT);
    }
    assert_true(bench->now_us >= came_us + 16 * BENCH_UNIT);
    assert_false(is_active(bench, old));
    run_to_end(bench, old);
}

/* The debt is limited: credit comes back within sched.wait_max. */
static void test_starved_program_waits_for_credit_within_bounds(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.wait_max_us = 16 * BENCH_UNIT;
    settings.exchange_permille = 1000;
    struct bench *bench = fresh(settings, 0);
    bench_engine(bench)->active.token_ns = 1000000000;
    sched_exchange_pay_lost(bench_engine(bench), 1000000);
    assert_int_equal(bench_engine(bench)->active.credit_us, -(int64_t)settings.wait_max_us);
}

/* No call of an active program can run: the same plan has the one that waits. */
static void test_program_that_cannot_run_gives_way_at_once(void **state)
{
    (void)state;
    struct bench *bench = fresh_plas();
    uint32_t silent = bench_call(bench, 1, 40, 24), other = bench_call(bench, 2, 20, 4);
    assert_false(is_active(bench, other));
    bench_at(bench, silent)->paused = true;
    assert_true(bench_launch(bench));
    assert_true(is_active(bench, other) && !is_active(bench, silent));
    assert_int_equal(bench_engine(bench)->planned_count, 1);
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    run_to_end(bench, other);
    bench_at(bench, silent)->paused = false;
    run_to_end(bench, silent);
}

/* A held call whose client does not read keeps no other from becoming active. */
static void test_held_calls_that_cannot_run_are_passed_over(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    settings.active_programs = 2;
    struct bench *bench = fresh(settings, 0);
    uint32_t running = bench_call(bench, 1, 8, 40), first = bench_call(bench, 2, 4, 1);
    uint32_t silent = bench_call(bench, 3, 4, 4), other = bench_call(bench, 4, 4, 4);
    assert_true(!is_active(bench, silent) && !is_active(bench, other));
    bench_at(bench, silent)->paused = true;
    run_to_end(bench, first);
    bench_free(bench, first);
    assert_int_equal(bench_program(bench, COMMAND_PROGRAM_END, 2).status, STATUS_OK);
    assert_true(bench_step(bench));
    assert_true(!is_active(bench, silent) && is_active(bench, other));
    run_to_end(bench, other);
    run_to_end(bench, running);
}

/* ---- held calls end as others do ------------------------------------------------------------- */

static void test_held_calls_can_end(void **state)
{
    (void)state;
    struct bench *bench = fresh_plas();
    bench_call(bench, 1, 40, 24);
    uint32_t cancelled = bench_call(bench, 2, 20, 4);
    uint32_t late = bench_take(bench, 3, 20, 4, 3), kept = bench_call(bench, 4, 20, 4);
    bench_at(bench, late)->deadline_us = bench->now_us + 10;
    bench_send(bench, late);
    bench_intake(bench);
    bench_cancel(bench, cancelled);
    bench->now_us += 10;
    bench_intake(bench);
    assert_int_equal(bench_at(bench, cancelled)->finish, CALL_FINISH_CANCELLED);
    assert_int_equal(bench_at(bench, late)->finish, CALL_FINISH_DEADLINE);
    assert_int_equal(bench_engine(bench)->active.held_jobs, 1);
    sched_fail_all(&bench->sched, STATUS_BUSY_DRAINING, bench->now_us);
    sched_check(&bench->sched);
    assert_int_equal(bench_at(bench, kept)->finish, CALL_FINISH_FAILED);
}

static void test_a_lost_worker_leaves_the_set_as_it_is(void **state)
{
    (void)state;
    struct bench *bench = fresh_plas();
    uint32_t running = bench_call(bench, 1, 40, 24), held = bench_call(bench, 2, 20, 4);
    assert_true(bench_launch(bench));
    bench_lose(bench);
    assert_true(is_active(bench, running) && !is_active(bench, held));
    run_to_end(bench, running);
    run_to_end(bench, held);
}

static void test_price_of_a_token_is_that_of_steps_that_read_prompts(void **state)
{
    (void)state;
    struct bench *bench = fresh_plas();
    struct sched_engine *engine = bench_engine(bench);
    sched_exchange_learn(engine, 1000, 1, 2);           /* few tokens: at most so much */
    assert_int_equal(engine->active.token_ns, 500000);
    sched_exchange_learn(engine, 8000, 8, 1);           /* more for a token than is known */
    assert_int_equal(engine->active.token_ns, 500000);
    sched_exchange_learn(engine, 1600, 1, BENCH_PREFILL_MAX);
    uint64_t full_ns = 1600000 / BENCH_PREFILL_MAX;
    assert_int_equal(engine->active.token_ns, (15 * 500000 + full_ns) / 16);
    for (uint32_t i = 0; i < 200; i++) {
        sched_exchange_learn(engine, 2 * 1600, 1, BENCH_PREFILL_MAX);
    }
    assert_in_range(engine->active.token_ns, 2 * full_ns - full_ns / 8, 2 * full_ns);
}

/* No row is fed more than one token. */
static void test_price_of_a_token_is_known_with_a_budget_of_one(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.prefill_tokens = 1;
    struct bench *bench = fresh(settings, 32);
    bench_call(bench, 1, 3, 4);
    assert_true(bench_step(bench));
    assert_int_equal(bench_engine(bench)->active.token_ns, 1000 * BENCH_UNIT);
    for (uint32_t i = 0; i < 5; i++) {          /* the last of the prompt; tokens */
        bench_launch(bench);
        bench_compute(bench);
        bench_settle(bench, 1);
    }
    assert_int_equal(bench_engine(bench)->active.token_ns, (15 * 1000 * BENCH_UNIT + 1000) / 16);
}

static void test_credit_is_a_share_of_work_and_all_of_leisure(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.exchange_permille = 100;
    struct bench *bench = fresh(settings, 0);
    struct sched_engine *engine = bench_engine(bench);
    sched_exchange_accrue(engine, bench->now_us);
    engine->active.token_ns = 100000000;                /* the cap is far away */
    engine->active.credit_us = -5000;
    engine->active.busy_us = 600;
    sched_exchange_accrue(engine, bench->now_us + 1000);
    assert_int_equal(engine->active.credit_us, -5000 + 60 + 400);
    sched_exchange_pay_lost(engine, 2);                 /* wait_max is 0: no limit */
    assert_int_equal(engine->active.credit_us, -5000 + 460 - 200000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs_that_do_not_fit_wait),
        cmocka_unit_test(test_a_number_is_the_most_that_are_active),
        cmocka_unit_test(test_small_first_calls_use_what_is_left_to_them),
        cmocka_unit_test(test_what_siblings_begin_with_counts_once),
        cmocka_unit_test(test_history_counts_until_the_next_call),
        cmocka_unit_test(test_output_beyond_what_was_expected_counts),
        cmocka_unit_test(test_what_programs_have_in_common_counts_once),
        cmocka_unit_test(test_idle_program_leaves_after_the_break_even_time),
        cmocka_unit_test(test_idle_program_may_wait_longer_beside_a_busy_engine),
        cmocka_unit_test(test_order_displaces_where_the_promise_is_worth_it),
        cmocka_unit_test(test_order_displaces_on_credit_only),
        cmocka_unit_test(test_starved_program_needs_no_promise),
        cmocka_unit_test(test_starved_program_waits_for_credit_within_bounds),
        cmocka_unit_test(test_program_that_cannot_run_gives_way_at_once),
        cmocka_unit_test(test_held_calls_that_cannot_run_are_passed_over),
        cmocka_unit_test(test_held_calls_can_end),
        cmocka_unit_test(test_a_lost_worker_leaves_the_set_as_it_is),
        cmocka_unit_test(test_price_of_a_token_is_that_of_steps_that_read_prompts),
        cmocka_unit_test(test_price_of_a_token_is_known_with_a_budget_of_one),
        cmocka_unit_test(test_credit_is_a_share_of_work_and_all_of_leisure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
