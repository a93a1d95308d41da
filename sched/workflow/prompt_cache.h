/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the values that greedy calls of workflows gave, by their prompts (paper 002, section 4). A
 * value is found by clients of the trust domain that has computed it only. A call that is open is
 * here, too, so that an equal one waits for it. Values outlive the core. Private to sched/.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/world.h"
#include "config/workflow/workflow.h"

#define PROMPT_CACHE_NONE       UINT32_MAX
#define PROMPT_CACHE_KEY_BYTES  16      /* of an HMAC-SHA256 */
#define PROMPT_CACHE_CHUNK      16      /* tokens that are reserved together */
#define PROMPT_CACHE_DOMAINS    64      /* that have a share each; others use one together */

struct prompt_cache_key { uint8_t bytes[PROMPT_CACHE_KEY_BYTES]; };

/* What the successor of a core that dies takes up of an entry: all of a KNOWN one. */
struct prompt_cache_value {
    struct prompt_cache_key key;
    uint64_t domain;
    uint32_t tokens, first_chunk;
    uint64_t check;                 /* digest of all above, of its tokens, and of `doubts`; 0: not
                                       KNOWN */
};

struct prompt_cache_head {
    uint8_t secret[32];             /* of the first of these cores */
    uint64_t doubts;                /* how often all values were given up */
    uint64_t upgrades;              /* before the engines that gave the values */
    uint64_t damages;               /* of their weights, that were doubted for */
    uint64_t check;                 /* digest of the secret; 0: there is none yet */
};

struct prompt_cache_entry {
    enum { PROMPT_CACHE_FREE, PROMPT_CACHE_OPEN, PROMPT_CACHE_KNOWN } state;
    uint32_t domain;                /* index in `domains` */
    bool is_doubted;                /* OPEN: its value is given, and not kept */
    uint32_t waiters;               /* OPEN: the first of those that wait; the caller's number */
    uint32_t hash_next;             /* chain of the hash table, or of the free list */
    uint32_t next, prev;            /* KNOWN: of its domain, last used first */
};

struct prompt_cache_domain {
    uint64_t domain;
    uint32_t entries, chunks;       /* that it holds */
    uint32_t first, last;           /* of its KNOWN entries */
};

struct prompt_cache {
    uint32_t entries_count, chunks_count;
    uint32_t known, used_chunks;    /* for the gauges */
    /* private; the first four outlive the core */
    struct prompt_cache_head *head;
    struct prompt_cache_value *values;      /* [entries_count]: the key of each that is not FREE */
    uint32_t *chunk_next;           /* [chunks_count] of a value */
    uint32_t *tokens;               /* [chunks_count * PROMPT_CACHE_CHUNK] */
    struct prompt_cache_entry *entries;     /* [entries_count] */
    uint32_t *heads, heads_mask;
    uint32_t free_entry, free_chunk;
    uint32_t *free_next;            /* [chunks_count] */
    struct prompt_cache_domain domains[PROMPT_CACHE_DOMAINS];
    uint32_t domains_count;
};

struct prompt_cache_counts { uint32_t entries, tokens; };

struct prompt_cache_source {
    uint8_t secret[32];             /* what keys are made with, unless a core has left another */
    uint64_t upgrades;              /* another number: what a core has left is given up, for its
                                       engines are gone, and no canary judges them any more */
};

void prompt_cache_plan_memory(struct memory_plan *plan, struct prompt_cache_counts counts);
/* With what is whole of the values that a core has left in `kept`. Cost: all tokens. */
void prompt_cache_init(struct prompt_cache *cache, struct prompt_cache_counts counts,
                       const struct prompt_cache_source *source, struct arena *arena,
                       struct arena *kept);
/* Of a greedy call with this prompt. Cost: that of an HMAC over it. */
struct prompt_cache_key prompt_cache_key(const struct prompt_cache *cache, uint64_t domain,
                                         const struct workflow_node *node, const uint32_t *prompt,
                                         uint32_t prompt_tokens);
/* The entry, OPEN or KNOWN, or PROMPT_CACHE_NONE. */
uint32_t prompt_cache_find(const struct prompt_cache *cache, const struct prompt_cache_key *key);
/* An OPEN entry for a key that has none, or PROMPT_CACHE_NONE: all entries are open. */
uint32_t prompt_cache_open(struct prompt_cache *cache, uint64_t domain,
                           const struct prompt_cache_key *key);
/* The OPEN entry's call has ended with this value, or without one. A value for which there is no
 * room, not even after older ones of its domain, is not kept. */
void prompt_cache_fill(struct prompt_cache *cache, uint32_t entry, const uint32_t *tokens,
                       uint32_t count);
void prompt_cache_drop(struct prompt_cache *cache, uint32_t entry);
/* Copies the value of a KNOWN entry; it is used now. Returns its tokens. */
uint32_t prompt_cache_read(struct prompt_cache *cache, uint32_t entry, uint32_t *tokens);
/* Values that are kept may be wrong: none is any more, nor will be what is being computed. */
void prompt_cache_doubt(struct prompt_cache *cache);
/* The same, if it has not been doubted for as many damages of weights yet. */
void prompt_cache_doubt_for(struct prompt_cache *cache, uint64_t damages);
void prompt_cache_check(const struct prompt_cache *cache);
