/* SPDX-License-Identifier: MIT */
/*
 * What: who will want which KV next. What a waiting call has asked for is needed as much as its
 * program is: the sooner a call of it has its turn, the more. A program in a tool gap may be back;
 * what it has left goes by age. A program that is forgotten needs nothing.
 *
 * The need of a program is that of its job; of one that has several, that of the job that was
 * queued, or moved to another queue, last; after the end of a call, that of any other.
 *
 * Invariants: need_of() and place_of() alone know what the order of the queues is. A job has its
 * place when it enters a queue and keeps it until it moves, so needs change only then.
 * Bounds: O(log programs), but for a program that is forgotten.
 */
#include "sched/engine/need.h"

#include "sched/engine/job.h"
#include "sched/engine/member.h"
#include "sched/policy.h"

#define PLACE_BITS 56
#define ORDER_BITS 60
#define ACTIVE     (UINT64_C(1) << 62)  /* besides: of a job that is not held */
#define PLACE_MAX  ((UINT64_C(1) << PLACE_BITS) - 1)
#define PLACE_MID  (UINT64_C(1) << (PLACE_BITS - 1))

/* The sooner the turn of the job, the larger. */
static uint64_t need_of(const struct sched_job *job)
{
    STATIC_ASSERT(SCHED_QUEUES_MAX <= 1u << (ORDER_BITS - PLACE_BITS), "a queue fits above it");
    STATIC_ASSERT(KVMEM_PROTECTED - KVMEM_WANTED >= UINT64_C(1) << ORDER_BITS, "held: less");
    STATIC_ASSERT(ACTIVE >= 2 * (KVMEM_PROTECTED - KVMEM_WANTED), "active: more");
    ASSERT(job->place <= PLACE_MAX);
    uint64_t order = (uint64_t)job->queue << PLACE_BITS | job->place;
    return KVMEM_WANTED | (job->held ? 0 : ACTIVE) | ((UINT64_C(1) << ORDER_BITS) - 1 - order);
}

/* In the queue of its own: jobs that come to the tail count up, to the head down. */
static uint64_t place_of(struct sched *sched, const struct sched_job *job, bool at_head)
{
    if (sched_policy_has_key(sched->settings.policy)) {
        return job->key < PLACE_MAX ? job->key : PLACE_MAX;
    }
    return at_head ? PLACE_MID - ++sched->places_at_heads : PLACE_MID + ++sched->places_at_tails;
}

void sched_need_queued(const struct sched_engine *engine, struct sched_job *job, bool at_head)
{
    job->place = place_of(engine->sched, job, at_head);
    kvmem_need(engine->kv, job->program, need_of(job));
}

void sched_need_held(const struct sched_engine *engine, const struct sched_job *job)
{
    kvmem_need(engine->kv, job->program, need_of(job));
}

void sched_need_ended(const struct sched *sched, const struct call *call)
{
    const struct sched_member *member = sched_member_of(sched, call);
    uint32_t other = member->first_call == call->slot ? call->program_next : member->first_call;
    kvmem_need(sched_engine_of(sched, call)->kv, call->program,
               other == CALL_NONE ? 0 : need_of(sched_job_of(sched, sched_call(sched, other))));
}

void sched_need_forgotten(const struct sched *sched, uint32_t program)
{
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        kvmem_abandon(sched->engines[i].kv, program,
                      sched->settings.sharing == SCHED_SHARING_DOMAIN);
    }
}
