/* SPDX-License-Identifier: MIT */
#include "config/base/exchange.h"

void exchange_plan_memory(struct memory_plan *plan, uint32_t commands, uint32_t calls)
{
    uint32_t capacity = ring_capacity_ceil(commands);
    memory_plan_add(plan, MEMORY_CORE, "exchange inbox", capacity, sizeof(struct command));
    memory_plan_add(plan, MEMORY_CORE, "exchange outbox", capacity, sizeof(struct answer));
    memory_plan_add(plan, MEMORY_CORE, "exchange emit", ring_capacity_ceil(calls),
                    sizeof(uint32_t));
}

void exchange_init(struct exchange *exchange, uint32_t commands, uint32_t calls,
                   struct arena *arena)
{
    uint32_t capacity = ring_capacity_ceil(commands);
    ring_init(&exchange->inbox_ring, capacity);
    exchange->inbox = arena_take(arena, capacity, sizeof(struct command));
    ring_init(&exchange->outbox_ring, capacity);
    exchange->outbox = arena_take(arena, capacity, sizeof(struct answer));
    ring_init(&exchange->emit_ring, ring_capacity_ceil(calls));
    exchange->emit = arena_take(arena, ring_capacity_ceil(calls), sizeof(uint32_t));
}

void exchange_command(struct exchange *exchange, const struct command *command)
{
    exchange->inbox[ring_push(&exchange->inbox_ring)] = *command;
}

void exchange_answer(struct exchange *exchange, const struct answer *answer)
{
    exchange->outbox[ring_push(&exchange->outbox_ring)] = *answer;
}

void exchange_emit(struct exchange *exchange, struct call *call)
{
    if (call->in_emit_ring) {
        return;
    }
    call->in_emit_ring = true;
    exchange->emit[ring_push(&exchange->emit_ring)] = call->slot;
}
