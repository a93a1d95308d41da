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
 *   CACHED    both     yes     0            its shelf's    may be the target of one
 *   LEAVING   host     no      0            -              source of exactly one
 *   MIRROR    host     no      0            mirrors        -
 *
 * Name: which content it is: `fill` tokens, the index of the block in its call, and the identity of
 * the content before it. An identity is a number that is never used twice; a content that moves
 * to the other tier, or is computed again while it lies on the host, keeps its own. At index 0 the
 * salt takes the place of the content before. After a block of a declared prefix, which all domains
 * share, the salt and the number of the prefix do: a prefix has at most one block of each index, so
 * that names one content, too.
 *
 * The record is one cache line: a question touches it once for each block.
 */
#include "config/base/assert.h"
#include "kvmem/kvmem.h"

enum kvmem_state {
    KVMEM_FREE, KVMEM_PRIVATE, KVMEM_SHARED, KVMEM_CACHED, KVMEM_LEAVING, KVMEM_MIRROR,
};

#define KVMEM_BLOCK_TOKENS_MAX 4095u
#define KVMEM_CLUSTER              8u   /* neighbours on the device that calls try not to share */

struct kvmem_block {
    uint64_t identity;              /* of the content */
    uint64_t before;                /* identity of the content before it; at index 0 the salt */
    union {
        uint64_t used_us;           /* CACHED: when a call gave it up last */
        struct {                    /* PRIVATE, SHARED */
            uint32_t references;    /* entries of tables */
            uint32_t seen;          /* private: of these, those that kvmem_check() has found */
        };
    };
    enum kvmem_state state : 3;
    uint32_t declared : 4;          /* SHARED: number of the prefix that has it, from 1; 0: none */
    uint32_t fill : 12;             /* tokens of the name; 0: no name */
    uint32_t is_common : 1;         /* named: calls of several holders have found it */
    uint32_t begun : 12;            /* PRIVATE: tokens of the name that it had when its call took
                                       it over; it still begins with these */
    uint32_t index;                 /* of the block in its call */
    uint32_t hash;                  /* of the name */
    uint32_t chain_next;            /* in the hash table */
    uint32_t after;                 /* a hint: where a question looks first for what follows. What
                                       lies there counts only when its whole name is right, and as
                                       a copy source as far as it is right */
    uint32_t next, prev;            /* in a list of the tier */
    uint32_t move;                  /* number of the move that fills it, or KVMEM_BLOCK_NONE */
    uint32_t mirror;                /* the block of the other tier with the same bytes (mirror.c),
                                       or KVMEM_BLOCK_NONE */
    uint32_t shelf;                 /* named: whose content it is, and CACHED: whether a call waits
                                       for it (holder.c) */
};
STATIC_ASSERT(sizeof(struct kvmem_block) == ARENA_ALIGN_BYTES, "a cache line");

/* The lists of a holder's contents on a tier, oldest first. */
enum kvmem_shelf {
    KVMEM_REST,                     /* no waiting call has asked for them */
    KVMEM_ASKED,                    /* a waiting call has asked for them, or has owned them */
    KVMEM_LEFT,                     /* left by former holders of the number: others may find them */
    KVMEM_SHELVES,
};

