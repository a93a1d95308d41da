/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a call's account of time, the loss of its blocks, and its end. Private to sched/. */
#include "sched/sched.h"

/* QUEUED: adds the time since `waiting_since_us` to its waiting. */
void sched_call_accrue_wait(struct call *call, uint64_t now_us);
/* The step in flight ran for `duration_us` with this call in it. */
void sched_call_charge(struct call *call, uint64_t duration_us);
/* Gives its blocks back; it will be recomputed from its tokens. */
void sched_call_drop_kv(struct sched *sched, uint32_t call);
/* QUEUED or RUNNING to FINISHED: out of every list, blocks back, program credited, net told. */
void sched_call_end(struct sched *sched, uint32_t call, enum call_finish finish,
                    enum status status, uint64_t now_us);
/* The same for a call that net wants ended: by a stop string or by a cancel. */
void sched_call_end_cancelled(struct sched *sched, uint32_t call, uint64_t now_us);
