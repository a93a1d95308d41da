/* SPDX-License-Identifier: MIT */
/*
 * What: room on the device, and which content has to go for it.
 *
 * A free block is taken first, else the oldest content of the shelf that is needed least leaves. So
 * that calls have neighbours, what goes next of its cluster goes along, where fewer than
 * settings.free_blocks are free.
 * Where to: to the host, unless the host is no place for it: a content displaces there only one
 * that is needed less, or an older one where the need is the same. Before that a mirror is given up
 * (mirror.c). A content that finds no room is dropped, and is recomputed if a call asks for it. So
 * is one that is too old for a call to wait until it has moved. A content that has a mirror goes
 * back to it, and nothing moves.
 *
 * Invariants: the moves that were decided for a step stay possible (move.c).
 * Bounds: O(log holders), but for the place in the host's list: contents of a shelf come from the
 * device oldest first, so one passes only younger ones that calls have given up on the host itself.
 */
#include "config/base/assert.h"
#include "kvmem/tier.h"

void kvmem_room_free(struct kvmem *kv, uint32_t block)
{
    kvmem_tier_uncache(kv, block);
    kvmem_name_clear(kv, block);
    kvmem_mirror_forget(kv, block);
}

void kvmem_room_forget(struct kvmem *kv, uint32_t block)
{
    kvmem_room_free(kv, block);
    kv->counters.dropped_blocks++;
}

/* A block without content, in no list. A move that was to fill it is void. */
static uint32_t take_free(struct kvmem *kv, struct kvmem_tier *tier, uint32_t before)
{
    uint32_t block = kvmem_tier_take(kv, tier, before);
    kvmem_move_cancel(kv, block);
    return block;
}

/* True when the content of the one block, in no list, may take the place of the other's. */
static bool may_displace(const struct kvmem *kv, uint32_t block, uint32_t other)
{
    const struct kvmem_block *a = &kv->blocks[block], *b = &kv->blocks[other];
    uint64_t need = kvmem_need_of(kv, &kv->host, a->shelf, a->used_us);
    uint64_t other_need = kvmem_need_of(kv, &kv->host, b->shelf, b->used_us);
    return other_need < need || (other_need == need && b->used_us <= a->used_us);
}

/* A host block for the content of this one, or KVMEM_BLOCK_NONE. */
static uint32_t find_host_room(struct kvmem *kv, uint32_t evicted)
{
    if (kv->host.free.count > 0) {
        return take_free(kv, &kv->host, KVMEM_BLOCK_NONE);
    }
    uint32_t mirror = kvmem_mirror_give_up(kv);
    if (mirror != KVMEM_BLOCK_NONE) {
        return mirror;
    }
    uint32_t block = kvmem_tier_least(kv, &kv->host);
    if (block == KVMEM_BLOCK_NONE || !may_displace(kv, evicted, block)) {
        return KVMEM_BLOCK_NONE;
    }
    kvmem_room_forget(kv, block);
    kvmem_move_cancel(kv, block);
    return block;
}

void kvmem_room_evict(struct kvmem *kv, uint32_t block)
{
    const struct kvmem_block *evicted = &kv->blocks[block];
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
    uint32_t room = find_host_room(kv, block);
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
    return content->mirror != KVMEM_BLOCK_NONE || kvmem_is_wanted(kv, content->shelf) ||
           kv->now_us < content->used_us ||
           kv->now_us - content->used_us < kv->settings.retain_host_us;
}

static void give_up(struct kvmem *kv, uint32_t block)
{
    ASSERT(block != KVMEM_BLOCK_NONE);
    if (is_worth_waiting(kv, block)) {
        kvmem_room_evict(kv, block);
    } else {
        kvmem_room_forget(kv, block);
        kvmem_move_cancel(kv, block);
    }
    kvmem_tier_release(kv, block);
}

void kvmem_room_make(struct kvmem *kv, uint32_t account, uint32_t blocks)
{
    while (kvmem_free(kv) < blocks) {
        give_up(kv, kvmem_share_least(kv, account));
    }
}

/* A content that goes although blocks are free: no call waits for it, its holder is not protected,
 * and it is within no other account's minimum. */
static bool may_go_early(const struct kvmem *kv, uint32_t block, uint32_t account)
{
    return block != KVMEM_BLOCK_NONE && !kvmem_is_wanted(kv, kv->blocks[block].shelf) &&
           !kvmem_is_protected(kv, kv->blocks[block].shelf) &&
           !kvmem_share_withholds(kv, block, account);
}

/* The content that goes next, and what goes after it as long as it is of the same cluster. */
static void make_cluster(struct kvmem *kv, uint32_t account)
{
    uint32_t block = kvmem_tier_least(kv, &kv->device);
    uint32_t cluster = block / KVMEM_CLUSTER;
    while (may_go_early(kv, block, account) && block / KVMEM_CLUSTER == cluster) {
        give_up(kv, block);
        block = kvmem_tier_least(kv, &kv->device);
    }
}

uint32_t kvmem_room_take(struct kvmem *kv, uint32_t account, uint32_t before)
{
    kvmem_room_make(kv, account, 1);
    if (kvmem_free(kv) < kv->settings.free_blocks && !kvmem_tier_has_cluster(kv, before)) {
        make_cluster(kv, account);
    }
    return take_free(kv, &kv->device, before);
}
