/* SPDX-License-Identifier: MIT */
/*
 * What: names of contents, and the hash table that finds a content by its name.
 *
 * The hash of a content is chained over all tokens up to its end, from the salt on, token by token;
 * so the hashes of a block's beginnings come for free on the way to its own. It only finds: a hit
 * counts when fill, index, identity of the content before and the tokens are equal. By induction
 * over the index, two contents with the same name are of the same tokens under the same salt,
 * whatever collides.
 *
 * Invariants: at most one block of each tier has a given name; identities are never given twice.
 * Bounds: a chain has one block on average (there are as many heads as blocks, or more), whatever
 * clients send: without settings.hash_key nobody can tell which tokens meet in a chain.
 * Why not trust the hash: tokens come from clients, and a wrong hit would show one the text of
 * another.
 */
#include <string.h>

#include "appliance/base/assert.h"
#include "kvmem/block.h"

static uint64_t mix(uint64_t hash, uint64_t value)
{
    uint64_t mixed = (hash ^ (value + 1)) * UINT64_C(0x9e3779b97f4a7c15);
    return mixed ^ (mixed >> 32);
}

static uint32_t *head_of(const struct kvmem *kv, uint64_t hash)
{
    return &kv->hash[(hash ^ (hash >> 40)) & kv->hash_mask];
}

static uint32_t *tokens_of(const struct kvmem *kv, uint32_t block)
{
    return kv->tokens + (uint64_t)block * kv->settings.block_tokens;
}

struct kvmem_name kvmem_name_begin(const struct kvmem *kv, uint32_t call, uint32_t index)
{
    if (index == 0) {
        uint64_t salt = kv->calls[call].salt;
        return (struct kvmem_name){.hash = mix(kv->settings.hash_key, salt), .before = salt};
    }
    const struct kvmem_block *before = &kv->blocks[kvmem_table_of(kv, call)[index - 1]];
    ASSERT(before->fill == kv->settings.block_tokens && before->index == index - 1);
    return (struct kvmem_name){
        .hash = before->hash, .before = before->identity, .index = index};
}

void kvmem_name_extend(struct kvmem_name *name, const uint32_t *tokens, uint32_t count)
{
    if (name->fill == 0) {
        name->tokens = tokens;
    }
    ASSERT(tokens == name->tokens + name->fill);
    for (uint32_t i = 0; i < count; i++) {
        name->hash = mix(name->hash, tokens[i]);
    }
    name->fill += count;
}

uint32_t kvmem_name_find(const struct kvmem *kv, const struct kvmem_name *name,
                         const struct kvmem_tier *tier)
{
    ASSERT(name->fill > 0);
    uint32_t block = *head_of(kv, name->hash);
    for (; block != KVMEM_BLOCK_NONE; block = kv->blocks[block].chain_next) {
        const struct kvmem_block *found = &kv->blocks[block];
        if (block - tier->first < tier->count && found->before == name->before &&
            found->index == name->index && found->fill == name->fill &&
            memcmp(tokens_of(kv, block), name->tokens, name->fill * sizeof(uint32_t)) == 0) {
            return block;
        }
    }
    return KVMEM_BLOCK_NONE;
}

struct kvmem_name kvmem_name_of(const struct kvmem *kv, uint32_t block)
{
    const struct kvmem_block *named = &kv->blocks[block];
    ASSERT(named->fill > 0);
    return (struct kvmem_name){.hash = named->hash, .before = named->before,
                               .index = named->index, .fill = named->fill,
                               .tokens = tokens_of(kv, block)};
}

static void insert(struct kvmem *kv, uint32_t block, const struct kvmem_name *name,
                   uint64_t identity)
{
    struct kvmem_block *named = &kv->blocks[block];
    uint32_t *head = head_of(kv, name->hash);
    ASSERT(named->fill == 0);
    named->hash = name->hash;
    named->before = name->before;
    named->index = name->index;
    named->fill = name->fill;
    named->identity = identity;
    named->chain_next = *head;
    *head = block;
    memcpy(tokens_of(kv, block), name->tokens, name->fill * sizeof(uint32_t));
}

void kvmem_name_set(struct kvmem *kv, uint32_t block, const struct kvmem_name *name)
{
    uint32_t copy = kvmem_name_find(kv, name, &kv->host);
    ASSERT(!kvmem_is_host(kv, block));
    ASSERT(kv->next_identity < UINT64_MAX);
    insert(kv, block, name,
           copy != KVMEM_BLOCK_NONE ? kv->blocks[copy].identity : kv->next_identity++);
}

void kvmem_name_clear(struct kvmem *kv, uint32_t block)
{
    struct kvmem_block *named = &kv->blocks[block];
    uint32_t *link = head_of(kv, named->hash);
    ASSERT(named->fill > 0);
    while (*link != block) {
        ASSERT(*link != KVMEM_BLOCK_NONE);
        link = &kv->blocks[*link].chain_next;
    }
    *link = named->chain_next;
    named->chain_next = KVMEM_BLOCK_NONE;
    named->fill = 0;
}

void kvmem_name_pass(struct kvmem *kv, uint32_t from, uint32_t to)
{
    struct kvmem_name name = kvmem_name_of(kv, from);
    insert(kv, to, &name, kv->blocks[from].identity);
    kv->blocks[to].rank = kv->blocks[from].rank;
    kv->blocks[to].used_us = kv->blocks[from].used_us;
    kvmem_name_clear(kv, from);
}
