/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the loop's side of one engine, its seat: the engine's KV, the steps that are not the
 * scheduler's (canary, declared prefixes), the state of the worker, and when that last did
 * something. A step that is overdue is not waited for: its worker is condemned, and its calls go
 * on, or end, as if the worker had died.
 *
 *   engine_settle()   takes the results of the step that is done, or the tokens of the rounds
 *                     that a running step has had, or notes that the worker is lost; reads the
 *                     heartbeat
 *   engine_launch()   submits the next step of an idle engine: canary, prefixes, or a plan; asks
 *                     one that has nothing to do whether it lives
 */
#include <stdbool.h>
#include <stdint.h>

#include "appliance/engine/canary.h"
#include "appliance/engine/doubt.h"
#include "appliance/engine/pace.h"
#include "appliance/engine/prefixes.h"
#include "config/base/event_log.h"
#include "config/base/stats.h"
#include "config/base/world.h"
#include "kvmem/kvmem.h"
#include "sched/sched.h"

struct engine_settings {            /* the same for each engine */
    const struct limits *limits;
    const struct kvmem_settings *kv;
    const struct config_prefixes *prefixes;
    struct step step;               /* engine 0's record: step_at() */
    uint64_t canary_us, hang_us;
    uint32_t doubt_permille;
    const struct world *world;
    struct sched *sched;            /* need not be initialised yet */
    struct stats *stats;
    struct event_log *event_log;
};

struct engine {
    uint32_t index;
    const struct world *world;
    struct sched *sched;            /* whose engines[index] is this engine's */
    struct stats *stats;
    struct event_log *event_log;
    struct step step;
    struct kvmem kv;
    struct canary canary;
    struct prefixes prefixes;
    struct pace pace;
    struct doubt doubt;
    enum world_engine state;        /* IDLE, BUSY or DOWN between two calls */
    bool is_condemned;              /* its worker will be replaced, and nothing of it counts */
    uint64_t heartbeat, heartbeat_seen_us;
    bool owes_heartbeat;            /* none since it started, or got a step or a question */
    uint64_t owed_since_us;         /* since when it owes one, or last did */
    uint64_t asked_us;              /* when it last got a step or a question */
    uint64_t step_done_us;          /* when the last step was done; at first, when it was built */
    uint64_t steps;                 /* of the scheduler, that its workers have done */
    uint32_t restarts;              /* of its worker */
};

/* What the keeper says of one engine. */
struct engine_orders {
    const char *failure;            /* why the keeper has given it up; NULL: it has not */
    const char *waits;              /* why its next worker has to wait; NULL: it need not */
    uint32_t worker_pid;
};

/* Plans the seats, which the caller takes from the arena, and what engine_init() takes for each. */
void engine_plan_memory(struct memory_plan *plan, const struct kvmem_settings *kv,
                        uint32_t engines);
void engine_init(struct engine *engine, uint32_t index, const struct engine_settings *settings,
                 uint64_t now_us, struct arena *arena);
/* This pass was late by `late_us`: the whole machine may have stood still, so the time does not
 * count against the worker. A core that is late in every pass still judges its worker: each pass
 * counts for a tick. */
void engine_excuse(struct engine *engine, uint64_t late_us);
void engine_settle(struct engine *engine, uint64_t now_us);
void engine_launch(struct engine *engine, uint64_t now_us);
/* True when the worker takes steps and the declared prefixes are computed. */
bool engine_is_ready(const struct engine *engine);
/* Why the engine will serve no more; NULL: it will. */
const char *engine_failure(const struct engine *engine, const struct engine_orders *orders);
/* True when nothing is in flight, and no trouble with the worker is known. */
bool engine_is_quiet(const struct engine *engine, uint64_t now_us);
/* Why the engine makes no progress now; NULL: it does, or has nothing to do. To be called after
 * engine_launch() of the same pass. */
const char *engine_trouble(const struct engine *engine, const struct engine_orders *orders,
                           uint64_t now_us);
/* True when its worker owes a sign of life for too long. */
bool engine_is_silent(const struct engine *engine, uint64_t now_us);
/* True when its step takes far longer than such steps do. */
bool engine_is_late(const struct engine *engine, uint64_t now_us);
/* True when calls wait although it has had no step for too long: they would wait for ever. */
bool engine_is_stuck(const struct engine *engine, uint64_t now_us);
void engine_check(const struct engine *engine);
