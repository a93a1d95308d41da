/* SPDX-License-Identifier: MIT */
/*
 * What: sched_check(): every invariant of the scheduler, asserted. Tests call it after each
 * operation, test builds after each pass. It changes nothing and needs no memory.
 * Bounds: O(calls + programs + blocks), plus one lookup for each program.
 */
#include "sched/deadline.h"
#include "sched/policy.h"
#include "sched/program.h"
#include "sched/queue.h"
#include "sched/residency.h"

static void check_times(const struct sched *sched, const struct call *call)
{
    ASSERT(call->wait_us <= call->lifetime_wait_us);
    ASSERT(call->service_us <= call->lifetime_service_us);
    ASSERT(call->promotions > 0 || call->service_us == call->lifetime_service_us);
    uint32_t level = call->promoted_from > 0 ? call->promoted_from : call->queue;
    ASSERT(call->promoted_from == 0 || call->queue == 0);
    /* Recompute lengthens it, by no more than the service that the call has received. */
    ASSERT(call->quantum_left_us <= call->lifetime_service_us ||
           call->quantum_left_us - call->lifetime_service_us <=
               sched->queues[level].quantum_us);
    ASSERT(call->quantum_left_us > 0 ||
           (call->queue + 1 == sched->settings.queues &&
            sched->settings.policy != SCHED_ROUND_ROBIN));
}

static void check_kv(const struct sched *sched, uint32_t call_index)
{
    const struct call *call = sched_call(sched, call_index);
    uint64_t room = (uint64_t)kvmem_call_blocks(sched->kv, call_index) *
                    sched->kv->settings.block_tokens;
    ASSERT(call->kv_tokens <= room);
    ASSERT(call->cached_tokens <= call->prompt_tokens);
    ASSERT(call->kv_tokens <= call->computed_tokens);
    ASSERT(call->computed_tokens < call->prompt_tokens + call->generated_tokens);
    ASSERT(call->generated_tokens < call->max_tokens);
    ASSERT(call->prompt_tokens + call->max_tokens <= sched->settings.context_tokens);
}

static void check_queued(const struct sched *sched, const struct call *call)
{
    ASSERT(call->state == CALL_QUEUED || call->state == CALL_RUNNING);
    ASSERT(call->state == CALL_QUEUED || sched->step_in_flight);
    ASSERT(call->state == CALL_RUNNING || !call->standby);
    ASSERT(call->deadline_slot != CALL_NONE || call->deadline_us == UINT64_MAX || call->expired);
}

/* Which lists the call has to be in. */
static void check_membership(const struct sched *sched, uint32_t call_index)
{
    const struct call *call = sched_call(sched, call_index);
    bool is_resident = sched_residency_has(sched, call_index);
    bool must_be_started =
        is_resident || call->computed_tokens > 0 || call->prompt_tokens == 1;
    ASSERT(sched_queue_lists(call, CALL_LIST_ALL));
    ASSERT(sched_queue_lists(call, CALL_LIST_RESIDENT) == is_resident);
    ASSERT(sched_queue_lists(call, CALL_LIST_STARTED) || !must_be_started);
}

/* The call is the next one of each list that it is in: so all are in the order of the first. */
static void check_links(const struct sched *sched, uint32_t call_index, uint32_t *before)
{
    const struct call *call = sched_call(sched, call_index);
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        if (sched_queue_lists(call, list)) {
            const struct sched_list *ends = &sched->queues[call->queue].lists[list];
            uint32_t next = before[list] != CALL_NONE
                            ? sched_call(sched, before[list])->links[list].next : ends->head;
            ASSERT(next == call_index);
            ASSERT(call->links[list].prev == before[list]);
            ASSERT(before[list] == CALL_NONE ||
                   !sched_policy_goes_before(sched, call, sched_call(sched, before[list])));
            before[list] = call_index;
        }
    }
}

