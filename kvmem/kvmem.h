/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: which call owns which KV block, what the KV blocks hold that no call owns, and which bytes
 * have to move. A KV block ("block" in this folder) is block_tokens positions of every layer. Here
 * it is a number. The bytes are the engine's.
 *
 *   0 .. device_blocks - 1                  the device tier: the engine computes in these
 *   the next aside_blocks                   set aside: not ours
 *   the next host_blocks                    the host tier: keeps KV, is never computed in
 *
 *             commit                settle: a full block gets its content's name
 *     FREE ------------> PRIVATE ------------------------------> SHARED (references >= 1)
 *      ^   (may evict)      | keep                                  | keep, the last reference
 *      |                    v                                       v
 *      +--- dropped ---- CACHED on the device --evict, a move--> CACHED on the host
 *                           | commit                                | commit: a move back; a full
 *                           +-------> SHARED or PRIVATE again <-----+ block stays there, a MIRROR
 *
 * Ask, then commit (docs/decisions/0043). kvmem_ask() changes nothing: it tells which KV there is
 * for a call. kvmem_fits() tells whether there is room for the rest. Then exactly one act follows:
 * kvmem_commit() gives the call its blocks and cannot fail; or kvmem_touch() or kvmem_forget() says
 * what becomes of the contents that the answer found.
 *
 * One mechanism serves four needs (docs/decisions/0005): calls with the same beginning share full
 * blocks; a preempted call finds its blocks again, on the device or on the host; a program's next
 * call finds its history (retention); what is found nowhere is recomputed from the call's tokens.
 *
 * Content: a full block is named by (salt, all tokens up to its end). A keyed hash finds it; a hit
 * counts only when its own tokens and the identity of its predecessor are equal. The salt
 * keeps trust domains apart. A block that is not full when its call gives it up is kept too, and
 * a call that continues exactly its tokens takes it over whole. A shared block is never written:
 * the position that a call computes next always lies in a block of its own. Where a call's tokens
 * diverge in the middle of a block, the call gets a block of its own that begins with a copy of
 * their common part: copy on write. The block that is copied from is the copy source.
 *
 * A declared prefix is a call, too, numbered after the others. It is never scheduled and never
 * gives up its blocks. Their contents have a salt of their own, and every call finds them. What
 * a call adds after them is named by its own salt again (docs/decisions/0030).
 *
 * Invariants (kvmem_check): each block is in exactly one state and named accordingly; a name has
 * one block at most, on one tier, and that block has one mirror at most; references equal the
 * tables that hold the block; a host block is in no table; no block is the target of two moves of
 * one step, and no host block is both source and target. Nothing that was computed in a step counts
 * before that step is settled.
 * Cost: ask O(blocks found + block_tokens * blocks compared), everything else O(blocks touched).
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/assert.h"
#include "config/base/quota.h"
#include "config/base/step.h"
#include "config/config.h"
#include "kvmem/question.h"
#include "kvmem/state.h"

#define KVMEM_BLOCK_NONE UINT32_MAX

#define KVMEM_SAVED_US   UINT64_C(600000000)    /* wanted contents are forgotten after this time */
#define KVMEM_WANTED     (UINT64_C(1) << 63)    /* the least need of a holder with waiting calls */
#define KVMEM_PROTECTED  (KVMEM_WANTED | UINT64_C(1) << 61)     /* the need of what a protected
                                                   holder has left; its age, below 2^61, is added
                                                   to that */
#define KVMEM_EXPIRE_MAX 1024       /* contents that one kvmem_expire() moves or forgets */

#define KVMEM_PREFIXES_MAX 8        /* declared ones */
/* Salts of calls are below twice this bit. A call whose salt has it finds no declared prefix. */
#define KVMEM_SALT_ALONE    (UINT64_C(1) << 59)
#define KVMEM_SALT_DECLARED UINT64_MAX      /* that of declared prefixes */

