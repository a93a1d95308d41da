/* SPDX-License-Identifier: MIT */
#include "config/workflow/workflow.h"

#include <string.h>

#include "config/base/assert.h"

static uint32_t instances_of(const struct workflow_limits *limits)
{
    ASSERT(limits->nodes <= WORKFLOW_NODES_MAX && limits->rows <= WORKFLOW_ROWS_MAX);
    return limits->rows * limits->nodes;
}

void workflow_table_plan_memory(struct memory_plan *plan, const struct workflow_limits *limits)
{
    const struct {
        const char *name;
        uint64_t of_each, size_bytes;
        enum memory_kind kind;
    } rows[] = {
        {"workflows", 1, sizeof(struct workflow), MEMORY_CORE},
        {"workflow nodes", limits->nodes, sizeof(struct workflow_node), MEMORY_CORE},
        {"workflow pieces", limits->pieces, sizeof(struct workflow_piece), MEMORY_CORE},
        {"workflow readers", limits->pieces, sizeof(uint32_t), MEMORY_CORE},
        {"workflow tokens", limits->tokens, sizeof(uint32_t), MEMORY_CORE},
        {"workflow rows", limits->rows, sizeof(struct workflow_row), MEMORY_CORE},
        {"workflow values", limits->value_tokens, sizeof(uint32_t), MEMORY_KEPT},
        {"workflow instances", instances_of(limits), sizeof(struct workflow_instance), MEMORY_CORE},
        {"workflow kept ends", instances_of(limits), sizeof(struct workflow_kept_end), MEMORY_KEPT},
        {"workflow ready", instances_of(limits), sizeof(struct heap_entry), MEMORY_CORE},
        {"workflow ready", instances_of(limits), sizeof(uint32_t), MEMORY_CORE},
    };
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memory_plan_add(plan, rows[i].kind, rows[i].name, limits->workflows * rows[i].of_each,
                        rows[i].size_bytes);
    }
}

/* The arrays of all workflows, of which the first gets the beginnings. */
static void take_arrays(struct workflow *first, const struct workflow_limits *limits,
                        struct heap *ready, struct arena *arena, struct arena *kept)
{
    uint64_t count = limits->workflows, instances = count * instances_of(limits);
    first->nodes = arena_take(arena, count * limits->nodes, sizeof(struct workflow_node));
    first->pieces = arena_take(arena, count * limits->pieces, sizeof(struct workflow_piece));
    first->readers = arena_take(arena, count * limits->pieces, sizeof(uint32_t));
    first->tokens = arena_take(arena, count * limits->tokens, sizeof(uint32_t));
    first->rows = arena_take(arena, count * limits->rows, sizeof(struct workflow_row));
    first->values = arena_take(kept, count * limits->value_tokens, sizeof(uint32_t));
    first->kept_ends = arena_take(kept, instances, sizeof(struct workflow_kept_end));
    first->instances = arena_take(arena, instances, sizeof(struct workflow_instance));
    ready->entries = arena_take(arena, instances, sizeof(struct heap_entry));
    ready->places = arena_take(arena, instances, sizeof(uint32_t));
}

void workflow_table_init(struct workflow_table *table, const struct workflow_limits *limits,
                         struct arena *arena, struct arena *kept)
{
    struct workflow first = {.connection = CALL_NONE, .key = CALL_NONE};
    struct heap ready = {0};
    uint64_t instances = instances_of(limits);
    table->limits = *limits;
    quota_init(&table->quota, limits->workflows);
    table->workflows = arena_take(arena, limits->workflows, sizeof(struct workflow));
    take_arrays(&first, limits, &ready, arena, kept);
    for (uint64_t i = 0; i < limits->workflows; i++) {
        struct workflow *flow = &table->workflows[i];
        *flow = first;
        flow->nodes += i * limits->nodes;
        flow->pieces += i * limits->pieces;
        flow->readers += i * limits->pieces;
        flow->tokens += i * limits->tokens;
        flow->rows += i * limits->rows;
        flow->rows_max = limits->rows;
        flow->values += i * limits->value_tokens;
        flow->instances += i * instances;
        flow->kept_ends += i * instances;
        heap_init_at(&flow->ready, (uint32_t)instances, ready.entries + i * instances,
                     ready.places + i * instances);
    }
}

/* Everything but the arrays and the generation begins anew. */
static void empty(struct workflow *flow, const struct workflow_limits *limits)
{
    const struct workflow old = *flow;
    *flow = (struct workflow){
        .generation = old.generation, .connection = CALL_NONE, .key = CALL_NONE,
        .gid = CALL_NONE, .calls_max = UINT32_MAX, .nodes = old.nodes,
        .pieces = old.pieces, .readers = old.readers, .tokens = old.tokens, .rows = old.rows,
        .rows_max = old.rows_max, .values = old.values,
        .instances = old.instances, .kept_ends = old.kept_ends, .ready = old.ready};
    for (uint32_t i = 0; i < limits->rows; i++) {
        flow->rows[i].state = WORKFLOW_ROW_FREE;
    }
}

static uint32_t find_free(const struct workflow_table *table)
{
    uint32_t index = 0;
    while (index < table->limits.workflows &&
           table->workflows[index].state != WORKFLOW_FREE) {
        index++;
    }
    return index < table->limits.workflows ? index : WORKFLOW_NONE;
}

bool workflow_take_slot(struct workflow_table *table, uint32_t index, uint64_t domain)
{
    struct workflow *flow = &table->workflows[index];
    uint32_t account = quota_account(domain);
    ASSERT(flow->state == WORKFLOW_FREE);
    if (quota_room(&table->quota, account) == 0) {
        return false;
    }
    empty(flow, &table->limits);
    flow->state = WORKFLOW_INTAKE;
    flow->domain = domain;
    flow->account = account;
    quota_take(&table->quota, account, 1);
    return true;
}

uint32_t workflow_take(struct workflow_table *table, uint64_t domain)
{
    uint32_t index = find_free(table);
    return index != WORKFLOW_NONE && workflow_take_slot(table, index, domain) ? index
                                                                              : WORKFLOW_NONE;
}

void workflow_release(struct workflow_table *table, uint32_t index)
{
    ASSERT(index < table->limits.workflows);
    struct workflow *flow = &table->workflows[index];
    ASSERT(flow->state == WORKFLOW_INTAKE || flow->state == WORKFLOW_DONE);
    ASSERT(flow->open_calls == 0 && flow->ready.count == 0);
    flow->state = WORKFLOW_FREE;
    flow->key = CALL_NONE;
    flow->generation++;
    quota_give(&table->quota, flow->account, 1);
}

uint32_t workflow_calls_of_key(const struct workflow_table *table, uint32_t key)
{
    uint32_t calls = 0;
    for (uint32_t i = 0; key != CALL_NONE && i < table->limits.workflows; i++) {
        const struct workflow *flow = &table->workflows[i];
        calls += flow->key == key ? flow->open_calls : 0;
    }
    return calls;
}