/* Links both ways, counts, and each call in its queue. Returns the number of calls. */
static uint32_t check_queue(const struct sched *sched, uint32_t queue_index)
{
    const struct sched_queue *queue = &sched->queues[queue_index];
    uint32_t count = 0;
    uint32_t before[CALL_LISTS] = {CALL_NONE, CALL_NONE, CALL_NONE};
    bool has_cursor = queue->cursor == CALL_NONE;
    for (uint32_t i = queue->lists[CALL_LIST_ALL].head; i != CALL_NONE;
         i = sched_queue_next(sched, i)) {
        const struct call *call = sched_call(sched, i);
        ASSERT(++count <= queue->count);
        ASSERT(call->queue == queue_index);
        check_queued(sched, call);
        check_membership(sched, i);
        check_links(sched, i, before);
        check_times(sched, call);
        check_kv(sched, i);
        has_cursor = has_cursor || queue->cursor == i;
    }
    ASSERT(count == queue->count);
    ASSERT(has_cursor);
    for (uint32_t list = 0; list < CALL_LISTS; list++) {
        ASSERT(queue->lists[list].tail == before[list]);
        ASSERT(before[list] == CALL_NONE ? queue->lists[list].head == CALL_NONE
                   : sched_call(sched, before[list])->links[list].next == CALL_NONE);
    }
    return count;
}

static void check_ranges(const struct sched *sched)
{
    uint64_t low_us = 0;
    for (uint32_t i = 0; i < sched->settings.queues; i++) {
        ASSERT(sched->queues[i].service_low_us == low_us);
        ASSERT(sched->queues[i].service_high_us >= low_us);
        low_us = sched->queues[i].service_high_us;
    }
    ASSERT(low_us == UINT64_MAX);
}

/* Calls that are in no queue own nothing of sched's. */
static void check_calls(const struct sched *sched)
{
    uint32_t open = 0;
    uint32_t running = 0;
    uint32_t resident = 0;
    for (uint32_t i = 0; i < sched->calls->count; i++) {
        const struct call *call = sched_call(sched, i);
        bool is_open = call->state == CALL_QUEUED || call->state == CALL_RUNNING;
        bool is_resident = kvmem_call_blocks(sched->kv, i) > 0;
        ASSERT(is_open || !is_resident);
        ASSERT(call->state != CALL_FINISHED || call->lists == 0);
        open += is_open;
        running += call->state == CALL_RUNNING;
        resident += is_resident;
    }
    ASSERT(open == sched->open_calls);
    ASSERT(resident == sched->resident_calls);
    ASSERT(running <= sched->planned_count);
}

static void check_program_calls(const struct sched *sched, uint32_t program_index)
{
    const struct program *program = &sched->programs[program_index];
    uint32_t count = 0;
    uint32_t before = CALL_NONE;
    uint32_t i = program->first_call;
    while (i != CALL_NONE) {
        ASSERT(++count <= program->active_calls);
        ASSERT(sched_call(sched, i)->program == program_index);
        ASSERT(sched_call(sched, i)->program_prev == before);
        before = i;
        i = sched_call(sched, i)->program_next;
    }
    ASSERT(count == program->active_calls);
}

/* Returns how many programs are idle. */
static uint32_t check_idle(const struct sched *sched)
{
    uint32_t count = 0;
    uint32_t before = SCHED_PROGRAM_NONE;
    uint32_t i = sched->idle_head;
    while (i != SCHED_PROGRAM_NONE) {
        const struct program *program = &sched->programs[i];
        ASSERT(++count <= sched->programs_count);
        ASSERT(program->in_use && program->active_calls == 0);
        ASSERT(program->idle_prev == before);
        ASSERT(before == SCHED_PROGRAM_NONE ||
               sched->programs[before].idle_since_us <= program->idle_since_us);
        before = i;
        i = program->idle_next;
    }
    ASSERT(sched->idle_tail == before);
    return count;
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
    ASSERT(active_calls == sched->open_calls);
    for (uint32_t i = sched->program_free; i != SCHED_PROGRAM_NONE; in_use++) {
        ASSERT(in_use < sched->settings.programs);
        ASSERT(!sched->programs[i].in_use);
        i = sched->programs[i].hash_next;
    }
    ASSERT(in_use == sched->settings.programs);
}

void sched_check(const struct sched *sched)
{
    uint32_t queued = 0;
    check_ranges(sched);
    for (uint32_t i = 0; i < sched->settings.queues; i++) {
        queued += check_queue(sched, i);
    }
    ASSERT(queued == sched->open_calls);
    check_calls(sched);
    check_programs(sched);
    sched_deadline_check(sched);
    kvmem_check(sched->kv);
}
