/* SPDX-License-Identifier: MIT */
/*
 * What: what calls find and what they leave behind: claim, settle, keep.
 *
 *   claim    block by block from the beginning: a declared prefix's as long as there is one, then
 *            the call's own salt's: the device's copy, else the host's; behind the last
 *            full block the longest partial one that the call's tokens continue, or else the
 *            beginning of another (loan.c). What followed a block last time is looked at first:
 *            whoever claims the same again needs no hash
 *   settle   a block that has become full gets its name, or gives way to an equal one
 *   keep     settle, name the partial block at the end, and let go of the blocks, last one first
 *
 * Invariants: a call's table is a row of blocks whose contents follow each other: full ones first,
 * each the predecessor of the next; what is not full or not settled is the call's alone. A claim
 * leaves one token at least to be computed, so a call never writes in a block that it shares.
 * Bounds: claim O(blocks found), with one comparison of tokens each, and block_tokens look-ups for
 * the partial one; settle and keep O(blocks).
 */
#include "config/base/assert.h"
#include "kvmem/block.h"

static bool is_claimable(const struct kvmem *kv, uint32_t block)
{
    const struct kvmem_block *found = &kv->blocks[block];
    if (!kvmem_is_host(kv, block)) {
        return true;
    }
    /* Not while another call has it pinned, nor while a move of this step fills it. */
    return found->state == KVMEM_CACHED && found->move == KVMEM_BLOCK_NONE;
}

/* The best claimable block of this name, or KVMEM_BLOCK_NONE. */
static uint32_t find_claimable(const struct kvmem *kv, struct kvmem_name *name)
{
    uint32_t block = kvmem_name_find_any(kv, name);
    return block != KVMEM_BLOCK_NONE && is_claimable(kv, block) ? block : KVMEM_BLOCK_NONE;
}

/* This block lies behind the one that the call has at index - 1: worth a look next time. What is
 * everybody's remembers nobody, or what one finds behind it would tell that others were there. */
static void remember_after(struct kvmem *kv, uint32_t call, uint32_t index, uint32_t block)
{
    if (index > 0 && kv->blocks[kvmem_table_of(kv, call)[index - 1]].declared == 0) {
        kv->blocks[kvmem_table_of(kv, call)[index - 1]].after = block;
    }
}

/* The block of a declared prefix that has these tokens at this index of the call, or
 * KVMEM_BLOCK_NONE. */
static uint32_t find_declared(const struct kvmem *kv, uint32_t call, uint32_t index,
                              const uint32_t *tokens)
{
    if (!kvmem_name_may_be_declared(kv, call, index)) {
        return KVMEM_BLOCK_NONE;
    }
    struct kvmem_name name = kvmem_name_begin_declared(kv, call, index);
    kvmem_name_extend(&name, tokens, kv->settings.block_tokens);
    return kvmem_name_find(kv, &name, &kv->device);
}

/* The best claimable block of the next block_tokens tokens, or KVMEM_BLOCK_NONE. The device has one
 * block of a name at most, so the one that is remembered is the one that a search would find. */
static uint32_t find_full(struct kvmem *kv, uint32_t call, const uint32_t *tokens)
{
    uint32_t index = kv->calls[call].count;
    uint32_t declared = find_declared(kv, call, index, tokens);
    if (declared != KVMEM_BLOCK_NONE) {
        return declared;
    }
    struct kvmem_name name = kvmem_name_begin(kv, call, index);
    kvmem_name_extend(&name, tokens, kv->settings.block_tokens);
    if (index > 0) {
        uint32_t after = kv->blocks[kvmem_table_of(kv, call)[index - 1]].after;
        if (after < kv->device.count && kvmem_name_is_of(kv, &name, after)) {
            return after;
        }
    }
    uint32_t block = find_claimable(kv, &name);
    if (block != KVMEM_BLOCK_NONE) {
        remember_after(kv, call, index, block);
    }
    return block;
}

