/* SPDX-License-Identifier: MIT */
/*
 * What: room on the device, and which content has to go for it.
 *
 * A free block is taken first, else the oldest RETAINED content leaves, else the oldest SAVED one.
 * Where to: to the host, unless the host is no place for it: a content displaces there only one of
 * lower rank, or one of its own rank that is not younger. Before that a mirror is given up
 * (mirror.c). A content that finds no room is dropped, and is recomputed if a call asks for it. So
 * is one that is too old for a call to wait until it has moved. A content that has a mirror goes
 * back to it, and nothing moves.
 *
 * Invariants: the moves that were decided for a step stay possible (move.c).
 * Bounds: O(1), but for the place in the host's list: contents come from the device oldest first,
 * so a content passes only younger ones that calls have given up on the host itself.
 */
#include "config/base/assert.h"
#include "kvmem/block.h"

/* A block without content, in no list. A move that was to fill it is void. */
static uint32_t take_free(struct kvmem *kv, struct kvmem_tier *tier)
{
    uint32_t block = kvmem_tier_pop(kv, tier);
    kvmem_move_cancel(kv, block);
    return block;
}

/* A host block for a content of this rank and age, or KVMEM_BLOCK_NONE. */
static uint32_t find_host_room(struct kvmem *kv, enum kvmem_rank rank, uint64_t used_us)
{
    if (kv->host.free.count > 0) {
        return take_free(kv, &kv->host);
    }
    uint32_t mirror = kvmem_mirror_give_up(kv);
    if (mirror != KVMEM_BLOCK_NONE) {
        return mirror;
    }
    for (uint32_t lower = KVMEM_RETAINED; lower <= (uint32_t)rank; lower++) {
        uint32_t block = kv->host.cached[lower].head;
        if (block == KVMEM_BLOCK_NONE ||
            (lower == (uint32_t)rank && kv->blocks[block].used_us > used_us)) {
            continue;
        }
        kvmem_tier_forget(kv, block);
        kvmem_move_cancel(kv, block);
        return block;
    }
    return KVMEM_BLOCK_NONE;
}

void kvmem_room_evict(struct kvmem *kv, uint32_t block)
{
    struct kvmem_block *evicted = &kv->blocks[block];
    ASSERT(!kvmem_is_host(kv, block));
    kvmem_tier_uncache(kv, block);
    if (evicted->move != KVMEM_BLOCK_NONE) {
        kvmem_move_undo(kv, block);      /* it is not here yet */
        return;
    }
    if (kvmem_mirror_return(kv, block)) {
        kv->counters.returned_blocks++;
        return;
    }
    uint32_t room = find_host_room(kv, evicted->rank, evicted->used_us);
    if (room == KVMEM_BLOCK_NONE) {
        kvmem_name_clear(kv, block);
        kv->counters.dropped_blocks++;
        return;
    }
    kvmem_tier_pass(kv, block, room);
    kvmem_move_add(kv, block, room);
}

/* No call waits for the move of a content that no call has asked for in retain_host_us. Where there
 * is nothing to move, there is nothing to wait for. */
static bool is_worth_waiting(const struct kvmem *kv, uint32_t block)
{
    const struct kvmem_block *content = &kv->blocks[block];
    return content->mirror != KVMEM_BLOCK_NONE || content->rank != KVMEM_RETAINED ||
           kv->now_us < content->used_us ||
           kv->now_us - content->used_us < kv->settings.retain_host_us;
}

uint32_t kvmem_room_take(struct kvmem *kv)
{
    if (kv->device.free.count > 0) {
        return take_free(kv, &kv->device);
    }
    uint32_t block = kv->device.cached[KVMEM_RETAINED].head;
    if (block == KVMEM_BLOCK_NONE) {
        block = kv->device.cached[KVMEM_SAVED].head;
    }
    ASSERT(block != KVMEM_BLOCK_NONE);
    if (is_worth_waiting(kv, block)) {
        kvmem_room_evict(kv, block);
        return block;
    }
    kvmem_tier_forget(kv, block);
    kvmem_move_cancel(kv, block);
    return block;
}
