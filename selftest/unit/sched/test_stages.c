/* SPDX-License-Identifier: MIT */
/*
 * Goal: policies that do not preempt (policy.c, stages) and the keys of programs (key.c): who is
 * admitted, who yields, who comes back first, and what a key becomes.
 * Method: a few calls on the bench, KV for a few blocks, one round a step.
 */
#include "selftest/unit/sched/bench.h"

enum { BATCH = 8 };

static struct bench *bench;

static void start(enum sched_policy policy, uint32_t blocks)
{
    struct sched_settings settings = bench_settings(policy);
    settings.batch_calls = BATCH;
    settings.retag = true;
    bench = bench_start(&settings, blocks);
}

/* A call of a program whose cost and output are foretold. */
static uint32_t arrive(uint32_t program, uint32_t prompt, uint32_t max, uint64_t cost)
{
    uint32_t index = bench_take(bench, program, prompt, max, program + 10);
    bench_at(bench, index)->foretold = (struct call_foretold){
        .program_cost = cost, .program_tokens = cost, .output_tokens = max};
    bench_send(bench, index);
    bench_intake(bench);
    return index;
}

static void step(void)
{
    assert_true(bench_launch(bench));
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    sched_check(&bench->sched);
}

static enum sched_stage stage_of(uint32_t call)
{
    return (enum sched_stage)bench_job(bench, call)->queue;
}

static const struct program *program_of(uint32_t call)
{
    return &bench->sched.programs[bench_at(bench, call)->program];
}

static void test_a_smaller_key_waits_for_room(void **state)
{
    (void)state;
    start(SCHED_SRJF, 8);
    uint32_t large = arrive(0, 20, 8, 1000);
    step();
    uint32_t small = arrive(1, 12, 2, 1);
    step();
    assert_int_equal(stage_of(large), SCHED_STAGE_RESIDENT);
    assert_int_equal(stage_of(small), SCHED_STAGE_WAITING);
    assert_int_equal(bench_at(bench, large)->preemptions, 0);
}

static void test_a_call_is_admitted_with_room_for_its_whole_prompt(void **state)
{
    (void)state;
    start(SCHED_FCFS_AGENT, 11);
    uint32_t first = arrive(0, 24, 8, 0);       /* six blocks */
    uint32_t second = arrive(1, 24, 8, 0);      /* a chunk of it would fit */
    step();
    assert_int_equal(stage_of(first), SCHED_STAGE_RESIDENT);
    assert_int_equal(stage_of(second), SCHED_STAGE_WAITING);
}

/* Both grow until eight blocks do not hold them. */
static void test_growth_takes_from_the_largest_key(void **state)
{
    (void)state;
    start(SCHED_SRJF, 8);
    uint32_t large = arrive(0, 12, 20, 1000), small = arrive(1, 12, 20, 500);
    while (stage_of(large) != SCHED_STAGE_DISPLACED) {
        step();
        assert_int_equal(stage_of(small), SCHED_STAGE_RESIDENT);
    }
    assert_int_equal(bench_at(bench, large)->preemptions, 1);
}

static void test_the_displaced_come_before_any_that_waits(void **state)
{
    (void)state;
    start(SCHED_SRJF, 8);
    uint32_t large = arrive(0, 12, 20, 1000), small = arrive(1, 12, 12, 500);
    while (stage_of(large) != SCHED_STAGE_DISPLACED) {
        step();
    }
    uint32_t tiny = arrive(2, 1, 1, 1);         /* there is a block for it */
    step();
    assert_int_equal(stage_of(tiny), SCHED_STAGE_WAITING);
    while (bench_at(bench, small)->state != CALL_FINISHED) {
        step();
        assert_true(bench_at(bench, tiny)->state != CALL_FINISHED);
    }
    step();
    assert_int_equal(stage_of(large), SCHED_STAGE_RESIDENT);
}

static void test_a_displaced_call_that_is_paused_stops_none(void **state)
{
    (void)state;
    start(SCHED_SRJF, 8);
    uint32_t large = arrive(0, 12, 20, 1000);
    arrive(1, 12, 20, 500);
    while (stage_of(large) != SCHED_STAGE_DISPLACED) {
        step();
    }
    bench_at(bench, large)->paused = true;
    uint32_t tiny = arrive(2, 1, 1, 1);
    step();
    assert_int_equal(bench_at(bench, tiny)->state, CALL_FINISHED);
}

