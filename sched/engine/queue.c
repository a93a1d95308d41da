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
 * searched. Where the policy has keys, a job stands where its key belongs (order.c); where it does
 * not preempt (policy.c, stages), a call joins the lists of what its queue stands for at once.
 *
 * Invariants: links agree both ways; the three lists are in the same order, and each holds the one
 * below it; calls of a job are neighbours in each; count is the number of jobs; queue.cursor names
 * a job of this queue.
 * Bounds: every verb is O(1), expected where there are keys; a job whose key is not the largest
 * finds its place in O(log jobs). A cursor that finds a queue empty goes on to the next: O(queues).
 */
#include "sched/engine/queue.h"

#include "sched/engine/order.h"
#include "sched/policy.h"

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
    shrink(&job->ends[list], link, call->slot);
    *from = link.next;
    *back = link.prev;
    call->lists &= (uint8_t)~(1u << list);
}

/* The job comes to stand in its queue: where its key belongs; else at the head or the tail. */
static void link_job(struct sched_engine *engine, struct sched_job *job, bool to_head)
{
    struct sched_job *jobs = engine->sched->jobs;
    struct sched_queue *queue = sched_queue_of(engine, job);
    bool has_key = engine->sched->nodes != NULL;
    uint32_t index = (uint32_t)(job - jobs);
    job->prev = has_key ? sched_order_find(engine, job)
                        : to_head ? SCHED_JOB_NONE : queue->jobs.tail;
    uint32_t *from = job->prev == SCHED_JOB_NONE ? &queue->jobs.head : &jobs[job->prev].next;
    job->next = *from;
    *from = index;
    *(job->next == SCHED_JOB_NONE ? &queue->jobs.tail : &jobs[job->next].prev) = index;
    queue->count++;
    if (has_key) {
        sched_order_add(engine, job);
    }
}

/* What looks at the job's place goes on to the next one. */
static void unlink_job(struct sched_engine *engine, const struct sched_job *job)
{
    struct sched_job *jobs = engine->sched->jobs;
    struct sched_queue *queue = sched_queue_of(engine, job);
    uint32_t index = (uint32_t)(job - jobs);
    ASSERT(queue->count > 0);
    if (engine->sched->nodes != NULL) {
        sched_order_remove(engine, job);
    }
    queue->cursor = queue->cursor == index ? job->next : queue->cursor;
    *(job->prev == SCHED_JOB_NONE ? &queue->jobs.head : &jobs[job->prev].next) = job->next;
    *(job->next == SCHED_JOB_NONE ? &queue->jobs.tail : &jobs[job->next].prev) = job->prev;
    queue->count--;
}

/* The call after which the next one of the job belongs. */
static uint32_t end_of(const struct sched_engine *engine, const struct sched_job *job,
                       enum call_list list)
{
    uint32_t sibling = job->ends[list].tail;
    if (sibling != CALL_NONE || job->prev == SCHED_JOB_NONE) {
        return sibling;
    }
    ASSERT(engine->sched->jobs[job->prev].ends[list].tail != CALL_NONE);
    return engine->sched->jobs[job->prev].ends[list].tail;
}

void sched_queue_enter(struct sched_engine *engine, struct call *call)
{
    const struct sched *sched = engine->sched;
    struct sched_job *job = sched_job_of(sched, call);
    ASSERT(call->lists == 0);
    ASSERT(job->queue < sched->settings.queues);
    if (job->calls_count++ == 0) {
        link_job(engine, job, false);
    }
    call->queue = job->queue;
    sched_queue_of(engine, job)->calls_count++;
    for (uint32_t list = 0; list < sched_policy_lists(sched, job->queue); list++) {
        insert(engine, list, call, end_of(engine, job, list));
    }
}

/* The job's stretch of the list leaves it, and stays linked in itself. */
static void cut_stretch(const struct sched_engine *engine, const struct sched_job *job,
                        enum call_list list)
{
    const struct sched *sched = engine->sched;
    struct sched_list *from = &sched_queue_of(engine, job)->lists[list], ends = job->ends[list];
    if (ends.head != CALL_NONE) {
        uint32_t before = sched_call(sched, ends.head)->links[list].prev;
        uint32_t after = sched_call(sched, ends.tail)->links[list].next;
        *after_of(sched, from, list, before) = after;
        *before_of(sched, from, list, after) = before;
    }
}

