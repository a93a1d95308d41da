/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the fixed pipeline. One thread owns all host state; one pass is always
 *
 *   net_poll -> engine_settle -> sched_intake -> engine_launch -> net_emit -> text port
 *
 * The loop composes and decides nothing. It runs unchanged on any struct world.
 */
#include "config/base/world.h"
#include "appliance/engine/engine.h"
#include "appliance/health.h"
#include "appliance/text/port.h"
#include "net/net.h"
#include "sched/sched.h"

struct loop_settings {
    const struct options *options;
    const struct limits *limits;
    const struct vocab *vocab;
    const char *model_name;
    const char *version;            /* of the program; NULL: none */
    struct net_chat chat;
    struct config_access access;    /* rules for clients */
    const struct config_keys *keys; /* their keys; NULL: none. Copied */
    const struct config_prefixes *prefixes;     /* declared; NULL: none */
    const struct predictor *predictor;          /* of programs' costs; NULL: none */
    struct step step;               /* the record that engine 0 reads: step_at() */
    bool can_doubt;                 /* engines compute a step twice when it says so */
    uint64_t drain_us;
    bool demoted_to_head;           /* of struct sched_settings; the lab's, no option has it */
    const struct workflow_encoder *encoder;     /* of struct net_wiring; the lab's */
    struct arena *kept;             /* for the rows of kind MEMORY_KEPT: as the last core has left
                                       it, or zeroed. NULL: they lie in the loop's arena */
    bool was_killed;                /* the last core was: it did not die of what it did */
    uint32_t upgrades;              /* before this keeper, which has forked the workers */
};

struct loop {
    struct loop_settings settings;
    const struct world *world;
    struct stats stats;
    struct event_log event_log;
    struct call_table calls;
    struct workflow_table workflows;
    struct exchange exchange;
    struct engine *engines;         /* [engines_count] */
    uint32_t engines_count;         /* limits.engines */
    struct sched sched;
    struct net net;
    struct textport textport;
    /* Time: the stages see the world's clock less the gaps in which the process was stopped. */
    uint64_t now_us, world_us, skipped_us;
    uint64_t late_us;               /* by which this pass began later than a tick after its time */
    uint64_t started_us;
    /* Progress, for health. */
    uint64_t calls_done, call_done_us;
    bool serving;                   /* listeners are open */
    bool draining;
    uint64_t drain_until_us;
    uint64_t rest_until_us;         /* 0: it accepts connections, or drains */
};

/* What the keeper tells the loop. */
struct loop_orders {
    bool drain, stop_now;
    bool leaves;                    /* it drains while another process serves at its addresses */
    bool yields;                    /* the core is to end: another keeper's core takes over */
    const struct config_admission *admission;   /* who may come in from now on; NULL: as before */
    uint64_t idle_us;               /* how long a pass may wait while all is quiet */
    uint32_t load_permille;
    uint32_t core_restarts;         /* before this core */
    uint32_t weights_slices, weights_damaged;   /* compared since boot; those that had changed */
    uint32_t lines_lost;            /* of the log, by core and keeper */
    struct engine_orders engines[WORLD_ENGINES_MAX];
};

/* The layout of the step records that the loop fills: settings.step has it. */
struct step_layout loop_step_layout(const struct limits *limits);
void loop_plan_memory(struct memory_plan *plan, const struct options *options,
                      const struct limits *limits, const struct gguf_vocab_info *vocab);
/* What a loop takes of that plan, kept memory included. */
static inline uint64_t loop_memory_bytes(const struct memory_plan *plan)
{
    return memory_plan_bytes(plan, MEMORY_CORE) + memory_plan_bytes(plan, MEMORY_KEPT);
}
void loop_init(struct loop *loop, const struct loop_settings *settings, const struct world *world,
               struct arena *arena);
/* Listens for the text port at once; the binary protocol waits until the engines are up. */
void loop_listen_text(struct loop *loop, int32_t handle);
/* One pass; false when the loop has ended (drained or told to stop). `listeners`: the handles of
 * the binary protocol, see net_listen(). */
bool loop_pass(struct loop *loop, const struct loop_orders *orders, const int32_t *listeners);
/* After `yields`: true once every connection can go on with another core, or has had enough time to
 * get that far. */
bool loop_may_yield(const struct loop *loop);
/* True when it serves and has nothing to do: an occasional look at its engines is enough. */
bool loop_is_quiet(const struct loop *loop);
/* Health as the text port shows it; it uses the gauges of the last sched_report(). */
void loop_health(const struct loop *loop, const struct loop_orders *orders, struct health *health);
/* Every invariant of every stage. */
void loop_check(const struct loop *loop);
