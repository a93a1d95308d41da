/* SPDX-License-Identifier: MIT */
/*
 * What: calls that change their engine. When an engine stops serving, its calls go to those that
 * serve; when one begins, it gets the calls that wait where none serves.
 *
 *   what goes along    the call's tokens, its service, its wait, what its program has had
 *   what stays         KV, which is computed again
 *
 * Invariants: a call changes its engine only while it owns no block and is in no step. The others
 * stay until the engine is lost: until then it may be back.
 * Bounds: O(calls of the engine), each as a call that arrives; when an engine stops, O(programs).
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

static void move(struct sched_engine *engine, struct call *call, uint64_t now_us)
{
    struct sched *sched = engine->sched;
    leave(engine, call, now_us);
    call->engine = (uint8_t)sched_balance_route(sched, call);
    ASSERT(call->engine != engine->index);
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
            move(engine, call, now_us);
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

void sched_engine_serves(struct sched_engine *engine, bool serves, uint64_t now_us)
{
    struct sched *sched = engine->sched;
    engine->serves = serves;
    if (sched->settings.engines == 1) {
        return;
    }
    if (!serves) {
        sched_balance_forget(sched, engine);
    }
    if (!sched_balance_any_serves(sched)) {
        return;
    }
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        if (!sched->engines[i].serves) {
            move_calls(&sched->engines[i], now_us);
        }
    }
}
