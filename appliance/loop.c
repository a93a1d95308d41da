/* SPDX-License-Identifier: MIT */
/*
 * What: one pass of the pipeline, the time that the stages see, and the facts that health is made
 * of.
 * Invariants: stages run in one order; at most one step is in flight; no stage reads a clock.
 * Bounds: a pass does the bounded work of each stage; it waits at most TICK_US, so that the
 * engine's heartbeat is sampled even when nothing happens.
 */
#include "appliance/loop.h"

#include <string.h>

#include "config/base/assert.h"

#define TICK_US            UINT64_C(200000)     /* heartbeat sampling */
#define GAP_US             UINT64_C(2000000)    /* a longer pass: the process was stopped */
#define SILENCE_MAX_US     UINT64_C(1500000)    /* without a heartbeat, or a step that is due */
#define DRAIN_FLUSH_US     UINT64_C(1000000)    /* for the last frames after the drain limit */

void loop_plan_memory(struct memory_plan *plan, const struct options *options,
                      const struct limits *limits, const struct gguf_vocab_info *vocab)
{
    struct sched_settings sched;
    struct kvmem_settings kv;
    sched_settings_fill(&sched, options, limits);
    kvmem_settings_fill(&kv, limits);
    event_log_plan_memory(plan, limits->events);
    call_table_plan_memory(plan, limits->calls, limits->context_tokens);
    exchange_plan_memory(plan, limits->commands, limits->calls);
    kvmem_plan_memory(plan, &kv);
    sched_plan_memory(plan, &sched);
    net_plan_memory(plan, limits, vocab);
    textport_plan_memory(plan, limits);
}

void loop_init(struct loop *loop, const struct loop_settings *settings, const struct world *world,
               struct arena *arena)
{
    static const struct config_prefixes no_prefixes;
    const struct limits *limits = settings->limits;
    struct sched_settings sched;
    struct kvmem_settings kv;
    struct net_settings net;
    memset(loop, 0, sizeof *loop);
    loop->settings = *settings;
    loop->world = world;
    sched_settings_fill(&sched, settings->options, limits);
    kvmem_settings_fill(&kv, limits);
    net_settings_fill(&net, settings->options, limits, &settings->access, settings->model_name);
    sched.event_log = net.event_log = &loop->event_log;
    sched.demoted_to_head = settings->demoted_to_head;
    world->entropy(world->self, net.boot_id, sizeof net.boot_id);
    world->entropy(world->self, &kv.hash_key, sizeof kv.hash_key);
    world->entropy(world->self, sched.hash_key, sizeof sched.hash_key);
    event_log_init(&loop->event_log, limits->events, arena);
    call_table_init(&loop->calls, limits->calls, limits->context_tokens, arena);
    exchange_init(&loop->exchange, limits->commands, limits->calls, arena);
    kvmem_init(&loop->kv, &kv, arena);
    struct sched_engine_wiring engine = {.kv = &loop->kv, .step = settings->step};
    const struct sched_wiring wiring = {.calls = &loop->calls, .exchange = &loop->exchange,
                                        .stats = &loop->stats, .engines = &engine};
    ASSERT(limits->engines == 1);
    sched_init(&loop->sched, &sched, &wiring, arena);
    const struct net_wiring net_wiring = {.world = world, .vocab = settings->vocab,
                                          .calls = &loop->calls, .exchange = &loop->exchange,
                                          .stats = &loop->stats};
    net_init(&loop->net, &net, settings->keys, &net_wiring, arena);
    canary_init(&loop->canary, &settings->step, limits, settings->options->engine_canary.number);
    prefixes_init(&loop->prefixes, &settings->step,
                  settings->prefixes != NULL ? settings->prefixes : &no_prefixes, &loop->kv,
                  limits->prefill_tokens);
    textport_init(&loop->textport, limits, world, &loop->stats, arena);
    loop->engine = WORLD_ENGINE_DOWN;
    loop->world_us = world->now_us(world->self);
    loop->now_us = loop->world_us;
    loop->started_us = loop->now_us;
    loop->heartbeat_seen_us = loop->now_us;
    loop->step_done_us = loop->call_done_us = loop->now_us;
}

void loop_listen_text(struct loop *loop, int32_t handle)
{
    if (handle >= 0) {
        textport_listen(&loop->textport, handle);
    }
}

/* After SIGSTOP and SIGCONT every deadline would have passed at once: the gap is taken out of
 * time. */