struct kvmem_settings {
    uint32_t device_blocks;
    uint32_t aside_blocks;          /* of the device after these: another user's, in no tier */
    uint32_t free_blocks;           /* where fewer are free, contents may go early (room.c) */
    uint32_t host_blocks;           /* 0: no host tier; what leaves the device is recomputed */
    uint32_t block_tokens;
    uint32_t calls, blocks_per_call;
    uint32_t holders;               /* they have the numbers 0 .. holders - 1 */
    uint32_t prefixes;              /* declared ones: calls number calls .. calls + prefixes - 1 */
    uint64_t hash_key;              /* seeds the keys of the hash: a secret of this boot, or clients
                                       could choose tokens that all hash alike */
    /* Contents that no waiting call has asked for, by their age since they were given up; device <=
     * host <= drop. */
    uint64_t retain_device_us;      /* from this age they leave the device for the host, if any */
    uint64_t retain_host_us;        /* from this age they are not moved to make room, but dropped,
                                       so no call waits for the move; on the host they stay */
    uint64_t retain_drop_us;        /* from this age they are forgotten, wherever they are; 0: they
                                       are not kept at all. A need for room overrides all three */
};

/* A use of a content: it becomes the holder's most recently used one. */
struct kvmem_use {
    uint32_t holder;
    bool is_asked;                  /* a waiting call, preempted or new, has asked for it */
    uint64_t now_us;
};

struct kvmem_counters {             /* since boot */
    uint64_t found_tokens;          /* positions that questions have found, committed or not */
    uint64_t asked_tokens;          /* positions that they were about */
    uint64_t out_blocks, in_blocks; /* moved device -> host, host -> device */
    uint64_t returned_blocks;       /* left the device without a move: they had a mirror */
    uint64_t out_moves, in_moves;   /* steps with at least one such move: bulk transfers */
    uint64_t copied_blocks;         /* device -> device: for beginnings of blocks */
    uint64_t dropped_blocks;        /* contents lost for lack of room, or for their age */
};

struct kvmem_block;                 /* kvmem/block.h; so is the holder */
struct kvmem {
    struct kvmem_settings settings;
    uint32_t blocks_count;          /* of both tiers */
    struct kvmem_counters counters;
    /* private: only kvmem/ */
    struct kvmem_block *blocks;     /* [blocks_count] */
    uint32_t *tokens;               /* (blocks_count, block_tokens) of the contents */
    struct kvmem_call *calls;       /* [settings.calls + settings.prefixes] */
    uint32_t *table;                /* (calls + prefixes, blocks_per_call) */
    uint8_t *cluster_free;          /* [device_blocks / KVMEM_CLUSTER + 1]: free blocks of each */
    uint32_t *hash;                 /* [hash_mask + 1] heads of chains of named blocks */
    uint32_t hash_mask;
    uint64_t *hash_keys;            /* [KVMEM_NAME_KEYS + settings.block_tokens] */
    struct step_move *moves;        /* [moves_max]: of the step that is being planned or runs */
    uint32_t moves_count, moves_max;
    struct step_move *copies;       /* [settings.calls]: of the same step, within the device */
    uint32_t copies_count;
    bool bound;                     /* the moves are in a step's record: they cannot be undone */
    uint64_t version;               /* counts how often a block has lost its name */
    uint64_t next_identity;
    uint32_t declared_count;        /* blocks of declared prefixes */
    uint64_t now_us;                /* the latest time that a caller has given */
    struct kvmem_tier device, host;
    struct kvmem_holder *holders;   /* [settings.holders] */
    bool has_shares;                /* an account has a minimum */
};

static inline uint32_t kvmem_blocks_ceil(uint32_t tokens, uint32_t block_tokens)
{
    return tokens / block_tokens + (tokens % block_tokens != 0);
}

/* The most moves of one step: each device block is left once and filled once. */
static inline uint32_t kvmem_moves_max(uint32_t device_blocks)
{
    return 2 * device_blocks + 64;
}

/* BOOT_ONLY. Fills everything that follows from the limits; the caller adds hash_key. */
void kvmem_settings_fill(struct kvmem_settings *settings, const struct limits *limits);
void kvmem_plan_memory(struct memory_plan *plan, const struct kvmem_settings *settings);
void kvmem_init(struct kvmem *kv, const struct kvmem_settings *settings, struct arena *arena);

