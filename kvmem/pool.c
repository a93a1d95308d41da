/* SPDX-License-Identifier: MIT */
/*
 * What: the pool of KV blocks and the block table of every call.
 *
 *   free     a stack of block numbers; block 0 is on top at boot
 *   table    (calls, blocks_per_call): the blocks of a call in order of position
 *   places   for each block the one place that names it: the inverse of the two above
 *
 * Invariants: every block is named exactly once, by the stack or by one table; places agrees. That
 * is block conservation, and kvmem_check() asserts it block by block without scratch memory.
 * Owner: sched reserves and releases; kvmem_bind() only reads.
 * Bounds: every verb is O(blocks moved); nothing is allocated after init.
 * Why not chain the blocks of a call: the kernels want the ids as one array, and so does the step
 * record; a copy is cheaper than a walk.
 */
#include "kvmem/kvmem.h"

#include <string.h>

#include "appliance/base/assert.h"

#define BLOCK_POISON UINT32_MAX     /* what a released entry of a table holds */

void kvmem_plan(struct plan *plan, uint32_t blocks, uint32_t calls, uint32_t blocks_per_call)
{
    plan_add(plan, TIER_CORE, "kv free blocks", blocks, sizeof(uint32_t));
    plan_add(plan, TIER_CORE, "kv block tables", calls,
             (uint64_t)blocks_per_call * sizeof(uint32_t));
    plan_add(plan, TIER_CORE, "kv block counts", calls, sizeof(uint32_t));
    plan_add(plan, TIER_CORE, "kv block places", blocks, sizeof(struct kvmem_place));
}

static uint32_t *table_of(const struct kvmem *kv, uint32_t call)
{
    ASSERT(call < kv->calls_count);
    return kv->table + (uint64_t)call * kv->blocks_per_call;
}

static void push_free(struct kvmem *kv, uint32_t block)
{
    ASSERT(block < kv->blocks_count);
    ASSERT(kv->free_count < kv->blocks_count);
    kv->places[block] = (struct kvmem_place){.call = CALL_NONE, .index = kv->free_count};
    kv->free[kv->free_count++] = block;
}

static uint32_t pop_free(struct kvmem *kv)
{
    ASSERT(kv->free_count > 0);
    uint32_t block = kv->free[--kv->free_count];
    ASSERT(kv->places[block].call == CALL_NONE);
    return block;
}

void kvmem_init(struct kvmem *kv, uint32_t blocks, uint32_t block_tokens, uint32_t calls,
                uint32_t blocks_per_call, struct arena *arena)
{
    ASSERT(blocks > 0 && blocks < CALL_NONE);
    ASSERT(block_tokens > 0);
    ASSERT(calls > 0 && blocks_per_call > 0);
    *kv = (struct kvmem){
        .blocks_count = blocks,
        .block_tokens = block_tokens,
        .calls_count = calls,
        .blocks_per_call = blocks_per_call,
        .free = arena_take(arena, blocks, sizeof(uint32_t)),
        .table = arena_take(arena, calls, (uint64_t)blocks_per_call * sizeof(uint32_t)),
        .table_count = arena_take(arena, calls, sizeof(uint32_t)),
        .places = arena_take(arena, blocks, sizeof(struct kvmem_place)),
    };
    for (uint32_t block = blocks; block > 0; block--) {
        push_free(kv, block - 1);
    }
}

uint32_t kvmem_free_blocks(const struct kvmem *kv)
{
    return kv->free_count;
}

uint32_t kvmem_call_blocks(const struct kvmem *kv, uint32_t call)
{
    ASSERT(call < kv->calls_count);
    return kv->table_count[call];
}

uint32_t kvmem_missing(const struct kvmem *kv, uint32_t call, uint32_t tokens)
{
    uint32_t needed = kvmem_blocks_ceil(tokens, kv->block_tokens);
    uint32_t owned = kvmem_call_blocks(kv, call);
    return needed > owned ? needed - owned : 0;
}

void kvmem_reserve(struct kvmem *kv, uint32_t call, uint32_t tokens)
{
    uint32_t missing = kvmem_missing(kv, call, tokens);
    uint32_t *table = table_of(kv, call);
    ASSERT(missing <= kv->free_count);
    ASSERT(kv->table_count[call] + missing <= kv->blocks_per_call);
    for (uint32_t i = 0; i < missing; i++) {
        uint32_t index = kv->table_count[call]++;
        table[index] = pop_free(kv);
        kv->places[table[index]] = (struct kvmem_place){.call = call, .index = index};
    }
}

void kvmem_release(struct kvmem *kv, uint32_t call)
{
    uint32_t *table = table_of(kv, call);
    while (kv->table_count[call] > 0) {
        uint32_t index = --kv->table_count[call];
        ASSERT(kv->places[table[index]].call == call);
        ASSERT(kv->places[table[index]].index == index);
        push_free(kv, table[index]);
        table[index] = BLOCK_POISON;
    }
}

void kvmem_bind(const struct kvmem *kv, const struct step *step)
{
    uint32_t rows_count = step_header(step)->rows_count;
    ASSERT(rows_count <= step->layout.rows_max);
    ASSERT(kv->blocks_per_call <= step->layout.blocks_per_call);
    for (uint32_t i = 0; i < rows_count; i++) {
        struct step_row *row = step_row(step, i);
        /* The last sampled token is not fed, so N decode steps write N - 1 positions. */
        uint32_t decoded = row->decode_steps > 0 ? row->decode_steps - 1 : 0;
        uint32_t positions = row->first_position + row->tokens_count + decoded;
        row->blocks_count = kvmem_blocks_ceil(positions, kv->block_tokens);
        ASSERT(row->blocks_count <= kvmem_call_blocks(kv, row->call));
        memcpy(step_blocks(step, i), table_of(kv, row->call),
               row->blocks_count * sizeof(uint32_t));
    }
}

void kvmem_check(const struct kvmem *kv)
{
    uint64_t owned = 0;
    for (uint32_t i = 0; i < kv->free_count; i++) {
        ASSERT(kv->free[i] < kv->blocks_count);
        ASSERT(kv->places[kv->free[i]].call == CALL_NONE);
        ASSERT(kv->places[kv->free[i]].index == i);
    }
    for (uint32_t call = 0; call < kv->calls_count; call++) {
        const uint32_t *table = table_of(kv, call);
        ASSERT(kv->table_count[call] <= kv->blocks_per_call);
        for (uint32_t i = 0; i < kv->table_count[call]; i++) {
            ASSERT(table[i] < kv->blocks_count);
            ASSERT(kv->places[table[i]].call == call);
            ASSERT(kv->places[table[i]].index == i);
        }
        owned += kv->table_count[call];
    }
    /* As many names as blocks, and no two names share a place: each block is named once. */
    ASSERT(owned + kv->free_count == kv->blocks_count);
}
