/* SPDX-License-Identifier: MIT */
/*
 * What: what calls leave behind: settle, keep, drop.
 *
 *   settle   a block that has become full gets its name, or gives way to an equal one
 *   keep     settle, name the partial block at the end, and let go of the blocks, last one first
 *   drop     let go of the blocks; what no other call holds loses its name
 *
 * Invariants: a call's table is a row of blocks whose contents follow each other: full ones first,
 * each the predecessor of the next; what is not full or not settled is the call's alone.
 * Bounds: O(blocks of the call).
 */
#include "config/base/assert.h"
#include "kvmem/tier.h"

#define TABLE_POISON UINT32_MAX     /* what a released entry of a table holds */

/* What lies before this index of the call's table. */
static uint32_t before_of(const struct kvmem *kv, uint32_t call, uint32_t index)
{
    return index > 0 ? kvmem_table_of(kv, call)[index - 1] : KVMEM_BLOCK_NONE;
}

/* The block gets this name. A copy on the host, if any, is freed: a name has one block. */
static void name_block(struct kvmem *kv, uint32_t block, struct kvmem_name *name, uint32_t copy)
{
    kvmem_name_set(kv, block, name, copy);
    if (copy != KVMEM_BLOCK_NONE) {
        kvmem_tier_uncache(kv, copy);
        kvmem_tier_release(kv, copy);
    }
}

/* The block of either tier that is equal to the call's at this index, or KVMEM_BLOCK_NONE. */
static uint32_t find_equal(const struct kvmem *kv, uint32_t call, uint32_t index,
                           struct kvmem_name *name)
{
    uint32_t equal = KVMEM_BLOCK_NONE;
    if (name->fill == kv->settings.block_tokens) {
        equal = kvmem_name_find_declared(kv, kv->calls[call].salt, before_of(kv, call, index),
                                         name->tokens);
    }
    return equal == KVMEM_BLOCK_NONE ? kvmem_name_find(kv, name) : equal;
}

/* The call's block at this index is full: it gets its name, or gives way to an equal one. */
static void settle_block(struct kvmem *kv, uint32_t call, uint32_t index, const uint32_t *tokens)
{
    uint32_t *entry = &kvmem_table_of(kv, call)[index];
    uint32_t before = before_of(kv, call, index);
    struct kvmem_name name = kvmem_name_begin(kv, kv->calls[call].salt, before);
    kvmem_name_extend(&name, tokens, kv->settings.block_tokens);
    uint32_t equal = find_equal(kv, call, index, &name);
    ASSERT(kv->blocks[*entry].state == KVMEM_PRIVATE);
    if (equal < kv->device.count) {
        kv->blocks[equal].is_common =
            kv->blocks[equal].is_common ||
            !kvmem_is_of(&kv->blocks[equal], kv->calls[call].holder);
        kvmem_tier_share(kv, equal);
        kvmem_tier_release(kv, *entry);
        *entry = equal;
    } else {
        name_block(kv, *entry, &name, equal);
        kv->blocks[*entry].state = KVMEM_SHARED;
        kv->blocks[*entry].shelf = kvmem_shelf_of(kv->calls[call].holder, KVMEM_REST);
        if (call >= kv->settings.calls) {
            kv->blocks[*entry].declared = call - kv->settings.calls + 1;
            kv->declared_count++;
        }
    }
    kvmem_remember_after(kv, before, *entry);
}

void kvmem_settle(struct kvmem *kv, uint32_t call, const uint32_t *tokens, uint32_t positions)
{
    uint32_t block_tokens = kv->settings.block_tokens;
    const uint32_t *table = kvmem_table_of(kv, call);
    uint32_t full = positions / block_tokens;
    ASSERT(kvmem_blocks_ceil(positions, block_tokens) <= kvmem_call_blocks(kv, call));
    uint32_t index = full;
    while (index > 0 && kv->blocks[table[index - 1]].fill == 0) {
        index--;
    }
    for (; index < full; index++) {
        settle_block(kv, call, index, tokens + (uint64_t)index * block_tokens);
    }
}

