/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: how the places of a table are divided among accounts. An account is a trust domain of
 * auth.keys; account 0 is all clients without a key. Each has a minimum, which the others leave to
 * it, and an upper bound. Places beyond all minimums are first come, first served.
 *
 *   |<------------------------ total ------------------------>|
 *   |  used by all  |  free, common  |  owed: unused minimums |
 *
 * A table that runs full gives up an old place: the oldest of the account that is furthest above
 * its minimum. Without minimums it is the oldest place of all, as if there were no accounts.
 *
 * The bounds of all tables come from one place, config_quotas_fill() (config/keys.h); each stage
 * binds its own row at boot and at a reload.
 * Invariants: `used` is the sum of used_by, `owed` the sum of what accounts lack to their minimums.
 * A reload may leave accounts above their bounds: until they are below, they get a place only when
 * they give one up.
 * Bounds: O(1), and O(accounts) to bind and to choose a victim.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "config/base/assert.h"

#define QUOTA_ACCOUNTS_MAX  65          /* the domains of auth.keys, and clients without a key */
#define QUOTA_WITHOUT_KEY   0u
#define QUOTA_ACCOUNT_NONE  UINT32_MAX
#define QUOTA_AGE_NONE      UINT64_MAX

/* A trust domain is a number. It is 0 for TCP without keys. Else its upper half is a kind, and its
 * lower half a user's number or the index of a domain in the file of keys. */
#define DOMAIN_OF_USER (UINT64_C(1) << 32)
#define DOMAIN_OF_KEY  (UINT64_C(2) << 32)

/* What is divided: QUOTA(name in auth.keys, what it counts). */
#define QUOTA_LIST(QUOTA)                                                           \
    QUOTA(CONNECTIONS,  "connections",  "connections that have authenticated")      \
    QUOTA(CALLS,        "calls",        "open calls, those of workflows included")  \
    QUOTA(PROGRAMS,     "programs",     "entries of the process table")             \
    QUOTA(REPLIES,      "replies",      "kept replies of ended calls")              \
    QUOTA(REPLY_TOKENS, "reply_tokens", "tokens of these")                          \
    QUOTA(WORKFLOWS,    "workflows",    "workflows that are not yet forgotten")     \
    QUOTA(KV_BLOCKS,    "kv_blocks",    "of each engine, what ended calls have left")

enum quota_kind {
#define QUOTA(kind, name, what) QUOTA_##kind,
    QUOTA_LIST(QUOTA)
#undef QUOTA
    QUOTA_KINDS
};

struct quota_bounds {
    uint32_t min, max;
};

/* Of each table, what each account may have. */
struct quotas {
    struct quota_bounds of[QUOTA_KINDS][QUOTA_ACCOUNTS_MAX];
    uint32_t totals[QUOTA_KINDS];
};

struct quota {                          /* of one table */
    uint32_t total, used, owed;
    struct quota_bounds bounds[QUOTA_ACCOUNTS_MAX];
    uint32_t used_by[QUOTA_ACCOUNTS_MAX];
    bool has_minimums;
};

static inline uint32_t quota_account(uint64_t domain)
{
    uint64_t index = domain - DOMAIN_OF_KEY;
    return domain >= DOMAIN_OF_KEY && index < QUOTA_ACCOUNTS_MAX - 1 ? 1 + (uint32_t)index
                                                                     : QUOTA_WITHOUT_KEY;
}

/* What the account has not used of its minimum. */
static inline uint32_t quota_owed(const struct quota *quota, uint32_t account)
{
    uint32_t min = quota->bounds[account].min, used = quota->used_by[account];
    return min > used ? min - used : 0;
}

/* Other bounds from now on; what is used stays. */
static inline void quota_bind(struct quota *quota, const struct quotas *quotas,
                              enum quota_kind kind)
{
    quota->total = quotas->totals[kind];
    memcpy(quota->bounds, quotas->of[kind], sizeof quota->bounds);
    quota->owed = 0;
    quota->has_minimums = false;
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        quota->owed += quota_owed(quota, i);
        quota->has_minimums = quota->has_minimums || quota->bounds[i].min > 0;
    }
}

/* A table of so many places without minimums. */
static inline void quota_init(struct quota *quota, uint32_t total)
{
    *quota = (struct quota){.total = total};
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        quota->bounds[i].max = UINT32_MAX;
    }
}

/* Places that the account may take now, without anything being given up. */
static inline uint32_t quota_room(const struct quota *quota, uint32_t account)
{
    ASSERT(account < QUOTA_ACCOUNTS_MAX);
    uint32_t free = quota->total > quota->used ? quota->total - quota->used : 0;
    uint32_t own = quota_owed(quota, account), used = quota->used_by[account];
    uint32_t room = own + (free > quota->owed ? free - quota->owed : 0);
    uint32_t most = quota->bounds[account].max > used ? quota->bounds[account].max - used : 0;
    room = room < free ? room : free;
    return room < most ? room : most;
}

static inline void quota_take(struct quota *quota, uint32_t account, uint32_t count)
{
    uint32_t owed = quota_owed(quota, account);
    ASSERT(quota->used <= quota->total && count <= quota->total - quota->used);
    quota->used_by[account] += count;
    quota->used += count;
    quota->owed -= owed - quota_owed(quota, account);
}

static inline void quota_give(struct quota *quota, uint32_t account, uint32_t count)
{
    uint32_t owed = quota_owed(quota, account);
    ASSERT(account < QUOTA_ACCOUNTS_MAX && count <= quota->used_by[account]);
    quota->used_by[account] -= count;
    quota->used -= count;
    quota->owed += quota_owed(quota, account) - owed;
}

/* What the account would have beyond its minimum with `more` places. */
static inline int64_t quota_beyond(const struct quota *quota, uint32_t account, uint32_t more)
{
    return (int64_t)quota->used_by[account] + more - quota->bounds[account].min;
}

/* The account that gives up its oldest place, so that `asking` can have `count`: the one that has
 * most beyond its minimum, what is asked for included; of equals the one that asks. `ages`: of each
 * account, when its oldest place that can be given up came to be; QUOTA_AGE_NONE: it has none.
 * QUOTA_ACCOUNT_NONE: no account gives anything up for it. */
static inline uint32_t quota_victim(const struct quota *quota, uint32_t asking, uint32_t count,
                                    const uint64_t ages[QUOTA_ACCOUNTS_MAX])
{
    uint32_t victim = QUOTA_ACCOUNT_NONE;
    int64_t most = 0;
    if ((uint64_t)quota->used_by[asking] + count > quota->bounds[asking].max) {
        return ages[asking] != QUOTA_AGE_NONE ? asking : QUOTA_ACCOUNT_NONE;
    }
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        int64_t beyond = quota_beyond(quota, i, i == asking ? count : 0);
        bool is_older = victim == QUOTA_ACCOUNT_NONE || ages[i] < ages[victim];
        bool is_more = beyond > most || (beyond == most && beyond > 0 && i == asking);
        if (ages[i] != QUOTA_AGE_NONE && (quota->has_minimums ? is_more : is_older)) {
            victim = i;
            most = beyond;
        }
    }
    return victim;
}

/* Asserts the sums. */
static inline void quota_check(const struct quota *quota)
{
    uint32_t used = 0, owed = 0;
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        used += quota->used_by[i];
        owed += quota_owed(quota, i);
    }
    ASSERT(quota->used == used && quota->owed == owed);
}
