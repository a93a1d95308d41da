/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: which call owns which KV block, what the blocks hold that nobody owns, and which bytes have
 * to move. A block is block_tokens positions of every layer, one contiguous extent in the engine's
 * memory; here it is a number. The bytes are the engine's.
 *
 *   0 .. device_blocks - 1                  the device tier: the engine computes in these
 *   the next aside_blocks                   set aside: not ours
 *   the next host_blocks                    the host tier: keeps KV, is never computed in
 *
 *             reserve               settle: a full block gets its content's name
 *     FREE ------------> PRIVATE ------------------------------> SHARED (references >= 1)
 *      ^   (may evict)      | keep                                  | keep, the last reference
 *      |                    v                                       v
 *      +--- dropped ---- CACHED on the device --evict, a move--> CACHED on the host
 *                           | claim                                 | claim, reserve: a move back
 *                           +-------> SHARED or PRIVATE again <-----+
 *
 * One mechanism serves four needs (docs/decisions/0005): calls with the same beginning share full
 * blocks; a preempted call finds its blocks again, on the device or swapped out; a program's next
 * call finds its history (retention); what is found nowhere is recomputed from the call's tokens.
 *
 * Content: a full block is named by (salt, all tokens up to its end). A keyed hash finds it; a hit
 * counts only when its own tokens and the identity of its predecessor are equal. The salt
 * keeps trust domains apart. A block that is not full when its call gives it up is kept too, and
 * whoever continues exactly its tokens takes it over whole. A shared block is never written: the
 * position that a call computes next always lies in a block of its own. Where a call parts from a
 * block in the middle, it gets one of its own, with a copy of what they have in common (loan.c).
 *
 * A declared prefix is a call, too, behind the others: one that nobody schedules and that never
 * gives up its blocks. Their contents have a salt of their own, and are every call's to find; what
 * a call adds behind them is named by its own salt again (docs/decisions/0030).
 *
 * Invariants (kvmem_check): each block is in exactly one state and named accordingly; references
 * equal the tables that hold it; a host block is in no table but pinned by a claim; no block is the
 * target of two moves of one step, and no host block source and target. Nothing that was computed
 * in a step counts before that step is settled, and what is on loan is copied by the next step.
 * Cost: claim O(blocks found + block_tokens * blocks compared), everything else O(blocks touched).
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/step.h"
#include "config/config.h"

#define KVMEM_BLOCK_NONE UINT32_MAX

#define KVMEM_SAVED_US   UINT64_C(600000000)    /* SAVED contents are forgotten after this, or
                                                   after retain_drop_us where that is longer */
#define KVMEM_EXPIRE_MAX 64         /* contents that one kvmem_expire() moves or forgets */

#define KVMEM_PREFIXES_MAX 8        /* declared ones */
/* Salts of calls are smaller than twice this one. With it, a call finds no declared prefix. */
#define KVMEM_SALT_ALONE    (UINT64_C(1) << 59)
#define KVMEM_SALT_DECLARED UINT64_MAX      /* that of declared prefixes */

struct kvmem_settings {
    uint32_t device_blocks;
    uint32_t aside_blocks;          /* of the device behind these, for somebody else: never handed
                                       out, no tier has them */
    uint32_t host_blocks;           /* 0: no host tier; what leaves the device is recomputed */
    uint32_t block_tokens;
    uint32_t calls, blocks_per_call;
    uint32_t prefixes;              /* declared ones: calls number calls .. calls + prefixes - 1 */
    uint64_t hash_key;              /* where the keys of the hash come from: a secret of this boot,
                                       or clients could choose tokens that all hash alike */
    /* An ended call's contents, by their age since they were given up; device <= host <= drop. */
    uint64_t retain_device_us;      /* from this age they leave the device for the host, if any */
    uint64_t retain_host_us;        /* from this age no call waits for their move: under pressure
                                       they are dropped instead; what is on the host stays */
    uint64_t retain_drop_us;        /* from this age they are forgotten, wherever they are; 0: they
                                       are not kept at all. Pressure for room wins over all three */
};

/* Why a call gives its blocks up: who is evicted first. Within a rank, the least recently used. */
enum kvmem_rank {
    KVMEM_RETAINED,                 /* the call has ended: another may continue it */
    KVMEM_SAVED,                    /* the call was preempted and will be back */
};