static void advance_clock(struct loop *loop, uint64_t waited_until_us)
{
    uint64_t world_us = loop->world->now_us(loop->world->self);
    uint64_t expected_us = waited_until_us > loop->world_us ? waited_until_us : loop->world_us;
    if (world_us > expected_us + GAP_US) {
        loop->skipped_us += world_us - expected_us;
    }
    loop->world_us = world_us;
    loop->now_us = world_us - loop->skipped_us;
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Waits for events and hands each to its stage, which only takes note of it. */
static void gather_events(struct loop *loop)
{
    struct world_event events[WORLD_EVENTS_MAX];
    uint64_t until_us = loop->now_us + TICK_US;
    until_us = earliest(until_us, net_next_us(&loop->net, loop->now_us));
    until_us = earliest(until_us, sched_next_us(&loop->sched, loop->now_us));
    until_us = earliest(until_us, textport_next_us(&loop->textport, loop->now_us));
    until_us = until_us < loop->now_us ? loop->now_us : until_us;
    until_us += loop->skipped_us;
    uint32_t count = loop->world->wait(loop->world->self, events, WORLD_EVENTS_MAX, until_us);
    ASSERT(count <= WORLD_EVENTS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (events[i].source == WORLD_SOURCE_TEXT) {
            textport_event(&loop->textport, &events[i]);
        } else if (events[i].source <= WORLD_SOURCE_CONNECTION) {
            net_event(&loop->net, &events[i]);
        }
    }
    advance_clock(loop, until_us);
}

static void sample_progress(struct loop *loop)
{
    uint64_t heartbeat = loop->world->engine_heartbeat(loop->world->self);
    if (heartbeat != loop->heartbeat) {
        loop->heartbeat = heartbeat;
        loop->heartbeat_seen_us = loop->now_us;
    }
    uint64_t calls_done = loop->stats.calls_completed;
    if (calls_done != loop->calls_done) {
        loop->calls_done = calls_done;
        loop->call_done_us = loop->now_us;
    }
}

/* The step stays in flight until the worker is gone. */
static void condemn_engine(struct loop *loop)
{
    loop->stats.engine_wrong++;
    event_log_note(&loop->event_log, loop->now_us, (struct event_what){.kind = EVENT_ENGINE_WRONG});
    loop->world->engine_condemn(loop->world->self);
    loop->engine = WORLD_ENGINE_DOWN;
}

static void settle_canary(struct loop *loop)
{
    if (canary_settle(&loop->canary, loop->now_us)) {
        loop->stats.canaries++;
    } else if (!canary_has_failed(&loop->canary)) {
        condemn_engine(loop);
    }
}

static void settle_prefixes(struct loop *loop)
{
    if (!prefixes_settle(&loop->prefixes)) {
        condemn_engine(loop);
    }
}

static void settle_step(struct loop *loop)
{
    enum sched_verdict verdict = sched_engine_settle(&loop->sched.engines[0], loop->now_us);
    if (verdict == SCHED_DOUBTED) {
        canary_hurry(&loop->canary);
    } else if (verdict == SCHED_REFUTED) {
        condemn_engine(loop);
    }
}

/* Stage 2, first half: what the engine has to say. */
static void settle_engine(struct loop *loop)
{
    loop->engine = loop->world->engine_poll(loop->world->self);
    if (loop->engine == WORLD_ENGINE_DONE) {
        loop->engine = WORLD_ENGINE_IDLE;
        loop->step_done_us = loop->now_us;
        if (canary_is_in_flight(&loop->canary)) {
            settle_canary(loop);
        } else if (prefixes_are_in_flight(&loop->prefixes)) {
            settle_prefixes(loop);
        } else {
            settle_step(loop);
        }
    } else if (loop->engine == WORLD_ENGINE_LOST) {
        prefixes_lost(&loop->prefixes);
        sched_engine_lost(&loop->sched.engines[0], loop->now_us);
        canary_lost(&loop->canary);
        loop->stats.engine_restarts++;
        loop->engine = WORLD_ENGINE_DOWN;
    }
}

static void submit(struct loop *loop)
{
    loop->world->engine_submit(loop->world->self);
    loop->engine = WORLD_ENGINE_BUSY;
}

static void launch_step(struct loop *loop)
{
    struct sched_engine *engine = &loop->sched.engines[0];
    if (loop->engine != WORLD_ENGINE_IDLE) {
        return;
    }
    if (canary_is_due(&loop->canary, loop->now_us, sched_is_idle(&loop->sched))) {
        canary_launch(&loop->canary);
        submit(loop);
    } else if (prefixes_are_due(&loop->prefixes)) {
        prefixes_launch(&loop->prefixes);
        submit(loop);
    } else if (sched_engine_plan(engine, loop->now_us)) {
        kvmem_bind(engine->kv, &engine->step, engine->planned, engine->planned_count);
        submit(loop);
        sched_engine_launched(engine, loop->now_us);
    }
}

/* Why there will be no engine any more; NULL: there will. */
static const char *engine_failure(const struct loop *loop, const struct loop_orders *orders)
{
    return canary_has_failed(&loop->canary) ? "canary" : orders->engine_failure;
}

/* A plan was made in this very pass: if calls wait and the engine still has nothing to do, then
 * nothing will ever come of them. */
static bool is_stuck(const struct loop *loop)
{
    return loop->engine == WORLD_ENGINE_IDLE && loop->stats.calls_waiting > 0 &&
           loop->now_us - loop->step_done_us > SILENCE_MAX_US;
}

static const char *degraded_reason(const struct loop *loop)
{
    if (loop->now_us - loop->heartbeat_seen_us > SILENCE_MAX_US) {
        return "engine silent";
    }
    if (is_stuck(loop)) {
        return "no progress";
    }
    return loop->engine == WORLD_ENGINE_DOWN ? "engine restarting" : NULL;
}

static const char *starting_reason(const struct loop *loop, const struct loop_orders *orders)
{
    if (orders->load_permille < 1000) {
        return "loading model";
    }
    return loop->engine == WORLD_ENGINE_DOWN ? "starting engine" : "computing prefixes";
}

void loop_health(const struct loop *loop, const struct loop_orders *orders, struct health *health)
{
    const char *reason = degraded_reason(loop);
    const char *failure = engine_failure(loop, orders);
    *health = (struct health){
        .state = HEALTH_READY,
        .moves = reason == NULL && failure == NULL,
        .progress_permille = orders->load_permille,
        .last_step_age_us = loop->now_us - loop->step_done_us,
        .last_completion_age_us = loop->now_us - loop->call_done_us,
        .heartbeat_age_us = loop->now_us - loop->heartbeat_seen_us,
        .canary_age_us = canary_age_us(&loop->canary, loop->now_us),
        .uptime_us = loop->now_us - loop->started_us,
        .worker_pid = orders->worker_pid,
        .worker_restarts = (uint32_t)loop->stats.engine_restarts,
    };
    if (failure != NULL) {
        health->state = HEALTH_FAILED;
        health->reason = failure;
    } else if (!loop->serving) {
        health->state = HEALTH_STARTING;
        health->reason = starting_reason(loop, orders);
    } else if (loop->draining) {
        health->state = HEALTH_DRAINING;
    } else if (reason != NULL) {
        health->state = HEALTH_DEGRADED;
        health->reason = reason;
    }
}

static void answer_operator(struct loop *loop, const struct loop_orders *orders)
{
    struct health health;
    if (!textport_is_awake(&loop->textport)) {
        return;
    }
    sched_report(&loop->sched);         /* looks at every call: not for nobody */
    loop_health(loop, orders, &health);
    const struct textport_view view = {
        .stats = &loop->stats,
        .sched = &loop->sched,
        .kv = &loop->kv,
        .calls = &loop->calls,
        .event_log = &loop->event_log,
        .options = loop->settings.options,
        .limits = loop->settings.limits,
        .health = &health,
    };
    textport_poll(&loop->textport, &view, loop->now_us);
}

/* With an engine that is given up too: a refusal is better than silence. */
static void start_serving(struct loop *loop, const struct loop_orders *orders,
                          const int32_t *listeners)
{
    bool has_failed = engine_failure(loop, orders) != NULL;
    bool is_up = loop->engine != WORLD_ENGINE_DOWN && !prefixes_are_due(&loop->prefixes);
    if (loop->serving || (!is_up && !has_failed)) {
        return;
    }
    for (uint32_t i = 0; i < NET_LISTENERS_MAX; i++) {
        net_listen(&loop->net, i, listeners[i]);
    }
    loop->serving = true;
    loop->heartbeat_seen_us = loop->now_us;
}

static void start_draining(struct loop *loop)
{
    if (loop->draining) {
        return;
    }
    loop->draining = true;
    loop->drain_until_us = loop->now_us + loop->settings.drain_us;
    loop->sched.draining = true;
    net_drain(&loop->net);
}

/* True while there is a reason to go on. */
static bool drain_goes_on(struct loop *loop)
{
    if (sched_is_idle(&loop->sched) && net_is_flushed(&loop->net)) {
        return false;
    }
    if (loop->now_us >= loop->drain_until_us) {
        sched_fail_all(&loop->sched, STATUS_GONE_SHUTDOWN, loop->now_us);
        net_emit(&loop->net, loop->now_us);
    }
    return loop->now_us < loop->drain_until_us + DRAIN_FLUSH_US;
}

bool loop_pass(struct loop *loop, const struct loop_orders *orders, const int32_t *listeners)
{
    gather_events(loop);
    if (orders->stop_now) {
        net_close_all(&loop->net);
        return false;
    }
    if (orders->drain) {
        start_draining(loop);
    }
    net_poll(&loop->net, loop->now_us);
    settle_engine(loop);
    if (engine_failure(loop, orders) != NULL) {
        sched_give_up(&loop->sched, loop->now_us);
    }
    sched_intake(&loop->sched, loop->now_us);
    launch_step(loop);
    net_emit(&loop->net, loop->now_us);
    sample_progress(loop);
    start_serving(loop, orders, listeners);
    answer_operator(loop, orders);
    return !loop->draining || drain_goes_on(loop);
}

void loop_check(const struct loop *loop)
{
    kvmem_check(&loop->kv);
    sched_check(&loop->sched);
    net_check(&loop->net);
}
