/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a call's account of time, and its end. Private to sched/. */
#include "sched/call.h"

/* QUEUED: adds the time since `waiting_since_us` to its waiting. */
void sched_call_accrue_wait(struct call *call, uint64_t now_us);
/* QUEUED: a step begins now that computes its KV from `first_position` on. */
void sched_call_enter(const struct sched *sched, struct call *call, uint32_t first_position,
                      uint64_t now_us);
/* The step in flight ran for `duration_us` with this call in it. */
void sched_call_charge(struct sched *sched, struct call *call, uint64_t duration_us,
                       uint64_t now_us);
/* Why the call ends with this token; NONE: it does not. */
static inline enum call_finish sched_call_stop_reason(const struct call *call, uint32_t token)
{
    uint32_t count = call->sampling.stop_ids_count;
    uint32_t eos = call->eos_id_index_plus_1;
    ASSERT(count <= CALL_STOP_IDS_MAX);
    if (eos > 0 && eos <= count && call->sampling.stop_ids[eos - 1] == token) {
        return CALL_FINISH_EOS;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (call->sampling.stop_ids[i] == token) {
            return CALL_FINISH_STOP_ID;
        }
    }
    return CALL_FINISH_NONE;
}
/* QUEUED or RUNNING to FINISHED: out of every list, blocks given up, program credited, net told. */
void sched_call_end(struct sched *sched, struct call *call, enum call_finish finish,
                    enum status status, uint64_t now_us);
/* The same for a call that net wants ended: by a stop string or by a cancel. */
void sched_call_end_cancelled(struct sched *sched, struct call *call, uint64_t now_us);
/* The step of the call is over: ends the call if net has asked for its end during the step, or its
 * deadline has passed. */
void sched_call_end_if_asked(struct sched *sched, struct call *call, uint64_t now_us);
/* The call cannot go on: ends it as net has asked, if it has, else as failed with this status. */
void sched_call_fail(struct sched *sched, struct call *call, enum status status, uint64_t now_us);
