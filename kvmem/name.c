/* SPDX-License-Identifier: MIT */
/*
 * What: names of contents, and the hash table that finds a content by its name.
 *
 * The hash of a name is the upper half of
 *
 *     key + key * before (two halves) + key * index + sum of key * (token + 1)
 *
 * modulo 2^64, each with a key of its own (multilinear hashing: Lemire and Kaser, "Strongly
 * universal string hashing is fast", Computer Journal 57(11), 2014). The products do not wait for
 * each other, and the hashes of a block's beginnings come for free on the way to its own. It only
 * finds: a hit counts when fill, index, identity of the content before and the tokens are equal. By
 * induction over the index, two contents with the same name are of the same tokens under the same
 * salt, whatever collides. A declared prefix is a chain under a salt of its own. A call that goes
 * on after it begins a chain again, under the call's salt and the prefix's number.
 *
 * Invariants: at most one block has a given name; identities are never given twice.
 * Bounds: a chain has a quarter of a block on average (there are four heads for each), whatever
 * clients send: the keys come from settings.hash_key, and without them a client cannot tell which
 * tokens meet in a chain.
 * Why not trust the hash: tokens come from clients, and a wrong hit would show one the text of
 * another.
 */
#include <string.h>

#include "config/base/assert.h"
#include "config/base/splitmix.h"
#include "kvmem/block.h"

void kvmem_name_init(struct kvmem *kv)
{
    for (uint32_t i = 0; i < KVMEM_NAME_KEYS + kv->settings.block_tokens; i++) {
        kv->hash_keys[i] = splitmix_at(kv->settings.hash_key, i);
    }
}

static uint32_t *head_of(const struct kvmem *kv, uint32_t hash)
{
    return &kv->hash[hash & kv->hash_mask];
}

static uint32_t *tokens_of(const struct kvmem *kv, uint32_t block)
{
    return kv->tokens + (uint64_t)block * kv->settings.block_tokens;
}

static const struct kvmem_block *full_block(const struct kvmem *kv, uint32_t block)
{
    ASSERT(kv->blocks[block].fill == kv->settings.block_tokens);
    return &kv->blocks[block];
}

struct kvmem_name kvmem_name_begin(const struct kvmem *kv, uint64_t salt, uint32_t before)
{
    if (before == KVMEM_BLOCK_NONE) {
        return (struct kvmem_name){.before = salt};
    }
    const struct kvmem_block *block = full_block(kv, before);
    bool parts = block->declared > 0 && salt != KVMEM_SALT_DECLARED;
    return (struct kvmem_name){
        .before = parts ? salt | (uint64_t)block->declared * (2 * KVMEM_SALT_ALONE)
                        : block->identity,
        .index = block->index + 1};
}

bool kvmem_name_may_be_declared(const struct kvmem *kv, uint64_t salt, uint32_t before)
{
    if (kv->settings.prefixes == 0 || (salt & KVMEM_SALT_ALONE) != 0) {
        return false;
    }
    return before == KVMEM_BLOCK_NONE || kv->blocks[before].declared > 0;
}

struct kvmem_name kvmem_name_begin_declared(const struct kvmem *kv, uint32_t before)
{
    if (before == KVMEM_BLOCK_NONE) {
        return (struct kvmem_name){.before = KVMEM_SALT_DECLARED};
    }
    const struct kvmem_block *block = full_block(kv, before);
    return (struct kvmem_name){.before = block->identity, .index = block->index + 1};
}

uint32_t kvmem_name_find_declared(const struct kvmem *kv, uint64_t salt, uint32_t before,
                                  const uint32_t *tokens)
{
    if (!kvmem_name_may_be_declared(kv, salt, before)) {
        return KVMEM_BLOCK_NONE;
    }
    struct kvmem_name name = kvmem_name_begin_declared(kv, before);
    kvmem_name_extend(&name, tokens, kv->settings.block_tokens);
    return kvmem_name_find(kv, &name);
}

/* Inline, as the look-up is: a name that grows token by token is hashed and looked up for each. */
static inline uint32_t hash_of(const struct kvmem *kv, struct kvmem_name *name)
{
    const uint64_t *keys = kv->hash_keys;
    const uint64_t *token_keys = keys + KVMEM_NAME_KEYS;
    uint64_t sum = name->sum;
    ASSERT(name->fill > 0 && name->fill <= kv->settings.block_tokens);
    if (name->summed == 0) {
        sum = keys[0] + keys[1] * (uint32_t)name->before + keys[2] * (name->before >> 32) +
              keys[3] * name->index;
    }
    STATIC_ASSERT(KVMEM_NAME_KEYS == 4, "one for each term but those of tokens");
    for (uint32_t i = name->summed; i < name->fill; i++) {
        sum += token_keys[i] * (name->tokens[i] + UINT64_C(1));
    }
    name->sum = sum;
    name->summed = name->fill;
    return (uint32_t)(sum >> 32);
}

uint32_t kvmem_name_hash(const struct kvmem *kv, struct kvmem_name *name)
{
    return hash_of(kv, name);
}

