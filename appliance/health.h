/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: health: one word for the whole appliance and the reason for it, from what the loop has seen
 * of its engines and what the keeper says of them. The text port shows it, the keeper tells it to
 * the service manager.
 */
#include <stdbool.h>
#include <stdint.h>

#include "appliance/engine/engine.h"

enum health_state {
    HEALTH_STARTING, HEALTH_READY, HEALTH_DRAINING, HEALTH_DEGRADED, HEALTH_FAILED
};

struct health {
    enum health_state state;
    const char *reason;             /* "engine silent"; NULL: none */
    uint32_t engine;                /* that a reason is about, of several; HEALTH_ALL: of all */
    bool moves;                     /* an engine makes progress, or has nothing to do; and on none
                                       do calls wait in vain */
    uint32_t progress_permille;     /* of loading; shown while STARTING and below 1000 */
    uint64_t last_completion_age_us, uptime_us;
    uint32_t worker_restarts;
    /* Of each engine: [engines_count]. */
    uint32_t engines_count;
    uint32_t engines_serving;       /* those that make progress, or have nothing to do */
    uint64_t last_step_age_us[WORLD_ENGINES_MAX], heartbeat_age_us[WORLD_ENGINES_MAX];
    uint64_t canary_age_us[WORLD_ENGINES_MAX];          /* UINT64_MAX: there was none */
    uint32_t worker_pid[WORLD_ENGINES_MAX], restarts[WORLD_ENGINES_MAX];
    uint64_t steps[WORLD_ENGINES_MAX];
    const char *word[WORLD_ENGINES_MAX];                /* "busy", "idle", "down", ... */
};
#define HEALTH_ALL UINT32_MAX

/* What health is judged by. */
struct health_facts {
    const struct engine *engines;           /* [engines_count] */
    const struct engine_orders *orders;     /* [engines_count] */
    uint32_t engines_count;
    uint32_t load_permille;
    uint64_t now_us, started_us, call_done_us;
    bool serving, draining;
    const struct stats *stats;
};

void health_judge(struct health *health, const struct health_facts *facts);
/* Why no engine will serve any more; NULL: one will. */
const char *health_failure(const struct health_facts *facts);
/* True when a load balancer may send calls here: also when an engine of several is away. */
bool health_serves(const struct health *health);
/* The word that the `health` command begins with. */
const char *health_name(enum health_state state);
