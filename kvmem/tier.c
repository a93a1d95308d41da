/* SPDX-License-Identifier: MIT */
/*
 * What: the lists of both tiers.
 *
 *   free      the newest first; on the device those of clusters of which a block is taken
 *   whole     of the device: free blocks of whole clusters, one after the other, each in its order
 *   cached    for each shelf (holder.c) the contents that no call owns, oldest first; the blocks of
 *             a call are given up at one time, the last one first, so ends go before beginnings
 *   mirrors   on the host: those that hold what a block of the device holds too, oldest first
 *
 * Shelves that have contents stand in two heaps: by need, the least needed first, and by the age of
 * their oldest content. Those that are wanted have a heap of ages of their own.
 *
 * Invariants: a block is in one list at most, that of its state; cached lists are sorted by age; a
 * shelf is in the heaps of a tier exactly when it has contents there.
 * Bounds: O(log holders) where the oldest content of a shelf changes, else O(1), but for
 * kvmem_tier_cache(): O(younger contents of the list) besides, once for each run of one age.
 */
#include "config/base/assert.h"
#include "kvmem/tier.h"

#define SLACK 8     /* an account within its minimum stays so until it is above by this part */

static inline void list_remove(struct kvmem *kv, struct kvmem_list *list, uint32_t block)
{
    struct kvmem_block *entry = &kv->blocks[block];
    ASSERT(list->count > 0);
    if (entry->prev != KVMEM_BLOCK_NONE) {
        kv->blocks[entry->prev].next = entry->next;
    } else {
        ASSERT(list->head == block);
        list->head = entry->next;
    }
    if (entry->next != KVMEM_BLOCK_NONE) {
        kv->blocks[entry->next].prev = entry->prev;
    } else {
        ASSERT(list->tail == block);
        list->tail = entry->prev;
    }
    entry->next = entry->prev = KVMEM_BLOCK_NONE;
    list->count--;
}

/* After `before`; NONE: at the head. */
static inline void list_insert(struct kvmem *kv, struct kvmem_list *list, uint32_t before,
                               uint32_t block)
{
    struct kvmem_block *entry = &kv->blocks[block];
    uint32_t *from_before = before != KVMEM_BLOCK_NONE ? &kv->blocks[before].next : &list->head;
    uint32_t after = *from_before;
    uint32_t *from_after = after != KVMEM_BLOCK_NONE ? &kv->blocks[after].prev : &list->tail;
    ASSERT(entry->next == KVMEM_BLOCK_NONE && entry->prev == KVMEM_BLOCK_NONE);
    entry->prev = before;
    entry->next = after;
    *from_before = block;
    *from_after = block;
    list->count++;
}

static struct kvmem_tier *tier_of(struct kvmem *kv, uint32_t block)
{
    return kvmem_is_host(kv, block) ? &kv->host : &kv->device;
}

/* ---- free blocks ---- */

static uint8_t *free_of_cluster(struct kvmem *kv, uint32_t block)
{
    return &kv->cluster_free[block / KVMEM_CLUSTER];
}

/* A stretch of neighbours, each linked to the next, comes to the head. */
static void list_prepend(struct kvmem *kv, struct kvmem_list *list, uint32_t first, uint32_t last)
{
    *(list->head != KVMEM_BLOCK_NONE ? &kv->blocks[list->head].prev : &list->tail) = last;
    kv->blocks[first].prev = KVMEM_BLOCK_NONE;
    kv->blocks[last].next = list->head;
    list->head = first;
    list->count += last - first + 1;
}

/* The cluster is free whole only now: its blocks come to follow each other. */
static void cluster_join(struct kvmem *kv, uint32_t block)
{
    uint32_t first = block / KVMEM_CLUSTER * KVMEM_CLUSTER, last = first + KVMEM_CLUSTER - 1;
    for (uint32_t i = first; i <= last; i++) {
        list_remove(kv, &kv->device.free, i);
        kv->blocks[i].prev = i - 1;
        kv->blocks[i].next = i + 1;
    }
    list_prepend(kv, &kv->device.whole, first, last);
}

