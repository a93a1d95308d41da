/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the record of one block, and what the files of this folder do for each other. Only kvmem/
 * includes this (and its tests).
 *
 *   state     tier     named   references   in a list      moves of the step
 *   FREE      both     no      0            free           may be the target of a void one
 *   PRIVATE   device   no      1            -              may be the target of one
 *   SHARED    device   full    >= 1         -              may be the target of one
 *   CACHED    both     yes     0            cached[rank]   may be the target of one
 *   PINNED    host     yes     1            -              -
 *   LEAVING   host     no      0            -              source of exactly one
 *
 * Name: what the content is of: fill tokens, the index of the block in its call, and the identity
 * of the content before it. An identity is a number that is never given twice; copies of the same
 * content on both tiers carry the same one. At index 0 the salt stands for the content before.
 * Behind a block of a declared prefix, which is everybody's, the salt and the number of the prefix
 * do: a prefix has one block of each index at most, so that names one content, too.
 *
 * The record is one cache line: a claim touches it once for each block.
 */
#include "config/base/assert.h"
#include "kvmem/kvmem.h"

enum kvmem_state {
    KVMEM_FREE, KVMEM_PRIVATE, KVMEM_SHARED, KVMEM_CACHED, KVMEM_PINNED, KVMEM_LEAVING,
};

#define KVMEM_BLOCK_TOKENS_MAX 4095u

struct kvmem_block {
    uint64_t identity;              /* of the content */
    uint64_t before;                /* identity of the content before it; at index 0 the salt */
    uint64_t used_us;               /* when a call gave it up last */
    enum kvmem_state state : 3;
    enum kvmem_rank rank : 1;
    uint32_t declared : 4;          /* SHARED: number of the prefix that has it, from 1; 0: none */
    uint32_t fill : 12;             /* tokens of the name; 0: no name */
    uint32_t begun : 12;            /* PRIVATE: tokens of the name that it had when its call took
                                       it over; it still begins with these */
    uint32_t index;                 /* of the block in its call */
    uint32_t references;            /* entries of tables */
    uint32_t hash;                  /* of the name */
    uint32_t chain_next;            /* in the hash table */
    uint32_t after;                 /* where a claim looks first for what follows; any number: what
                                       lies there counts only when its whole name is right, and for
                                       a loan as far as it is */
    uint32_t next, prev;            /* in a list of the tier */
    uint32_t move;                  /* number of the move that fills it, or KVMEM_BLOCK_NONE */
    uint32_t seen;                  /* private: references that kvmem_check() has found */
};
STATIC_ASSERT(sizeof(struct kvmem_block) == ARENA_ALIGN_BYTES, "a cache line");

struct kvmem_call {
    uint64_t salt;                  /* of the claim */
    uint32_t count;                 /* entries of its table */
    uint32_t pins;                  /* of these on the host */
    bool claimed;
    uint32_t kept_positions;        /* that it gave up last; 0: none */
    uint64_t kept_before;           /* identity before the block in which they end */
};

#define KVMEM_NAME_KEYS 4           /* of the hash, besides one for each token of a block */

struct kvmem_name {
    uint64_t before;
    uint32_t index, fill;
    const uint32_t *tokens;         /* [fill] */
    /* private: only name.c */
    uint64_t sum;                   /* the hash is its upper half */
    uint32_t summed;                /* of the tokens, how many are in the sum */
};

static inline bool kvmem_is_host(const struct kvmem *kv, uint32_t block)
{
    return block >= kv->host.first;
}
static inline uint32_t kvmem_calls_count(const struct kvmem_settings *settings)
{
    return settings->calls + settings->prefixes;
}
static inline uint32_t *kvmem_table_of(const struct kvmem *kv, uint32_t call)
{
    return kv->table + (uint64_t)call * kv->settings.blocks_per_call;
}

