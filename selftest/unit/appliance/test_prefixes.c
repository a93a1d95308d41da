/* SPDX-License-Identifier: MIT */
/*
 * Goal: declared prefixes are computed on each worker before any call is served, cost no call a
 * token whatever becomes of the worker, and are shared whatever kv.sharing says.
 * Method: the whole loop over the fake world, whose engine betrays every wrong block; two prefixes
 * that begin alike, one of more tokens than a step takes.
 */
#include "selftest/unit/appliance/loop_rig.h"

enum { LONG = 3 * BLOCK_TOKENS, SHORT = 2 * BLOCK_TOKENS, DISTINCT_BLOCKS = 4 };

static const struct loop_orders orders = {.load_permille = 1000};
static uint32_t bends_left;

static void bend_prefix(void *context)
{
    fake_engine_run(context);
    bool is_prefix = step_row(&rig.engine.step, 0)->call == CALL_NONE &&
                     !step_row(&rig.engine.step, 0)->wants_digest;
    if (is_prefix && bends_left > 0) {
        step_out(&rig.engine.step, 0)->result = bends_left-- % 2 == 0 ? 7 : STEP_ROW_NOT_FINITE;
    }
}

/* One row in ten of a call that has had no fault. */
static void bend_calls(void *context)
{
    fake_engine_run(context);
    for (uint32_t i = 0; i < step_header(&rig.engine.step)->rows_active; i++) {
        uint32_t call = step_row(&rig.engine.step, i)->call;
        if (call != CALL_NONE && rig.loop.calls.calls[call].faults == 0 && draw(10) == 0) {
            *step_out(&rig.engine.step, i) = (struct step_out){.result = STEP_ROW_NOT_FINITE};
        }
    }
}

static void declare(void)
{
    static uint32_t tokens[2][LONG];
    for (uint32_t i = 0; i < LONG; i++) {
        tokens[0][i] = i % VOCAB;
        tokens[1][i] = i < BLOCK_TOKENS ? i : i + 10;
    }
    declared = (struct config_prefixes){
        .count = 2, .each = {{.tokens_count = LONG, .tokens = tokens[0]},
                             {.option = 1, .tokens_count = SHORT, .tokens = tokens[1]}}};
}

static void assert_health(enum health_state state, const char *reason)
{
    struct health health;
    loop_health(&rig.loop, &orders, &health);
    assert_int_equal(health.state, state);
    if (reason != NULL) {
        assert_string_equal(health.reason, reason);
    }
}

/* Until the first one computes. */
static void wait_for_prefixes(void)
{
    for (uint32_t i = 0; i < 100 && !prefixes_are_in_flight(&rig.loop.engines[0].prefixes); i++) {
        assert_true(pass(&orders));
    }
    assert_true(prefixes_are_in_flight(&rig.loop.engines[0].prefixes));
}

static void wait_until_computed(void)
{
    for (uint32_t i = 0; i < 1000 && prefixes_are_due(&rig.loop.engines[0].prefixes); i++) {
        assert_true(pass(&orders));
    }
    assert_false(prefixes_are_due(&rig.loop.engines[0].prefixes));
}

/* No call runs before all are computed; one with a fault does without them. Returns the number of
 * calls with a fault that have blocks. */
static uint32_t check_calls(void)
{
    uint32_t faulted = 0;
    const struct engine *engine = &rig.loop.engines[0];
    assert_false(prefixes_are_due(&engine->prefixes) && rig.loop.sched.engines[0].step_in_flight);
    for (uint32_t i = 0; i < rig.loop.calls.count; i++) {
        if (rig.loop.calls.calls[i].faults > 0 && kvmem_call_blocks(&engine->kv, i) > 0) {
            assert_int_equal(kvmem_call_declared(&engine->kv, i), 0);
            faulted++;
        }
    }
    return faulted;
}

