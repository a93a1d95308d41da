/* SPDX-License-Identifier: MIT */
/*
 * What: the anti-starvation pass, once before each plan. Whether a call has starved is policy
 * (sched_policy_promotes); here is who is looked at, and what promotion does.
 * Invariants: a promoted call stands at the tail of the first queue with the quantum of the queue
 * that it came from, and goes back there when that is used up; W_c and T_c are zero, its lifetime
 * figures are not touched.
 * Bounds: per queue its head and SCHED_STARVATION_CHECKS_MAX calls; a cursor goes round, so a
 * queue of n calls is seen whole within n / SCHED_STARVATION_CHECKS_MAX + 1 plans. The
 * ratio differs from program to program, so the longest waiting call need not be the first to
 * starve. Paused calls are passed over: they cannot run.
 */
#include "sched/engine/starvation.h"

#include "sched/ending.h"
#include "sched/engine/queue.h"
#include "sched/policy.h"

static void promote(struct sched_engine *engine, struct call *call, uint64_t now_us)
{
    struct sched *sched = engine->sched;
    uint32_t from = call->queue;
    ASSERT(from > 0);
    sched_note(sched, call, now_us, (struct event_what){EVENT_PROMOTED, {from}});
    sched_call_accrue_wait(call, now_us);
    sched_queue_move(engine, call, 0, false);
    call->quantum_left_us = sched->levels[from].quantum_us;
    call->promoted_from = from;
    call->wait_us = 0;
    call->service_us = 0;
    call->promotions++;
    sched->stats->promotions++;
}

static void consider(struct sched_engine *engine, struct call *call, uint64_t now_us)
{
    ASSERT(call->state == CALL_QUEUED);
    if (!call->paused && !call->cancel && sched_policy_promotes(engine->sched, call, now_us)) {
        promote(engine, call, now_us);
    }
}

static void look_through(struct sched_engine *engine, struct sched_queue *queue, uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    const uint32_t *head = &queue->lists[CALL_LIST_ALL].head;
    uint32_t checks = queue->count;
    if (checks > SCHED_STARVATION_CHECKS_MAX) {
        checks = SCHED_STARVATION_CHECKS_MAX;
    } else {
        queue->cursor = *head;          /* all of them, in order */
    }
    if (*head != CALL_NONE) {
        consider(engine, sched_call(sched, *head), now_us);
    }
    for (uint32_t i = 0; i < checks && *head != CALL_NONE; i++) {
        uint32_t at = queue->cursor != CALL_NONE ? queue->cursor : *head;
        struct call *call = sched_call(sched, at);
        queue->cursor = call->links[CALL_LIST_ALL].next;
        consider(engine, call, now_us);
    }
}

void sched_starvation_pass(struct sched_engine *engine, uint64_t now_us)
{
    ASSERT(!engine->step_in_flight);
    for (uint32_t i = 1; i < engine->sched->settings.queues; i++) {
        look_through(engine, &engine->queues[i], now_us);
    }
}