/* Device blocks that hold nothing. */
static inline uint32_t kvmem_free(const struct kvmem *kv)
{
    return kv->device.free.count + kv->device.whole.count;
}
/* Device blocks that kvmem_commit() can hand out now: free and cached ones. */
static inline uint32_t kvmem_available(const struct kvmem *kv)
{
    return kvmem_free(kv) + kv->device.cached_count[false] + kv->device.cached_count[true];
}
/* Device blocks that kvmem_commit() can hand out and no waiting call has asked for. */
static inline uint32_t kvmem_spare(const struct kvmem *kv)
{
    return kvmem_free(kv) + kv->device.cached_count[false];
}
/* How many contents the holder has on each tier. O(1). */
struct kvmem_held {
    uint32_t device, host;
};
struct kvmem_held kvmem_held(const struct kvmem *kv, uint32_t holder);
/* Device blocks that calls and declared prefixes own. */
uint32_t kvmem_owned(const struct kvmem *kv);
/* Device blocks of declared prefixes that are there to be found. */
static inline uint32_t kvmem_declared(const struct kvmem *kv)
{
    return kv->declared_count;
}
/* Host blocks that hold what the device does not, or are read by a move of the step. */
uint32_t kvmem_host_used(const struct kvmem *kv);
/* Host blocks that hold what a block of the device holds, too. */
static inline uint32_t kvmem_host_mirrors(const struct kvmem *kv)
{
    return kv->host.mirrors.count;
}
/* How many calls there are, declared prefixes included, which are numbered after the others. */
static inline uint32_t kvmem_calls_count(const struct kvmem_settings *settings)
{
    return settings->calls + settings->prefixes;
}
/* Blocks that the call owns. */
static inline uint32_t kvmem_call_blocks(const struct kvmem *kv, uint32_t call)
{
    ASSERT(call < kvmem_calls_count(&kv->settings));
    return kv->calls[call].count;
}
/* How many of the call's first blocks are of a declared prefix. O(these). */
uint32_t kvmem_call_declared(const struct kvmem *kv, uint32_t call);
/* How many blocks right after those calls of other holders have found, too. O(these). */
uint32_t kvmem_call_common(const struct kvmem *kv, uint32_t call);
/* A question of this call comes soon: brings its table into the CPU's caches. */
void kvmem_cpu_prefetch(const struct kvmem *kv, uint32_t call);

/* Which KV is there for the call? Changes no state that another question or act depends on: the
 * found blocks are noted in the call's own table, whose entries mean nothing before the commit. The
 * answer holds until any block loses its name (kvmem_is_stale), or the call asks again. What is
 * found ends before a host block that a move of this step fills, and may end within a block of the
 * device, which is then the copy source. Blocks of declared prefixes are found under every salt
 * but an ALONE one. O(blocks found + block_tokens); O(1) for a call that owns blocks. */
struct kvmem_answer kvmem_ask(const struct kvmem *kv, const struct kvmem_question *question);
/* True when the answer may no longer be committed: ask again. A call that gives up its blocks makes
 * an answer stale only if one of them, not full, takes the place of an equal cached one. */
bool kvmem_is_stale(const struct kvmem *kv, const struct kvmem_answer *answer);
/* Device blocks that a commit with room for `positions` would take: new ones, and one for each
 * block that comes from the host. */
uint32_t kvmem_missing(const struct kvmem *kv, const struct kvmem_answer *answer,
                       uint32_t positions);
/* True when these are available, without the found blocks themselves. O(blocks found). */
bool kvmem_fits(const struct kvmem *kv, const struct kvmem_answer *answer, uint32_t positions);
/* The same, leaving alone what other accounts have cached within their minimums. */
bool kvmem_fits_beside(const struct kvmem *kv, const struct kvmem_answer *answer,
                       uint32_t positions);
