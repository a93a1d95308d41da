/* SPDX-License-Identifier: MIT */
/*
 * What: the loop's seat of one engine (appliance/engine/engine.h).
 * Invariants: at most one step is in flight, and its launcher settles it: the canary, the prefixes
 * or the scheduler. The step of a condemned worker is lost at once: a call that is cancelled, or
 * whose deadline passes, never waits for a step that does not end, nor for the end of a process. A
 * worker is silent only while it owes a heartbeat: one that sleeps has to be asked.
 * Bounds: one step is settled and one launched in a pass.
 */
#include "appliance/engine/engine.h"

#include "config/base/assert.h"

#define SILENCE_MAX_US UINT64_C(1500000)    /* without a heartbeat, or a step, that is due */
#define ASK_US         UINT64_C(500000)     /* between two questions to an idle worker, at least */

STATIC_ASSERT(WORLD_ENGINES_MAX <= SCHED_ENGINES_MAX, "the scheduler has a place for each");

void engine_plan_memory(struct memory_plan *plan, const struct kvmem_settings *kv,
                        uint32_t engines)
{
    memory_plan_add(plan, MEMORY_CORE, "engines", engines, sizeof(struct engine));
    struct memory_plan each = {.rows_count = 0};
    kvmem_plan_memory(&each, kv);
    memory_plan_add_each(plan, &each, engines);
}

void engine_init(struct engine *engine, uint32_t index, const struct engine_settings *settings,
                 uint64_t now_us, struct arena *arena)
{
    const struct limits *limits = settings->limits;
    ASSERT(index < limits->engines && limits->engines <= WORLD_ENGINES_MAX);
    *engine = (struct engine){
        .index = index, .world = settings->world, .sched = settings->sched,
        .stats = settings->stats, .event_log = settings->event_log,
        .step = step_at(&settings->step, index), .state = WORLD_ENGINE_DOWN,
        .heartbeat_seen_us = now_us, .step_done_us = now_us, .owes_heartbeat = true,
        .owed_since_us = now_us, .asked_us = now_us};
    kvmem_init(&engine->kv, settings->kv, arena);
    pace_init(&engine->pace, settings->hang_us);
    doubt_init(&engine->doubt, index, settings->doubt_permille);
    canary_init(&engine->canary, &engine->step, limits, settings->canary_us);
    prefixes_init(&engine->prefixes, &engine->step, settings->prefixes, &engine->kv,
                  limits->prefill_tokens);
}

static struct sched_engine *sched_of(const struct engine *engine)
{
    return &engine->sched->engines[engine->index];
}

static void expect_heartbeat(struct engine *engine, uint64_t now_us)
{
    engine->owed_since_us = engine->owes_heartbeat ? engine->owed_since_us : now_us;
    engine->owes_heartbeat = true;
    engine->asked_us = now_us;
}

/* ---- the step that is done ------------------------------------------------------------------- */

/* Nothing that the engine holds is believed any more. */
static void lose_kv(struct engine *engine, uint64_t now_us)
{
    prefixes_lost(&engine->prefixes);
    sched_engine_lost(sched_of(engine), now_us);
}

static enum event_kind count_fault(struct stats *stats, enum world_fault fault)
{
    switch (fault) {
    case WORLD_FAULT_LATE: stats->engine_late++; return EVENT_ENGINE_LATE;
    case WORLD_FAULT_INCONSISTENT: stats->engine_inconsistent++; return EVENT_ENGINE_INCONSISTENT;
    default: stats->engine_wrong++; return EVENT_ENGINE_WRONG;
    }
}

/* Whatever the worker still writes, nothing reads it. Values are doubted before this is told: if
 * the core dies in between, the next one may meet a worker that is right. */
static void condemn(struct engine *engine, enum world_fault fault, uint64_t now_us)
{
    if (fault != WORLD_FAULT_LATE) {
        sched_doubt_values(engine->sched);      /* since when it is wrong is not known */
    }
    event_log_note(engine->event_log, now_us,
                   (struct event_what){count_fault(engine->stats, fault),
                                       {[EVENT_VALUE_ENGINE] = engine->index}});
    engine->world->engine_condemn(engine->world->self, engine->index, fault);
    engine->state = WORLD_ENGINE_DOWN;
    engine->is_condemned = true;
    expect_heartbeat(engine, now_us);
    canary_lost(&engine->canary);
    lose_kv(engine, now_us);
    sched_engine_serves(sched_of(engine), false, now_us);
}

