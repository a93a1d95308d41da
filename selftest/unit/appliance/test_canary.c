/* SPDX-License-Identifier: MIT */
/*
 * Goal: an engine that is wrong in any way costs its worker and time; a fault of one call costs
 * that call; and the core survives anything that a worker writes.
 * Method: the whole loop over the fake world. The engine computes, then its results are bent: the
 * canary's, rows that are not finite or impossible, the whole record by a thread that never stops.
 */
#include "selftest/unit/appliance/loop_rig.h"

#include <pthread.h>
#include <stdatomic.h>

/* Bends the results of a step that the engine has computed. */
static void (*bend)(void);
static uint32_t bends_left;

static void bent_engine(void *context)
{
    fake_engine_run(context);
    bend();
}

static bool is_canary(void)
{
    return step_row(&rig.engine.step, 0)->call == CALL_NONE;
}

static void fresh(uint64_t seed, void (*how)(void), uint32_t times)
{
    start(seed);
    bend = how;
    bends_left = times;
    rig.fake.engine = bent_engine;
}

/* The call of this row, if it has had no fault yet and a bend is left. */
static bool is_first_fault(uint32_t row)
{
    uint32_t call = step_row(&rig.engine.step, row)->call;
    return !is_canary() && bends_left > 0 && rig.loop.calls.calls[call].faults == 0;
}

static void bend_nothing(void)
{
}

static void bend_canary(void)
{
    if (is_canary() && bends_left > 0) {
        bends_left--;
        step_out(&rig.engine.step, 0)->digest ^= 1;
    }
}

static void bend_not_finite(void)
{
    uint32_t row = draw(step_header(&rig.engine.step)->rows_active);
    if (draw(5) == 0 && is_first_fault(row)) {
        bends_left--;
        *step_out(&rig.engine.step, row) = (struct step_out){.result = STEP_ROW_NOT_FINITE};
    }
}

/* One kind of impossible after the other; a standby that is not finite is not impossible. */
static void bend_impossible(void)
{
    uint32_t row = draw(step_header(&rig.engine.step)->rows_active);
    struct step_out *out = step_out(&rig.engine.step, row);
    if (draw(5) != 0 || !is_first_fault(row)) {
        return;
    }
    switch (bends_left-- % 3) {
    case 0: out->result = 2 + draw(1000); break;
    case 1: out->produced = 4 + draw(1000); break;
    default: out->produced = 1; step_out_tokens(&rig.engine.step, row)[0] = VOCAB + draw(1000);
    }
}

/* The model overflows for every prompt of the first client. */
static void bend_first_client(void)
{
    for (uint32_t i = 0; i < step_header(&rig.engine.step)->rows_count && !is_canary(); i++) {
        uint32_t call = step_row(&rig.engine.step, i)->call;
        bool samples = step_row(&rig.engine.step, i)->decode_steps > 0;
        if (samples && rig.loop.calls.calls[call].program_id[0] == 1) {
            *step_out(&rig.engine.step, i) = (struct step_out){.result = STEP_ROW_NOT_FINITE};
        }
    }
}

/* Words of random numbers at random places, as many as the record has. */
static void scribble(uint64_t *state)
{
    uint64_t words = rig.engine.step.layout.total_bytes / 4;
    for (uint64_t i = 0; i < words; i++) {
        *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint64_t at = (*state >> 33) % words;
        uint32_t small = (uint32_t)(*state >> 13) % 8;
        volatile uint32_t *word = (uint32_t *)(void *)rig.engine.step.base + at;
        *word = (*state >> 10 & 1) == 0 ? small : (uint32_t)(*state >> 20);
    }
}

static void connect_all(void)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        client_connect(&rig.clients[i]);
    }
}

static void wait_passes(uint32_t passes)
{
    const struct loop_orders orders = {.load_permille = 1000};
    for (uint32_t i = 0; i < passes; i++) {
        assert_true(pass(&orders));
    }
}

static void assert_health(enum health_state state, const char *reason)
{
    const struct loop_orders orders = {.load_permille = 1000};
    struct health health;
    sched_report(&rig.loop.sched);
    loop_health(&rig.loop, &orders, &health);
    assert_int_equal(health.state, state);
    if (reason != NULL) {
        assert_string_equal(health.reason, reason);
    }
}