/* The cluster is free whole, and no more so: all its blocks leave that list as one stretch. */
static void cluster_part(struct kvmem *kv, uint32_t block)
{
    struct kvmem_list *whole = &kv->device.whole;
    uint32_t first = block / KVMEM_CLUSTER * KVMEM_CLUSTER, last = first + KVMEM_CLUSTER - 1;
    uint32_t before = kv->blocks[first].prev, after = kv->blocks[last].next;
    *(before != KVMEM_BLOCK_NONE ? &kv->blocks[before].next : &whole->head) = after;
    *(after != KVMEM_BLOCK_NONE ? &kv->blocks[after].prev : &whole->tail) = before;
    whole->count -= KVMEM_CLUSTER;
    list_prepend(kv, &kv->device.free, first, last);
}

void kvmem_tier_release(struct kvmem *kv, uint32_t block)
{
    struct kvmem_block *released = &kv->blocks[block];
    ASSERT(released->fill == 0 && released->state != KVMEM_FREE);
    ASSERT(released->mirror == KVMEM_BLOCK_NONE);
    released->state = KVMEM_FREE;
    list_insert(kv, &tier_of(kv, block)->free, KVMEM_BLOCK_NONE, block);
    if (!kvmem_is_host(kv, block) && ++*free_of_cluster(kv, block) == KVMEM_CLUSTER) {
        cluster_join(kv, block);
    }
}

static bool is_free_on_device(const struct kvmem *kv, uint32_t block)
{
    return block < kv->device.count && kv->blocks[block].state == KVMEM_FREE;
}

static bool has_neighbour(const struct kvmem *kv, uint32_t before)
{
    return before != KVMEM_BLOCK_NONE && is_free_on_device(kv, before + 1);
}

bool kvmem_tier_has_cluster(const struct kvmem *kv, uint32_t before)
{
    return has_neighbour(kv, before) || kv->device.whole.count > 0;
}

/* Without a whole cluster: of that in which a block has been free longest, whose call is the least
 * likely to go on in it. */
static uint32_t choose_free(const struct kvmem *kv, uint32_t before)
{
    if (has_neighbour(kv, before)) {
        return before + 1;
    }
    if (kv->device.whole.count > 0) {
        return kv->device.whole.head;
    }
    uint32_t block = kv->device.free.tail / KVMEM_CLUSTER * KVMEM_CLUSTER;
    while (!is_free_on_device(kv, block)) {
        block++;
    }
    return block;
}

uint32_t kvmem_tier_take(struct kvmem *kv, struct kvmem_tier *tier, uint32_t before)
{
    bool is_device = tier == &kv->device;
    uint32_t block = is_device ? choose_free(kv, before) : tier->free.head;
    ASSERT(block != KVMEM_BLOCK_NONE && kv->blocks[block].state == KVMEM_FREE);
    if (is_device && (*free_of_cluster(kv, block))-- == KVMEM_CLUSTER) {
        cluster_part(kv, block);
    }
    list_remove(kv, &tier->free, block);
    return block;
}

/* ---- cached contents ---- */

void kvmem_tier_rank(struct kvmem *kv, struct kvmem_tier *tier, uint32_t shelf)
{
    const struct kvmem_list *list = kvmem_contents(kv, tier, shelf);
    bool is_wanted = kvmem_is_wanted(kv, shelf);
    heap_remove(&tier->ages[!is_wanted], shelf);
    if (list->count == 0) {
        heap_remove(&tier->needs, shelf);
        heap_remove(&tier->ages[is_wanted], shelf);
        return;
    }
    uint64_t oldest_us = kv->blocks[list->head].used_us;
    heap_set(&tier->needs, shelf, kvmem_need_of(kv, tier, shelf, oldest_us));
    heap_set(&tier->ages[is_wanted], shelf, oldest_us);
}

