/* SPDX-License-Identifier: MIT */
/*
 * What: the lists of a tier, and the order in which contents have to go.
 *
 *   free      a stack; block `first` is on top at boot
 *   cached    for each rank the contents that no call holds, oldest first; the blocks of a call are
 *             given up at one time, the last one first, so ends go before beginnings
 *
 * Room on the device: a free block, else the oldest RETAINED content leaves, else the oldest SAVED
 * one. Where to: to the host, unless it has the content already or is no place for it: a content
 * displaces there only one of lower rank, or one of its own rank that is not younger. What finds
 * no room is dropped and will be recomputed if anybody asks; so is what is too old for a call to
 * wait until it has moved.
 *
 * Invariants: lists are sorted by age; the moves that were decided for a step stay possible
 * (move.c).
 * Bounds: O(1), but for the place in the host's list: contents come from the device oldest first,
 * so it is passed only by younger ones that were given back on the host itself.
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

/* Behind `before`; NONE: to the head. */
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
    released->state = KVMEM_FREE;
    released->references = 0;
    list_insert(kv, &tier_of(kv, block)->free, KVMEM_BLOCK_NONE, block);
}

void kvmem_tier_cache(struct kvmem *kv, uint32_t block)
{
    struct kvmem_block *cached = &kv->blocks[block];
    struct kvmem_list *list = &tier_of(kv, block)->cached[cached->rank];
    ASSERT(cached->fill > 0 && cached->references == 0);
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
    }
    ASSERT(shared->state == KVMEM_SHARED);
    shared->references++;
}

void kvmem_tier_forget(struct kvmem *kv, uint32_t block)
{
    kvmem_tier_uncache(kv, block);
    kvmem_name_clear(kv, block);
    kv->counters.dropped_blocks++;
}

/* A block without content, in no list. A move that was to fill it is void. */
static uint32_t pop_free(struct kvmem *kv, struct kvmem_tier *tier)
{
    uint32_t block = tier->free.head;
    ASSERT(block != KVMEM_BLOCK_NONE);
    ASSERT(kv->blocks[block].state == KVMEM_FREE);
    list_remove(kv, &tier->free, block);
    if (kv->blocks[block].move != KVMEM_BLOCK_NONE) {
        kvmem_move_cancel(kv, block);
    }
    return block;
}

/* A host block for a content of this rank and age, or KVMEM_BLOCK_NONE. */
static uint32_t find_host_room(struct kvmem *kv, enum kvmem_rank rank, uint64_t used_us)
{
    if (kv->host.free.count > 0) {
        return pop_free(kv, &kv->host);
    }
    for (uint32_t lower = KVMEM_RETAINED; lower <= (uint32_t)rank; lower++) {
        uint32_t block = kv->host.cached[lower].head;
        if (block == KVMEM_BLOCK_NONE ||
            (lower == (uint32_t)rank && kv->blocks[block].used_us > used_us)) {
            continue;
        }
        kvmem_tier_forget(kv, block);
        if (kv->blocks[block].move != KVMEM_BLOCK_NONE) {
            kvmem_move_cancel(kv, block);
        }
        return block;
    }
    return KVMEM_BLOCK_NONE;
}

/* The host has this content: its copy takes over the better rank and age. */
static void renew_copy(struct kvmem *kv, uint32_t copy, const struct kvmem_block *content)
{
    struct kvmem_block *block = &kv->blocks[copy];
    bool is_cached = block->state == KVMEM_CACHED;
    if (is_cached) {
        kvmem_tier_uncache(kv, copy);
    }
    block->rank = content->rank > block->rank ? content->rank : block->rank;
    block->used_us = content->used_us > block->used_us ? content->used_us : block->used_us;
    if (is_cached) {
        kvmem_tier_cache(kv, copy);
    }
}

void kvmem_tier_evict(struct kvmem *kv, uint32_t block)
{
    struct kvmem_block *evicted = &kv->blocks[block];
    struct kvmem_name name = kvmem_name_of(kv, block);
    ASSERT(!kvmem_is_host(kv, block));
    kvmem_tier_uncache(kv, block);
    if (evicted->move != KVMEM_BLOCK_NONE) {
        kvmem_move_undo(kv, block);      /* it is not here yet */
        return;
    }
    uint32_t copy = kvmem_name_find(kv, &name, &kv->host);
    if (copy != KVMEM_BLOCK_NONE) {
        renew_copy(kv, copy, evicted);
        kvmem_name_clear(kv, block);
        return;
    }
    uint32_t room = find_host_room(kv, evicted->rank, evicted->used_us);
    if (room == KVMEM_BLOCK_NONE) {
        kvmem_name_clear(kv, block);
        kv->counters.dropped_blocks++;
        return;
    }
    kvmem_name_pass(kv, block, room);
    kvmem_move_add(kv, block, room);
    kvmem_tier_cache(kv, room);
}

/* Nobody waits for the move of a content that nobody has asked for in retain_host_us. */
static bool is_worth_waiting(const struct kvmem *kv, uint32_t block)
{
    const struct kvmem_block *content = &kv->blocks[block];
    return content->rank != KVMEM_RETAINED || kv->now_us < content->used_us ||
           kv->now_us - content->used_us < kv->settings.retain_host_us;
}

uint32_t kvmem_tier_take(struct kvmem *kv)
{
    if (kv->device.free.count > 0) {
        return pop_free(kv, &kv->device);
    }
    uint32_t block = kv->device.cached[KVMEM_RETAINED].head;
    if (block == KVMEM_BLOCK_NONE) {
        block = kv->device.cached[KVMEM_SAVED].head;
    }
    ASSERT(block != KVMEM_BLOCK_NONE);
    if (is_worth_waiting(kv, block)) {
        kvmem_tier_evict(kv, block);
        return block;
    }
    kvmem_tier_forget(kv, block);
    if (kv->blocks[block].move != KVMEM_BLOCK_NONE) {
        kvmem_move_cancel(kv, block);
    }
    return block;
}
