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
 * starve. Paused calls are passed over: nobody can run them.
 */
#include "sched/starvation.h"

#include "sched/ending.h"
#include "sched/policy.h"
#include "sched/queue.h"

static void promote(struct sched *sched, uint32_t call_index, uint64_t now_us)
{
    struct call *call = sched_call(sched, call_index);
    uint32_t from = call->queue;
    ASSERT(from > 0);
    event_log_note_call(sched->settings.event_log, now_us, sched->calls, call_index,
                      (struct event_what){EVENT_PROMOTED, {from}});
    sched_call_accrue_wait(call, now_us);
    sched_queue_move(sched, call_index, 0, false);
    call->quantum_left_us = sched->queues[from].quantum_us;
    call->promoted_from = from;
    call->wait_us = 0;
    call->service_us = 0;
    call->promotions++;
    sched->stats->promotions++;
}

static void consider(struct sched *sched, uint32_t call_index, uint64_t now_us)
{
    const struct call *call = sched_call(sched, call_index);
    ASSERT(call->state == CALL_QUEUED);
    if (!call->paused && !call->cancel && sched_policy_promotes(sched, call, now_us)) {
        promote(sched, call_index, now_us);
    }
}

static void look_through(struct sched *sched, struct sched_queue *queue, uint64_t now_us)
{
    const uint32_t *head = &queue->lists[CALL_LIST_ALL].head;
    uint32_t checks = queue->count;
    if (checks > SCHED_STARVATION_CHECKS_MAX) {
        checks = SCHED_STARVATION_CHECKS_MAX;
    } else {
        queue->cursor = *head;          /* all of them, in order */
    }
    if (*head != CALL_NONE) {
        consider(sched, *head, now_us);
    }
    for (uint32_t i = 0; i < checks && *head != CALL_NONE; i++) {
        uint32_t call_index = queue->cursor != CALL_NONE ? queue->cursor : *head;
        queue->cursor = sched_queue_next(sched, call_index);
        consider(sched, call_index, now_us);
    }
}

void sched_starvation_pass(struct sched *sched, uint64_t now_us)
{
    ASSERT(!sched->step_in_flight);
    for (uint32_t i = 1; i < sched->settings.queues; i++) {
        look_through(sched, &sched->queues[i], now_us);
    }
}