/* The found block becomes the next one of the call. */
static void take(struct kvmem *kv, uint32_t call, uint32_t block)
{
    struct kvmem_call *record = &kv->calls[call];
    struct kvmem_block *taken = &kv->blocks[block];
    kvmem_table_of(kv, call)[record->count++] = block;
    if (kvmem_is_host(kv, block)) {
        kvmem_tier_uncache(kv, block);
        taken->state = KVMEM_PINNED;
        taken->references = 1;
        record->pins++;
    } else if (taken->fill == kv->settings.block_tokens) {
        kvmem_tier_share(kv, block);
    } else {
        kvmem_tier_uncache(kv, block);
        taken->begun = taken->fill;
        kvmem_name_clear(kv, block);
        taken->state = KVMEM_PRIVATE;
        taken->references = 1;
    }
}

/* The longest partial block that the call continues. Returns its positions. */
static uint32_t claim_partial(struct kvmem *kv, uint32_t call, const uint32_t *tokens,
                              uint32_t count)
{
    struct kvmem_name name = kvmem_name_begin(kv, call, kv->calls[call].count);
    uint32_t best = KVMEM_BLOCK_NONE;
    uint32_t best_fill = 0;
    while (name.fill + 1 < kv->settings.block_tokens && name.fill + 1 < count) {
        kvmem_name_extend(&name, tokens + name.fill, 1);
        uint32_t block = find_claimable(kv, &name);
        if (block != KVMEM_BLOCK_NONE) {
            best = block;
            best_fill = name.fill;
        }
    }
    if (best != KVMEM_BLOCK_NONE) {
        take(kv, call, best);
    }
    return best_fill;
}

/* Is the beginning nowhere, not even where it cannot be claimed for the moment? One that is the end
 * too is what a look looks at. */
static bool is_begin_gone(const struct kvmem *kv, uint32_t call, const uint32_t *tokens,
                          uint32_t count)
{
    if (count <= kv->settings.block_tokens) {
        return false;
    }
    struct kvmem_name name = kvmem_name_begin(kv, call, 0);
    kvmem_name_extend(&name, tokens, kv->settings.block_tokens);
    return kvmem_name_find_any(kv, &name) == KVMEM_BLOCK_NONE;
}

uint32_t kvmem_claim(struct kvmem *kv, uint32_t call, uint64_t salt, const uint32_t *tokens,
                     uint32_t count)
{
    struct kvmem_call *record = &kv->calls[call];
    uint32_t block_tokens = kv->settings.block_tokens;
    ASSERT(kvmem_call_blocks(kv, call) == 0 && count > 0);
    ASSERT(count <= kv->settings.blocks_per_call * (uint64_t)block_tokens);
    ASSERT(call < kv->settings.calls ? salt < 2 * KVMEM_SALT_ALONE : salt == KVMEM_SALT_DECLARED);
    record->salt = salt;
    record->claimed = true;
    uint32_t positions = 0;
    while (count - positions > block_tokens) {
        uint32_t block = find_full(kv, call, tokens + positions);
        if (block == KVMEM_BLOCK_NONE) {
            break;
        }
        take(kv, call, block);
        positions += block_tokens;
    }
    uint32_t behind = claim_partial(kv, call, tokens + positions, count - positions);
    if (behind == 0) {
        behind = kvmem_loan_find(kv, call, tokens + positions, count - positions);
    }
    positions += behind;
    if (positions == 0 && record->kept_positions > 0 && is_begin_gone(kv, call, tokens, count)) {
        record->kept_positions = 0;     /* or it would claim in vain in every plan */
    }
    kv->counters.asked_tokens += count;
    kv->counters.claimed_tokens += positions;
    ASSERT(positions < count);
    return positions;
}

/* The block gets this name. A copy on the host has had its day: it would stay at the rank of a call
 * that is back, and nobody would lower it when the call ends. */
static void name_block(struct kvmem *kv, uint32_t block, struct kvmem_name *name)
{
    uint32_t copy = kvmem_name_set(kv, block, name);
    if (copy != KVMEM_BLOCK_NONE && kv->blocks[copy].state == KVMEM_CACHED) {
        kvmem_tier_uncache(kv, copy);
        kvmem_name_clear(kv, copy);
        kvmem_tier_release(kv, copy);
    }
}

