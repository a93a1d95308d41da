/* SPDX-License-Identifier: MIT */
/*
 * What: sched_check(): every invariant of the scheduler, asserted. Tests call it after each
 * operation, test builds after each pass. It changes nothing and needs no memory.
 * Bounds: O(calls + programs + blocks), plus one lookup for each program.
 */
#include <string.h>

#include "sched/deadline.h"
#include "sched/engine/active/active.h"
#include "sched/engine/active/group.h"
#include "sched/engine/member.h"
#include "sched/engine/order.h"
#include "sched/engine/queue.h"
#include "sched/kept.h"
#include "sched/policy.h"
#include "sched/program.h"
#include "sched/engine/share/tenant.h"

static void check_job(const struct sched_engine *engine, uint32_t index, uint32_t queue,
                      bool held)
{
    const struct sched *sched = engine->sched;
    const struct sched_job *job = &sched->jobs[index];
    const struct program *program = &sched->programs[job->program];
    const struct sched_member *member = sched_member_at(engine, job->program);
    bool joins = sched_policy_joins_calls(sched);
    bool is_stage = sched_policy_has_stages(sched->settings.policy);
    ASSERT(job->tenant == program->tenant);
    ASSERT(job->queue == queue && job->held == held && job->calls_count > 0);
    ASSERT(held == !member->is_active);
    ASSERT(job->promoted_from == 0 || job->queue == 0 || job->queue == job->promoted_from);
    ASSERT(joins ? member->jobs[is_stage ? queue : 0] == index : job->calls_count == 1);
    ASSERT(!joins || is_stage || job->calls_count == member->calls_count);
    ASSERT(!is_stage || !joins ||
           job->key == sched_policy_key(sched, sched_job_first(sched, job)));
    /* Learnt levels, or what its class has learnt, may have changed since its last step. */
    ASSERT(!sched_policy_demotes(sched, job) || sched->settings.quantum_us == 0 ||
           sched_policy_foresees(sched));
}

static void check_kv(const struct sched_engine *engine, const struct call *call)
{
    uint64_t room = (uint64_t)kvmem_call_blocks(engine->kv, call->slot) *
                    engine->kv->settings.block_tokens;
    ASSERT(call->kv_tokens <= room);
    ASSERT(call->cached_tokens <= call->prompt_tokens);
    ASSERT(call->draft_tokens_agreed <= call->draft_tokens);
    ASSERT(call->kv_tokens <= call->computed_tokens);
    ASSERT(call->computed_tokens < call->prompt_tokens + call->generated_tokens);
    ASSERT(call->generated_tokens < call->max_tokens);
    ASSERT(call->prompt_tokens + call->max_tokens <= engine->sched->settings.context_tokens);
}

static void check_queued(const struct sched_engine *engine, const struct call *call)
{
    ASSERT(call->state == CALL_QUEUED || call->state == CALL_RUNNING);
    ASSERT(call->state == CALL_QUEUED || engine->step_in_flight);
    ASSERT(call->engine == engine->index);
    ASSERT(call->state == CALL_RUNNING || !call->standby);
    ASSERT(call->deadline_us == UINT64_MAX || call->expired ||
           heap_has(&engine->sched->deadlines, call->slot));
}

/* Which lists the call has to be in. */
static void check_membership(const struct sched_engine *engine, const struct call *call)
{
    bool is_resident = sched_call_is_resident(engine, call);
    bool must_be_started = is_resident || call->computed_tokens > 0;
    ASSERT(sched_queue_lists(call, CALL_LIST_ALL));
    ASSERT(sched_queue_lists(call, CALL_LIST_RESIDENT) == is_resident);
    /* Where there are keys, a call that was held comes back when it gets blocks again; so does one
     * that came from another engine. */
    bool may_be_late = engine->sched->nodes != NULL || engine->sched->settings.engines > 1;
    ASSERT(sched_queue_lists(call, CALL_LIST_STARTED) || !must_be_started ||
           (may_be_late && !is_resident));
    if (sched_policy_has_stages(engine->sched->settings.policy)) {
        uint32_t stage = sched_job_of(engine->sched, call)->queue;
        ASSERT((stage == SCHED_STAGE_RESIDENT) == is_resident);
        ASSERT((stage != SCHED_STAGE_WAITING) == sched_queue_lists(call, CALL_LIST_STARTED));
    }
}

/* The call is the next one of each list that it is in: so all are in the order of the first. */
static void check_links(const struct sched_engine *engine, const struct call *call,
                        uint32_t *before)
{
    const struct sched *sched = engine->sched;
    const struct sched_job *job = sched_job_of(sched, call);
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        if (sched_queue_lists(call, list)) {
            const struct sched_list *ends = &sched_queue_of(engine, job)->lists[list];
            uint32_t next = before[list] != CALL_NONE
                            ? sched_call(sched, before[list])->links[list].next : ends->head;
            ASSERT(next == call->slot);
            ASSERT(call->links[list].prev == before[list]);
            before[list] = call->slot;
        }
    }
}

/* The calls of the job are the next ones of each list that they are in, and its ends are theirs.
 * Returns the call after the job. */