static void settle_canary(struct engine *engine, uint64_t now_us)
{
    if (canary_settle(&engine->canary, now_us)) {
        engine->stats->canaries++;
    } else if (!canary_has_failed(&engine->canary)) {
        condemn(engine, WORLD_FAULT_WRONG, now_us);
    } else {
        sched_doubt_values(engine->sched);
        lose_kv(engine, now_us);
    }
}

static void settle_prefixes(struct engine *engine, uint64_t now_us)
{
    if (!prefixes_settle(&engine->prefixes)) {
        condemn(engine, WORLD_FAULT_WRONG, now_us);
    }
}

static void settle_plan(struct engine *engine, uint64_t now_us)
{
    enum sched_verdict verdict = sched_engine_settle(sched_of(engine), now_us);
    engine->steps++;
    if (verdict == SCHED_NOT_FINITE) {
        canary_hurry(&engine->canary);
    } else if (verdict == SCHED_REFUTED) {
        condemn(engine, WORLD_FAULT_WRONG, now_us);
    }
}

static void settle_step(struct engine *engine, uint64_t now_us)
{
    engine->state = WORLD_ENGINE_IDLE;
    engine->step_done_us = now_us;
    pace_end(&engine->pace, &engine->step, now_us);
    engine->stats->steps_doubted += doubt_is_drawn(&engine->doubt);
    if (!doubt_holds(&engine->doubt, &engine->step)) {
        condemn(engine, WORLD_FAULT_INCONSISTENT, now_us);
    } else if (canary_is_in_flight(&engine->canary)) {
        settle_canary(engine, now_us);
    } else if (prefixes_are_in_flight(&engine->prefixes)) {
        settle_prefixes(engine, now_us);
    } else {
        settle_plan(engine, now_us);
    }
}

static void lose_worker(struct engine *engine, uint64_t now_us)
{
    if (!engine->is_condemned) {
        canary_lost(&engine->canary);
        lose_kv(engine, now_us);
    }
    engine->is_condemned = false;
    engine->stats->engine_restarts++;
    engine->restarts++;
    engine->state = WORLD_ENGINE_DOWN;
    expect_heartbeat(engine, now_us);
    sched_engine_serves(sched_of(engine), false, now_us);
}

/* Before the engine is judged: what it did while this process was away counts. A worker that has
 * come up lives. */
static void sample_heartbeat(struct engine *engine, bool was_down, uint64_t now_us)
{
    uint64_t heartbeat = engine->world->engine_heartbeat(engine->world->self, engine->index);
    if (heartbeat != engine->heartbeat || (was_down && engine->state == WORLD_ENGINE_IDLE)) {
        engine->heartbeat = heartbeat;
        engine->heartbeat_seen_us = now_us;
        engine->owes_heartbeat = engine->state != WORLD_ENGINE_IDLE;
    }
}

bool engine_is_silent(const struct engine *engine, uint64_t now_us)
{
    uint64_t since_us = engine->heartbeat_seen_us > engine->owed_since_us
                            ? engine->heartbeat_seen_us
                            : engine->owed_since_us;
    return engine->owes_heartbeat && now_us - since_us > SILENCE_MAX_US;
}

/* The step goes on: its rounds are published, unless they are doubted, or it is given up. */
static void watch_step(struct engine *engine, uint64_t now_us)
{
    if (sched_of(engine)->step_in_flight && !doubt_is_drawn(&engine->doubt)) {
        sched_engine_progress(sched_of(engine), now_us);
    }
    if (pace_is_overdue(&engine->pace, now_us)) {
        pace_miss(&engine->pace);
        condemn(engine, WORLD_FAULT_LATE, now_us);
    }
}

/* From when its worker is up, has computed the canary rightly and holds the prefixes, until that
 * worker is silent, wrong or lost. */
static bool serves(const struct engine *engine, uint64_t now_us)
{
    bool is_up = engine->state != WORLD_ENGINE_DOWN && !engine_is_silent(engine, now_us) &&
                 !canary_has_failed(&engine->canary);
    bool is_prepared = engine_is_ready(engine) && !canary_is_awaited(&engine->canary);
    return is_up && (is_prepared || sched_of(engine)->serves);
}

void engine_excuse(struct engine *engine, uint64_t late_us)
{
    engine->heartbeat_seen_us += late_us;
    engine->owed_since_us += late_us;
    pace_excuse(&engine->pace, late_us);
}

