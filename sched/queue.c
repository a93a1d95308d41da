/* SPDX-License-Identifier: MIT */
/*
 * What: the K queues. A queue holds waiting and running calls alike: a call keeps its place while
 * it runs, and leaves only when it ends, is demoted or is promoted. First come first served is
 * therefore nothing but the order of the list.
 *
 *   all        o  o  o  o  o  o  o  o  o  o     every call of the queue
 *   started    o     o     o     o              those that a plan may find worth a look when its
 *   resident   o           o                    prefill budget is spent; those that own blocks
 *
 * The two shorter lists are there so that no plan has to walk past the calls that only wait, of
 * which there may be any number. A call joins them when a plan's cursor comes past it: the cursor
 * remembers the last call of each list before its place, so nothing is searched.
 *
 * Invariants: links agree both ways; the three lists are in the same order, and each holds the one
 * below it; count is the length of the first; queue.cursor names a call of this queue.
 * Bounds: every verb is O(1); a cursor that finds a queue empty goes on to the next: O(queues).
 * SRPT keeps its one queue sorted by key, ties by arrival: entering costs O(calls).
 */
#include "sched/queue.h"

#include "sched/policy.h"
#include "sched/residency.h"

/* Behind `after`, or at the head. */
static void insert(struct sched *sched, enum call_list list, uint32_t call_index, uint32_t after)
{
    struct call *call = sched_call(sched, call_index);
    struct sched_list *ends = &sched->queues[call->queue].lists[list];
    uint32_t *from = after == CALL_NONE ? &ends->head : &sched_call(sched, after)->links[list].next;
    uint32_t next = *from;
    uint32_t *back = next == CALL_NONE ? &ends->tail : &sched_call(sched, next)->links[list].prev;
    ASSERT(*back == after);
    ASSERT(!sched_queue_lists(call, list));
    call->links[list] = (struct call_link){.next = next, .prev = after};
    call->lists |= (uint8_t)(1u << list);
    *from = *back = call_index;
}

static void take_out(struct sched *sched, enum call_list list, uint32_t call_index)
{
    struct call *call = sched_call(sched, call_index);
    struct sched_list *ends = &sched->queues[call->queue].lists[list];
    struct call_link link = call->links[list];
    uint32_t *from =
        link.prev == CALL_NONE ? &ends->head : &sched_call(sched, link.prev)->links[list].next;
    uint32_t *back =
        link.next == CALL_NONE ? &ends->tail : &sched_call(sched, link.next)->links[list].prev;
    ASSERT(sched_queue_lists(call, list));
    ASSERT(*from == call_index && *back == call_index);
    *from = link.next;
    *back = link.prev;
    call->lists &= (uint8_t)~(1u << list);
}

/* What all ways of entering have in common (Algorithm 1, lines 13 and 22). */
static void take_level(struct sched *sched, uint32_t queue_index, uint32_t call_index)
{
    struct call *call = sched_call(sched, call_index);
    ASSERT(queue_index < sched->settings.queues);
    ASSERT(call->lists == 0);
    call->queue = queue_index;
    call->promoted_from = 0;
    call->quantum_left_us = sched->queues[queue_index].quantum_us;
    sched->queues[queue_index].count++;
}

/* The call behind which an arriving one stands: the last, but for SRPT. */
static uint32_t place_of(const struct sched *sched, enum call_list list, uint32_t call_index)
{
    const struct call *call = sched_call(sched, call_index);
    uint32_t after = sched->queues[call->queue].lists[list].tail;
    while (after != CALL_NONE && sched_policy_goes_before(sched, call, sched_call(sched, after))) {
        after = sched_call(sched, after)->links[list].prev;
    }
    return after;
}