static const struct call *check_calls_of(const struct sched_engine *engine,
                                         const struct sched_job *job, const struct call *call,
                                         uint32_t *before)
{
    struct sched_list ends[CALL_LISTS];
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        ends[list] = (struct sched_list){CALL_NONE, CALL_NONE};
    }
    for (uint32_t i = 0; i < job->calls_count; i++, call = sched_queue_next(engine, call)) {
        ASSERT(call != NULL && sched_job_of(engine->sched, call) == job);
        check_links(engine, call, before);
        check_queued(engine, call);
        check_membership(engine, call);
        check_kv(engine, call);
        for (uint32_t list = 0; list < CALL_LISTS; list++) {
            if (sched_queue_lists(call, list)) {
                ends[list].head = ends[list].head == CALL_NONE ? call->slot : ends[list].head;
                ends[list].tail = call->slot;
            }
        }
    }
    ASSERT(memcmp(ends, job->ends, sizeof ends) == 0);
    return call;
}

static bool has_turn(const struct sched_engine *engine, uint32_t job)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < engine->turns_count; i++) {
        found += engine->turns[i] == job;
    }
    ASSERT(found <= 1);
    return found == 1;
}

/* Links both ways, counts, and each job in its queue. Returns the number of calls. */
static uint32_t check_queue(const struct sched_engine *engine, const struct sched_lane *lane,
                            uint32_t queue_index, bool held)
{
    const struct sched *sched = engine->sched;
    const struct sched_queue *queue = (held ? lane->held : lane->queues) + queue_index;
    uint32_t jobs = 0, calls = 0;
    uint32_t before[CALL_LISTS] = {CALL_NONE, CALL_NONE, CALL_NONE};
    bool has_cursor = queue->cursor == SCHED_JOB_NONE;
    const struct call *call = sched_queue_first(engine, queue, CALL_LIST_ALL);
    uint32_t last_job = SCHED_JOB_NONE;
    while (call != NULL) {
        const struct sched_job *job = sched_job_of(sched, call);
        ASSERT(++jobs <= queue->count);
        ASSERT(job->prev == last_job);
        ASSERT(call->job == (last_job == SCHED_JOB_NONE ? queue->jobs.head
                                                        : sched->jobs[last_job].next));
        last_job = call->job;
        ASSERT(&engine->lanes[job->tenant] == lane);
        check_job(engine, call->job, queue_index, held);
        if (sched->nodes != NULL) {
            sched_order_check(engine, job);
        }
        has_cursor = has_cursor || queue->cursor == call->job;
        calls += job->calls_count;
        ASSERT(has_turn(engine, call->job) == (job->promoted_from > 0));
        call = check_calls_of(engine, job, call, before);
    }
    ASSERT(jobs == queue->count && queue->jobs.tail == last_job);
    ASSERT(last_job == SCHED_JOB_NONE || sched->jobs[last_job].next == SCHED_JOB_NONE);
    ASSERT(has_cursor && calls == queue->calls_count);
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        ASSERT(queue->lists[list].tail == before[list]);
        ASSERT(before[list] == CALL_NONE ? queue->lists[list].head == CALL_NONE
                   : sched_call(sched, before[list])->links[list].next == CALL_NONE);
    }
    return calls;
}

/* Active and held calls. Returns their number. */
static uint32_t check_queues(const struct sched_engine *engine)
{
    uint32_t calls = 0, held_jobs = 0;
    for (uint32_t i = 0; i < engine->sched->settings.tenants; i++) {
        const struct sched_lane *lane = &engine->lanes[i];
        uint32_t jobs = 0;
        for (uint32_t q = 0; q < engine->sched->settings.queues; q++) {
            calls += check_queue(engine, lane, q, false) + check_queue(engine, lane, q, true);
            jobs += lane->queues[q].count + lane->held[q].count;
            held_jobs += lane->held[q].count;
            ASSERT(lane->held[q].lists[CALL_LIST_RESIDENT].head == CALL_NONE);
        }
        ASSERT(jobs == lane->jobs_count);
    }
    ASSERT(held_jobs == engine->active.held_jobs);
    sched_member_check(engine);
    sched_active_check(engine);
    sched_group_check(engine);
    return calls;
}

static void check_ranges(const struct sched *sched)
{
    uint64_t low_us = 0;
    for (uint32_t i = 0; i < sched->settings.queues; i++) {
        ASSERT(sched->levels[i].service_low_us == low_us);
        ASSERT(sched->levels[i].service_high_us >= low_us);
        low_us = sched->levels[i].service_high_us;
    }
    ASSERT(low_us == UINT64_MAX);
}

/* Calls that are in no queue own nothing of sched's. */
static void check_calls(const struct sched *sched)
{
    uint32_t open = 0, suspects = 0;
    for (uint32_t i = 0; i < sched->calls->count; i++) {
        const struct call *call = sched_call(sched, i);
        ASSERT(call->state != CALL_FINISHED || call->lists == 0);
        ASSERT(call->deaths_alone < CALL_DEATHS_MAX);
        open += call->state == CALL_QUEUED || call->state == CALL_RUNNING;
        suspects += call->company_max > 0;
    }
    ASSERT(open == sched->open_calls);
    ASSERT(suspects == sched->suspects);
}