/* The call's block at this index is full: it gets its name, or gives way to an equal one. */
static void settle_block(struct kvmem *kv, uint32_t call, uint32_t index, const uint32_t *tokens)
{
    uint32_t *entry = &kvmem_table_of(kv, call)[index];
    struct kvmem_name name = kvmem_name_begin(kv, call, index);
    kvmem_name_extend(&name, tokens, kv->settings.block_tokens);
    uint32_t equal = find_declared(kv, call, index, tokens);
    if (equal == KVMEM_BLOCK_NONE) {
        equal = kvmem_name_find(kv, &name, &kv->device);
    }
    ASSERT(kv->blocks[*entry].state == KVMEM_PRIVATE);
    if (equal != KVMEM_BLOCK_NONE) {
        kvmem_tier_share(kv, equal);
        kvmem_tier_release(kv, *entry);
        *entry = equal;
    } else {
        name_block(kv, *entry, &name);
        kv->blocks[*entry].state = KVMEM_SHARED;
        if (call >= kv->settings.calls) {
            kv->blocks[*entry].declared = call - kv->settings.calls + 1;
            kv->declared_count++;
        }
    }
    remember_after(kv, call, index, *entry);
}

void kvmem_settle(struct kvmem *kv, uint32_t call, const uint32_t *tokens, uint32_t positions)
{
    uint32_t block_tokens = kv->settings.block_tokens;
    const uint32_t *table = kvmem_table_of(kv, call);
    uint32_t full = positions / block_tokens;
    ASSERT(kvmem_blocks_ceil(positions, block_tokens) <= kvmem_call_blocks(kv, call));
    ASSERT(kv->calls[call].claimed || positions == 0);
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
    struct kvmem_name name = kvmem_name_begin(kv, call, index);
    kvmem_name_extend(&name, tokens + (positions - fill), fill);
    uint32_t equal = kvmem_name_find(kv, &name, &kv->device);
    if (equal != KVMEM_BLOCK_NONE) {
        kvmem_tier_uncache(kv, equal);
        kvmem_name_clear(kv, equal);
        kvmem_tier_release(kv, equal);
    }
    name_block(kv, block, &name);
    remember_after(kv, call, index, block);
}

/* What is left of the record of a call that gives up these positions: where they end. Ends are
 * evicted before beginnings, so the end tells of all. */
static struct kvmem_call end_of(const struct kvmem *kv, uint32_t call, uint32_t positions)
{
    uint32_t count = kvmem_blocks_ceil(positions, kv->settings.block_tokens);
    uint64_t before = count > 0 ? kv->blocks[kvmem_table_of(kv, call)[count - 1]].before : 0;
    return (struct kvmem_call){.kept_positions = positions, .kept_before = before};
}

bool kvmem_is_kept(const struct kvmem *kv, uint32_t call, const uint32_t *tokens,
                   uint32_t positions)
{
    const struct kvmem_call *record = &kv->calls[call];
    ASSERT(record->count == 0);
    if (positions == 0 || record->kept_positions != positions) {
        return false;
    }
    uint32_t index = (positions - 1) / kv->settings.block_tokens;
    uint32_t first = index * kv->settings.block_tokens;
    struct kvmem_name name = {.before = record->kept_before, .index = index};
    kvmem_name_extend(&name, tokens + first, positions - first);
    return find_claimable(kv, &name) != KVMEM_BLOCK_NONE;
}

static void keep_block(struct kvmem *kv, uint32_t block, enum kvmem_rank rank, uint64_t now_us)
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
    kept->rank = rank;
    kept->used_us = now_us;
    kvmem_tier_cache(kv, block);
}

void kvmem_keep(struct kvmem *kv, uint32_t call, const uint32_t *tokens, uint32_t positions,
                enum kvmem_rank rank, uint64_t now_us)
{
    struct kvmem_call *record = &kv->calls[call];
    kv->now_us = now_us > kv->now_us ? now_us : kv->now_us;
    if (rank == KVMEM_RETAINED && kv->settings.retain_drop_us == 0) {
        kvmem_forget(kv, call);
        return;
    }
    positions -= kvmem_loan_return(kv, call);
    kvmem_settle(kv, call, tokens, positions);
    name_partial(kv, call, tokens, positions);
    const struct kvmem_call end = end_of(kv, call, positions);
    while (record->count > 0) {
        keep_block(kv, kvmem_table_of(kv, call)[--record->count], rank, now_us);
    }
    *record = end;
}
