/* SPDX-License-Identifier: MIT */
/*
 * What: the open calls of all connections, by trust domain and the ids that clients choose. A call
 * is in the table from the moment its CALL frame is taken until its terminal frame is written or
 * its connection is gone. Until then a second CALL with the same ids is refused.
 *
 * How: a hash table with chains through call.emit.open_next and at least two heads for each slot.
 * The hash has a random key, new at each boot, so that clients cannot choose ids that collide.
 *
 * Bounds: O(1) expected; a chain is never longer than the calls.
 */
#include "net/open_calls.h"

#include <string.h>

#include "config/base/hash.h"

static uint32_t heads_count(const struct limits *limits)
{
    return ring_capacity_ceil(2 * limits->calls);
}

void net_open_plan_memory(struct memory_plan *plan, const struct limits *limits)
{
    memory_plan_add(plan, MEMORY_CORE, "net open calls", heads_count(limits), sizeof(uint32_t));
}

void net_open_init(struct net *net, struct arena *arena)
{
    uint32_t heads = heads_count(net->settings.limits);
    net->open_heads = arena_take(arena, heads, sizeof(uint32_t));
    net->open_mask = heads - 1;
    for (uint32_t i = 0; i < heads; i++) {
        net->open_heads[i] = CALL_NONE;
    }
    net->world->entropy(net->world->self, net->open_key, sizeof net->open_key);
}

uint64_t net_open_hash(const struct net *net, uint64_t domain, const uint8_t *program_id,
                       uint64_t call_id)
{
    return hash_call(net->open_key, hash_program(net->open_key, domain, program_id), call_id);
}

static uint32_t *head_of(const struct net *net, uint64_t domain, const uint8_t *program_id,
                         uint64_t call_id)
{
    return &net->open_heads[net_open_hash(net, domain, program_id, call_id) & net->open_mask];
}

uint32_t net_open_find(const struct net *net, uint64_t domain, const uint8_t *program_id,
                       uint64_t call_id)
{
    uint32_t at = *head_of(net, domain, program_id, call_id);
    while (at != CALL_NONE) {
        const struct call *call = &net->calls->calls[at];
        ASSERT(call->state != CALL_FREE);
        if (call->client_call_id == call_id && call->domain == domain &&
            memcmp(call->program_id, program_id, CALL_PROGRAM_ID_BYTES) == 0) {
            return at;
        }
        at = call->emit.open_next;
    }
    return CALL_NONE;
}

void net_open_insert(struct net *net, uint32_t call_index)
{
    struct call *call = &net->calls->calls[call_index];
    uint32_t *head = head_of(net, call->domain, call->program_id, call->client_call_id);
    VERIFY(net_open_find(net, call->domain, call->program_id, call->client_call_id) == CALL_NONE);
    call->emit.open_next = *head;
    *head = call_index;
}

void net_open_remove(struct net *net, uint32_t call_index)
{
    const struct call *call = &net->calls->calls[call_index];
    uint32_t *link = head_of(net, call->domain, call->program_id, call->client_call_id);
    while (*link != call_index) {
        ASSERT(*link != CALL_NONE);
        link = &net->calls->calls[*link].emit.open_next;
    }
    *link = call->emit.open_next;
}
