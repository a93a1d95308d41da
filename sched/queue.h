/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a queue of calls, in order, linked through call.queue_next. Private to sched/. */
#include "sched/sched.h"

/* All are O(1). The call takes the queue's number and quantum when it enters. */
void sched_queue_append(struct sched *sched, uint32_t queue, uint32_t call);
void sched_queue_prepend(struct sched *sched, uint32_t queue, uint32_t call);
void sched_queue_remove(struct sched *sched, uint32_t call);

static inline struct call *sched_call(const struct sched *sched, uint32_t index)
{
    ASSERT(index < sched->calls->count);
    return &sched->calls->calls[index];
}

static inline uint64_t sched_elapsed_us(uint64_t from_us, uint64_t now_us)
{
    return now_us > from_us ? now_us - from_us : 0;
}
