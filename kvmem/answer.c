/* SPDX-License-Identifier: MIT */
/*
 * What: what is there for a call, and what it would take to give it more. Nothing here changes a
 * block, a list or a name; commit.c acts.
 *
 *   full       block by block from the beginning: a declared prefix's as long as there is one, then
 *              those under the call's own salt. What followed a block last time (block.after) is
 *              looked at first: a call that asks for the same again needs no hash
 *   partial    after the last full block, the longest block that is not full and that the call's
 *              tokens continue
 *   copy       or else the beginning of what followed the last full block last time: a block of the
 *              device with content, or one that its call has taken over, whose beginning is known.
 *              So two calls of the same prompt are found, and two branches of one history
 *   end        a question for all or nothing looks first at the place where the positions end that
 *              the call gave up last. Ends are evicted before beginnings, so the end tells of all.
 *              It is wrong where the end outlived what comes before it: then less is found, and a
 *              call whose first block is nowhere is not looked at again (kvmem_touch). It is also
 *              wrong where another call has computed the same since: then nothing is found
 *
 * Invariants: the found blocks follow each other, full ones first. One token at least is left to be
 * computed, so a call never writes in a block that it shares. A block that a move of this step
 * fills is not found on the host, and is no copy source: its bytes are not there yet. An answer
 * that ends before such a block says so (is_under_way): once the step is done, one finds more.
 * Bounds: O(blocks found), with one comparison of tokens each, block_tokens look-ups for the
 * partial one, one block for the copy source. Why not all that ever followed the block: the last
 * one is nearly always the best (docs/decisions/0005 has figures).
 */
#include "config/base/assert.h"

#include "config/base/bounds.h"
#include "kvmem/block.h"

/* True when a move of this step takes the content, found in this block or nowhere, to the host. */
static bool is_under_way(const struct kvmem *kv, uint32_t block)
{
    return block != KVMEM_BLOCK_NONE && kvmem_is_host(kv, block) &&
           kv->blocks[block].move != KVMEM_BLOCK_NONE;
}

/* The last block found so far, or KVMEM_BLOCK_NONE. */
static uint32_t last_found(const struct kvmem *kv, const struct kvmem_answer *answer)
{
    return answer->blocks > 0 ? kvmem_table_of(kv, answer->call)[answer->blocks - 1]
                              : KVMEM_BLOCK_NONE;
}

static void add_found(const struct kvmem *kv, struct kvmem_answer *answer, uint32_t block)
{
    kvmem_table_of(kv, answer->call)[answer->blocks++] = block;
    answer->host_blocks += kvmem_is_host(kv, block);
    answer->declared_blocks += kv->blocks[block].declared > 0;
    if (kv->blocks[block].declared == 0 &&
        (kv->blocks[block].is_common || !kvmem_is_of(&kv->blocks[block], answer->holder))) {
        answer->common_blocks++;
        answer->common_identity = kv->blocks[block].identity;
    }
    answer->positions += kv->blocks[block].fill;
}

/* The next block_tokens tokens. False: no block holds them. */
static bool find_full(const struct kvmem *kv, struct kvmem_answer *answer, const uint32_t *tokens)
{
    uint32_t before = last_found(kv, answer);
    uint32_t block = kvmem_name_find_declared(kv, answer->salt, before, tokens);
    if (block != KVMEM_BLOCK_NONE) {
        add_found(kv, answer, block);
        return true;
    }
    struct kvmem_name name = kvmem_name_begin(kv, answer->salt, before);
    kvmem_name_extend(&name, tokens, kv->settings.block_tokens);
    block = before != KVMEM_BLOCK_NONE ? kv->blocks[before].after : KVMEM_BLOCK_NONE;
    if (block >= kv->device.count || !kvmem_name_is_of(kv, &name, block)) {
        block = kvmem_name_find(kv, &name);
    }
    answer->is_under_way = is_under_way(kv, block);
    answer->is_lost = answer->blocks == 0 && block == KVMEM_BLOCK_NONE;
    if (answer->is_under_way || block == KVMEM_BLOCK_NONE) {
        return false;
    }
    add_found(kv, answer, block);
    return true;
}

/* The longest partial block that the next `count` tokens continue. False: there is none. */
static bool find_partial(const struct kvmem *kv, struct kvmem_answer *answer,
                         const uint32_t *tokens, uint32_t count)
{
    struct kvmem_name name = kvmem_name_begin(kv, answer->salt, last_found(kv, answer));
    uint32_t below = lesser(kv->settings.block_tokens, count);
    uint32_t longest = kvmem_name_find_longest(kv, &name, tokens, below);
    answer->is_under_way = is_under_way(kv, longest);
    if (answer->is_under_way || longest == KVMEM_BLOCK_NONE) {
        return false;
    }
    add_found(kv, answer, longest);
    return true;
}