/* Who runs on the engine, and who has blocks of it. */
static void check_engine(const struct sched_engine *engine)
{
    const struct sched *sched = engine->sched;
    uint32_t running = 0;
    uint32_t resident = 0;
    for (uint32_t i = 0; i < sched->calls->count; i++) {
        const struct call *call = sched_call(sched, i);
        bool is_here = (call->state == CALL_QUEUED || call->state == CALL_RUNNING) &&
                       call->engine == engine->index;
        bool is_resident = kvmem_call_blocks(engine->kv, i) > 0;
        ASSERT(is_here || !is_resident);
        running += is_here && call->state == CALL_RUNNING;
        resident += is_resident;
    }
    ASSERT(resident == engine->resident_calls);
    ASSERT(running <= engine->planned_count);
    kvmem_check(engine->kv);
}

static void check_program_calls(const struct sched *sched, uint32_t program_index)
{
    const struct program *program = &sched->programs[program_index];
    uint32_t count = 0;
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        count += sched_member_at(&sched->engines[i], program_index)->calls_count;
    }
    ASSERT(count == program->active_calls);
    ASSERT(program->engine == SCHED_ENGINE_NONE || program->engine < sched->settings.engines);
    ASSERT(program->recalled <= sched->settings.recall_tokens);
}

/* Returns how many programs of the account are idle. */
static uint32_t check_idle_of(const struct sched *sched, uint32_t account)
{
    uint32_t count = 0;
    uint32_t before = SCHED_PROGRAM_NONE;
    uint32_t i = sched->idle[account].head;
    while (i != SCHED_PROGRAM_NONE) {
        const struct program *program = &sched->programs[i];
        ASSERT(++count <= sched->programs_count);
        ASSERT(program->in_use && program->active_calls == 0);
        ASSERT(program->idle_prev == before && quota_account(program->domain) == account);
        ASSERT(before == SCHED_PROGRAM_NONE ||
               sched->programs[before].idle_since_us <= program->idle_since_us);
        before = i;
        i = program->idle_next;
    }
    ASSERT(sched->idle[account].tail == before);
    return count;
}

/* Returns how many programs are idle. */
static uint32_t check_idle(const struct sched *sched)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        count += check_idle_of(sched, i);
    }
    return count;
}

static void check_quota(const struct sched *sched)
{
    uint32_t counted[QUOTA_ACCOUNTS_MAX] = {0};
    for (uint32_t i = 0; i < sched->settings.programs; i++) {
        const struct program *program = &sched->programs[i];
        counted[quota_account(program->domain)] += program->in_use;
    }
    quota_check(&sched->quota);
    ASSERT(memcmp(counted, sched->quota.used_by, sizeof counted) == 0);
}

static void check_programs(const struct sched *sched)
{
    uint32_t in_use = 0;
    uint32_t idle = 0;
    uint32_t active_calls = 0;
    for (uint32_t i = 0; i < sched->settings.programs; i++) {
        const struct program *program = &sched->programs[i];
        if (!program->in_use) {
            continue;
        }
        ASSERT(sched_program_find(sched, program->domain, program->id) == i);
        check_program_calls(sched, i);
        in_use++;
        idle += program->active_calls == 0;
        active_calls += program->active_calls;
    }
    ASSERT(in_use == sched->programs_count);
    ASSERT(idle == check_idle(sched));
    check_quota(sched);
    ASSERT(active_calls == sched->open_calls);
    for (uint32_t i = sched->program_free; i != SCHED_PROGRAM_NONE; in_use++) {
        ASSERT(in_use < sched->settings.programs);
        ASSERT(!sched->programs[i].in_use);
        i = sched->programs[i].hash_next;
    }
    ASSERT(in_use == sched->settings.programs);
}

/* Who is in the ideal system, and in the process table still. */
static void check_ideal(const struct sched *sched)
{
    const struct sched_ideal *ideal = &sched->ideal;
    sched_ideal_check(ideal);
    for (uint32_t i = 0; i < ideal->tags.ids; i++) {
        uint32_t program = ideal->entries[i].program;
        if (heap_has(&ideal->tags, i) && program != SCHED_PROGRAM_NONE) {
            ASSERT(sched->programs[program].in_use && sched->programs[program].ideal == i);
        }
    }
}

void sched_check(const struct sched *sched)
{
    uint32_t queued = 0;
    check_ranges(sched);
    for (uint32_t e = 0; e < sched->settings.engines; e++) {
        queued += check_queues(&sched->engines[e]);
        check_engine(&sched->engines[e]);
    }
    ASSERT(queued == sched->open_calls);
    check_calls(sched);
    check_programs(sched);
    sched_kept_check(sched);
    sched_class_check(sched);
    sched_tenant_check(sched);
    sched_deadline_check(sched);
    if (sched_policy_has_tags(sched->settings.policy)) {
        check_ideal(sched);
    }
    sched_workflow_check(sched);
}