/* Of the account on this tier, where it has changed. */
static void rank_all(struct kvmem *kv, struct kvmem_tier *tier, uint32_t account)
{
    for (uint32_t holder = 0; holder < kv->settings.holders; holder++) {
        if (kv->holders[holder].account == account) {
            kvmem_tier_rank(kv, tier, kvmem_shelf_of(holder, KVMEM_REST));
            kvmem_tier_rank(kv, tier, kvmem_shelf_of(holder, KVMEM_ASKED));
        }
    }
}

void kvmem_tier_judge(struct kvmem *kv, struct kvmem_tier *tier, uint32_t account)
{
    struct kvmem_share *share = &tier->shares[account];
    uint32_t most = share->is_within ? share->min + share->min / SLACK + 1 : share->min;
    bool is_within = share->min > 0 && share->cached <= most;
    if (is_within != share->is_within) {
        tier->within += is_within ? share->cached : 0;
        tier->within -= is_within ? 0 : share->cached;
        share->is_within = is_within;
        rank_all(kv, tier, account);
    }
}

static void count_share(struct kvmem *kv, struct kvmem_tier *tier, uint32_t shelf, int32_t change)
{
    uint32_t account = kv->has_shares ? kvmem_account_of(kv, shelf) : QUOTA_ACCOUNT_NONE;
    if (account != QUOTA_ACCOUNT_NONE) {
        struct kvmem_share *share = &tier->shares[account];
        ASSERT(change > 0 || share->cached > 0);
        share->cached += (uint32_t)change;
        tier->within += share->is_within ? (uint32_t)change : 0;
        kvmem_tier_judge(kv, tier, account);
    }
}

/* True when a content of this age belongs right after the block, if that is on this shelf. */
static bool belongs_after(const struct kvmem *kv, uint32_t block, uint32_t shelf, uint64_t used_us)
{
    if (block == KVMEM_BLOCK_NONE || kv->blocks[block].state != KVMEM_CACHED ||
        kv->blocks[block].shelf != shelf || kv->blocks[block].used_us > used_us) {
        return false;
    }
    uint32_t next = kv->blocks[block].next;
    return next == KVMEM_BLOCK_NONE || kv->blocks[next].used_us > used_us;
}

/* The last content of the list that is not younger than this one's, or KVMEM_BLOCK_NONE. Contents
 * come in runs of one age, so most belong after the one that came before them. */
static uint32_t place_of(const struct kvmem *kv, const struct kvmem_tier *tier,
                         const struct kvmem_list *list, uint32_t block)
{
    const struct kvmem_block *cached = &kv->blocks[block];
    if (belongs_after(kv, tier->cached_last, cached->shelf, cached->used_us)) {
        return tier->cached_last;
    }
    uint32_t before = list->tail;
    while (before != KVMEM_BLOCK_NONE && kv->blocks[before].used_us > cached->used_us) {
        before = kv->blocks[before].prev;
    }
    return before;
}

void kvmem_tier_cache(struct kvmem *kv, uint32_t block)
{
    struct kvmem_block *cached = &kv->blocks[block];
    struct kvmem_tier *tier = tier_of(kv, block);
    struct kvmem_list *list = kvmem_contents(kv, tier, cached->shelf);
    ASSERT(cached->fill > 0);
    uint32_t before = place_of(kv, tier, list, block);
    cached->state = KVMEM_CACHED;
    tier->cached_last = block;
    list_insert(kv, list, before, block);
    tier->cached_count[kvmem_is_wanted(kv, cached->shelf)]++;
    count_share(kv, tier, cached->shelf, 1);
    if (list->head == block) {
        kvmem_tier_rank(kv, tier, cached->shelf);
    }
}

