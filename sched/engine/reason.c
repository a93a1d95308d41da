/* SPDX-License-Identifier: MIT */
/*
 * What: the reason why a call waits, from what the last plan of its engine has left: how many rows
 * it chose, and how far the walk of the call's tenant came. Nothing is kept for it in the walk.
 * Bounds: O(1).
 */
#include "sched/call.h"
#include "sched/engine/job.h"

/* True when the call could not be in the last plan. */
static bool came_later(const struct sched_engine *engine, const struct sched_lane *lane,
                       const struct call *call)
{
    return lane->hand.sequence != engine->sequence || !engine->step_in_flight ||
           call->arrived_us > engine->step_submitted_us;
}

enum sched_reason sched_call_reason(const struct sched *sched, const struct call *call)
{
    const struct sched_job *job = &sched->jobs[call->job];
    const struct sched_engine *engine = sched_engine_of(sched, call);
    const struct sched_lane *lane = &engine->lanes[job->tenant];
    ASSERT(call->state == CALL_QUEUED || call->standby);
    if (call->paused) {
        return SCHED_REASON_CLIENT;
    }
    if (!engine->serves) {
        return SCHED_REASON_ENGINE;
    }
    if (job->held) {
        return SCHED_REASON_INACTIVE;
    }
    if (came_later(engine, lane, call)) {
        return SCHED_REASON_NEXT;
    }
    if (engine->planned_active == sched->settings.batch_calls) {
        return SCHED_REASON_BATCH;
    }
    if (!lane->hand.is_out || lane->hand.kept_out != CALL_NONE) {
        return SCHED_REASON_KV;
    }
    return lane->hand.is_limited ? SCHED_REASON_BUDGET : SCHED_REASON_MOVES;
}
