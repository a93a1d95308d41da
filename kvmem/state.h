/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what kvmem remembers of a tier and of a call. Only kvmem/ touches it; kvmem.h includes this
 * for their sizes.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/heap.h"
#include "config/base/quota.h"

struct kvmem_list {
    uint32_t head, tail, count;
};

struct kvmem_tier {
    uint32_t first, count;      /* block numbers first .. first + count - 1 */
    struct kvmem_list free, whole, mirrors;     /* tier.c */
    struct kvmem_list *contents;    /* [shelves]: what lies on each, oldest first */
    uint32_t cached_last;       /* the block that was cached last, or KVMEM_BLOCK_NONE */
    uint32_t cached_count[2];   /* contents that no waiting call has asked for; that one has */
    struct heap needs;          /* of the shelves that have contents here, by their need */
    struct heap ages[2];        /* the same by their oldest content: not wanted, wanted */
    struct kvmem_share {        /* of the cached contents, an account's (share.c) */
        uint32_t min, cached;
        bool is_within;         /* it has no more than its minimum */
    } shares[QUOTA_ACCOUNTS_MAX];
    uint32_t within;            /* cached contents of accounts within their minimums */
};

struct kvmem_call {
    uint64_t salt;                  /* of the last commit */
    uint32_t holder;                /* of the last commit */
    uint32_t count;                 /* entries of its table */
    uint32_t kept_positions;        /* that it gave up last; 0: none */
    uint64_t kept_before;           /* identity before the block in which they end */
};
