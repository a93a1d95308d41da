/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: which call owns which KV block. A block is block_tokens positions of every layer, one
 * contiguous extent in the engine's memory; here it is a number. The bytes are the engine's.
 *
 * Invariants (kvmem_check): free + owned = total; each block has exactly one owner; the free
 * stack and the tables agree. All operations are O(blocks moved).
 */
#include <stdbool.h>
#include <stdint.h>

#include "appliance/base/arena.h"
#include "appliance/base/step.h"

struct kvmem_place {                /* where a block is: the inverse of the tables and the stack */
    uint32_t call;                  /* its owner, or CALL_NONE: free */
    uint32_t index;                 /* in the owner's table, or in the stack of free blocks */
};

struct kvmem {
    uint32_t blocks_count;
    uint32_t block_tokens;
    uint32_t calls_count;
    uint32_t blocks_per_call;
    /* private: only pool.c */
    uint32_t free_count;
    uint32_t *free;                 /* stack of free blocks */
    uint32_t *table;                /* (calls, blocks_per_call) */
    uint32_t *table_count;          /* (calls) */
    struct kvmem_place *places;     /* (blocks) */
};

/* Blocks that hold `tokens` positions. */
static inline uint32_t kvmem_blocks_ceil(uint32_t tokens, uint32_t block_tokens)
{
    return tokens / block_tokens + (tokens % block_tokens != 0);
}

void kvmem_plan(struct plan *plan, uint32_t blocks, uint32_t calls, uint32_t blocks_per_call);
void kvmem_init(struct kvmem *kv, uint32_t blocks, uint32_t block_tokens, uint32_t calls,
                uint32_t blocks_per_call, struct arena *arena);

uint32_t kvmem_free_blocks(const struct kvmem *kv);
uint32_t kvmem_call_blocks(const struct kvmem *kv, uint32_t call);
/* Blocks that the call still lacks to hold `tokens` positions. Changes nothing. */
uint32_t kvmem_missing(const struct kvmem *kv, uint32_t call, uint32_t tokens);
/* Grows the call's table to hold `tokens` positions. The caller has checked that
 * kvmem_missing() <= kvmem_free_blocks(). */
void kvmem_reserve(struct kvmem *kv, uint32_t call, uint32_t tokens);
/* All blocks of the call go back. Free when it has none. */
void kvmem_release(struct kvmem *kv, uint32_t call);
/* Stage 3 of the pipeline: writes the block ids of each row of the plan into the step record, and
 * how many the row needs. */
void kvmem_bind(const struct kvmem *kv, const struct step *step);
/* Asserts every invariant; O(blocks). */
void kvmem_check(const struct kvmem *kv);