static void test_a_paused_resident_makes_room_for_one_that_waits(void **state)
{
    (void)state;
    start(SCHED_FCFS_AGENT, 8);
    uint32_t first = arrive(0, 24, 8, 0);
    step();
    bench_at(bench, first)->paused = true;
    uint32_t second = arrive(1, 24, 2, 0);
    step();
    assert_int_equal(stage_of(first), SCHED_STAGE_DISPLACED);
    assert_int_equal(stage_of(second), SCHED_STAGE_RESIDENT);
}

static void test_a_lost_worker_keeps_tags_and_displaces_all(void **state)
{
    (void)state;
    start(SCHED_JUSTITIA, 64);
    uint32_t first = arrive(0, 12, 4, 90), second = arrive(1, 12, 4, 70);
    step();
    uint64_t tag = bench_job(bench, first)->key;
    assert_true(bench_launch(bench));
    bench_lose(bench);
    sched_check(&bench->sched);
    assert_int_equal(stage_of(first), SCHED_STAGE_DISPLACED);
    assert_int_equal(stage_of(second), SCHED_STAGE_DISPLACED);
    assert_int_equal(bench_job(bench, first)->key, tag);
    assert_int_equal(bench_first(bench, SCHED_STAGE_DISPLACED), second);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void test_a_tag_is_the_clock_at_arrival_and_the_cost(void **state)
{
    (void)state;
    start(SCHED_JUSTITIA, 64);
    uint32_t first = arrive(0, 10, 4, 1000);
    step();                                     /* 11 token-rounds, and none else is there */
    uint32_t second = arrive(1, 10, 4, 100);
    assert_int_equal(bench_job(bench, first)->key, 1000);
    assert_int_equal(bench->sched.ideal.virtual_time, 11);
    assert_int_equal(bench_job(bench, second)->key, 111);
    uint32_t third = arrive(1, 10, 4, 5000);    /* foretold once: the program has its tag */
    assert_int_equal(bench_job(bench, third)->key, 111);
}

static void test_what_is_served_of_a_call_is_its_cost(void **state)
{
    (void)state;
    start(SCHED_JUSTITIA, 64);
    uint32_t call = arrive(0, 40, 5, 1000);     /* two chunks */
    const struct program *program = program_of(call);
    while (bench_at(bench, call)->state != CALL_FINISHED) {
        step();
    }
    assert_int_equal(program->served, 40 * 5 + 15);
    assert_int_equal(program->cost, 1000);
}

static void test_a_program_that_outlives_its_cost_gets_a_later_tag(void **state)
{
    (void)state;
    start(SCHED_JUSTITIA, 64);
    uint32_t call = arrive(0, 10, 8, 12), other = arrive(1, 10, 8, 100);
    step();
    assert_int_equal(program_of(call)->served, 11);
    assert_int_equal(bench_job(bench, call)->key, 12);
    step();
    assert_int_equal(program_of(call)->served, 23);
    assert_int_equal(program_of(call)->cost, 28);       /* 12, and 4, 8, 16 more */
    assert_int_equal(bench_job(bench, call)->key, 28);
    assert_int_equal(bench_first(bench, SCHED_STAGE_RESIDENT), call);
    bench->sched.settings.retag = false;
    step();
    assert_int_equal(program_of(call)->cost, 28);
    assert_int_equal(bench_job(bench, other)->key, 100);
}

/* The class has no name: the programs begin alike. */
static void test_a_cost_from_a_class_is_half_as_much_again(void **state)
{
    (void)state;
    start(SCHED_JUSTITIA, 64);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t call = bench_take(bench, i, 10, 2, 1);
        bench_send(bench, call);
        bench_intake(bench);
        assert_int_equal(program_of(call)->cost_foreseen, i == 0 ? 11 : 23 + 23 / 2);
        while (bench_at(bench, call)->state != CALL_FINISHED) {
            step();
        }
        assert_int_equal(bench_program(bench, COMMAND_PROGRAM_END, i).status, STATUS_OK);
    }
}

static void test_a_cost_that_no_one_foretold_is_that_of_a_round(void **state)
{
    (void)state;
    start(SCHED_JUSTITIA, 64);
    uint32_t call = arrive(0, 10, 8, 0);
    assert_int_equal(program_of(call)->cost, 11);
}

static void test_costs_saturate(void **state)
{
    (void)state;
    start(SCHED_JUSTITIA, 64);
    uint32_t first = arrive(0, 10, 8, 100);
    step();
    uint32_t endless = arrive(1, 10, 8, UINT64_MAX);
    assert_int_equal(bench_job(bench, endless)->key, UINT64_MAX);
    step();
    assert_int_equal(bench_first(bench, SCHED_STAGE_RESIDENT), first);
}

