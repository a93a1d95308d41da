/* SPDX-License-Identifier: MIT */
/*
 * What: calls that change their engine. When an engine stops serving, its calls go to those that
 * serve; when one begins, it gets the calls that wait where none serves, and of those that wait at
 * others so many that all have as many. Engines that die together do not come back together: the
 * first one gets all that wait, and would keep it (decision 0072).
 *
 *   what goes along    the call's tokens, its service, its wait, what its program has had
 *   what stays         KV, which is computed again
 *
 * Invariants: a call changes its engine only while it owns no block and is in no step. The others
 * stay until the engine is lost: until then it may be back.
 * Bounds: O(calls), each that moves as a call that arrives; when an engine stops, O(programs).
 */
#include "sched/admission.h"
#include "sched/balance.h"
#include "sched/engine/active/active.h"
#include "sched/engine/job.h"
#include "sched/engine/member.h"
#include "sched/engine/need.h"
#include "sched/engine/queue.h"
#include "sched/engine/residency.h"

static void leave(struct sched_engine *engine, struct call *call, uint64_t now_us)
{
    ASSERT(call->state == CALL_QUEUED && !sched_call_is_resident(engine, call));
    sched_active_end_call(engine, call);
    sched_need_ended(engine->sched, call);
    sched_residency_end(engine, call, false, now_us);
    sched_job_close(engine, call);
    sched_member_leave(engine->sched, call);
    sched_active_ended(engine, call->program, now_us);
}

static void move(struct sched_engine *engine, struct call *call, uint32_t to, uint64_t now_us)
{
    struct sched *sched = engine->sched;
    ASSERT(to != engine->index);
    leave(engine, call, now_us);
    call->engine = (uint8_t)to;
    sched_member_join(sched, call);
    sched_admission_enter(sched, call, now_us);
    if (call->computed_tokens > 0) {
        sched_job_restage(sched_engine_of(sched, call), call, SCHED_STAGE_DISPLACED, now_us);
    }
    sched->stats->calls_rerouted++;
    sched_note(sched, call, now_us,
               (struct event_what){EVENT_REROUTED, {engine->index, call->engine}});
}

/* There will be no plan that says what tenants want. */
static void forget_wishes(struct sched_engine *engine)
{
    for (uint32_t i = 0; i < engine->sched->tenants.count; i++) {
        engine->lanes[i].wants = false;
    }
}

static bool may_leave(const struct sched_engine *engine, const struct call *call)
{
    return call->state == CALL_QUEUED && !sched_call_is_resident(engine, call);
}

static void move_queue(struct sched_engine *engine, const struct sched_queue *queue,
                       uint64_t now_us)
{
    struct call *call = sched_queue_first(engine, queue, CALL_LIST_ALL);
    while (call != NULL) {
        struct call *next = sched_queue_next(engine, call);
        if (may_leave(engine, call)) {
            move(engine, call, sched_balance_route(engine->sched, call), now_us);
        }
        call = next;
    }
}

/* All calls that may leave, in the order of the queues. */
static void move_calls(struct sched_engine *engine, uint64_t now_us)
{
    for (uint32_t i = 0; i < engine->sched->tenants.count; i++) {
        for (uint32_t q = 0; q < engine->sched->settings.queues; q++) {
            move_queue(engine, &engine->lanes[i].queues[q], now_us);
            move_queue(engine, &engine->lanes[i].held[q], now_us);
        }
    }
    if (engine->open_calls == 0) {
        forget_wishes(engine);
        sched_active_clear(engine);
    }
}

/* ---- an engine begins to serve --------------------------------------------------------------- */

/* What serves: calls for each engine are `calls` / `engines`, if all have as many. */
struct even {
    uint32_t calls, engines;
};

static struct even even_share(const struct sched *sched)
{
    struct even even = {0};
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        even.engines += sched->engines[i].serves;
        even.calls += sched->engines[i].serves ? sched->engines[i].open_calls : 0;
    }
    return even;
}

/* True when a call that goes makes the two more even, and `from` keeps its share. */
static bool should_give(const struct sched_engine *from, const struct sched_engine *to,
                        const struct even *even)
{
    return from->open_calls > to->open_calls + 1 &&
           from->open_calls * even->engines > even->calls;
}

/* A suspect stays: the engine that is back might die of it at once (suspicion.h). */
static bool may_be_given(const struct sched_engine *engine, const struct call *call)
{
    return may_leave(engine, call) && call->company_max == 0 &&
           sched_balance_may_go(engine->sched, call);
}

/* The first calls in order, which then run at once. A call that does not go keeps its place. */
static void deal_queue(struct sched_engine *from, const struct sched_queue *queue,
                       struct sched_engine *to, const struct even *even, uint64_t now_us)
{
    struct call *call = sched_queue_first(from, queue, CALL_LIST_ALL);
    while (call != NULL && should_give(from, to, even)) {
        struct call *next = sched_queue_next(from, call);
        if (may_be_given(from, call)) {
            sched_balance_take_along(from, call, to);
            move(from, call, to->index, now_us);
        }
        call = next;
    }
}

/* Calls that the active set holds back go last. */
static void deal_calls(struct sched_engine *from, struct sched_engine *to,
                       const struct even *even, uint64_t now_us)
{
    const struct sched *sched = from->sched;
    for (uint32_t i = 0; i < sched->tenants.count; i++) {
        for (uint32_t q = 0; q < sched->settings.queues; q++) {
            deal_queue(from, &from->lanes[i].queues[q], to, even, now_us);
        }
        for (uint32_t q = 0; q < sched->settings.queues; q++) {
            deal_queue(from, &from->lanes[i].held[q], to, even, now_us);
        }
    }
}

static void take_share(struct sched_engine *engine, uint64_t now_us)
{
    struct sched *sched = engine->sched;
    const struct even even = even_share(sched);
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        if (sched->engines[i].serves && i != engine->index) {
            deal_calls(&sched->engines[i], engine, &even, now_us);
        }
    }
}

void sched_engine_serves(struct sched_engine *engine, bool serves, uint64_t now_us)
{
    struct sched *sched = engine->sched;
    engine->serves = serves;
    if (sched->settings.engines == 1) {
        return;
    }
    if (!sched_balance_any_serves(sched)) {
        return;                         /* calls and programs stay where they are */
    }
    if (!serves) {
        sched_balance_forget(sched, engine);
    }
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        if (!sched->engines[i].serves) {
            move_calls(&sched->engines[i], now_us);
        }
    }
    if (serves) {
        take_share(engine, now_us);
    }
}
