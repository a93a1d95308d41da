/* SPDX-License-Identifier: MIT */
/*
 * Goal: health says what the worst engine allows, one engine or several, and why.
 * Method: seats of two engines, filled by hand: health_judge() reads them and changes nothing.
 */
#include "selftest/unit/test.h"

#include "appliance/health.h"

enum { ENGINES = 2 };

static const uint64_t now_us = 90000000;
static struct stats stats;
static struct engine engines[ENGINES];
static struct sched sched;
static struct call_table calls;
static struct engine_orders orders[ENGINES];
static struct health_facts facts;
static struct health health;

static int set_up(void **state)
{
    struct arena *arena = test_arena();
    stats = (struct stats){.engine_restarts = 3};
    call_table_init(&calls, 4, 8, arena, arena);
    sched.calls = &calls;
    for (uint32_t i = 0; i < ENGINES; i++) {
        engines[i] = (struct engine){.index = i, .stats = &stats, .state = WORLD_ENGINE_IDLE,
                                     .sched = &sched, .steps = 10 + i, .restarts = 2 * i,
                                     .heartbeat_seen_us = now_us - 1000 * i,
                                     .pace = {.late_us = now_us + 1},
                                     .step_done_us = now_us - 2000 * i,
                                     .owes_heartbeat = true};
        orders[i] = (struct engine_orders){.worker_pid = 70 + i};
    }
    facts = (struct health_facts){.engines = engines, .orders = orders, .engines_count = ENGINES,
                                  .load_permille = 1000, .now_us = now_us, .call_done_us = 5,
                                  .started_us = 4, .serving = true, .stats = &stats};
    return 0;
}

/* One more call, in this state, of this engine. */
static struct call *add_call(enum call_state call_state, uint32_t engine)
{
    struct call *call = &calls.calls[call_take(&calls, 0)];
    call->state = call_state;
    call->engine = (uint8_t)engine;
    return call;
}

static void assert_word(uint32_t engine, const char *word)
{
    assert_string_equal(health.word[engine], word);
}

static void assert_health(enum health_state state, const char *reason, bool moves)
{
    health_judge(&health, &facts);
    assert_int_equal(health.state, state);
    assert_int_equal(health.moves, moves);
    if (reason == NULL) {
        assert_null(health.reason);
    } else {
        assert_string_equal(health.reason, reason);
    }
}

static void test_judge_engines_that_move_is_ready_and_has_their_ages(void **state)
{
    assert_health(HEALTH_READY, NULL, true);
    assert_int_equal(health.engines_count, ENGINES);
    assert_int_equal(health.engines_serving, ENGINES);
    assert_int_equal(health.worker_restarts, 3);
    for (uint32_t i = 0; i < ENGINES; i++) {
        assert_int_equal(health.last_step_age_us[i], 2000 * i);
        assert_int_equal(health.heartbeat_age_us[i], 1000 * i);
        assert_int_equal(health.worker_pid[i], 70 + i);
        assert_int_equal(health.steps[i], 10 + i);
        assert_int_equal(health.restarts[i], 2 * i);
        assert_word(i, "idle");
        assert_true(health.canary_age_us[i] == UINT64_MAX);
    }
}

/* Others stand in for it: they move. */
static void test_judge_any_engine_in_trouble_is_degraded_and_named(void **state)
{
    for (uint32_t i = 0; i < ENGINES; i++) {
        set_up(state);
        engines[i].state = WORLD_ENGINE_DOWN;
        assert_health(HEALTH_DEGRADED, "engine restarting", true);
        assert_int_equal(health.engine, i);
        assert_word(i, "down");
        assert_word(1 - i, "idle");
        engines[i].heartbeat_seen_us = 0;
        assert_health(HEALTH_DEGRADED, "engine silent", true);
        engines[i].state = WORLD_ENGINE_BUSY;
        assert_health(HEALTH_DEGRADED, "engine silent", true);
        assert_word(i, "silent");
        set_up(state);
        orders[i].failure = "engine died";
        engines[i].state = WORLD_ENGINE_DOWN;
        engines[i].heartbeat_seen_us = 0;
        assert_health(HEALTH_DEGRADED, "engine died", true);
        assert_int_equal(health.engine, i);
        assert_word(i, "given_up");
        assert_int_equal(health.engines_serving, ENGINES - 1);
        assert_null(health_failure(&facts));
    }
}

/* Its worker sleeps: nothing was asked of it, or only now. */
static void test_judge_an_engine_that_owes_no_heartbeat_is_ready(void **state)
{
    engines[0].heartbeat_seen_us = 0;
    engines[0].owes_heartbeat = false;
    assert_health(HEALTH_READY, NULL, true);
    engines[0].owes_heartbeat = true;
    assert_health(HEALTH_DEGRADED, "engine silent", true);
    engines[0].owed_since_us = now_us - 1000;
    assert_health(HEALTH_READY, NULL, true);
}

static void test_judge_an_engine_whose_calls_wait_for_ever_is_stuck(void **state)
{
    for (uint32_t i = 0; i < ENGINES; i++) {
        set_up(state);
        engines[0].step_done_us = engines[1].step_done_us = 0;
        add_call(CALL_QUEUED, i);
        assert_health(HEALTH_DEGRADED, "no progress", false);
        assert_int_equal(health.engine, i);
        assert_word(i, "stuck");
        assert_word(1 - i, "idle");         /* it has nothing to do */
    }
}

