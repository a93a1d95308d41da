/* SPDX-License-Identifier: MIT */
/*
 * What: members. A program has one service and one place in the order, whatever engines serve it,
 * but its KV, its jobs and its open calls lie at an engine each. That part of it is its member
 * there.
 * Invariants: an open call is in the list of one member, that of its program at its engine; counts
 * agree with lists.
 * Bounds: O(1); engines * programs members are there from the start.
 */
#include "sched/engine/member.h"

void sched_member_plan_memory(struct memory_plan *plan, const struct sched_settings *settings)
{
    struct memory_plan each = {.rows_count = 0};
    memory_plan_add(&each, MEMORY_CORE, "sched members", settings->programs,
                    sizeof(struct sched_member));
    memory_plan_add_each(plan, &each, settings->engines);
}

void sched_member_init(struct sched_engine *engine, struct arena *arena)
{
    uint32_t count = engine->sched->settings.programs;
    engine->members = arena_take(arena, count, sizeof *engine->members);
    for (uint32_t i = 0; i < count; i++) {
        sched_member_begin(engine, i);
    }
}

void sched_member_begin(struct sched_engine *engine, uint32_t program)
{
    bool all_are_active = engine->sched->settings.active_programs == SCHED_ACTIVE_ALL;
    *sched_member_at(engine, program) = (struct sched_member){
        .first_call = CALL_NONE, .jobs = {SCHED_JOB_NONE, SCHED_JOB_NONE, SCHED_JOB_NONE},
        .is_active = all_are_active, .group = SCHED_GROUP_NONE};
    STATIC_ASSERT(SCHED_STAGES == 3, "each has no job");
}

struct call *sched_member_any_call(const struct sched *sched, uint32_t program)
{
    uint32_t slot = CALL_NONE;
    for (uint32_t i = 0; i < sched->settings.engines && slot == CALL_NONE; i++) {
        slot = sched_member_at(&sched->engines[i], program)->first_call;
    }
    return sched_call_or_null(sched, slot);
}

bool sched_member_can_run(const struct sched_engine *engine, uint32_t program, uint32_t looks)
{
    const struct sched *sched = engine->sched;
    uint32_t first = sched_member_at(engine, program)->first_call;
    const struct call *call = sched_call_or_null(sched, first);
    for (; looks > 0 && call != NULL; looks--) {
        if (sched_call_can_run(call)) {
            return true;
        }
        call = sched_call_or_null(sched, call->program_next);
    }
    return false;
}

void sched_member_join(struct sched *sched, struct call *call)
{
    struct sched_member *member = sched_member_of(sched, call);
    call->program_prev = CALL_NONE;
    call->program_next = member->first_call;
    if (member->first_call != CALL_NONE) {
        sched_call(sched, member->first_call)->program_prev = call->slot;
    }
    member->first_call = call->slot;
    member->calls_count++;
    sched_engine_of(sched, call)->open_calls++;
}

void sched_member_leave(struct sched *sched, struct call *call)
{
    struct sched_member *member = sched_member_of(sched, call);
    ASSERT(member->calls_count > 0);
    if (call->program_prev != CALL_NONE) {
        sched_call(sched, call->program_prev)->program_next = call->program_next;
    } else {
        ASSERT(member->first_call == call->slot);
        member->first_call = call->program_next;
    }
    if (call->program_next != CALL_NONE) {
        sched_call(sched, call->program_next)->program_prev = call->program_prev;
    }
    call->program_next = call->program_prev = CALL_NONE;
    member->calls_count--;
    sched_engine_of(sched, call)->open_calls--;
}

uint32_t sched_program_blocks(const struct sched *sched, uint32_t program)
{
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        const struct sched_member *member = sched_member_at(&sched->engines[i], program);
        blocks += member->history_blocks + member->new_blocks;
    }
    return blocks;
}

bool sched_program_is_active(const struct sched *sched, uint32_t program)
{
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        if (sched_member_at(&sched->engines[i], program)->is_active) {
            return true;
        }
    }
    return false;
}

static uint32_t check_list(const struct sched_engine *engine, uint32_t program)
{
    const struct sched *sched = engine->sched;
    const struct sched_member *member = sched_member_at(engine, program);
    uint32_t count = 0, before = CALL_NONE;
    uint64_t new_blocks = 0;
    for (uint32_t i = member->first_call; i != CALL_NONE; i = sched_call(sched, i)->program_next) {
        const struct call *call = sched_call(sched, i);
        ASSERT(++count <= member->calls_count);
        ASSERT(call->program == program && call->engine == engine->index);
        ASSERT(call->program_prev == before);
        new_blocks += call->new_blocks;
        before = i;
    }
    ASSERT(count == member->calls_count);
    ASSERT(new_blocks == member->new_blocks);
    return count;
}

void sched_member_check(const struct sched_engine *engine)
{
    uint32_t calls = 0;
    for (uint32_t i = 0; i < engine->sched->settings.programs; i++) {
        ASSERT(engine->sched->programs[i].in_use || engine->members[i].calls_count == 0);
        calls += check_list(engine, i);
    }
    ASSERT(calls == engine->open_calls);
}
