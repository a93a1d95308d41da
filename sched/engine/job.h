/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: jobs: what the queues of an engine hold in order, and their account of service and waiting.
 * Private to sched/.
 */
#include "sched/call.h"

void sched_job_plan_memory(struct memory_plan *plan, uint32_t calls);
void sched_job_init(struct sched *sched, struct arena *arena);

/* The job of an open call. */
static inline struct sched_job *sched_job_of(const struct sched *sched, const struct call *call)
{
    ASSERT(call->job < sched->calls->count);
    return &sched->jobs[call->job];
}

/* The queue in which the job would stand at this level. */
static inline struct sched_queue *sched_queue_at(const struct sched_engine *engine,
                                                 const struct sched_job *job, uint32_t level)
{
    struct sched_lane *lane = &engine->lanes[job->tenant];
    return job->held ? &lane->held[level] : &lane->queues[level];
}

/* The queue in which the job stands. */
static inline struct sched_queue *sched_queue_of(const struct sched_engine *engine,
                                                 const struct sched_job *job)
{
    return sched_queue_at(engine, job, job->queue);
}

/* The call of the job that came first. */
static inline struct call *sched_job_first(const struct sched *sched, const struct sched_job *job)
{
    return sched_call(sched, job->ends[CALL_LIST_ALL].head);
}

/* A call has been admitted: it joins its program's job where the policy orders programs and the
 * program has open calls; else it begins a job, at the tail of its level. */
void sched_job_open(struct sched_engine *engine, struct call *call);
/* The call ends; its job ends with its last call. */
void sched_job_close(struct sched_engine *engine, struct call *call);
/* Where queues are stages: moves the call, which has been given KV or has lost it, to this one.
 * Does nothing where it is there, or queues are no stages. O(log jobs). */
void sched_job_restage(struct sched_engine *engine, struct call *call, enum sched_stage stage,
                       uint64_t now_us);
/* The key of the call's program has changed: moves its jobs, on all engines, to where the key
 * belongs. O(engines + log jobs). */
void sched_job_rekey(const struct sched *sched, const struct call *call);
/* The job of the call, or of its program when the call has ended; NULL: there is none. */
struct sched_job *sched_job_after(const struct sched *sched, const struct call *call);

#define SCHED_JOB_LOOKS 8
/* True when one of its first SCHED_JOB_LOOKS calls can run. */
bool sched_job_can_run(const struct sched *sched, const struct sched_job *job);
/* True when any of its calls can run. O(its calls). */
bool sched_job_has_any_to_run(const struct sched *sched, const struct sched_job *job);
/* A step begins in which a call of the job is: the job's waiting is over. */
void sched_job_enter(struct sched_job *job, uint64_t now_us);
/* A plan passes over the call because its client does not read or has cancelled it: that is not our
 * delay, so it is no waiting of the call; nor of its job, where it has no other call. */
void sched_job_excuse(struct sched_job *job, struct call *call, uint64_t now_us);
/* A step with a call of the job has ended. `is_progress`: it computed what was never computed
 * before. */
void sched_job_charge(struct sched_job *job, uint64_t duration_us, bool is_progress,
                      uint64_t now_us);
/* The program has made progress on this engine: charges its jobs on other engines; then settles
 * these. O(engines). */
void sched_job_charge_others(const struct sched_engine *engine, uint32_t program,
                             uint64_t duration_us);
void sched_job_settle_others(const struct sched_engine *engine, uint32_t program, uint64_t now_us);
/* Moves the job to where it belongs, if it has used up its level (Algorithm 1, lines 20 to 23). */
void sched_job_settle(struct sched_engine *engine, struct sched_job *job, uint64_t now_us);
/* The job's waiting counts from now on. */
void sched_job_wait_again(struct sched_job *job, uint64_t now_us);
/* A promoted job goes on with its turn at the tail of the first queue, or stands at the head of
 * its own level for now. Does nothing when it is there. */
void sched_job_place_turn(struct sched_engine *engine, struct sched_job *job, bool is_first);
/* A promoted job goes back to the queue that it came from. */
void sched_job_give_up_turn(struct sched_engine *engine, struct sched_job *job, uint64_t now_us);
/* Moves the job to the first queue for a turn (lines 27 to 29). */
void sched_job_promote(struct sched_engine *engine, struct sched_job *job, uint64_t now_us);