void sched_queue_enter(struct sched *sched, uint32_t queue_index, uint32_t call_index)
{
    take_level(sched, queue_index, call_index);
    insert(sched, CALL_LIST_ALL, call_index, place_of(sched, CALL_LIST_ALL, call_index));
    if (sched_call(sched, call_index)->prompt_tokens == 1) {
        insert(sched, CALL_LIST_STARTED, call_index,
               place_of(sched, CALL_LIST_STARTED, call_index));
    }
}

void sched_queue_move(struct sched *sched, uint32_t call_index, uint32_t queue_index, bool to_head)
{
    const struct sched_queue *queue = &sched->queues[queue_index];
    uint8_t lists = sched_call(sched, call_index)->lists;
    sched_queue_remove(sched, call_index);
    take_level(sched, queue_index, call_index);
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        if ((lists >> list & 1) != 0) {
            insert(sched, list, call_index, to_head ? CALL_NONE : queue->lists[list].tail);
        }
    }
}

void sched_queue_remove(struct sched *sched, uint32_t call_index)
{
    const struct call *call = sched_call(sched, call_index);
    struct sched_queue *queue = &sched->queues[call->queue];
    ASSERT(queue->count > 0);
    if (queue->cursor == call_index) {
        queue->cursor = call->links[CALL_LIST_ALL].next;
    }
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        if (sched_queue_lists(call, list)) {
            take_out(sched, list, call_index);
        }
    }
    queue->count--;
}

void sched_queue_leave_residents(struct sched *sched, uint32_t call_index)
{
    if (sched_queue_lists(sched_call(sched, call_index), CALL_LIST_RESIDENT)) {
        take_out(sched, CALL_LIST_RESIDENT, call_index);
    }
}

/* ---- the cursor ------------------------------------------------------------------------------ */

static struct sched_cursor before_queue(uint32_t queue)
{
    return (struct sched_cursor){.queue = queue, .passed = {CALL_NONE, CALL_NONE, CALL_NONE}};
}

struct sched_cursor sched_cursor_start(void)
{
    STATIC_ASSERT(CALL_LISTS == 3, "before_queue() names each");
    return before_queue(0);
}

uint32_t sched_cursor_next(const struct sched *sched, struct sched_cursor *cursor,
                           enum call_list list)
{
    uint32_t passed = cursor->passed[list];
    uint32_t next = passed != CALL_NONE ? sched_call(sched, passed)->links[list].next
                                        : sched->queues[cursor->queue].lists[list].head;
    while (next == CALL_NONE && cursor->queue + 1 < sched->settings.queues) {
        *cursor = before_queue(cursor->queue + 1);
        next = sched->queues[cursor->queue].lists[list].head;
    }
    return next;
}

void sched_cursor_pass(struct sched *sched, struct sched_cursor *cursor, uint32_t call_index)
{
    const struct call *call = sched_call(sched, call_index);
    ASSERT(call->queue == cursor->queue);
    if (sched_residency_has(sched, call_index)) {
        for (uint32_t list = CALL_LIST_STARTED; list < CALL_LISTS; list++) {
            if (!sched_queue_lists(call, list)) {
                insert(sched, list, call_index, cursor->passed[list]);
            }
        }
    }
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        cursor->passed[list] = sched_queue_lists(call, list) ? call_index : cursor->passed[list];
    }
}

void sched_cursor_stop(const struct sched *sched, struct sched_cursor *cursor, uint32_t call_index)
{
    const struct call *call = sched_call(sched, call_index);
    ASSERT(call->queue == cursor->queue);
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        if (sched_queue_lists(call, list)) {
            cursor->passed[list] = call->links[list].prev;
        }
    }
}

void sched_cursor_forget(const struct sched *sched, struct sched_cursor *cursor,
                         uint32_t call_index)
{
    uint32_t *passed = &cursor->passed[CALL_LIST_RESIDENT];
    ASSERT(sched_queue_lists(sched_call(sched, call_index), CALL_LIST_RESIDENT));
    if (*passed == call_index) {
        *passed = sched_call(sched, call_index)->links[CALL_LIST_RESIDENT].prev;
    }
}