struct kvmem_holder {
    uint64_t need;
    uint32_t account;
    bool is_protected;              /* its contents are needed more than their age says */
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
static inline uint32_t *kvmem_table_of(const struct kvmem *kv, uint32_t call)
{
    return kv->table + (uint64_t)call * kv->settings.blocks_per_call;
}

static inline uint32_t kvmem_shelves(const struct kvmem_settings *settings)
{
    return KVMEM_SHELVES * settings->holders;
}
static inline uint32_t kvmem_shelf_of(uint32_t holder, enum kvmem_shelf shelf)
{
    return KVMEM_SHELVES * holder + shelf;
}
static inline uint32_t kvmem_shelf_for(struct kvmem_use use)
{
    return kvmem_shelf_of(use.holder, use.is_asked ? KVMEM_ASKED : KVMEM_REST);
}
/* True when the content belongs to this holder; what a former holder has left belongs to none. */
static inline bool kvmem_is_of(const struct kvmem_block *block, uint32_t holder)
{
    return block->shelf / KVMEM_SHELVES == holder && block->shelf % KVMEM_SHELVES != KVMEM_LEFT;
}
/* The contents of the shelf on this tier, oldest first. */
static inline struct kvmem_list *kvmem_contents(const struct kvmem *kv,
                                                const struct kvmem_tier *tier, uint32_t shelf)
{
    ASSERT(shelf < kvmem_shelves(&kv->settings));
    return &tier->contents[shelf];
}
/* True when a call waits that has asked for its contents. */
static inline bool kvmem_is_wanted(const struct kvmem *kv, uint32_t shelf)
{
    return shelf % KVMEM_SHELVES == KVMEM_ASKED &&
           kv->holders[shelf / KVMEM_SHELVES].need >= KVMEM_WANTED;
}
static inline bool kvmem_is_protected(const struct kvmem *kv, uint32_t shelf)
{
    return shelf % KVMEM_SHELVES != KVMEM_LEFT &&
           kv->holders[shelf / KVMEM_SHELVES].is_protected;
}
/* The account in whose share the contents of the shelf count; what former holders have left counts
 * in none. */
static inline uint32_t kvmem_account_of(const struct kvmem *kv, uint32_t shelf)
{
    return shelf % KVMEM_SHELVES == KVMEM_LEFT ? QUOTA_ACCOUNT_NONE
                                               : kv->holders[shelf / KVMEM_SHELVES].account;
}
/* The need of a content of this shelf, raised while its account is within its minimum. */
static inline uint64_t kvmem_need_within(const struct kvmem *kv, const struct kvmem_tier *tier,
                                         uint32_t shelf, uint64_t need)
{
    uint32_t its = kvmem_account_of(kv, shelf);
    bool is_within = its != QUOTA_ACCOUNT_NONE && tier->shares[its].is_within;
    return kv->has_shares ? (uint64_t)is_within << 63 | need >> 1 : need;
}
/* How much a content of this shelf and age is needed on this tier. What a protected holder has left
 * stays on the device, where its next call expects it. On the host it goes by age: it has left the
 * device because others were younger, and what calls wait for is dearer. */
static inline uint64_t kvmem_need_of(const struct kvmem *kv, const struct kvmem_tier *tier,
                                     uint32_t shelf, uint64_t used_us)
{
    const struct kvmem_holder *holder = &kv->holders[shelf / KVMEM_SHELVES];
    if (kvmem_is_wanted(kv, shelf)) {
        return kvmem_need_within(kv, tier, shelf, holder->need);
    }
    ASSERT(used_us < KVMEM_PROTECTED - KVMEM_WANTED);
    bool is_protected = kvmem_is_protected(kv, shelf) && tier == &kv->device;
    return kvmem_need_within(kv, tier, shelf, is_protected ? KVMEM_PROTECTED | used_us : used_us);
}

/* `block` follows block `before` (NONE: none): worth a first look next time. A block that all
 * domains share remembers no follower: that would reveal that others were there. */
static inline void kvmem_remember_after(struct kvmem *kv, uint32_t before, uint32_t block)
{
    if (before != KVMEM_BLOCK_NONE && kv->blocks[before].declared == 0) {
        kv->blocks[before].after = block;
    }
}

/* True when contents with such a use are kept: a call waits for them, or retention is on. Notes the
 * time. */
bool kvmem_is_kept(struct kvmem *kv, struct kvmem_use use);

/* name.c: the hash table. A name is hashed when it is looked for, its tokens once each. */
void kvmem_name_init(struct kvmem *kv);
/* The name of no token yet, under this salt, after this block, which is full; NONE: at index 0. */
struct kvmem_name kvmem_name_begin(const struct kvmem *kv, uint64_t salt, uint32_t before);
/* True when a block of a declared prefix may lie there: all blocks before it are of one. */
bool kvmem_name_may_be_declared(const struct kvmem *kv, uint64_t salt, uint32_t before);
/* The name of no token yet, there, of a declared prefix. */
struct kvmem_name kvmem_name_begin_declared(const struct kvmem *kv, uint32_t before);
/* The block of a declared prefix that lies there and has these block_tokens tokens, or
 * KVMEM_BLOCK_NONE. */
uint32_t kvmem_name_find_declared(const struct kvmem *kv, uint64_t salt, uint32_t before,
                                  const uint32_t *tokens);
/* The name with the next `count` of its tokens. */
static inline void kvmem_name_extend(struct kvmem_name *name, const uint32_t *tokens,
                                     uint32_t count)
{
    if (name->fill == 0) {
        name->tokens = tokens;
    }
    ASSERT(tokens == name->tokens + name->fill);
    name->fill += count;
}
uint32_t kvmem_name_hash(const struct kvmem *kv, struct kvmem_name *name);
/* Number of leading tokens of this name whose KV the block holds. */
uint32_t kvmem_name_common(const struct kvmem *kv, const struct kvmem_name *name, uint32_t block);
/* True when the block has this name. */
bool kvmem_name_is_of(const struct kvmem *kv, const struct kvmem_name *name, uint32_t block);
/* The block that has this name, on either tier, or KVMEM_BLOCK_NONE. */
uint32_t kvmem_name_find(const struct kvmem *kv, struct kvmem_name *name);
/* Of the blocks that have a name of the first tokens, fewer than `below`: that of the longest. */
uint32_t kvmem_name_find_longest(const struct kvmem *kv, struct kvmem_name *name,
                                 const uint32_t *tokens, uint32_t below);
struct kvmem_name kvmem_name_of(const struct kvmem *kv, uint32_t block);
/* Names the block of the device. `copy` is the block of the host that has this name, and loses it;
 * or KVMEM_BLOCK_NONE. */
void kvmem_name_set(struct kvmem *kv, uint32_t block, struct kvmem_name *name, uint32_t copy);
void kvmem_name_clear(struct kvmem *kv, uint32_t block);
/* The content moves on: `to` takes the name of `from`. */
void kvmem_name_pass(struct kvmem *kv, uint32_t from, uint32_t to);

/* share.c: the minimums of accounts. */
/* True when the content of the device is not evicted for calls of this account: it is within the
 * minimum of another one. */
bool kvmem_share_withholds(const struct kvmem *kv, uint32_t block, uint32_t account);
/* The content of the device that is next to go for a call of this account, or KVMEM_BLOCK_NONE. */
uint32_t kvmem_share_least(const struct kvmem *kv, uint32_t account);
void kvmem_share_reset(struct kvmem_tier *tier);
void kvmem_share_check(const struct kvmem *kv, const struct kvmem_tier *tier);

/* mirror.c: the bytes of a full block of the device that are still on the host. */
/* The full block of the device and this one of the host, in no list, have the same bytes. */
void kvmem_mirror_begin(struct kvmem *kv, uint32_t device, uint32_t host);
/* The host's block, LEAVING, has been read: a MIRROR, or FREE where it has no mirror. */
void kvmem_mirror_read(struct kvmem *kv, uint32_t host);
/* The content of the block of the device is gone for good, and its mirror's with it, if any. */
void kvmem_mirror_forget(struct kvmem *kv, uint32_t device);
/* The content of the block of the device, which is in no list, is CACHED in its mirror instead, and
 * no move is needed. False: it has no mirror on the host. */
bool kvmem_mirror_return(struct kvmem *kv, uint32_t device);
/* The oldest MIRROR is given up: it is in no list and holds nothing. KVMEM_BLOCK_NONE: there is
 * none. */
uint32_t kvmem_mirror_give_up(struct kvmem *kv);

/* move.c: the moves of the step. */
/* Between the tiers. */
void kvmem_move_add(struct kvmem *kv, uint32_t from, uint32_t to);
/* On the device. There is room for it: copies_count < settings.calls. */
void kvmem_move_copy(struct kvmem *kv, uint32_t from, uint32_t to);
/* The move of this number (block.move). */
const struct step_move *kvmem_move_at(const struct kvmem *kv, uint32_t number);
/* The move that fills this block, if there is one, is not needed: the content is gone. */
void kvmem_move_cancel(struct kvmem *kv, uint32_t to);
/* Content on the device that is not there yet: what is to come from the host stays there, what is
 * to be copied is forgotten. */
void kvmem_move_undo(struct kvmem *kv, uint32_t block);

/* room.c: which content has to go. */
/* A CACHED block loses its content for good; it is in no list then. */
void kvmem_room_free(struct kvmem *kv, uint32_t block);
/* The same, for want of room or time: it counts as dropped. */
void kvmem_room_forget(struct kvmem *kv, uint32_t block);
/* A CACHED block of the device loses its content, to the host if there is room; in no list then. */
void kvmem_room_evict(struct kvmem *kv, uint32_t block);
/* So many blocks are free at least. Contents go end first, so a call that takes its blocks one by
 * one would get each cluster backwards. kvmem_available() allows it. */
void kvmem_room_make(struct kvmem *kv, uint32_t account, uint32_t blocks);
/* A device block without content, in no list, for a call of this account, whose last block is
 * `before`, or KVMEM_BLOCK_NONE. There is one: kvmem_available() > 0. */
uint32_t kvmem_room_take(struct kvmem *kv, uint32_t account, uint32_t before);
