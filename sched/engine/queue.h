/* SPDX-License-Identifier: MIT */
#pragma once
/* What: an engine's queues of jobs, in order, and a cursor that walks through their calls. Private
 * to sched/. */
#include "sched/engine/job.h"

/* All are O(1), but that a job whose key is not the largest finds its place in O(log jobs). */

/* The call joins its job, after its siblings. If it is the job's first call, the job goes to the
 * tail of its queue, or where its key belongs. */
void sched_queue_enter(struct sched_engine *engine, struct call *call);
/* Moves the job, with all its calls, to the tail or the head of this queue. */
void sched_queue_move(struct sched_engine *engine, struct sched_job *job, uint32_t queue,
                      bool to_head);
/* Moves the job, none of whose calls owns blocks, to the held jobs of its level or back: to the
 * head, the tail, or where its key belongs. */
void sched_queue_hold(struct sched_engine *engine, struct sched_job *job, bool held, bool to_head);
/* Gives the job another key, and moves it to where that belongs. For queues that are stages. */
void sched_queue_rekey(struct sched_engine *engine, struct sched_job *job, uint64_t key);
void sched_queue_remove(struct sched_engine *engine, struct call *call);
/* The call has lost its blocks: takes it off the list of residents, if it is on it. */
void sched_queue_leave_residents(struct sched_engine *engine, struct call *call);

/* Before the first call of the lane. */
struct sched_cursor sched_cursor_start(const struct sched_lane *lane);
/* The next call of this list after the place, or NULL. The place may go on to the queue of that
 * call, but stays before it. O(queues). */
struct call *sched_cursor_next(const struct sched_engine *engine, struct sched_cursor *cursor,
                               enum call_list list);
/* The place is now after this call, which sched_cursor_next() has given. If the call has got blocks
 * since, it joins the lists of such calls: the cursor knows where. */
void sched_cursor_pass(struct sched_engine *engine, struct sched_cursor *cursor,
                       struct call *call);
/* The place is now right before this call, which sched_cursor_next() has given: also after calls
 * that are not in the list which was followed. */
void sched_cursor_stop(struct sched_cursor *cursor, const struct call *call);
/* A call before the place is about to lose its blocks and, where queues are stages, its queue. */
void sched_cursor_forget(const struct sched *sched, struct sched_cursor *cursor,
                         const struct call *call);

static inline bool sched_queue_lists(const struct call *call, enum call_list list)
{
    return (call->lists >> list & 1) != 0;
}

/* The first call of this list of the queue, or NULL. */
static inline struct call *sched_queue_first(const struct sched_engine *engine,
                                             const struct sched_queue *queue, enum call_list list)
{
    return sched_call_or_null(engine->sched, queue->lists[list].head);
}

/* The call after this one in its queue, or NULL. */
static inline struct call *sched_queue_next(const struct sched_engine *engine,
                                            const struct call *call)
{
    return sched_call_or_null(engine->sched, call->links[CALL_LIST_ALL].next);
}
