/* SPDX-License-Identifier: MIT */
/*
 * What: the judgement of health (appliance/health.h).
 * Invariants: nothing here changes anything; FAILED goes before STARTING, that before DRAINING, and
 * that before DEGRADED.
 * Bounds: O(engines).
 */
#include "appliance/health.h"

#include "config/base/assert.h"

#define THRASHING_PERMILLE 100      /* of what is computed, what had been computed before */
#define LATELY_US          60000000 /* since the last call: what was computed before it counts */

const char *health_name(enum health_state state)
{
    static const char *const names[] = {
        [HEALTH_STARTING] = "starting", [HEALTH_READY] = "ready", [HEALTH_DRAINING] = "draining",
        [HEALTH_DEGRADED] = "degraded", [HEALTH_FAILED] = "failed"};
    ASSERT(state <= HEALTH_FAILED);
    return names[state];
}

bool health_serves(const struct health *health)
{
    return health->state == HEALTH_READY || (health->state == HEALTH_DEGRADED && health->moves);
}

const char *health_failure(const struct health_facts *facts)
{
    const char *failure = NULL;
    for (uint32_t i = 0; i < facts->engines_count; i++) {
        failure = engine_failure(&facts->engines[i], &facts->orders[i]);
        if (failure == NULL) {
            return NULL;
        }
    }
    return failure;
}

/* Why the engine does not move, or will not any more; NULL: it does. */
static const char *trouble_of(const struct health_facts *facts, uint32_t engine)
{
    const char *failure = engine_failure(&facts->engines[engine], &facts->orders[engine]);
    return failure != NULL ? failure
                           : engine_trouble(&facts->engines[engine], &facts->orders[engine],
                                            facts->now_us);
}

/* The first engine that has trouble; HEALTH_ALL: none has. */
static uint32_t engine_in_trouble(const struct health_facts *facts)
{
    for (uint32_t i = 0; i < facts->engines_count; i++) {
        if (trouble_of(facts, i) != NULL) {
            return i;
        }
    }
    return HEALTH_ALL;
}

/* An engine that others stand in for must not make a watchdog end them. */
static bool moves(const struct health_facts *facts)
{
    bool any = false, stuck = false;
    for (uint32_t i = 0; i < facts->engines_count; i++) {
        any = any || trouble_of(facts, i) == NULL;
        stuck = stuck || engine_is_stuck(&facts->engines[i], facts->now_us);
    }
    return any && !stuck;
}

static uint32_t count_serving(const struct health_facts *facts)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < facts->engines_count; i++) {
        count += trouble_of(facts, i) == NULL;
    }
    return count;
}

static const char *starting_reason(const struct health_facts *facts)
{
    if (facts->load_permille < 1000) {
        return "loading model";
    }
    for (uint32_t i = 0; i < facts->engines_count; i++) {
        if (facts->engines[i].state == WORLD_ENGINE_DOWN &&
            engine_failure(&facts->engines[i], &facts->orders[i]) == NULL) {
            return "starting engine";
        }
    }
    return "computing prefixes";
}

static const char *word_of(const struct health_facts *facts, uint32_t i)
{
    const struct engine *engine = &facts->engines[i];
    if (engine_failure(engine, &facts->orders[i]) != NULL) {
        return "given_up";
    }
    if (engine->state == WORLD_ENGINE_DOWN) {
        return "down";
    }
    if (engine_is_silent(engine, facts->now_us)) {
        return "silent";
    }
    if (engine_is_late(engine, facts->now_us)) {
        return "late";
    }
    if (engine_is_stuck(engine, facts->now_us)) {
        return "stuck";
    }
    return engine->state == WORLD_ENGINE_BUSY ? "busy" : "idle";
}

static void fill_engines(struct health *health, const struct health_facts *facts)
{
    for (uint32_t i = 0; i < facts->engines_count; i++) {
        const struct engine *engine = &facts->engines[i];
        health->last_step_age_us[i] = facts->now_us - engine->step_done_us;
        health->heartbeat_age_us[i] = facts->now_us - engine->heartbeat_seen_us;
        health->canary_age_us[i] = canary_age_us(&engine->canary, facts->now_us);
        health->worker_pid[i] = facts->orders[i].worker_pid;
        health->restarts[i] = engine->restarts;
        health->steps[i] = engine->steps;
        health->word[i] = word_of(facts, i);
    }
}

/* The share stays as it is while nothing is computed, and says nothing then. */
static bool thrashes(const struct health_facts *facts)
{
    return facts->stats->recomputed_permille > THRASHING_PERMILLE &&
           (!sched_is_idle(facts->engines[0].sched) ||
            facts->now_us - facts->call_done_us <= LATELY_US);
}

void health_judge(struct health *health, const struct health_facts *facts)
{
    uint32_t engine = engine_in_trouble(facts);
    const char *failure = health_failure(facts);
    ASSERT(facts->engines_count <= WORLD_ENGINES_MAX);
    *health = (struct health){
        .state = HEALTH_READY,
        .engine = HEALTH_ALL,
        .moves = moves(facts),
        .progress_permille = facts->load_permille,
        .last_completion_age_us = facts->now_us - facts->call_done_us,
        .uptime_us = facts->now_us - facts->started_us,
        .worker_restarts = (uint32_t)facts->stats->engine_restarts,
        .engines_count = facts->engines_count,
        .engines_serving = count_serving(facts),
    };
    fill_engines(health, facts);
    if (failure != NULL) {
        health->state = HEALTH_FAILED;
        health->reason = failure;
    } else if (!facts->serving) {
        health->state = HEALTH_STARTING;
        health->reason = starting_reason(facts);
    } else if (facts->draining) {
        health->state = HEALTH_DRAINING;
    } else if (engine != HEALTH_ALL) {
        health->state = HEALTH_DEGRADED;
        health->reason = trouble_of(facts, engine);
        health->engine = engine;
    } else if (thrashes(facts)) {
        health->reason = "thrashing";
    }
}