uint32_t kvmem_name_common(const struct kvmem *kv, const struct kvmem_name *name, uint32_t block)
{
    const struct kvmem_block *other = &kv->blocks[block];
    uint32_t known = other->state == KVMEM_PRIVATE ? other->begun : other->fill;
    uint32_t common = 0;
    if (other->before != name->before || other->index != name->index) {
        return 0;
    }
    while (common < known && common < name->fill &&
           tokens_of(kv, block)[common] == name->tokens[common]) {
        common++;
    }
    return common;
}

bool kvmem_name_is_of(const struct kvmem *kv, const struct kvmem_name *name, uint32_t block)
{
    const struct kvmem_block *named = &kv->blocks[block];
    return named->before == name->before && named->index == name->index &&
           named->fill == name->fill &&
           memcmp(tokens_of(kv, block), name->tokens, name->fill * sizeof(uint32_t)) == 0;
}

static inline uint32_t find(const struct kvmem *kv, struct kvmem_name *name)
{
    uint32_t block = *head_of(kv, hash_of(kv, name));
    while (block != KVMEM_BLOCK_NONE && !kvmem_name_is_of(kv, name, block)) {
        block = kv->blocks[block].chain_next;
    }
    return block;
}

uint32_t kvmem_name_find(const struct kvmem *kv, struct kvmem_name *name)
{
    return find(kv, name);
}

uint32_t kvmem_name_find_longest(const struct kvmem *kv, struct kvmem_name *name,
                                 const uint32_t *tokens, uint32_t below)
{
    uint32_t longest = KVMEM_BLOCK_NONE;
    while (name->fill + 1 < below) {
        kvmem_name_extend(name, tokens + name->fill, 1);
        uint32_t block = find(kv, name);
        longest = block != KVMEM_BLOCK_NONE ? block : longest;
    }
    return longest;
}

struct kvmem_name kvmem_name_of(const struct kvmem *kv, uint32_t block)
{
    const struct kvmem_block *named = &kv->blocks[block];
    ASSERT(named->fill > 0);
    return (struct kvmem_name){.before = named->before, .index = named->index,
                               .fill = named->fill, .tokens = tokens_of(kv, block),
                               .sum = (uint64_t)named->hash << 32, .summed = named->fill};
}

static void insert(struct kvmem *kv, uint32_t block, struct kvmem_name *name, uint64_t identity)
{
    struct kvmem_block *named = &kv->blocks[block];
    uint32_t hash = hash_of(kv, name);
    uint32_t *head = head_of(kv, hash);
    ASSERT(named->fill == 0);
    named->hash = hash;
    named->before = name->before;
    named->index = name->index;
    named->fill = name->fill;
    named->identity = identity;
    named->chain_next = *head;
    *head = block;
    memcpy(tokens_of(kv, block), name->tokens, name->fill * sizeof(uint32_t));
}

void kvmem_name_set(struct kvmem *kv, uint32_t block, struct kvmem_name *name, uint32_t copy)
{
    ASSERT(!kvmem_is_host(kv, block));
    ASSERT(kv->next_identity < UINT64_MAX);
    if (copy == KVMEM_BLOCK_NONE) {
        insert(kv, block, name, kv->next_identity++);
        return;
    }
    ASSERT(kvmem_is_host(kv, copy) && kvmem_name_is_of(kv, name, copy));
    kvmem_name_clear(kv, copy);
    insert(kv, block, name, kv->blocks[copy].identity);
}

/* In the chain of the block's hash `next` comes in its place. */
static void replace(struct kvmem *kv, uint32_t block, uint32_t next)
{
    uint32_t *link = head_of(kv, kv->blocks[block].hash);
    while (*link != block) {
        ASSERT(*link != KVMEM_BLOCK_NONE);
        link = &kv->blocks[*link].chain_next;
    }
    *link = next;
}

/* The block, in no chain any more, has no name. */
static void forget(struct kvmem *kv, struct kvmem_block *named)
{
    named->chain_next = KVMEM_BLOCK_NONE;
    named->fill = 0;
    named->is_common = 0;
    kv->declared_count -= named->declared > 0;
    named->declared = 0;
    kv->version++;
}

void kvmem_name_clear(struct kvmem *kv, uint32_t block)
{
    struct kvmem_block *named = &kv->blocks[block];
    ASSERT(named->fill > 0);
    replace(kv, block, named->chain_next);
    forget(kv, named);
}

void kvmem_name_pass(struct kvmem *kv, uint32_t from, uint32_t to)
{
    struct kvmem_block *giver = &kv->blocks[from], *taker = &kv->blocks[to];
    ASSERT(giver->fill > 0 && taker->fill == 0);
    replace(kv, from, to);
    taker->chain_next = giver->chain_next;
    taker->hash = giver->hash;
    taker->before = giver->before;
    taker->index = giver->index;
    taker->fill = giver->fill;
    taker->identity = giver->identity;
    taker->is_common = giver->is_common;
    taker->shelf = giver->shelf;
    memcpy(tokens_of(kv, to), tokens_of(kv, from), giver->fill * sizeof(uint32_t));
    forget(kv, giver);
}