/* The block in which the next `count` tokens have a common beginning with others. */
static void find_copy_source(const struct kvmem *kv, struct kvmem_answer *answer,
                             const uint32_t *tokens, uint32_t count)
{
    uint32_t before = last_found(kv, answer);
    if (before == KVMEM_BLOCK_NONE || kv->copies_count == kv->settings.calls) {
        return;
    }
    uint32_t from = kv->blocks[before].after;
    if (from >= kv->device.count || kv->blocks[from].move != KVMEM_BLOCK_NONE) {
        return;
    }
    struct kvmem_name name = kvmem_name_begin(kv, answer->salt, before);
    kvmem_name_extend(&name, tokens, lesser(count, kv->settings.block_tokens) - 1);
    answer->copy_from = from;
    answer->copy_positions = kvmem_name_common(kv, &name, from);
    answer->positions += answer->copy_positions;
}

/* True when the content is there in which all positions but the last one end, and the call gave up
 * these positions last. */
static bool is_end_there(const struct kvmem *kv, const struct kvmem_question *question)
{
    const struct kvmem_call *record = &kv->calls[question->call];
    uint32_t positions = question->count - 1;
    if (positions == 0 || record->kept_positions != positions) {
        return false;
    }
    uint32_t index = (positions - 1) / kv->settings.block_tokens;
    uint32_t first = index * kv->settings.block_tokens;
    struct kvmem_name name = {.before = record->kept_before, .index = index};
    kvmem_name_extend(&name, question->tokens + first, positions - first);
    uint32_t block = kvmem_name_find(kv, &name);
    return block != KVMEM_BLOCK_NONE && !is_under_way(kv, block);
}

static void find_beginning(const struct kvmem *kv, struct kvmem_answer *answer,
                           const uint32_t *tokens, uint32_t count)
{
    while (count - answer->positions > kv->settings.block_tokens &&
           find_full(kv, answer, tokens + answer->positions)) {
    }
    uint32_t full = answer->positions;
    if (!answer->is_under_way && !find_partial(kv, answer, tokens + full, count - full)) {
        find_copy_source(kv, answer, tokens + full, count - full);
    }
    ASSERT(answer->positions < count);
}

struct kvmem_answer kvmem_ask(const struct kvmem *kv, const struct kvmem_question *question)
{
    uint32_t count = question->count;
    uint32_t owned = kvmem_call_blocks(kv, question->call);
    struct kvmem_answer answer = {.call = question->call, .blocks = owned, .is_owned = owned > 0,
                                  .holder = question->holder,
                                  .salt = question->salt, .version = kv->version};
    ASSERT(count > 0 && count <= kv->settings.blocks_per_call *
                                 (uint64_t)kv->settings.block_tokens);
    ASSERT(question->call < kv->settings.calls ? question->salt < 2 * KVMEM_SALT_ALONE
                                               : question->salt == KVMEM_SALT_DECLARED);
    if (!answer.is_owned && (!question->whole || is_end_there(kv, question))) {
        answer.asked = count;
        find_beginning(kv, &answer, question->tokens, count);
    }
    return answer;
}

bool kvmem_is_stale(const struct kvmem *kv, const struct kvmem_answer *answer)
{
    return !answer->is_owned && answer->version != kv->version;
}

uint32_t kvmem_missing(const struct kvmem *kv, const struct kvmem_answer *answer,
                       uint32_t positions)
{
    uint32_t needed = kvmem_blocks_ceil(positions, kv->settings.block_tokens);
    return answer->host_blocks + (needed > answer->blocks ? needed - answer->blocks : 0);
}

/* Of the device blocks that are available. */
static uint64_t needed_of(const struct kvmem *kv, const struct kvmem_answer *answer,
                          uint32_t positions)
{
    const uint32_t *table = kvmem_table_of(kv, answer->call);
    uint64_t needed = kvmem_missing(kv, answer, positions);
    for (uint32_t i = 0; !answer->is_owned && i < answer->blocks; i++) {
        needed += kv->blocks[table[i]].state == KVMEM_CACHED && !kvmem_is_host(kv, table[i]);
    }
    return needed;
}

bool kvmem_fits(const struct kvmem *kv, const struct kvmem_answer *answer, uint32_t positions)
{
    return needed_of(kv, answer, positions) <= kvmem_available(kv);
}

bool kvmem_fits_beside(const struct kvmem *kv, const struct kvmem_answer *answer,
                       uint32_t positions)
{
    uint32_t withheld = kvmem_withheld(kv, answer->holder);
    return needed_of(kv, answer, positions) + withheld <= kvmem_available(kv);
}