static void test_when_no_call_is_open_the_clock_goes_to_the_largest_tag(void **state)
{
    (void)state;
    start(SCHED_JUSTITIA, 64);
    uint32_t call = arrive(0, 4, 1, 500);
    step();
    assert_int_equal(bench_at(bench, call)->state, CALL_FINISHED);
    assert_int_equal(bench->sched.ideal.virtual_time, 500);
    assert_int_equal(bench->sched.ideal.tags.count, 0);
}

/* Ten token-rounds for two, so the smaller tag is reached after four: the step's service counts
 * before the rest, although its last call has ended before. */
static void test_who_leaves_in_the_last_step_leaves_in_its_time(void **state)
{
    (void)state;
    start(SCHED_JUSTITIA, 64);
    const struct sched_ideal *ideal = &bench->sched.ideal;
    arrive(0, 4, 1, 2);
    arrive(1, 4, 1, 500);
    step();
    uint32_t small = ideal->left, large = ideal->entries[small].next;
    uint64_t begun_us = bench->now_us - BENCH_UNIT;
    assert_int_equal(ideal->entries[small].tag, 2);
    assert_int_equal(ideal->entries[small].left_us, begun_us + BENCH_UNIT * 4 / 10);
    assert_int_equal(ideal->entries[large].tag, 500);
    assert_int_equal(ideal->entries[large].left_us, bench->now_us);
    assert_int_equal(ideal->entries[large].next, SCHED_IDEAL_NONE);
    assert_int_equal(ideal->virtual_time, 500);
}

static void test_a_program_that_starts_again_has_two_entries_in_the_ideal_system(void **state)
{
    (void)state;
    start(SCHED_JUSTITIA, 64);
    arrive(0, 4, 40, 5000);
    uint32_t call = arrive(1, 4, 1, 500);
    step();
    assert_int_equal(bench_at(bench, call)->state, CALL_FINISHED);
    assert_int_equal(bench_program(bench, COMMAND_PROGRAM_END, 1).status, STATUS_OK);
    arrive(1, 4, 2, 700);
    assert_int_equal(bench->sched.ideal.weights, 3);
}

/* Its entry is that of another program by then. */
static void test_a_program_that_left_the_ideal_system_moves_no_other(void **state)
{
    (void)state;
    start(SCHED_JUSTITIA, 64);
    uint32_t early = arrive(0, 8, 40, 10);
    step();                                     /* 9 of its 10 token-rounds */
    assert_true(sched_ideal_has(&bench->sched.ideal, program_of(early)->ideal, 0));
    bench->sched.settings.retag = false;
    step();
    assert_false(sched_ideal_has(&bench->sched.ideal, program_of(early)->ideal, 0));
    step();                                     /* what has left is given back */
    uint32_t late = arrive(1, 8, 40, 5000);
    assert_int_equal(program_of(late)->ideal, program_of(early)->ideal);
    uint64_t tag = bench->sched.ideal.entries[program_of(late)->ideal].tag;
    bench->sched.settings.retag = true;
    step();
    assert_true(program_of(early)->cost > 10);
    assert_int_equal(bench->sched.ideal.entries[program_of(late)->ideal].tag, tag);
}

static void test_the_capacity_clock_counts_all_kv_in_each_round(void **state)
{
    (void)state;
    start(SCHED_JUSTITIA, 64);
    bench->sched.settings.virtual_clock = SCHED_CLOCK_CAPACITY;
    arrive(0, 4, 8, 5000);
    step();
    assert_int_equal(bench->sched.ideal.virtual_time, 64 * BENCH_BLOCK_TOKENS);
}

/* Its costs are tokens. */
static void test_the_capacity_clock_is_not_for_costs_in_tokens(void **state)
{
    (void)state;
    start(SCHED_JUSTITIA_C, 64);
    bench->sched.settings.virtual_clock = SCHED_CLOCK_CAPACITY;
    arrive(0, 4, 8, 5000);
    step();
    assert_int_equal(bench->sched.ideal.virtual_time, 4 + 2);
}

/* The prompt of the first call counts before the second one can have the other row. */
static void test_a_counter_grows_when_a_call_is_admitted(void **state)
{
    (void)state;
    start(SCHED_VTC, 64);
    bench->sched.settings.batch_calls = 2;
    uint32_t first = arrive(0, 8, 4, 0), second = arrive(0, 8, 4, 0), other = arrive(1, 8, 4, 0);
    step();
    assert_int_equal(stage_of(first), SCHED_STAGE_RESIDENT);
    assert_int_equal(stage_of(other), SCHED_STAGE_RESIDENT);
    assert_int_equal(stage_of(second), SCHED_STAGE_WAITING);
    assert_int_equal(bench_job(bench, second)->key, 8 + 2);
}

