/* SPDX-License-Identifier: MIT */
/*
 * What: the K queues. A queue holds waiting and running calls alike: a call keeps its place while
 * it runs, and leaves only when it ends, is demoted or is promoted. First come first served is
 * therefore nothing but the order of the list.
 * Invariants: links agree both ways; count is the length; the cursor names a call of this queue.
 * Bounds: every verb is O(1).
 */
#include "sched/queue.h"

/* What both ways of entering have in common (Algorithm 1, lines 13 and 22). */
static struct call *enter(struct sched *sched, uint32_t queue_index, uint32_t call_index)
{
    struct call *call = sched_call(sched, call_index);
    ASSERT(queue_index < sched->settings.queues);
    ASSERT(call->queue_next == CALL_NONE && call->queue_prev == CALL_NONE);
    call->queue = queue_index;
    call->quantum_left_us = sched->queues[queue_index].quantum_us;
    sched->queues[queue_index].count++;
    return call;
}

void sched_queue_append(struct sched *sched, uint32_t queue_index, uint32_t call_index)
{
    struct call *call = enter(sched, queue_index, call_index);
    struct sched_queue *queue = &sched->queues[queue_index];
    call->queue_prev = queue->tail;
    if (queue->tail != CALL_NONE) {
        sched_call(sched, queue->tail)->queue_next = call_index;
    } else {
        queue->head = call_index;
    }
    queue->tail = call_index;
}

void sched_queue_prepend(struct sched *sched, uint32_t queue_index, uint32_t call_index)
{
    struct call *call = enter(sched, queue_index, call_index);
    struct sched_queue *queue = &sched->queues[queue_index];
    call->queue_next = queue->head;
    if (queue->head != CALL_NONE) {
        sched_call(sched, queue->head)->queue_prev = call_index;
    } else {
        queue->tail = call_index;
    }
    queue->head = call_index;
}

void sched_queue_remove(struct sched *sched, uint32_t call_index)
{
    struct call *call = sched_call(sched, call_index);
    struct sched_queue *queue = &sched->queues[call->queue];
    ASSERT(queue->count > 0);
    if (queue->cursor == call_index) {
        queue->cursor = call->queue_next;
    }
    if (call->queue_prev != CALL_NONE) {
        sched_call(sched, call->queue_prev)->queue_next = call->queue_next;
    } else {
        ASSERT(queue->head == call_index);
        queue->head = call->queue_next;
    }
    if (call->queue_next != CALL_NONE) {
        sched_call(sched, call->queue_next)->queue_prev = call->queue_prev;
    } else {
        ASSERT(queue->tail == call_index);
        queue->tail = call->queue_prev;
    }
    call->queue_next = call->queue_prev = CALL_NONE;
    queue->count--;
}