/* Cached device blocks that other accounts than this holder's have within their minimums. O(1). */
uint32_t kvmem_withheld(const struct kvmem *kv, uint32_t holder);
/* Gives the call what the answer found, and room on the device for `positions`, no fewer than were
 * found. Evicts cached contents, the least needed first (holder.c), to the host, or drops them if
 * the host has nothing that is needed less. Plans the copy, and the moves of blocks that come from
 * the host. Cannot fail: the answer is not stale, and it fits. */
void kvmem_commit(struct kvmem *kv, const struct kvmem_answer *answer, uint32_t positions);
/* Instead of a commit: contents that the answer found, and no call owns, count as used now. Those
 * that another holder needs more stay with it. Where retention is off, forgets those that were not
 * asked for. */
void kvmem_touch(struct kvmem *kv, const struct kvmem_answer *answer, struct kvmem_use use);
/* Instead of a commit: forgets contents that the answer found, and no call owns. */
void kvmem_forget(struct kvmem *kv, const struct kvmem_answer *answer);

/* The call's KV now holds `positions` of its `tokens`: names the blocks that have become full, or
 * takes equal ones instead. From here on until kvmem_drop(), every call finds the blocks of a
 * declared prefix. */
void kvmem_settle(struct kvmem *kv, uint32_t call, const uint32_t *tokens, uint32_t positions);
/* Settles `positions`, gives up the call's blocks, and keeps their contents for use.holder. Where
 * retention is off, drops them unless they are asked for. */
void kvmem_keep(struct kvmem *kv, uint32_t call, const uint32_t *tokens, uint32_t positions,
                struct kvmem_use use);
/* Sets the need of the contents that waiting calls of this holder have asked for: lesser needs are
 * evicted first. Below KVMEM_WANTED no call waits, and age decides. O(log holders). */
void kvmem_need(struct kvmem *kv, uint32_t holder, uint64_t need);
/* Protects the other contents of the holder: only when all that is needed less than KVMEM_PROTECTED
 * is gone are they evicted. At first age alone decides. O(log holders). */
void kvmem_protect(struct kvmem *kv, uint32_t holder, bool is_protected);
/* Sets the account of the holder, which has no contents yet. At first it is that of clients without
 * a key. */
void kvmem_account(struct kvmem *kv, uint32_t holder, uint32_t account);
/* Sets each account's minimum of cached contents: on the device that of QUOTA_KV_BLOCKS, on the
 * host the same part. O(holders log holders). */
void kvmem_bind_quotas(struct kvmem *kv, const struct quotas *quotas);
/* The holder is gone, and its number free for another. Its contents stay if others can find them,
 * else they are forgotten at once. O(its contents). */
void kvmem_abandon(struct kvmem *kv, uint32_t holder, bool others_find);
/* Gives up all blocks of the call, and forgets contents that only it held (they may be wrong). */
void kvmem_drop(struct kvmem *kv, uint32_t call);
/* Once for each plan, after the commits: contents past their deadlines leave the device (a bounded
 * number) or are forgotten. Without a step for moves to travel with it only forgets. */
void kvmem_expire(struct kvmem *kv, uint64_t now_us, bool step_follows);
/* When kvmem_expire() must run even if no step comes: when the next content is to be forgotten (not
 * when one is to leave the device). UINT64_MAX: never. */
uint64_t kvmem_next_us(const struct kvmem *kv);
/* Stage 3 of the pipeline: writes the moves, and the ids and number of each row's blocks, into the
 * step record. From here to kvmem_moved() nothing may commit or expire. */
void kvmem_bind(struct kvmem *kv, const struct step *step, const struct step_planned *rows,
                uint32_t rows_count);
/* The step that was bound is done, with its moves. Does nothing when none was bound. */
void kvmem_moved(struct kvmem *kv);
/* The engine is lost and with it all bytes of both tiers: forgets every content, ends every move.
 * No call owns a block (they were dropped before). */
void kvmem_lost(struct kvmem *kv);
/* Asserts every invariant; O(blocks + tables). */
void kvmem_check(const struct kvmem *kv);