struct kvmem_counters {             /* since boot */
    uint64_t claimed_tokens;        /* positions that claims found: not computed again */
    uint64_t asked_tokens;          /* positions that claims asked for */
    uint64_t out_blocks, in_blocks; /* moved device -> host, host -> device */
    uint64_t out_moves, in_moves;   /* steps with at least one such move: bulk transfers */
    uint64_t copied_blocks;         /* device -> device: for beginnings of blocks */
    uint64_t dropped_blocks;        /* contents lost for want of room or time */
};

struct kvmem_block;                 /* kvmem/block.h */
struct kvmem_call;
struct kvmem_list {
    uint32_t head, tail, count;
};
struct kvmem {
    struct kvmem_settings settings;
    uint32_t blocks_count;          /* of both tiers */
    struct kvmem_counters counters;
    /* private: only kvmem/ */
    struct kvmem_block *blocks;     /* [blocks_count] */
    uint32_t *tokens;               /* (blocks_count, block_tokens): what the contents are of */
    struct kvmem_call *calls;       /* [settings.calls + settings.prefixes] */
    uint32_t *table;                /* (calls + prefixes, blocks_per_call) */
    uint32_t *hash;                 /* [hash_mask + 1] heads of chains of named blocks */
    uint32_t hash_mask;
    uint64_t *hash_keys;            /* [KVMEM_NAME_KEYS + settings.block_tokens] */
    struct step_move *moves;        /* [moves_max]: of the step that is being planned or runs */
    uint32_t moves_count, moves_max;
    struct step_move *copies;       /* [settings.calls]: of the same step, within the device */
    uint32_t copies_count;
    struct kvmem_loan {             /* of a claim that nobody has reserved for yet */
        uint32_t call, from;
        uint32_t positions;         /* that block `from` begins with; 0: nothing is on loan */
    } loan;
    bool bound;                     /* the moves are in a step's record: they cannot be undone */
    uint64_t next_identity;
    uint32_t declared_count;        /* blocks of declared prefixes */
    uint64_t now_us;                /* the newest time that was told */
    struct kvmem_tier {
        uint32_t first, count;      /* block numbers first .. first + count - 1 */
        struct kvmem_list free;     /* a stack */
        struct kvmem_list cached[2];    /* by rank; oldest first */
    } device, host;
};

/* Blocks that hold `tokens` positions. */
static inline uint32_t kvmem_blocks_ceil(uint32_t tokens, uint32_t block_tokens)
{
    return tokens / block_tokens + (tokens % block_tokens != 0);
}

/* Moves that one step can need: each device block is left once and filled once at most. */
static inline uint32_t kvmem_moves_max(uint32_t device_blocks)
{
    return 2 * device_blocks + 64;
}

/* BOOT_ONLY. All that the limits say; hash_key is the caller's to add. */
void kvmem_settings_fill(struct kvmem_settings *settings, const struct limits *limits);
void kvmem_plan_memory(struct memory_plan *plan, const struct kvmem_settings *settings);
void kvmem_init(struct kvmem *kv, const struct kvmem_settings *settings, struct arena *arena);

/* Device blocks that kvmem_reserve() can hand out now: free ones and cached ones. */
uint32_t kvmem_available(const struct kvmem *kv);
/* Of these, how many cost nothing: not even somebody's cached content. */
uint32_t kvmem_free(const struct kvmem *kv);
/* Of these, how many can be had without touching SAVED contents. */
static inline uint32_t kvmem_spare(const struct kvmem *kv)
{
    return kv->device.free.count + kv->device.cached[KVMEM_RETAINED].count;
}
/* Device blocks owned by calls, and by declared prefixes, now. */
uint32_t kvmem_owned(const struct kvmem *kv);
/* Of these, those of declared prefixes that are there to be found. */
static inline uint32_t kvmem_declared(const struct kvmem *kv)
{
    return kv->declared_count;
}
/* Host blocks that hold something now, or are read by a move of the step. */
uint32_t kvmem_host_used(const struct kvmem *kv);
/* Blocks of the call's table, those on the host that it has claimed included. */
uint32_t kvmem_call_blocks(const struct kvmem *kv, uint32_t call);
/* Of these, how many it has claimed on the host: kvmem_reserve() moves them in. */
uint32_t kvmem_call_pins(const struct kvmem *kv, uint32_t call);
/* Of these, how many are of a declared prefix: the first ones. O(these). */
uint32_t kvmem_call_declared(const struct kvmem *kv, uint32_t call);
/* The call's table is looked at soon: asks memory for it. */
void kvmem_expect(const struct kvmem *kv, uint32_t call);