static void test_judge_an_idle_engine_without_waiting_calls_moves(void **state)
{
    (void)state;
    stats.calls_waiting = 1;                /* when an operator last asked */
    engines[0].step_done_us = engines[1].step_done_us = 0;
    assert_health(HEALTH_READY, NULL, true);
    add_call(CALL_QUEUED, 0)->paused = true;
    add_call(CALL_RUNNING, 1);
    assert_health(HEALTH_READY, NULL, true);
    engines[1].state = WORLD_ENGINE_BUSY;
    assert_health(HEALTH_READY, NULL, true);
    assert_word(1, "busy");
}

/* Its heartbeat is all that a worker can say, and it may lie. */
static void test_judge_a_late_step_is_degraded_whatever_the_heart_says(void **state)
{
    for (uint32_t i = 0; i < ENGINES; i++) {
        set_up(state);
        engines[i].pace.late_us = now_us;
        assert_health(HEALTH_READY, NULL, true);        /* it has no step */
        engines[i].state = WORLD_ENGINE_BUSY;
        assert_health(HEALTH_DEGRADED, "engine late", true);
        assert_int_equal(health.engine, i);
        assert_word(i, "late");
    }
    facts.engines_count = 1;
    engines[0].state = WORLD_ENGINE_BUSY;
    engines[0].pace.late_us = now_us;
    assert_health(HEALTH_DEGRADED, "engine late", false);
}

static void test_judge_an_engine_that_backs_off_says_why(void **state)
{
    (void)state;
    facts.engines_count = 1;
    engines[0].state = WORLD_ENGINE_DOWN;
    orders[0].waits = "engine backs off: hung";
    assert_health(HEALTH_DEGRADED, "engine backs off: hung", false);
    assert_word(0, "down");
    assert_null(health_failure(&facts));
}

static void test_judge_one_engine_alone_that_is_down_does_not_move(void **state)
{
    (void)state;
    facts.engines_count = 1;
    engines[0].state = WORLD_ENGINE_DOWN;
    assert_health(HEALTH_DEGRADED, "engine restarting", false);
}

static void test_judge_all_engines_down_do_not_move(void **state)
{
    (void)state;
    orders[0].failure = "engine died";
    engines[1].state = WORLD_ENGINE_DOWN;
    assert_health(HEALTH_DEGRADED, "engine died", false);
}

static void test_judge_all_engines_given_up_is_failed(void **state)
{
    orders[0].failure = "engine died";
    engines[1].canary.failures = CANARY_FAILURES_MAX;
    assert_health(HEALTH_FAILED, "canary", false);
    assert_int_equal(health.engine, HEALTH_ALL);
    facts.serving = false;
    assert_health(HEALTH_FAILED, "canary", false);
}

static void test_judge_before_serving_says_what_it_waits_for(void **state)
{
    facts.serving = false;
    assert_health(HEALTH_STARTING, "computing prefixes", true);
    engines[1].state = WORLD_ENGINE_DOWN;
    assert_health(HEALTH_STARTING, "starting engine", true);
    engines[0].state = WORLD_ENGINE_DOWN;
    assert_health(HEALTH_STARTING, "starting engine", false);
    facts.load_permille = 999;
    assert_health(HEALTH_STARTING, "loading model", false);
    facts.load_permille = 1000;
    engines[0].state = WORLD_ENGINE_IDLE;
    orders[1].failure = "engine died";      /* nothing waits for that one */
    assert_health(HEALTH_STARTING, "computing prefixes", true);
}

/* The share of what was computed again stays while nothing is computed. */
static void test_judge_thrashing_is_of_the_present_load(void **state)
{
    (void)state;
    stats.recomputed_permille = 500;
    facts.call_done_us = now_us - 1000000;
    assert_health(HEALTH_READY, "thrashing", true);
    facts.call_done_us = now_us - 61000000;
    assert_health(HEALTH_READY, NULL, true);
    sched.open_calls = 1;
    assert_health(HEALTH_READY, "thrashing", true);
    sched.open_calls = 0;
}

static void test_judge_draining_hides_trouble(void **state)
{
    facts.draining = true;
    engines[0].state = WORLD_ENGINE_DOWN;
    assert_health(HEALTH_DRAINING, NULL, true);
    engines[1].state = WORLD_ENGINE_DOWN;
    assert_health(HEALTH_DRAINING, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_judge_engines_that_move_is_ready_and_has_their_ages, set_up),
        cmocka_unit_test_setup(test_judge_any_engine_in_trouble_is_degraded_and_named, set_up),
        cmocka_unit_test_setup(test_judge_an_engine_that_owes_no_heartbeat_is_ready, set_up),
        cmocka_unit_test_setup(test_judge_an_engine_whose_calls_wait_for_ever_is_stuck, set_up),
        cmocka_unit_test_setup(test_judge_an_idle_engine_without_waiting_calls_moves, set_up),
        cmocka_unit_test_setup(test_judge_a_late_step_is_degraded_whatever_the_heart_says, set_up),
        cmocka_unit_test_setup(test_judge_an_engine_that_backs_off_says_why, set_up),
        cmocka_unit_test_setup(test_judge_one_engine_alone_that_is_down_does_not_move, set_up),
        cmocka_unit_test_setup(test_judge_all_engines_down_do_not_move, set_up),
        cmocka_unit_test_setup(test_judge_all_engines_given_up_is_failed, set_up),
        cmocka_unit_test_setup(test_judge_before_serving_says_what_it_waits_for, set_up),
        cmocka_unit_test_setup(test_judge_thrashing_is_of_the_present_load, set_up),
        cmocka_unit_test_setup(test_judge_draining_hides_trouble, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
