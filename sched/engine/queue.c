/* SPDX-License-Identifier: MIT */
/*
 * What: the K queues. A queue holds waiting and running calls alike: a call keeps its place while
 * it runs, and leaves only when it ends, is demoted or is promoted. A call has a key when it
 * arrives (call.order_key) and stands after the calls whose key is not larger: calls with equal
 * keys are served first come, first served.
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
 * Bounds: every verb is O(1), expected where there are keys; an arriving call whose key is not the
 * largest finds its place in O(log calls) (order.c). A cursor that finds a queue empty goes on to
 * the next: O(queues).
 */
#include "sched/engine/queue.h"

#include "sched/engine/order.h"

static bool is_indexed(const struct sched *sched, enum call_list list)
{
    return sched->nodes != NULL && list < SCHED_ORDERED_LISTS;
}

/* After `after`, or at the head. */
static void insert(struct sched_engine *engine, enum call_list list, struct call *call,
                   uint32_t after)
{
    const struct sched *sched = engine->sched;
    struct sched_list *ends = &engine->queues[call->queue].lists[list];
    uint32_t *from = after == CALL_NONE ? &ends->head : &sched_call(sched, after)->links[list].next;
    uint32_t next = *from;
    uint32_t *back = next == CALL_NONE ? &ends->tail : &sched_call(sched, next)->links[list].prev;
    ASSERT(*back == after);
    ASSERT(!sched_queue_lists(call, list));
    call->links[list] = (struct call_link){.next = next, .prev = after};
    call->lists |= (uint8_t)(1u << list);
    *from = *back = call->slot;
    if (is_indexed(sched, list)) {
        sched_order_add(engine, list, call);
    }
}

static void take_out(struct sched_engine *engine, enum call_list list, struct call *call)
{
    const struct sched *sched = engine->sched;
    struct sched_list *ends = &engine->queues[call->queue].lists[list];
    struct call_link link = call->links[list];
    uint32_t *from =
        link.prev == CALL_NONE ? &ends->head : &sched_call(sched, link.prev)->links[list].next;
    uint32_t *back =
        link.next == CALL_NONE ? &ends->tail : &sched_call(sched, link.next)->links[list].prev;
    ASSERT(sched_queue_lists(call, list));
    ASSERT(*from == call->slot && *back == call->slot);
    if (is_indexed(sched, list)) {
        sched_order_remove(engine, list, call);
    }
    *from = link.next;
    *back = link.prev;
    call->lists &= (uint8_t)~(1u << list);
}

/* What all ways of entering have in common (Algorithm 1, lines 13 and 22). */
static void take_level(struct sched_engine *engine, uint32_t queue_index, struct call *call)
{
    const struct sched *sched = engine->sched;
    ASSERT(queue_index < sched->settings.queues);
    ASSERT(call->lists == 0);
    call->queue = queue_index;
    call->promoted_from = 0;
    call->quantum_left_us = sched->levels[queue_index].quantum_us;
    engine->queues[queue_index].count++;
}

/* The call after which an arriving one belongs: the last, unless it has a smaller key. */
static uint32_t place_of(const struct sched_engine *engine, enum call_list list,
                         const struct call *call)
{
    const struct sched *sched = engine->sched;
    uint32_t last = engine->queues[call->queue].lists[list].tail;
    if (!is_indexed(sched, list) || last == CALL_NONE ||
        sched_call(sched, last)->order_key <= call->order_key) {
        return last;
    }
    return sched_order_find(engine, call->queue, list, call->order_key);
}

/* A call that is moved has the key of the call that it comes to stand next to. */
static void take_key(const struct sched *sched, const struct sched_list *all, struct call *call,
                     bool to_head)
{
    uint32_t neighbour = to_head ? all->head : all->tail;
    if (sched->nodes != NULL && neighbour != CALL_NONE) {
        call->order_key = sched_call(sched, neighbour)->order_key;
    }
}

void sched_queue_enter(struct sched_engine *engine, uint32_t queue_index, struct call *call)
{
    take_level(engine, queue_index, call);
    insert(engine, CALL_LIST_ALL, call, place_of(engine, CALL_LIST_ALL, call));
    if (call->prompt_tokens == 1) {
        insert(engine, CALL_LIST_STARTED, call, place_of(engine, CALL_LIST_STARTED, call));
    }
}

void sched_queue_move(struct sched_engine *engine, struct call *call, uint32_t queue_index,
                      bool to_head)
{
    const struct sched_queue *queue = &engine->queues[queue_index];
    uint8_t lists = call->lists;
    sched_queue_remove(engine, call);
    take_level(engine, queue_index, call);
    take_key(engine->sched, &queue->lists[CALL_LIST_ALL], call, to_head);
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        if ((lists >> list & 1) != 0) {
            insert(engine, list, call, to_head ? CALL_NONE : queue->lists[list].tail);
        }
    }
}

void sched_queue_remove(struct sched_engine *engine, struct call *call)
{
    struct sched_queue *queue = &engine->queues[call->queue];
    ASSERT(queue->count > 0);
    if (queue->cursor == call->slot) {
        queue->cursor = call->links[CALL_LIST_ALL].next;
    }
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        if (sched_queue_lists(call, list)) {
            take_out(engine, list, call);
        }
    }
    queue->count--;
}

void sched_queue_leave_residents(struct sched_engine *engine, struct call *call)
{
    if (sched_queue_lists(call, CALL_LIST_RESIDENT)) {
        take_out(engine, CALL_LIST_RESIDENT, call);
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

struct call *sched_cursor_next(const struct sched_engine *engine, struct sched_cursor *cursor,
                               enum call_list list)
{
    const struct sched *sched = engine->sched;
    uint32_t passed = cursor->passed[list];
    uint32_t next = passed != CALL_NONE ? sched_call(sched, passed)->links[list].next
                                        : engine->queues[cursor->queue].lists[list].head;
    while (next == CALL_NONE && cursor->queue + 1 < sched->settings.queues) {
        *cursor = before_queue(cursor->queue + 1);
        next = engine->queues[cursor->queue].lists[list].head;
    }
    return sched_call_or_null(sched, next);
}

void sched_cursor_pass(struct sched_engine *engine, struct sched_cursor *cursor, struct call *call)
{
    ASSERT(call->queue == cursor->queue);
    if (sched_call_is_resident(engine, call)) {
        for (uint32_t list = CALL_LIST_STARTED; list < CALL_LISTS; list++) {
            if (!sched_queue_lists(call, list)) {
                insert(engine, list, call, cursor->passed[list]);
            }
        }
    }
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        cursor->passed[list] = sched_queue_lists(call, list) ? call->slot : cursor->passed[list];
    }
}

void sched_cursor_stop(struct sched_cursor *cursor, const struct call *call)
{
    ASSERT(call->queue == cursor->queue);
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        if (sched_queue_lists(call, list)) {
            cursor->passed[list] = call->links[list].prev;
        }
    }
}

void sched_cursor_forget(struct sched_cursor *cursor, const struct call *call)
{
    uint32_t *passed = &cursor->passed[CALL_LIST_RESIDENT];
    ASSERT(sched_queue_lists(call, CALL_LIST_RESIDENT));
    if (*passed == call->slot) {
        *passed = call->links[CALL_LIST_RESIDENT].prev;
    }
}