/* Gives a call without blocks the longest cached beginning of its `count` known tokens, under this
 * salt, and returns how many positions that is: always fewer than `count`, so that the last one is
 * computed and gives logits. What lies on the device is the call's from now on; what lies on the
 * host is pinned until reserve moves it, or keep or drop let it go. The claim ends before a host
 * block that another call has pinned, and before one that this step only fills. It may end within a
 * block, whose beginning is then on loan: the call's reserve, keep or drop has to come before
 * another call's reserve, and before the step. Every call claims before its first reserve: that is
 * where its salt comes from. Blocks of declared prefixes are found under every salt but an ALONE
 * one. */
uint32_t kvmem_claim(struct kvmem *kv, uint32_t call, uint64_t salt, const uint32_t *tokens,
                     uint32_t count);
/* Would a call without blocks still find these `positions` of its tokens, which it has given up
 * last? Looks at the content in which they end, which is no use of it; O(block_tokens).
 * It may be wrong: only a claim knows. */
bool kvmem_is_kept(const struct kvmem *kv, uint32_t call, const uint32_t *tokens,
                   uint32_t positions);
/* Device blocks that the call still lacks to hold `positions`: new ones, and one for each claimed
 * block on the host. Changes nothing. */
uint32_t kvmem_missing(const struct kvmem *kv, uint32_t call, uint32_t positions);
/* Grows the call's table to hold `positions` on the device, evicting cached contents (RETAINED
 * first, then SAVED; oldest first) to the host, or to nowhere where the host has no room for their
 * rank, and moves claimed host blocks in. The caller has checked missing <= available. */
void kvmem_reserve(struct kvmem *kv, uint32_t call, uint32_t positions);
/* A step was settled and the call's KV holds `positions` of its `tokens`: names the blocks that
 * have become full. Where an equal one is there already, the call takes that one. From here on
 * everybody finds the blocks of a declared prefix, until kvmem_drop(). */
void kvmem_settle(struct kvmem *kv, uint32_t call, const uint32_t *tokens, uint32_t positions);
/* Gives up all blocks of the call, whose KV holds `positions` (settled ones), and keeps their
 * contents cached under this rank; settles them first. The same call gives back a claim that came
 * to nothing, with the positions that the claim found. */
void kvmem_keep(struct kvmem *kv, uint32_t call, const uint32_t *tokens, uint32_t positions,
                enum kvmem_rank rank, uint64_t now_us);
/* Gives up all blocks of the call; what only it held on the device is forgotten (it may be wrong);
 * what it has pinned on the host is cached as before. */
void kvmem_drop(struct kvmem *kv, uint32_t call);
/* Gives up all blocks of the call; what only it held is forgotten, what it has pinned too: nobody
 * will come for it. */
void kvmem_forget(struct kvmem *kv, uint32_t call);
/* Once for each plan, after the reserves: retained contents past their deadlines leave the device
 * (a bounded number) or are forgotten. Moves only travel with steps: without one (`step_follows`
 * false: the engine has nothing to do) it only forgets what must be gone, and makes no move. */
void kvmem_expire(struct kvmem *kv, uint64_t now_us, bool step_follows);
/* When must kvmem_expire() run even if no step comes: when the next content is to be forgotten (not
 * when one is to leave the device). UINT64_MAX: never. */
uint64_t kvmem_next_us(const struct kvmem *kv);
/* Stage 3 of the pipeline: writes the moves, and the block ids of each row and how many the row
 * needs, into the step record. From here to kvmem_moved() nothing may reserve or expire. */
void kvmem_bind(struct kvmem *kv, const struct step *step, const struct step_planned *rows,
                uint32_t rows_count);
/* The step that was bound is done, and so are its moves. Free when none was bound. */
void kvmem_moved(struct kvmem *kv);
/* The engine is lost and with it all bytes of both tiers: forgets every content, ends every move.
 * No call owns a block (they were dropped before). */
void kvmem_lost(struct kvmem *kv);
/* Asserts every invariant; O(blocks + tables). */
void kvmem_check(const struct kvmem *kv);