static void test_canary_runs_first_and_then_within_its_period(void **state)
{
    fresh(2, bend_nothing, 0);
    rig.options.engine_canary.number = 10000000;
    rig.loop.engines[0].canary.period_us = 10000000;
    wait_passes(1);
    assert_true(rig.loop.engines[0].canary.in_flight);
    wait_passes(2);
    assert_int_equal(rig.loop.stats.canaries, 1);
    uint64_t until_us = rig.fake.now_us + 100000000;
    while (rig.fake.now_us < until_us) {
        wait_passes(1);
    }
    /* Always idle: after half the period; the loop looks five times a second. */
    assert_in_range(rig.loop.stats.canaries, 19, 21);
    assert_int_equal(rig.loop.stats.steps, 0);
    assert_health(HEALTH_READY, NULL);
}

static void test_canary_under_load_waits_for_its_period_and_no_longer(void **state)
{
    const struct loop_orders orders = {.load_permille = 1000};
    const struct stats *stats = &rig.loop.stats;
    uint64_t canaries = 0, steps_then = 0, most = 0;
    fresh(2, bend_nothing, 0);
    rig.loop.engines[0].canary.period_us = 20 * rig.fake.engine_takes_us;
    connect_all();
    for (uint32_t i = 0; !all_done(); i++) {
        assert_true(pass(&orders));
        client_move(&rig.clients[i % CLIENTS]);
        steps_then = stats->canaries > canaries ? stats->steps : steps_then;
        canaries = stats->canaries;
        most = stats->steps - steps_then > most ? stats->steps - steps_then : most;
    }
    assert_in_range(most, 15, 20);      /* steps in a row without one */
    everything_is_back();
}

static void test_no_canary_where_there_are_no_blocks_for_it(void **state)
{
    fresh(2, bend_nothing, 0);
    rig.limits.canary_blocks = 0;
    wait_passes(100);
    assert_int_equal(rig.loop.stats.canaries, 0);
}

static void test_wrong_canary_costs_the_worker_and_no_token(void **state)
{
    for (uint64_t seed = 1; seed < 40; seed += 2) {
        fresh(seed, bend_canary, 0);
        connect_all();
        for (uint32_t i = 0; i < 20; i++) {
            wait_passes(1);
            client_move(&rig.clients[i % CLIENTS]);
        }
        for (uint32_t wrong = 1; wrong <= 3; wrong++) {     /* with good ones in between */
            bends_left = 1;         /* the first one had to be right: it is the measure */
            canary_hurry(&rig.loop.engines[0].canary);
            wait_passes(20);
            assert_int_equal(rig.loop.stats.engine_wrong, wrong);
            assert_int_equal(rig.loop.stats.engine_restarts, wrong);
        }
        run_until_done();
        assert_int_equal(rig.loop.stats.calls_completed, CLIENTS * CALLS_EACH);
        everything_is_back();
        assert_health(HEALTH_READY, NULL);
    }
}

/* Before the new worker has served a call. */
static void test_wrong_canary_of_the_next_worker_ends_the_engine(void **state)
{
    fresh(2, bend_canary, 0);
    connect_all();
    wait_passes(5);
    assert_int_equal(rig.loop.stats.canaries, 1);
    bends_left = UINT32_MAX;
    canary_hurry(&rig.loop.engines[0].canary);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        rig.clients[i].may_fail = true;
    }
    run_until_done();
    assert_int_equal(rig.loop.stats.engine_restarts, 1);
    assert_health(HEALTH_FAILED, "canary");
    assert_int_equal(rig.loop.stats.calls_accepted,
                     rig.loop.stats.calls_completed + rig.loop.stats.calls_failed);
    assert_true(rig.loop.stats.calls_refused > 0);
    everything_is_back();
    canary_hurry(&rig.loop.engines[0].canary);
    wait_passes(100);
    assert_false(canary_is_in_flight(&rig.loop.engines[0].canary));    /* it is left alone */
    assert_int_equal(rig.fake.engine_condemned, 1);
    assert_health(HEALTH_FAILED, "canary");
}

static void bend_canary_to_nothing(void)
{
    if (is_canary() && bends_left > 0) {
        bends_left--;
        step_out(&rig.engine.step, 0)->produced = 0;
    }
}

/* It would be equal to itself for ever. */
static void test_first_canary_is_no_measure_when_it_is_impossible(void **state)
{
    fresh(1, bend_canary_to_nothing, 1);
    wait_passes(10);
    assert_int_equal(rig.loop.stats.engine_wrong, 1);
    assert_true(rig.loop.stats.canaries > 0);
    assert_health(HEALTH_READY, NULL);
}

