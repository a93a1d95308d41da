/* SPDX-License-Identifier: MIT */
/*
 * What: the acts that follow a question: the call gets what was found and room for more, or the
 * found contents get a new place in the order of eviction, or they are forgotten.
 *
 *   found on the device, full        one more table holds it
 *   found on the device, partial     the call goes on writing in it: it loses its name
 *   found on the host                a move of the step brings it into a block of the device; where
 *                                    it is full, the host's block stays as its mirror (mirror.c)
 *   new                              the first one begins with the copy, if the answer has one
 *
 * Invariants: everything found is taken out of the lists before any room is made, so nothing that
 * the call is about to own is evicted for it. A commit cannot fail: it fits (kvmem_fits), and the
 * answer is not stale, so every block that it names still holds what was found. Entries of the
 * call's table count for nothing before that.
 * Bounds: O(blocks of the call).
 * Why is the copy source not held until the commit: move.c.
 */
#include "config/base/assert.h"
#include "kvmem/tier.h"

static void count_answer(struct kvmem *kv, const struct kvmem_answer *answer)
{
    ASSERT(!answer->is_owned && !kvmem_is_stale(kv, answer));
    kv->counters.asked_tokens += answer->asked;
    kv->counters.found_tokens += answer->positions;
}

static uint32_t before_of(const uint32_t *table, uint32_t index)
{
    return index > 0 ? table[index - 1] : KVMEM_BLOCK_NONE;
}

/* What was found at this index of the table is worth a first look next time. */
static void remember(struct kvmem *kv, const uint32_t *table, uint32_t index)
{
    kvmem_remember_after(kv, before_of(table, index), table[index]);
}

/* The found block leaves its list for the call's table. */
static void take_found(struct kvmem *kv, const uint32_t *table, uint32_t index, uint32_t holder)
{
    struct kvmem_block *found = &kv->blocks[table[index]];
    bool is_full = found->fill == kv->settings.block_tokens;
    found->is_common = found->is_common || !kvmem_is_of(found, holder);
    if (is_full) {
        remember(kv, table, index);
    }
    if (kvmem_is_host(kv, table[index])) {
        kvmem_tier_uncache(kv, table[index]);
        found->state = KVMEM_LEAVING;
    } else if (is_full) {
        kvmem_tier_share(kv, table[index]);
    } else {
        kvmem_tier_uncache(kv, table[index]);
        found->begun = found->fill;
        kvmem_name_clear(kv, table[index]);
        found->state = KVMEM_PRIVATE;
        found->references = 1;
    }
}

/* A device block that is one call's alone, whatever it holds; `before`: the one before it in the
 * call's table, or KVMEM_BLOCK_NONE. */
static uint32_t take_private(struct kvmem *kv, uint32_t account, uint32_t before)
{
    uint32_t block = kvmem_room_take(kv, account, before);
    kv->blocks[block].state = KVMEM_PRIVATE;
    kv->blocks[block].references = 1;
    kv->blocks[block].begun = 0;
    return block;
}

/* The host block's content goes to the device; the call's table names that block from now on. */
static void bring_in(struct kvmem *kv, uint32_t *table, uint32_t index, uint32_t account)
{
    uint32_t from = table[index];
    bool is_full = kv->blocks[from].fill == kv->settings.block_tokens;
    ASSERT(kv->blocks[from].state == KVMEM_LEAVING);
    ASSERT(kv->blocks[from].move == KVMEM_BLOCK_NONE);
    uint32_t to = take_private(kv, account, before_of(table, index));
    kvmem_name_pass(kv, from, to);
    if (is_full) {
        kv->blocks[to].state = KVMEM_SHARED;
        kvmem_mirror_begin(kv, to, from);
    } else {
        kvmem_name_clear(kv, to);       /* the call goes on writing in it */
    }
    kvmem_move_add(kv, from, to);
    table[index] = to;
}

