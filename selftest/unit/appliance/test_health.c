/* SPDX-License-Identifier: MIT */
/*
 * Goal: health says what the worst engine allows, one engine or several, and why.
 * Method: seats of two engines, filled by hand: health_judge() reads them and changes nothing.
 */
#include "selftest/unit/test.h"

#include "appliance/health.h"

enum { ENGINES = 2 };

static const uint64_t now_us = 60000000;
static struct stats stats;
static struct engine engines[ENGINES];
static struct engine_orders orders[ENGINES];
static struct health_facts facts;
static struct health health;

static int set_up(void **state)
{
    stats = (struct stats){.engine_restarts = 3};
    for (uint32_t i = 0; i < ENGINES; i++) {
        engines[i] = (struct engine){.index = i, .stats = &stats, .state = WORLD_ENGINE_IDLE,
                                     .heartbeat_seen_us = now_us - 1000 * i,
                                     .step_done_us = now_us - 2000 * i};
        orders[i] = (struct engine_orders){.worker_pid = 70 + i};
    }
    facts = (struct health_facts){.engines = engines, .orders = orders, .engines_count = ENGINES,
                                  .load_permille = 1000, .now_us = now_us, .call_done_us = 5,
                                  .started_us = 4, .serving = true, .stats = &stats};
    return 0;
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
    assert_int_equal(health.worker_restarts, 3);
    for (uint32_t i = 0; i < ENGINES; i++) {
        assert_int_equal(health.last_step_age_us[i], 2000 * i);
        assert_int_equal(health.heartbeat_age_us[i], 1000 * i);
        assert_int_equal(health.worker_pid[i], 70 + i);
        assert_true(health.canary_age_us[i] == UINT64_MAX);
    }
}

static void test_judge_any_engine_in_trouble_is_degraded(void **state)
{
    for (uint32_t i = 0; i < ENGINES; i++) {
        set_up(state);
        engines[i].state = WORLD_ENGINE_DOWN;
        assert_health(HEALTH_DEGRADED, "engine restarting", false);
        engines[i].heartbeat_seen_us = 0;
        assert_health(HEALTH_DEGRADED, "engine silent", false);
        set_up(state);
        engines[i].step_done_us = 0;
        stats.calls_waiting = 1;
        assert_health(HEALTH_DEGRADED, "no progress", false);
        set_up(state);
        orders[i].failure = "engine died";
        assert_health(HEALTH_DEGRADED, "engine died", false);
        assert_null(health_failure(&facts));
    }
}

static void test_judge_all_engines_given_up_is_failed(void **state)
{
    orders[0].failure = "engine died";
    engines[1].canary.failures = CANARY_FAILURES_MAX;
    assert_health(HEALTH_FAILED, "canary", false);
    facts.serving = false;
    assert_health(HEALTH_FAILED, "canary", false);
}

static void test_judge_before_serving_says_what_it_waits_for(void **state)
{
    facts.serving = false;
    assert_health(HEALTH_STARTING, "computing prefixes", true);
    engines[1].state = WORLD_ENGINE_DOWN;
    assert_health(HEALTH_STARTING, "starting engine", false);
    facts.load_permille = 999;
    assert_health(HEALTH_STARTING, "loading model", false);
}

static void test_judge_draining_hides_trouble(void **state)
{
    facts.draining = true;
    engines[0].state = WORLD_ENGINE_DOWN;
    assert_health(HEALTH_DRAINING, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_judge_engines_that_move_is_ready_and_has_their_ages, set_up),
        cmocka_unit_test_setup(test_judge_any_engine_in_trouble_is_degraded, set_up),
        cmocka_unit_test_setup(test_judge_all_engines_given_up_is_failed, set_up),
        cmocka_unit_test_setup(test_judge_before_serving_says_what_it_waits_for, set_up),
        cmocka_unit_test_setup(test_judge_draining_hides_trouble, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
