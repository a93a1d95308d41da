/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the queues of calls, in order, and a cursor that walks through them. Private to sched/. */
#include "sched/sched.h"

/* All are O(1), but for SRPT, where a call enters behind those that go first: O(calls); that policy
 * is for the lab only. The call takes the queue's number and quantum when it enters. */
void sched_queue_enter(struct sched *sched, uint32_t queue, uint32_t call);
/* To the tail or the head of this queue, with everything that it has. SRPT moves no call. */
void sched_queue_move(struct sched *sched, uint32_t call, uint32_t queue, bool to_head);
void sched_queue_remove(struct sched *sched, uint32_t call);
/* It has lost its blocks. Free when it was not in the list of residents. */
void sched_queue_leave_residents(struct sched *sched, uint32_t call);

/* A place between two calls, on the way through the queues from the top. */
struct sched_cursor {
    uint32_t queue;
    uint32_t passed[CALL_LISTS];    /* of each list of this queue, the last call before the place;
                                       CALL_NONE: there is none */
};
/* Before the first call. */
struct sched_cursor sched_cursor_start(void);
/* The next call of this list behind the place, or CALL_NONE. The place may go on to the queue of
 * that call, but stays before it. O(queues). */
uint32_t sched_cursor_next(const struct sched *sched, struct sched_cursor *cursor,
                           enum call_list list);
/* The place is now behind this call, which sched_cursor_next() has given. A call that has come to
 * blocks joins the lists that it belongs to: the cursor knows where. */
void sched_cursor_pass(struct sched *sched, struct sched_cursor *cursor, uint32_t call);
/* The place is now right before this call, which sched_cursor_next() has given; calls that are not
 * in the list which that went through may lie between. */
void sched_cursor_stop(const struct sched *sched, struct sched_cursor *cursor, uint32_t call);
/* A call before the place is about to lose its blocks. */
void sched_cursor_forget(const struct sched *sched, struct sched_cursor *cursor, uint32_t call);

static inline struct call *sched_call(const struct sched *sched, uint32_t index)
{
    ASSERT(index < sched->calls->count);
    return &sched->calls->calls[index];
}

static inline bool sched_queue_lists(const struct call *call, enum call_list list)
{
    return (call->lists >> list & 1) != 0;
}

static inline uint32_t sched_queue_next(const struct sched *sched, uint32_t call)
{
    return sched_call(sched, call)->links[CALL_LIST_ALL].next;
}

static inline uint64_t sched_elapsed_us(uint64_t from_us, uint64_t now_us)
{
    return now_us > from_us ? now_us - from_us : 0;
}