/* The block that `positions` end in gets a name too, in place of an equal one. */
static void name_partial(struct kvmem *kv, uint32_t call, const uint32_t *tokens,
                         uint32_t positions)
{
    uint32_t index = positions / kv->settings.block_tokens;
    uint32_t fill = positions % kv->settings.block_tokens;
    uint32_t block = fill > 0 ? kvmem_table_of(kv, call)[index] : KVMEM_BLOCK_NONE;
    if (fill == 0 || kv->blocks[block].state != KVMEM_PRIVATE) {
        return;
    }
    uint32_t before = before_of(kv, call, index);
    struct kvmem_name name = kvmem_name_begin(kv, kv->calls[call].salt, before);
    kvmem_name_extend(&name, tokens + (positions - fill), fill);
    uint32_t equal = find_equal(kv, call, index, &name);
    if (equal < kv->device.count) {
        kvmem_tier_uncache(kv, equal);
        kvmem_name_clear(kv, equal);
        kvmem_tier_release(kv, equal);
        equal = KVMEM_BLOCK_NONE;
    }
    name_block(kv, block, &name, equal);
    kvmem_remember_after(kv, before, block);
}

/* What is left of the record of a call that gives up these positions: where they end. */
static struct kvmem_call end_of(const struct kvmem *kv, uint32_t call, uint32_t positions)
{
    uint32_t count = kvmem_blocks_ceil(positions, kv->settings.block_tokens);
    uint64_t before = count > 0 ? kv->blocks[kvmem_table_of(kv, call)[count - 1]].before : 0;
    return (struct kvmem_call){.kept_positions = positions, .kept_before = before};
}

bool kvmem_is_kept(struct kvmem *kv, struct kvmem_use use)
{
    kv->now_us = use.now_us > kv->now_us ? use.now_us : kv->now_us;
    return kvmem_is_wanted(kv, kvmem_shelf_for(use)) || kv->settings.retain_drop_us > 0;
}

static void keep_block(struct kvmem *kv, uint32_t block, struct kvmem_use use)
{
    struct kvmem_block *kept = &kv->blocks[block];
    ASSERT(kept->references > 0);
    if (--kept->references > 0) {
        return;
    }
    if (kept->fill == 0) {
        kvmem_tier_release(kv, block);
        return;
    }
    kept->shelf = kvmem_shelf_for(use);
    kept->used_us = use.now_us;
    kvmem_tier_cache(kv, block);
}

void kvmem_keep(struct kvmem *kv, uint32_t call, const uint32_t *tokens, uint32_t positions,
                struct kvmem_use use)
{
    struct kvmem_call *record = &kv->calls[call];
    if (!kvmem_is_kept(kv, use)) {
        kvmem_drop(kv, call);
        return;
    }
    kvmem_settle(kv, call, tokens, positions);
    name_partial(kv, call, tokens, positions);
    const struct kvmem_call end = end_of(kv, call, positions);
    while (record->count > 0) {
        keep_block(kv, kvmem_table_of(kv, call)[--record->count], use);
    }
    *record = end;
}

static void drop_block(struct kvmem *kv, uint32_t block)
{
    struct kvmem_block *dropped = &kv->blocks[block];
    ASSERT(dropped->references > 0);
    if (--dropped->references > 0) {
        ASSERT(dropped->state == KVMEM_SHARED);
        return;
    }
    if (dropped->fill > 0) {
        kvmem_name_clear(kv, block);
        kvmem_mirror_forget(kv, block);
    }
    kvmem_tier_release(kv, block);
}

void kvmem_drop(struct kvmem *kv, uint32_t call)
{
    ASSERT(call < kvmem_calls_count(&kv->settings));
    struct kvmem_call *record = &kv->calls[call];
    uint32_t *table = kvmem_table_of(kv, call);
    while (record->count > 0) {
        uint32_t index = --record->count;
        drop_block(kv, table[index]);
        table[index] = TABLE_POISON;
    }
    *record = (struct kvmem_call){0};
}
