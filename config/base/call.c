/* SPDX-License-Identifier: MIT */
#include "config/base/call.h"

#include <string.h>

#include "config/base/assert.h"

void call_table_plan_memory(struct memory_plan *plan, uint32_t calls, uint32_t context_tokens)
{
    memory_plan_add(plan, MEMORY_CORE, "call slots", calls, sizeof(struct call));
    memory_plan_add(plan, MEMORY_CORE, "call free list", calls, sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_KEPT, "call tokens", calls, (uint64_t)context_tokens *
                    sizeof(uint32_t));
}

void call_table_init(struct call_table *table, uint32_t calls, uint32_t context_tokens,
                     struct arena *arena, struct arena *kept)
{
    ASSERT(calls > 0 && calls < CALL_NONE);
    ASSERT(context_tokens > 0);
    table->calls = arena_take(arena, calls, sizeof(struct call));
    table->free = arena_take(arena, calls, sizeof(uint32_t));
    uint32_t *tokens = arena_take(kept, calls, (uint64_t)context_tokens * sizeof(uint32_t));
    table->count = calls;
    table->free_count = calls;
    table->context_tokens = context_tokens;
    quota_init(&table->quota, calls);
    for (uint32_t i = 0; i < calls; i++) {
        table->calls[i].tokens = tokens + (uint64_t)i * context_tokens;
        table->calls[i].slot = i;
        table->calls[i].generation = 1;
        table->free[i] = calls - 1 - i;
    }
}

uint32_t call_room(const struct call_table *table, uint64_t domain)
{
    return quota_room(&table->quota, quota_account(domain));
}

static void occupy(struct call_table *table, uint32_t index, uint64_t domain)
{
    struct call *call = &table->calls[index];
    ASSERT(call->state == CALL_FREE);
    uint32_t *tokens = call->tokens;
    uint32_t generation = call->generation;
    memset(call, 0, sizeof *call);
    call->tokens = tokens;
    call->generation = generation;
    call->slot = index;
    call->state = CALL_INTAKE;
    call->domain = domain;
    call->account = quota_account(domain);
    quota_take(&table->quota, call->account, 1);
    call->connection = CALL_NONE;
    call->program = CALL_NONE;
    call->workflow = call->instance = CALL_NONE;
    call->program_next = call->program_prev = CALL_NONE;
    call->emit.conn_next = call->emit.conn_prev = CALL_NONE;
}

uint32_t call_take(struct call_table *table, uint64_t domain)
{
    if (call_room(table, domain) == 0) {
        return CALL_NONE;
    }
    ASSERT(table->free_count > 0);
    uint32_t index = table->free[--table->free_count];
    occupy(table, index, domain);
    return index;
}

/* Its place in the stack is where it was at boot, if slots are taken in order. */
void call_take_slot(struct call_table *table, uint32_t index, uint64_t domain)
{
    uint32_t at = table->count - 1 - index;
    ASSERT(call_room(table, domain) > 0);
    if (at >= table->free_count || table->free[at] != index) {
        for (at = 0; table->free[at] != index; at++) {
            ASSERT(at + 1 < table->free_count);
        }
    }
    table->free[at] = table->free[--table->free_count];
    occupy(table, index, domain);
}

bool call_add_stop_id(struct call *call, uint32_t token)
{
    struct call_sampling *sampling = &call->sampling;
    if (token == CALL_NONE) {
        return false;
    }
    for (uint32_t i = 0; i < sampling->stop_ids_count; i++) {
        if (sampling->stop_ids[i] == token) {
            return false;
        }
    }
    ASSERT(sampling->stop_ids_count < CALL_STOP_IDS_MAX);
    sampling->stop_ids[sampling->stop_ids_count++] = token;
    return true;
}

void call_release(struct call_table *table, uint32_t index)
{
    ASSERT(index < table->count);
    struct call *call = &table->calls[index];
    ASSERT(call->state == CALL_INTAKE || call->state == CALL_FINISHED);
    ASSERT(call->lists == 0);
    ASSERT(call->emit.conn_next == CALL_NONE && call->emit.conn_prev == CALL_NONE);
    ASSERT(!call->in_emit_ring);
    call->state = CALL_FREE;
    call->generation++;
    quota_give(&table->quota, call->account, 1);
    table->free[table->free_count++] = index;
    ASSERT(table->free_count <= table->count);
}

/* ---- log probabilities ----------------------------------------------------------------------- */

void call_logprobs_plan_memory(struct memory_plan *plan, uint32_t calls, uint32_t tokens,
                               uint32_t entries_max)
{
    memory_plan_add(plan, MEMORY_CORE, "call logprobs", calls,
                    (uint64_t)tokens * entries_max * sizeof(struct call_logprob));
}

void call_logprobs_init(struct call_table *table, uint32_t tokens, uint32_t entries_max,
                        struct arena *arena)
{
    table->logprobs.tokens = tokens;
    table->logprobs.entries_max = entries_max;
    table->logprobs.entries = arena_take(
        arena, table->count, (uint64_t)tokens * entries_max * sizeof(struct call_logprob));
}

struct call_logprob *call_logprobs_at(const struct call_table *table, const struct call *call,
                                      uint32_t index)
{
    const struct call_logprobs *all = &table->logprobs;
    uint32_t entries = call_logprob_entries(&call->sampling);
    ASSERT(all->tokens > 0 && entries <= all->entries_max);
    return all->entries + (uint64_t)call->slot * all->tokens * all->entries_max +
           (uint64_t)(index % all->tokens) * entries;
}