/* name.c: the hash table. A name is hashed when it is looked for, its tokens once each. */
void kvmem_name_init(struct kvmem *kv);
/* The name of no token yet, behind the first `index` blocks of the call. */
struct kvmem_name kvmem_name_begin(const struct kvmem *kv, uint32_t call, uint32_t index);
/* May a block of a declared prefix lie there? Those before it are of one. */
bool kvmem_name_may_be_declared(const struct kvmem *kv, uint32_t call, uint32_t index);
/* The name of no token yet, there, of a declared prefix. */
struct kvmem_name kvmem_name_begin_declared(const struct kvmem *kv, uint32_t call, uint32_t index);
/* The name with the next `count` of its tokens. */
void kvmem_name_extend(struct kvmem_name *name, const uint32_t *tokens, uint32_t count);
uint32_t kvmem_name_hash(const struct kvmem *kv, struct kvmem_name *name);
/* Of how many tokens of this name has the block the KV, at its beginning? */
uint32_t kvmem_name_common(const struct kvmem *kv, const struct kvmem_name *name, uint32_t block);
/* Has the block this name? */
bool kvmem_name_is_of(const struct kvmem *kv, const struct kvmem_name *name, uint32_t block);
/* The block of the tier that holds this content, or KVMEM_BLOCK_NONE. */
uint32_t kvmem_name_find(const struct kvmem *kv, struct kvmem_name *name,
                         const struct kvmem_tier *tier);
/* The same on the device, or else on the host. */
uint32_t kvmem_name_find_any(const struct kvmem *kv, struct kvmem_name *name);
struct kvmem_name kvmem_name_of(const struct kvmem *kv, uint32_t block);
/* Names the block, with the identity of a copy on the host if there is one; returns that copy. */
uint32_t kvmem_name_set(struct kvmem *kv, uint32_t block, struct kvmem_name *name);
void kvmem_name_clear(struct kvmem *kv, uint32_t block);
/* The content moves on: `to` takes name, rank and age of `from`. */
void kvmem_name_pass(struct kvmem *kv, uint32_t from, uint32_t to);

/* tier.c: who is free, who is cached, who has to go. */
/* An unnamed block in no list becomes FREE. */
void kvmem_tier_release(struct kvmem *kv, uint32_t block);
/* A named block in no list becomes CACHED, in its place by rank and age. */
void kvmem_tier_cache(struct kvmem *kv, uint32_t block);
void kvmem_tier_uncache(struct kvmem *kv, uint32_t block);
/* One more table holds this full block of the device, CACHED or SHARED. */
void kvmem_tier_share(struct kvmem *kv, uint32_t block);
/* A CACHED block loses its content for good; it is in no list then. */
void kvmem_tier_forget(struct kvmem *kv, uint32_t block);
/* A CACHED block of the device loses its content, to the host if there is room; in no list then. */
void kvmem_tier_evict(struct kvmem *kv, uint32_t block);
/* A device block without content, in no list. There is one: kvmem_available() > 0. */
uint32_t kvmem_tier_take(struct kvmem *kv);

/* loan.c: the beginning of a block that is another's. */
/* What a claim that ends here finds of its next `count` tokens; returns positions. */
uint32_t kvmem_loan_find(struct kvmem *kv, uint32_t call, const uint32_t *tokens, uint32_t count);
/* The call, if it has a loan, gets it in this block of its own. */
void kvmem_loan_use(struct kvmem *kv, uint32_t call, uint32_t to);
/* The call will not use its loan, if it has one. Returns the positions that it does not have. */
uint32_t kvmem_loan_return(struct kvmem *kv, uint32_t call);

/* move.c: the moves of the step. */
/* Between the tiers. */
void kvmem_move_add(struct kvmem *kv, uint32_t from, uint32_t to);
/* On the device. There is room for it: copies_count < settings.calls. */
void kvmem_move_copy(struct kvmem *kv, uint32_t from, uint32_t to);
/* The move of this number (block.move). */
const struct step_move *kvmem_move_at(const struct kvmem *kv, uint32_t number);
/* The move that fills this block is not needed: its block's content is gone. */
void kvmem_move_cancel(struct kvmem *kv, uint32_t to);
/* Content on the device that is not there yet: what is to come from the host stays there, what is
 * to be copied is forgotten. */
void kvmem_move_undo(struct kvmem *kv, uint32_t block);