/* Returns in how many passes calls with faults had blocks. */
static uint32_t run_all(uint32_t kill_one_in)
{
    uint32_t faulted = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        client_connect(&rig.clients[i]);
    }
    for (uint32_t i = 0; i < PASSES_MAX && !all_done(); i++) {
        assert_true(pass(&orders));
        faulted += check_calls();
        client_move(&rig.clients[i % CLIENTS]);
        if (kill_one_in != 0 && draw(kill_one_in) == 0) {
            fake_engine_forget(&rig.engine);
            rig.fake.engine_dies = true;
        }
    }
    assert_true(all_done());
    assert_true(pass(&orders));         /* in which the last death is noticed */
    wait_until_computed();
    everything_is_back();
    assert_int_equal(rig.loop.stats.calls_completed, CLIENTS * CALLS_EACH);
    return faulted;
}

static void test_prefixes_are_computed_before_anybody_is_served(void **state)
{
    declare();
    start(2);
    wait_for_prefixes();
    assert_false(rig.loop.serving);
    assert_health(HEALTH_STARTING, "computing prefixes");
    while (prefixes_are_due(&rig.loop.engines[0].prefixes)) {
        assert_false(rig.loop.serving);
        assert_true(pass(&orders));
    }
    assert_true(rig.loop.serving);
    assert_health(HEALTH_READY, NULL);
    sched_report(&rig.loop.sched);
    assert_int_equal(rig.loop.stats.kv_blocks_declared, DISTINCT_BLOCKS);
    assert_int_equal(rig.loop.stats.kv_blocks_total, BLOCKS + (LONG + SHORT) / BLOCK_TOKENS);
    assert_int_equal(rig.loop.stats.steps, 0);
}

static void test_calls_find_prefixes_whatever_is_shared(void **state)
{
    for (uint64_t seed = 0; seed < 30; seed++) {        /* each kind of kv.sharing */
        declare();
        start(seed);
        run_all(0);
        uint64_t hits = rig.loop.stats.declared_hit_tokens;
        assert_true(hits > 0 && hits % BLOCK_TOKENS == 0);
        assert_true(hits <= rig.loop.stats.prefix_hit_tokens);
        assert_int_equal(kvmem_declared(&rig.loop.engines[0].kv), DISTINCT_BLOCKS);
    }
}

static void test_killed_workers_cost_prefixes_and_calls_no_token(void **state)
{
    uint64_t restarts = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        declare();
        start(seed);
        run_all(200);                   /* seldom enough for calls to get further in between */
        restarts += rig.loop.stats.engine_restarts;
        assert_int_equal(kvmem_declared(&rig.loop.engines[0].kv), DISTINCT_BLOCKS);
    }
    assert_true(restarts > 5);
}

/* The keeper counts how often; to the loop each is a new worker. */
static void test_prefix_that_comes_to_nothing_costs_the_worker(void **state)
{
    declare();
    start(2);
    rig.fake.engine = bend_prefix;
    bends_left = 2;
    wait_until_computed();
    assert_int_equal(rig.loop.stats.engine_wrong, 2);
    assert_int_equal(rig.loop.stats.engine_restarts, 2);
    run_all(0);
}

static void test_call_with_a_fault_is_computed_without_prefixes(void **state)
{
    uint32_t faulted = 0;
    for (uint64_t seed = 0; seed < 30; seed++) {
        declare();
        start(seed);
        rig.fake.engine = bend_calls;
        faulted += run_all(0);
    }
    assert_true(faulted > 30);
}

static void test_engine_that_is_given_up_before_the_prefixes_are_computed_is_told(void **state)
{
    struct loop_orders given_up = {.load_permille = 1000, .engines = {{.failure = "engine wrong"}}};
    declare();
    start(2);
    wait_for_prefixes();
    assert_true(pass(&given_up));
    assert_true(rig.loop.serving);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefixes_are_computed_before_anybody_is_served),
        cmocka_unit_test(test_calls_find_prefixes_whatever_is_shared),
        cmocka_unit_test(test_killed_workers_cost_prefixes_and_calls_no_token),
        cmocka_unit_test(test_prefix_that_comes_to_nothing_costs_the_worker),
        cmocka_unit_test(test_call_with_a_fault_is_computed_without_prefixes),
        cmocka_unit_test(
            test_engine_that_is_given_up_before_the_prefixes_are_computed_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
