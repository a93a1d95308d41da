/* SPDX-License-Identifier: MIT */
/*
 * What: the K queues of an engine. A queue holds jobs in order, and the calls of a job stand
 * together in it, in the order of arrival. It holds waiting and running calls alike: a job keeps
 * its place while calls of it run, and leaves only when it ends, is demoted or is promoted.
 *
 *   jobs       [ a       ]  [ b ]  [ c             ]
 *   all          o  o  o      o      o  o  o  o  o      every call of the queue
 *   started      o     o             o     o            those that have had blocks once: a plan may
 *   resident     o                   o                  find them worth a look when its prefill
 *                                                       budget is spent; those that own blocks now
 *
 * A job knows its first and last call in each list, so it moves with all its calls in O(1),
 * however many they are. The two shorter lists are there so that no plan has to walk past the
 * calls that only wait, of which there may be any number. A call joins them when a plan's cursor
 * comes past it: the cursor remembers the last call of each list before its place, so nothing is
 * searched. With keys, a job is one call and stands after the jobs whose key is not larger.
 *
 * Invariants: links agree both ways; the three lists are in the same order, and each holds the one
 * below it; calls of a job are neighbours in each; count is the number of jobs; queue.cursor names
 * a job of this queue.
 * Bounds: every verb is O(1), expected where there are keys; an arriving call whose key is not the
 * largest finds its place in O(log calls) (order.c). A cursor that finds a queue empty goes on to
 * the next: O(queues).
 */
#include "sched/engine/queue.h"

#include "sched/engine/order.h"

/* Where the list says which call comes after this one; its head for CALL_NONE. */
static uint32_t *after_of(const struct sched *sched, struct sched_list *ends, enum call_list list,
                          uint32_t call)
{
    return call == CALL_NONE ? &ends->head : &sched_call(sched, call)->links[list].next;
}

/* Where the list says which call comes before this one; its tail for CALL_NONE. */
static uint32_t *before_of(const struct sched *sched, struct sched_list *ends, enum call_list list,
                           uint32_t call)
{
    return call == CALL_NONE ? &ends->tail : &sched_call(sched, call)->links[list].prev;
}

/* The job's stretch of the list grows by the call, at an end or in its middle. */
static void stretch(struct sched_list *ends, struct call_link link, uint32_t slot)
{
    bool is_empty = ends->head == CALL_NONE;
    ends->head = is_empty || link.next == ends->head ? slot : ends->head;
    ends->tail = is_empty || link.prev == ends->tail ? slot : ends->tail;
}

static void shrink(struct sched_list *ends, struct call_link link, uint32_t slot)
{
    if (ends->head == slot && ends->tail == slot) {
        *ends = (struct sched_list){CALL_NONE, CALL_NONE};
        return;
    }
    ends->head = ends->head == slot ? link.next : ends->head;
    ends->tail = ends->tail == slot ? link.prev : ends->tail;
}

/* After `after`, or at the head. */
static void insert(struct sched_engine *engine, enum call_list list, struct call *call,
                   uint32_t after)
{
    const struct sched *sched = engine->sched;
    struct sched_job *job = sched_job_of(sched, call);
    struct sched_list *ends = &sched_queue_of(engine, job)->lists[list];
    uint32_t *from = after_of(sched, ends, list, after);
    struct call_link link = {.next = *from, .prev = after};
    uint32_t *back = before_of(sched, ends, list, link.next);
    ASSERT(*back == after);
    ASSERT(!sched_queue_lists(call, list));
    call->links[list] = link;
    call->lists |= (uint8_t)(1u << list);
    *from = *back = call->slot;
    stretch(&job->ends[list], link, call->slot);
    if (list == CALL_LIST_ALL && sched->nodes != NULL) {
        sched_order_add(engine, call);
    }
}

static void take_out(struct sched_engine *engine, enum call_list list, struct call *call)
{
    const struct sched *sched = engine->sched;
    struct sched_job *job = sched_job_of(sched, call);
    struct sched_list *ends = &sched_queue_of(engine, job)->lists[list];
    struct call_link link = call->links[list];
    uint32_t *from = after_of(sched, ends, list, link.prev);
    uint32_t *back = before_of(sched, ends, list, link.next);
    ASSERT(sched_queue_lists(call, list));
    ASSERT(*from == call->slot && *back == call->slot);
    if (list == CALL_LIST_ALL && sched->nodes != NULL) {
        sched_order_remove(engine, call);
    }
    shrink(&job->ends[list], link, call->slot);
    *from = link.next;
    *back = link.prev;
    call->lists &= (uint8_t)~(1u << list);
}

/* The call after which an arriving one belongs. */
static uint32_t place_of(const struct sched_engine *engine, const struct sched_job *job,
                         const struct call *call)
{
    const struct sched *sched = engine->sched;
    uint32_t sibling = job->ends[CALL_LIST_ALL].tail;
    uint32_t last = sched_queue_of(engine, job)->lists[CALL_LIST_ALL].tail;
    if (sibling != CALL_NONE) {
        return sibling;
    }
    if (sched->nodes == NULL || last == CALL_NONE ||
        sched_call(sched, last)->order_key <= call->order_key) {
        return last;
    }
    return sched_order_find(engine, job, call->order_key);
}