/* It comes to stand after the call `before`, or at the head. */
static void paste_stretch(const struct sched_engine *engine, const struct sched_job *job,
                          enum call_list list, uint32_t before)
{
    const struct sched *sched = engine->sched;
    struct sched_list *to = &sched_queue_of(engine, job)->lists[list], ends = job->ends[list];
    if (ends.head != CALL_NONE) {
        uint32_t after = *after_of(sched, to, list, before);
        sched_call(sched, ends.head)->links[list].prev = before;
        sched_call(sched, ends.tail)->links[list].next = after;
        *before_of(sched, to, list, after) = ends.tail;
        *after_of(sched, to, list, before) = ends.head;
    }
}

static void leave_queue(struct sched_engine *engine, const struct sched_job *job)
{
    unlink_job(engine, job);
    sched_queue_of(engine, job)->calls_count -= job->calls_count;
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        cut_stretch(engine, job, list);
    }
}

/* All its calls come to stand behind the jobs before it; where there are keys, they are in the same
 * lists as those of the jobs around it. */
static void enter_queue(struct sched_engine *engine, struct sched_job *job, bool to_head)
{
    struct sched_queue *queue = sched_queue_of(engine, job);
    const struct sched_job *jobs = engine->sched->jobs;
    link_job(engine, job, to_head);
    queue->calls_count += job->calls_count;
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        uint32_t before = CALL_NONE;
        if (job->prev != SCHED_JOB_NONE) {
            before = engine->sched->nodes != NULL ? jobs[job->prev].ends[list].tail
                                                  : queue->lists[list].tail;
        }
        paste_stretch(engine, job, list, before);
    }
}

/* Its level is `level` from now on, of the held jobs or the others. */
static void move(struct sched_engine *engine, struct sched_job *job, uint32_t level, bool held,
                 bool to_head)
{
    ASSERT(engine->sched->nodes == NULL);       /* where there are keys, no job has a free place */
    ASSERT(level < engine->sched->settings.queues);
    leave_queue(engine, job);
    job->queue = level;
    job->held = held;
    enter_queue(engine, job, to_head);
}

void sched_queue_move(struct sched_engine *engine, struct sched_job *job, uint32_t queue_index,
                      bool to_head)
{
    move(engine, job, queue_index, job->held, to_head);
}

void sched_queue_rekey(struct sched_engine *engine, struct sched_job *job, uint64_t key)
{
    job->key = key;
    if (sched_order_fits(engine->sched, job)) {
        return;
    }
    leave_queue(engine, job);
    enter_queue(engine, job, false);
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

static struct sched_cursor before_queue(const struct sched_lane *lane, uint32_t queue)
{
    return (struct sched_cursor){.lane = lane, .queue = queue,
                                 .passed = {CALL_NONE, CALL_NONE, CALL_NONE}};
}

struct sched_cursor sched_cursor_start(const struct sched_lane *lane)
{
    STATIC_ASSERT(CALL_LISTS == 3, "before_queue() names each");
    return before_queue(lane, 0);
}

struct call *sched_cursor_next(const struct sched_engine *engine, struct sched_cursor *cursor,
                               enum call_list list)
{
    const struct sched *sched = engine->sched;
    uint32_t passed = cursor->passed[list];
    uint32_t next = passed != CALL_NONE ? sched_call(sched, passed)->links[list].next
                                        : cursor->lane->queues[cursor->queue].lists[list].head;
    while (next == CALL_NONE && cursor->queue + 1 < sched->settings.queues) {
        *cursor = before_queue(cursor->lane, cursor->queue + 1);
        next = cursor->lane->queues[cursor->queue].lists[list].head;
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

void sched_cursor_forget(const struct sched *sched, struct sched_cursor *cursor,
                         const struct call *call)
{
    bool leaves = sched_policy_has_stages(sched->settings.policy);
    ASSERT(sched_queue_lists(call, CALL_LIST_RESIDENT));
    for (uint32_t list = leaves ? CALL_LIST_ALL : CALL_LIST_RESIDENT; list < CALL_LISTS; list++) {
        if (cursor->passed[list] == call->slot) {
            cursor->passed[list] = call->links[list].prev;
        }
    }
}