void kvmem_tier_uncache(struct kvmem *kv, uint32_t block)
{
    struct kvmem_tier *tier = tier_of(kv, block);
    uint32_t shelf = kv->blocks[block].shelf;
    struct kvmem_list *list = kvmem_contents(kv, tier, shelf);
    bool was_oldest = list->head == block;
    uint64_t used_us = kv->blocks[block].used_us;
    ASSERT(kv->blocks[block].state == KVMEM_CACHED);
    list_remove(kv, list, block);
    tier->cached_last = tier->cached_last == block ? KVMEM_BLOCK_NONE : tier->cached_last;
    tier->cached_count[kvmem_is_wanted(kv, shelf)]--;
    count_share(kv, tier, shelf, -1);
    if (was_oldest && !(list->count > 0 && kv->blocks[list->head].used_us == used_us)) {
        kvmem_tier_rank(kv, tier, shelf);       /* else it ranks as before: runs are of one age */
    }
}

void kvmem_tier_splice(struct kvmem *kv, struct kvmem_tier *tier, uint32_t from, uint32_t to)
{
    struct kvmem_list *first = kvmem_contents(kv, tier, from);
    struct kvmem_list *rest = kvmem_contents(kv, tier, to);
    uint64_t limit_us = rest->count > 0 ? kv->blocks[rest->head].used_us : UINT64_MAX;
    ASSERT(!kvmem_is_wanted(kv, from) && !kvmem_is_wanted(kv, to));
    if (first->count == 0) {
        return;
    }
    for (uint32_t i = first->head; i != KVMEM_BLOCK_NONE; i = kv->blocks[i].next) {
        struct kvmem_block *block = &kv->blocks[i];
        block->shelf = to;
        block->used_us = block->used_us < limit_us ? block->used_us : limit_us;
    }
    kv->blocks[first->tail].next = rest->head;
    if (rest->count > 0) {
        kv->blocks[rest->head].prev = first->tail;
        first->tail = rest->tail;
    }
    first->count += rest->count;
    *rest = *first;
    *first = (struct kvmem_list){.head = KVMEM_BLOCK_NONE, .tail = KVMEM_BLOCK_NONE};
    kvmem_tier_rank(kv, tier, from);
    kvmem_tier_rank(kv, tier, to);
}

uint32_t kvmem_tier_least(const struct kvmem *kv, const struct kvmem_tier *tier)
{
    uint32_t shelf = heap_first(&tier->needs);
    return shelf == HEAP_NONE ? KVMEM_BLOCK_NONE : kvmem_contents(kv, tier, shelf)->head;
}

void kvmem_tier_share(struct kvmem *kv, uint32_t block)
{
    struct kvmem_block *shared = &kv->blocks[block];
    ASSERT(!kvmem_is_host(kv, block) && shared->fill == kv->settings.block_tokens);
    if (shared->state == KVMEM_CACHED) {
        kvmem_tier_uncache(kv, block);
        shared->state = KVMEM_SHARED;
        shared->references = 0;
    }
    ASSERT(shared->state == KVMEM_SHARED);
    shared->references++;
}

void kvmem_tier_pass(struct kvmem *kv, uint32_t from, uint32_t to)
{
    kvmem_name_pass(kv, from, to);
    kv->blocks[to].used_us = kv->blocks[from].used_us;
    kvmem_tier_cache(kv, to);
}

void kvmem_tier_mirror(struct kvmem *kv, uint32_t block)
{
    struct kvmem_list *mirrors = &tier_of(kv, block)->mirrors;
    ASSERT(kv->blocks[block].state == KVMEM_LEAVING);
    kv->blocks[block].state = KVMEM_MIRROR;
    list_insert(kv, mirrors, mirrors->tail, block);
}

void kvmem_tier_unmirror(struct kvmem *kv, uint32_t block)
{
    ASSERT(kv->blocks[block].state == KVMEM_MIRROR);
    list_remove(kv, &tier_of(kv, block)->mirrors, block);
}
