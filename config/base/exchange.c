/* SPDX-License-Identifier: MIT */
#include "config/base/exchange.h"

#include <string.h>

void exchange_plan_memory(struct memory_plan *plan, const struct exchange_counts *counts)
{
    uint32_t capacity = ring_capacity_ceil(counts->commands);
    memory_plan_add(plan, MEMORY_CORE, "exchange inbox", capacity, sizeof(struct command));
    memory_plan_add(plan, MEMORY_CORE, "exchange outbox", capacity, sizeof(struct answer));
    memory_plan_add(plan, MEMORY_CORE, "exchange emit", ring_capacity_ceil(counts->calls),
                    sizeof(uint32_t));
    capacity = ring_capacity_ceil(counts->workflows);
    memory_plan_add(plan, MEMORY_CORE, "exchange news", capacity, sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "exchange news", capacity, sizeof(bool));
}

void exchange_init(struct exchange *exchange, const struct exchange_counts *counts,
                   struct arena *arena)
{
    uint32_t capacity = ring_capacity_ceil(counts->commands);
    ring_init(&exchange->inbox_ring, capacity);
    exchange->inbox = arena_take(arena, capacity, sizeof(struct command));
    ring_init(&exchange->outbox_ring, capacity);
    exchange->outbox = arena_take(arena, capacity, sizeof(struct answer));
    ring_init(&exchange->emit_ring, ring_capacity_ceil(counts->calls));
    exchange->emit = arena_take(arena, ring_capacity_ceil(counts->calls), sizeof(uint32_t));
    capacity = ring_capacity_ceil(counts->workflows);
    ring_init(&exchange->news_ring, capacity);
    exchange->news = arena_take(arena, capacity, sizeof(uint32_t));
    exchange->is_news = arena_take(arena, capacity, sizeof(bool));
    memset(exchange->is_news, 0, capacity * sizeof(bool));
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

void exchange_workflow_news(struct exchange *exchange, uint32_t workflow)
{
    ASSERT(workflow < exchange->news_ring.capacity);
    if (!exchange->is_news[workflow]) {
        exchange->is_news[workflow] = true;
        exchange->news[ring_push(&exchange->news_ring)] = workflow;
    }
}

uint32_t exchange_workflow_news_pop(struct exchange *exchange)
{
    uint32_t workflow = exchange->news[ring_pop(&exchange->news_ring)];
    exchange->is_news[workflow] = false;
    return workflow;
}