static void test_row_that_is_not_finite_once_costs_no_token_and_no_worker(void **state)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        fresh(seed, bend_not_finite, 5);
        connect_all();
        run_until_done();
        assert_int_equal(rig.loop.stats.rows_not_finite, 5 - bends_left);
        assert_true(rig.loop.stats.rows_not_finite > 0);
        /* Each has led to one. */
        assert_true(rig.loop.stats.canaries > 1);
        assert_int_equal(rig.loop.stats.engine_restarts, 0);
        assert_int_equal(rig.loop.stats.calls_completed, CLIENTS * CALLS_EACH);
        everything_is_back();
    }
}

static void test_calls_that_are_never_finite_fail_and_hurt_no_others(void **state)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        fresh(seed, bend_first_client, 0);
        connect_all();
        rig.clients[0].may_fail = true;
        run_until_done();
        assert_int_equal(rig.loop.stats.calls_failed, CALLS_EACH);
        assert_int_equal(rig.loop.stats.rows_not_finite, CALLS_EACH * CALL_FAULTS_MAX);
        assert_int_equal(rig.loop.stats.calls_completed, (CLIENTS - 1) * CALLS_EACH);
        assert_int_equal(rig.loop.stats.engine_restarts, 0);
        everything_is_back();
    }
}

static void test_impossible_results_cost_the_worker_and_no_token(void **state)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        fresh(seed, bend_impossible, 5);
        connect_all();
        run_until_done();
        assert_int_equal(rig.loop.stats.engine_wrong, 5 - bends_left);
        assert_int_equal(rig.loop.stats.engine_restarts, 5 - bends_left);
        assert_int_equal(rig.loop.stats.calls_completed, CLIENTS * CALLS_EACH);
        everything_is_back();
    }
}

/* The keeper kills it; here the test does. */
static void test_step_that_never_comes_back_costs_no_token(void **state)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        fresh(seed, bend_nothing, 0);
        connect_all();
        for (uint32_t i = 0; rig.loop.stats.tokens_generated < 20; i++) {
            wait_passes(1);
            client_move(&rig.clients[i % CLIENTS]);
        }
        rig.fake.engine_takes_us = UINT64_MAX / 2;
        wait_passes(50);
        assert_int_equal(rig.loop.engines[0].state, WORLD_ENGINE_BUSY);
        rig.fake.engine_takes_us = 500;
        fake_engine_forget(&rig.engine);
        rig.fake.engine_dies = true;
        run_until_done();
        assert_int_equal(rig.loop.stats.engine_restarts, 1);
        assert_int_equal(rig.loop.stats.calls_completed, CLIENTS * CALLS_EACH);
        everything_is_back();
    }
}

/* ---- a worker gone mad ----------------------------------------------------------------------- */

static atomic_bool mad;

static void *scribble_on(void *argument)
{
    uint64_t state = *(const uint64_t *)argument;
    while (atomic_load(&mad)) {
        scribble(&state);
    }
    return NULL;
}

/* It computes nothing, the thread goes on all the time: also while the core plans. */
static void mad_engine(void *context)
{
    static uint64_t state = 1;
    scribble(&state);
}

static void test_worker_that_scribbles_all_over_the_record_costs_calls_only(void **state)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        pthread_t thread;
        fresh(seed, bend_nothing, 0);
        rig.fake.engine = mad_engine;
        rig.limits.canary_blocks = seed % 4 < 2 ? 0 : CANARY_BLOCKS;
        connect_all();
        for (uint32_t i = 0; i < CLIENTS; i++) {
            rig.clients[i].may_fail = rig.clients[i].may_lie = true;
        }
        atomic_store(&mad, true);
        assert_int_equal(pthread_create(&thread, NULL, scribble_on, &seed), 0);
        run_until_done();
        atomic_store(&mad, false);
        pthread_join(thread, NULL);
        everything_is_back();
        assert_true(rig.loop.stats.engine_wrong > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canary_runs_first_and_then_within_its_period),
        cmocka_unit_test(test_canary_under_load_waits_for_its_period_and_no_longer),
        cmocka_unit_test(test_no_canary_where_there_are_no_blocks_for_it),
        cmocka_unit_test(test_wrong_canary_costs_the_worker_and_no_token),
        cmocka_unit_test(test_wrong_canary_of_the_next_worker_ends_the_engine),
        cmocka_unit_test(test_first_canary_is_no_measure_when_it_is_impossible),
        cmocka_unit_test(test_row_that_is_not_finite_once_costs_no_token_and_no_worker),
        cmocka_unit_test(test_calls_that_are_never_finite_fail_and_hurt_no_others),
        cmocka_unit_test(test_impossible_results_cost_the_worker_and_no_token),
        cmocka_unit_test(test_step_that_never_comes_back_costs_no_token),
        cmocka_unit_test(test_worker_that_scribbles_all_over_the_record_costs_calls_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