static void test_who_comes_back_is_lifted_to_the_smallest_counter(void **state)
{
    (void)state;
    start(SCHED_VTC, 64);
    uint32_t busy = arrive(0, 8, 8, 0);
    step();
    step();
    uint32_t late = arrive(1, 8, 8, 0);
    assert_int_equal(bench_job(bench, busy)->key, 8 + 4);
    assert_int_equal(bench_job(bench, late)->key, 8 + 4);
}

/* A client that does not read would keep the smallest counter for ever, and with it all that come
 * before those that have long been at work. */
static void test_no_one_is_lifted_to_the_counter_of_one_that_is_paused(void **state)
{
    (void)state;
    start(SCHED_VTC, 64);
    uint32_t silent = arrive(0, 4, 80, 0);
    step();
    bench_at(bench, silent)->paused = true;
    uint32_t busy = arrive(1, 4, 60, 0);
    for (uint32_t i = 0; i < 40; i++) {
        step();
    }
    uint32_t late = arrive(2, 4, 8, 0);
    assert_int_equal(program_of(late)->key_base, program_of(busy)->served);
    assert_true(program_of(late)->key_base > program_of(silent)->served);
}

static void test_sjf_orders_calls_by_their_outputs(void **state)
{
    (void)state;
    start(SCHED_SJF, 64);
    bench->sched.settings.batch_calls = 1;
    uint32_t longer = arrive(0, 4, 9, 0), shorter = arrive(0, 4, 3, 0);
    step();
    assert_int_equal(stage_of(longer), SCHED_STAGE_WAITING);
    assert_int_equal(stage_of(shorter), SCHED_STAGE_RESIDENT);
}

/* The last of three loses its blocks first; the one before it goes first when it does, too. */
static void test_equal_calls_keep_the_order_of_arrival(void **state)
{
    (void)state;
    start(SCHED_SJF, 12);
    uint32_t first = arrive(0, 12, 30, 0), second = arrive(1, 12, 30, 0);
    uint32_t third = arrive(2, 12, 30, 0);
    while (stage_of(second) != SCHED_STAGE_DISPLACED) {
        step();
    }
    assert_int_equal(stage_of(third), SCHED_STAGE_DISPLACED);
    assert_int_equal(bench_first(bench, SCHED_STAGE_DISPLACED), second);
    assert_int_equal(stage_of(first), SCHED_STAGE_RESIDENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_smaller_key_waits_for_room),
        cmocka_unit_test(test_a_call_is_admitted_with_room_for_its_whole_prompt),
        cmocka_unit_test(test_growth_takes_from_the_largest_key),
        cmocka_unit_test(test_the_displaced_come_before_any_that_waits),
        cmocka_unit_test(test_a_displaced_call_that_is_paused_stops_none),
        cmocka_unit_test(test_a_paused_resident_makes_room_for_one_that_waits),
        cmocka_unit_test(test_a_lost_worker_keeps_tags_and_displaces_all),
        cmocka_unit_test(test_a_tag_is_the_clock_at_arrival_and_the_cost),
        cmocka_unit_test(test_what_is_served_of_a_call_is_its_cost),
        cmocka_unit_test(test_a_program_that_outlives_its_cost_gets_a_later_tag),
        cmocka_unit_test(test_a_cost_from_a_class_is_half_as_much_again),
        cmocka_unit_test(test_a_cost_that_no_one_foretold_is_that_of_a_round),
        cmocka_unit_test(test_costs_saturate),
        cmocka_unit_test(test_when_no_call_is_open_the_clock_goes_to_the_largest_tag),
        cmocka_unit_test(test_who_leaves_in_the_last_step_leaves_in_its_time),
        cmocka_unit_test(test_a_program_that_starts_again_has_two_entries_in_the_ideal_system),
        cmocka_unit_test(test_a_program_that_left_the_ideal_system_moves_no_other),
        cmocka_unit_test(test_the_capacity_clock_counts_all_kv_in_each_round),
        cmocka_unit_test(test_the_capacity_clock_is_not_for_costs_in_tokens),
        cmocka_unit_test(test_a_counter_grows_when_a_call_is_admitted),
        cmocka_unit_test(test_who_comes_back_is_lifted_to_the_smallest_counter),
        cmocka_unit_test(test_no_one_is_lifted_to_the_counter_of_one_that_is_paused),
        cmocka_unit_test(test_sjf_orders_calls_by_their_outputs),
        cmocka_unit_test(test_equal_calls_keep_the_order_of_arrival),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
