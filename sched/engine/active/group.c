/* SPDX-License-Identifier: MIT */
/*
 * What: groups of active programs whose contexts begin alike: with the same system prompt, say. The
 * blocks of that beginning are there once, so they count once, as long as one of the programs is
 * active. A group is named by the content of its last block: contents have a number that is never
 * given twice.
 *
 * Where beginnings branch, what comes before the branch counts once for each group: too much, by a
 * little. A program learns that its beginning is common when its next call comes.
 *
 * Invariants: a group has a program; there are no more groups than programs.
 * Bounds: a hash table with as many heads as programs: O(1) expected.
 */
#include "sched/engine/active/group.h"

#include "config/base/hash.h"
#include "config/base/ring.h"

void sched_group_plan_memory(struct memory_plan *plan, uint32_t programs)
{
    memory_plan_add(plan, MEMORY_CORE, "sched groups", programs, sizeof(struct sched_group));
    memory_plan_add(plan, MEMORY_CORE, "sched group hash", ring_capacity_ceil(programs),
                    sizeof(uint32_t));
}

void sched_group_init(struct sched_engine *engine, struct arena *arena)
{
    struct sched_active *active = &engine->active;
    uint32_t programs = engine->sched->settings.programs, count = ring_capacity_ceil(programs);
    active->groups = arena_take(arena, programs, sizeof *active->groups);
    active->group_hash = arena_take(arena, count, sizeof *active->group_hash);
    active->group_hash_mask = count - 1;
    for (uint32_t i = 0; i < count; i++) {
        active->group_hash[i] = SCHED_GROUP_NONE;
    }
    for (uint32_t i = 0; i < programs; i++) {
        active->groups[i].next = i + 1 < programs ? i + 1 : SCHED_GROUP_NONE;
    }
    active->group_free = 0;
}

static uint32_t *head_of(const struct sched_active *active, uint64_t identity)
{
    uint64_t hash = hash_fold(identity ^ HASH_START_A, HASH_START_B);
    return &active->group_hash[hash & active->group_hash_mask];
}

static uint32_t find(const struct sched_active *active, uint64_t identity)
{
    uint32_t index = *head_of(active, identity);
    while (index != SCHED_GROUP_NONE && active->groups[index].identity != identity) {
        index = active->groups[index].next;
    }
    return index;
}

static uint32_t begin(struct sched_active *active, uint64_t identity, uint32_t blocks)
{
    uint32_t index = active->group_free, *head = head_of(active, identity);
    ASSERT(index != SCHED_GROUP_NONE);
    active->group_free = active->groups[index].next;
    active->groups[index] =
        (struct sched_group){.identity = identity, .blocks = blocks, .next = *head};
    *head = index;
    active->common_blocks += blocks;
    return index;
}

void sched_group_leave(struct sched_engine *engine, struct sched_member *member)
{
    struct sched_active *active = &engine->active;
    uint32_t index = member->group;
    if (index == SCHED_GROUP_NONE) {
        return;
    }
    struct sched_group *group = &active->groups[index];
    member->group = SCHED_GROUP_NONE;
    if (--group->programs > 0) {
        return;
    }
    uint32_t *link = head_of(active, group->identity);
    while (*link != index) {
        link = &active->groups[*link].next;
    }
    *link = group->next;
    active->common_blocks -= group->blocks;
    group->next = active->group_free;
    active->group_free = index;
}

void sched_group_join(struct sched_engine *engine, struct sched_member *member)
{
    struct sched_active *active = &engine->active;
    uint32_t index = member->group;
    if (index != SCHED_GROUP_NONE && member->common_blocks > 0 &&
        active->groups[index].identity == member->common_identity) {
        return;
    }
    sched_group_leave(engine, member);
    if (member->common_blocks == 0) {
        return;
    }
    index = find(active, member->common_identity);
    if (index == SCHED_GROUP_NONE) {
        index = begin(active, member->common_identity, member->common_blocks);
    }
    active->groups[index].programs++;
    member->group = index;
}

uint32_t sched_group_missing(const struct sched_engine *engine, const struct sched_member *member)
{
    bool is_there = member->common_blocks > 0 &&
                    find(&engine->active, member->common_identity) != SCHED_GROUP_NONE;
    return is_there ? 0 : member->common_blocks;
}

void sched_group_check(const struct sched_engine *engine)
{
    const struct sched_active *active = &engine->active;
    uint32_t programs = 0, members = 0;
    uint64_t blocks = 0;
    for (uint32_t i = 0; i <= active->group_hash_mask; i++) {
        uint32_t at = active->group_hash[i];
        for (; at != SCHED_GROUP_NONE; at = active->groups[at].next) {
            ASSERT(active->groups[at].programs > 0);
            programs += active->groups[at].programs;
            blocks += active->groups[at].blocks;
        }
    }
    for (uint32_t i = 0; i < engine->sched->settings.programs; i++) {
        const struct sched_member *member = &engine->members[i];
        ASSERT(member->is_active || member->group == SCHED_GROUP_NONE);
        members += member->group != SCHED_GROUP_NONE;
    }
    ASSERT(programs == members && blocks == active->common_blocks);
}