void engine_settle(struct engine *engine, uint64_t now_us)
{
    bool was_down = engine->state == WORLD_ENGINE_DOWN;
    engine->state = engine->world->engine_poll(engine->world->self, engine->index);
    if (engine->state == WORLD_ENGINE_DONE) {
        settle_step(engine, now_us);
    } else if (engine->state == WORLD_ENGINE_LOST) {
        lose_worker(engine, now_us);
    } else if (engine->state == WORLD_ENGINE_UNPROVEN) {
        condemn(engine, WORLD_FAULT_WRONG, now_us);
    } else if (engine->state == WORLD_ENGINE_BUSY) {
        watch_step(engine, now_us);
    }
    sample_heartbeat(engine, was_down, now_us);
    if (serves(engine, now_us) != sched_of(engine)->serves) {
        sched_engine_serves(sched_of(engine), serves(engine, now_us), now_us);
    }
}

/* ---- the next step --------------------------------------------------------------------------- */

static void submit(struct engine *engine, uint64_t now_us)
{
    if (canary_is_in_flight(&engine->canary)) {
        doubt_spare(&engine->doubt, &engine->step);
    } else {
        doubt_draw(&engine->doubt, &engine->step);
    }
    pace_begin(&engine->pace, &engine->step, now_us);
    engine->world->engine_submit(engine->world->self, engine->index);
    engine->state = WORLD_ENGINE_BUSY;
    expect_heartbeat(engine, now_us);
}

/* It has no step. Else nothing would tell a worker that is stopped from one that waits. One that
 * owes an answer is asked again: its heartbeat may have been overwritten. */
static void ask(struct engine *engine, uint64_t now_us)
{
    if (now_us - engine->asked_us >= ASK_US) {
        engine->world->engine_ask(engine->world->self, engine->index);
        expect_heartbeat(engine, now_us);
    }
}

static void launch_plan(struct engine *engine, uint64_t now_us)
{
    struct sched_engine *sched = sched_of(engine);
    if (sched_engine_plan(sched, now_us)) {
        kvmem_bind(&engine->kv, &engine->step, sched->planned, sched->planned_count);
        submit(engine, now_us);
        sched_engine_launched(sched, now_us);
    } else {
        ask(engine, now_us);
    }
}

void engine_launch(struct engine *engine, uint64_t now_us)
{
    if (engine->state != WORLD_ENGINE_IDLE || canary_has_failed(&engine->canary)) {
        return;
    }
    if (canary_is_due(&engine->canary, now_us, sched_is_idle(engine->sched))) {
        canary_launch(&engine->canary);
        submit(engine, now_us);
    } else if (prefixes_are_due(&engine->prefixes)) {
        prefixes_launch(&engine->prefixes);
        submit(engine, now_us);
    } else {
        launch_plan(engine, now_us);
    }
}

/* ---- progress -------------------------------------------------------------------------------- */

bool engine_is_ready(const struct engine *engine)
{
    return engine->state != WORLD_ENGINE_DOWN && !prefixes_are_due(&engine->prefixes);
}

const char *engine_failure(const struct engine *engine, const struct engine_orders *orders)
{
    return canary_has_failed(&engine->canary) ? "canary" : orders->failure;
}

/* The gauges of the statistics are of the last time that an operator asked, and of all engines. */
static bool has_waiting_calls(const struct engine *engine)
{
    const struct call_table *calls = engine->sched->calls;
    for (uint32_t i = 0; i < calls->count; i++) {
        const struct call *call = &calls->calls[i];
        if (call->state == CALL_QUEUED && !call->paused && call->engine == engine->index) {
            return true;
        }
    }
    return false;
}

bool engine_is_late(const struct engine *engine, uint64_t now_us)
{
    return engine->state == WORLD_ENGINE_BUSY && pace_is_late(&engine->pace, now_us);
}

/* This very pass has made a plan, and the engine still has nothing to do. */
bool engine_is_stuck(const struct engine *engine, uint64_t now_us)
{
    return engine->state == WORLD_ENGINE_IDLE && now_us - engine->step_done_us > SILENCE_MAX_US &&
           has_waiting_calls(engine);
}

bool engine_is_quiet(const struct engine *engine, uint64_t now_us)
{
    return engine->state == WORLD_ENGINE_IDLE && !engine_is_silent(engine, now_us);
}

const char *engine_trouble(const struct engine *engine, const struct engine_orders *orders,
                           uint64_t now_us)
{
    if (orders->waits != NULL) {
        return orders->waits;
    }
    if (engine_is_silent(engine, now_us)) {
        return "engine silent";
    }
    if (engine_is_late(engine, now_us)) {
        return "engine late";
    }
    if (engine_is_stuck(engine, now_us)) {
        return "no progress";
    }
    return engine->state == WORLD_ENGINE_DOWN ? "engine restarting" : NULL;
}

void engine_check(const struct engine *engine)
{
    kvmem_check(&engine->kv);
    ASSERT(!canary_is_in_flight(&engine->canary) || !prefixes_are_in_flight(&engine->prefixes));
}