static void commit_found(struct kvmem *kv, const struct kvmem_answer *answer)
{
    struct kvmem_call *record = &kv->calls[answer->call];
    ASSERT(record->count == 0);
    count_answer(kv, answer);
    for (uint32_t i = 0; i < answer->blocks; i++) {
        take_found(kv, kvmem_table_of(kv, answer->call), i, answer->holder);
    }
    record->count = answer->blocks;
    record->salt = answer->salt;
    record->holder = answer->holder;
}

void kvmem_commit(struct kvmem *kv, const struct kvmem_answer *answer, uint32_t positions)
{
    struct kvmem_call *record = &kv->calls[answer->call];
    uint32_t *table = kvmem_table_of(kv, answer->call);
    uint32_t needed = kvmem_blocks_ceil(positions, kv->settings.block_tokens);
    ASSERT(!kv->bound);
    ASSERT(needed <= kv->settings.blocks_per_call && positions >= answer->positions);
    if (!answer->is_owned) {
        commit_found(kv, answer);
    }
    uint32_t account = kv->holders[record->holder].account;
    ASSERT(record->count == answer->blocks);
    ASSERT(kvmem_missing(kv, answer, positions) <= kvmem_available(kv));
    for (uint32_t i = 0, left = answer->host_blocks; left > 0; i++) {
        if (kvmem_is_host(kv, table[i])) {
            bring_in(kv, table, i, account);
            left--;
        }
    }
    kvmem_room_make(kv, account, needed > record->count ? needed - record->count : 0);
    while (record->count < needed) {
        table[record->count] = take_private(kv, account, before_of(table, record->count));
        record->count++;
    }
    /* Else the copy source has just been handed out to the call itself. */
    if (answer->copy_positions > 0 && answer->copy_from != table[answer->blocks]) {
        kvmem_move_copy(kv, answer->copy_from, table[answer->blocks]);
    }
    kv->version++;
}

/* It is on this shelf from now on, or stays with another holder that is needed more. */
static void use_found(struct kvmem *kv, uint32_t block, struct kvmem_use use)
{
    struct kvmem_block *found = &kv->blocks[block];
    uint32_t shelf = kvmem_shelf_for(use);
    found->is_common = found->is_common || !kvmem_is_of(found, use.holder);
    kvmem_tier_uncache(kv, block);
    if (found->shelf / KVMEM_SHELVES == use.holder ||
        kvmem_need_of(kv, &kv->device, shelf, use.now_us) >=
            kvmem_need_of(kv, &kv->device, found->shelf, found->used_us)) {
        found->shelf = shelf;
    }
    found->used_us = use.now_us;
    kvmem_tier_cache(kv, block);
}

void kvmem_touch(struct kvmem *kv, const struct kvmem_answer *answer, struct kvmem_use use)
{
    const uint32_t *table = kvmem_table_of(kv, answer->call);
    if (!kvmem_is_kept(kv, use)) {
        kvmem_forget(kv, answer);
        return;
    }
    count_answer(kv, answer);
    for (uint32_t i = answer->blocks; i-- > 0;) {
        const struct kvmem_block *found = &kv->blocks[table[i]];
        if (found->fill == kv->settings.block_tokens || !kvmem_is_host(kv, table[i])) {
            remember(kv, table, i);
        }
        if (found->state == KVMEM_CACHED) {
            use_found(kv, table[i], use);
        }
    }
    if (answer->blocks > 0) {
        kv->calls[answer->call] = (struct kvmem_call){
            .kept_positions = answer->positions - answer->copy_positions,
            .kept_before = kv->blocks[table[answer->blocks - 1]].before};
    } else if (answer->is_lost) {
        kv->calls[answer->call].kept_positions = 0;     /* or it would ask in vain in every plan */
    }
}

void kvmem_forget(struct kvmem *kv, const struct kvmem_answer *answer)
{
    const uint32_t *table = kvmem_table_of(kv, answer->call);
    count_answer(kv, answer);
    for (uint32_t i = answer->blocks; i-- > 0;) {
        if (kv->blocks[table[i]].state == KVMEM_CACHED) {
            kvmem_room_free(kv, table[i]);
            kvmem_tier_release(kv, table[i]);
        }
    }
    kv->calls[answer->call] = (struct kvmem_call){0};
}
