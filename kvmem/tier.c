/* SPDX-License-Identifier: MIT */
/*
 * What: the lists of both tiers.
 *
 *   free      a stack; block `first` is on top at boot
 *   cached    for each rank the contents that no call holds, oldest first; the blocks of a call are
 *             given up at one time, the last one first, so ends go before beginnings
 *   mirrors     on the host: those that hold what a block of the device holds too, oldest first
 *
 * Invariants: a block is in one list at most, that of its state; cached lists are sorted by age.
 * Bounds: O(1), but for kvmem_tier_cache(): O(younger contents of the list).
 */
#include "config/base/assert.h"
#include "kvmem/block.h"

static void list_remove(struct kvmem *kv, struct kvmem_list *list, uint32_t block)
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
static void list_insert(struct kvmem *kv, struct kvmem_list *list, uint32_t before, uint32_t block)
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

void kvmem_tier_release(struct kvmem *kv, uint32_t block)
{
    struct kvmem_block *released = &kv->blocks[block];
    ASSERT(released->fill == 0 && released->state != KVMEM_FREE);
    ASSERT(released->mirror == KVMEM_BLOCK_NONE);
    released->state = KVMEM_FREE;
    list_insert(kv, &tier_of(kv, block)->free, KVMEM_BLOCK_NONE, block);
}

uint32_t kvmem_tier_pop(struct kvmem *kv, struct kvmem_tier *tier)
{
    uint32_t block = tier->free.head;
    ASSERT(block != KVMEM_BLOCK_NONE);
    ASSERT(kv->blocks[block].state == KVMEM_FREE);
    list_remove(kv, &tier->free, block);
    return block;
}

void kvmem_tier_cache(struct kvmem *kv, uint32_t block)
{
    struct kvmem_block *cached = &kv->blocks[block];
    struct kvmem_list *list = &tier_of(kv, block)->cached[cached->rank];
    ASSERT(cached->fill > 0);
    uint32_t before = list->tail;
    while (before != KVMEM_BLOCK_NONE && kv->blocks[before].used_us > cached->used_us) {
        before = kv->blocks[before].prev;
    }
    cached->state = KVMEM_CACHED;
    list_insert(kv, list, before, block);
}

void kvmem_tier_uncache(struct kvmem *kv, uint32_t block)
{
    ASSERT(kv->blocks[block].state == KVMEM_CACHED);
    list_remove(kv, &tier_of(kv, block)->cached[kv->blocks[block].rank], block);
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
    kv->blocks[to].rank = kv->blocks[from].rank;
    kv->blocks[to].used_us = kv->blocks[from].used_us;
    kvmem_tier_cache(kv, to);
}

void kvmem_tier_forget(struct kvmem *kv, uint32_t block)
{
    kvmem_tier_uncache(kv, block);
    kvmem_name_clear(kv, block);
    kvmem_mirror_forget(kv, block);
    kv->counters.dropped_blocks++;
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