/* The job comes to stand in its queue after the job `after`, or at the head. */
static void link_job(struct sched_engine *engine, struct sched_job *job, uint32_t after)
{
    struct sched_job *jobs = engine->sched->jobs;
    struct sched_queue *queue = sched_queue_of(engine, job);
    uint32_t index = (uint32_t)(job - jobs);
    uint32_t *from = after == SCHED_JOB_NONE ? &queue->jobs.head : &jobs[after].next;
    job->prev = after;
    job->next = *from;
    *from = index;
    *(job->next == SCHED_JOB_NONE ? &queue->jobs.tail : &jobs[job->next].prev) = index;
    queue->count++;
}

/* What looks at the job's place goes on to the next one. */
static void unlink_job(struct sched_engine *engine, const struct sched_job *job)
{
    struct sched_job *jobs = engine->sched->jobs;
    struct sched_queue *queue = sched_queue_of(engine, job);
    uint32_t index = (uint32_t)(job - jobs);
    ASSERT(queue->count > 0);
    queue->cursor = queue->cursor == index ? job->next : queue->cursor;
    *(job->prev == SCHED_JOB_NONE ? &queue->jobs.head : &jobs[job->prev].next) = job->next;
    *(job->next == SCHED_JOB_NONE ? &queue->jobs.tail : &jobs[job->next].prev) = job->prev;
    queue->count--;
}

void sched_queue_enter(struct sched_engine *engine, struct call *call)
{
    const struct sched *sched = engine->sched;
    struct sched_job *job = sched_job_of(sched, call);
    uint32_t after = place_of(engine, job, call);
    ASSERT(call->lists == 0);
    ASSERT(job->queue < sched->settings.queues);
    if (job->calls_count++ == 0) {
        link_job(engine, job, after == CALL_NONE ? SCHED_JOB_NONE : sched_call(sched, after)->job);
    }
    call->queue = job->queue;
    sched_queue_of(engine, job)->calls_count++;
    insert(engine, CALL_LIST_ALL, call, after);
}

struct move {
    const struct sched_job *job;
    struct sched_queue *from, *to;
    bool to_head;
};

/* The job's stretch of a list goes to the head or the tail of that list in another queue. */
static void move_stretch(const struct sched *sched, const struct move *move, enum call_list list)
{
    struct sched_list *from = &move->from->lists[list], *to = &move->to->lists[list];
    struct sched_list ends = move->job->ends[list];
    bool to_head = move->to_head;
    if (ends.head == CALL_NONE) {
        return;
    }
    struct call *first = sched_call(sched, ends.head), *last = sched_call(sched, ends.tail);
    *after_of(sched, from, list, first->links[list].prev) = last->links[list].next;
    *before_of(sched, from, list, last->links[list].next) = first->links[list].prev;
    first->links[list].prev = to_head ? CALL_NONE : to->tail;
    last->links[list].next = to_head ? to->head : CALL_NONE;
    *before_of(sched, to, list, last->links[list].next) = ends.tail;
    *after_of(sched, to, list, first->links[list].prev) = ends.head;
}

/* Its level is `level` from now on, of the held jobs or the others. */
static void move(struct sched_engine *engine, struct sched_job *job, uint32_t level, bool held,
                 bool to_head)
{
    struct move move = {.job = job, .from = sched_queue_of(engine, job), .to_head = to_head};
    ASSERT(engine->sched->nodes == NULL);       /* where there are keys, no job has a free place */
    ASSERT(level < engine->sched->settings.queues);
    unlink_job(engine, job);
    job->queue = level;
    job->held = held;
    move.to = sched_queue_of(engine, job);
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        move_stretch(engine->sched, &move, list);
    }
    move.from->calls_count -= job->calls_count;
    move.to->calls_count += job->calls_count;
    link_job(engine, job, to_head ? SCHED_JOB_NONE : move.to->jobs.tail);
}

void sched_queue_move(struct sched_engine *engine, struct sched_job *job, uint32_t queue_index,
                      bool to_head)
{
    move(engine, job, queue_index, job->held, to_head);
}

/* Where there are keys a job is one call, and goes where its key belongs. */
static void hold_by_key(struct sched_engine *engine, struct sched_job *job, bool held)
{
    struct call *call = sched_job_first(engine->sched, job);
    ASSERT(job->calls_count == 1);
    sched_queue_remove(engine, call);
    job->held = held;
    sched_queue_enter(engine, call);
}

void sched_queue_hold(struct sched_engine *engine, struct sched_job *job, bool held, bool to_head)
{
    ASSERT(job->held != held);
    ASSERT(!held || job->ends[CALL_LIST_RESIDENT].head == CALL_NONE);
    if (engine->sched->nodes != NULL) {
        hold_by_key(engine, job, held);
    } else {
        move(engine, job, job->queue, held, to_head);
    }
}

void sched_queue_remove(struct sched_engine *engine, struct call *call)
{
    struct sched_job *job = sched_job_of(engine->sched, call);
    ASSERT(job->calls_count > 0);
    if (job->calls_count == 1) {
        unlink_job(engine, job);
    }
    call->queue = job->queue;
    job->calls_count--;
    sched_queue_of(engine, job)->calls_count--;
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        if (sched_queue_lists(call, list)) {
            take_out(engine, list, call);
        }
    }
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
    call->queue = cursor->queue;
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
