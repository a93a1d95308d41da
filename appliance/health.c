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

const char *health_name(enum health_state state)
{
    static const char *const names[] = {
        [HEALTH_STARTING] = "starting", [HEALTH_READY] = "ready", [HEALTH_DRAINING] = "draining",
        [HEALTH_DEGRADED] = "degraded", [HEALTH_FAILED] = "failed"};
    ASSERT(state <= HEALTH_FAILED);
    return names[state];
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

/* Of the first engine that does not move, or will not any more. */
static const char *trouble_of(const struct health_facts *facts)
{
    for (uint32_t i = 0; i < facts->engines_count; i++) {
        const char *trouble = engine_trouble(&facts->engines[i], facts->now_us);
        const char *failure = engine_failure(&facts->engines[i], &facts->orders[i]);
        if (trouble != NULL || failure != NULL) {
            return trouble != NULL ? trouble : failure;
        }
    }
    return NULL;
}

static const char *starting_reason(const struct health_facts *facts)
{
    if (facts->load_permille < 1000) {
        return "loading model";
    }
    for (uint32_t i = 0; i < facts->engines_count; i++) {
        if (facts->engines[i].state == WORLD_ENGINE_DOWN) {
            return "starting engine";
        }
    }
    return "computing prefixes";
}

static void fill_engines(struct health *health, const struct health_facts *facts)
{
    for (uint32_t i = 0; i < facts->engines_count; i++) {
        const struct engine *engine = &facts->engines[i];
        health->last_step_age_us[i] = facts->now_us - engine->step_done_us;
        health->heartbeat_age_us[i] = facts->now_us - engine->heartbeat_seen_us;
        health->canary_age_us[i] = canary_age_us(&engine->canary, facts->now_us);
        health->worker_pid[i] = facts->orders[i].worker_pid;
    }
}

void health_judge(struct health *health, const struct health_facts *facts)
{
    const char *trouble = trouble_of(facts);
    const char *failure = health_failure(facts);
    ASSERT(facts->engines_count <= WORLD_ENGINES_MAX);
    *health = (struct health){
        .state = HEALTH_READY,
        .moves = trouble == NULL,
        .progress_permille = facts->load_permille,
        .last_completion_age_us = facts->now_us - facts->call_done_us,
        .uptime_us = facts->now_us - facts->started_us,
        .worker_restarts = (uint32_t)facts->stats->engine_restarts,
        .engines_count = facts->engines_count,
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
    } else if (trouble != NULL) {
        health->state = HEALTH_DEGRADED;
        health->reason = trouble;
    } else if (facts->stats->recomputed_permille > THRASHING_PERMILLE) {
        health->reason = "thrashing";
    }
}
