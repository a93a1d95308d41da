/* SPDX-License-Identifier: MIT */
/*
 * What: kvmem_check(): every invariant of the folder, asserted; tests call it after each operation.
 * Each block is held against the table in block.h. Then lists, chains, tables and moves are walked
 * and counted, so nothing is named twice and nothing is lost.
 * Bounds: O(blocks + tables + moves). It writes block.seen and nothing else.
 */
#include "config/base/assert.h"
#include "kvmem/block.h"

/* True when tables may hold the block, and its references count. */
static bool is_in_tables(const struct kvmem_block *block)
{
    return block->state == KVMEM_PRIVATE || block->state == KVMEM_SHARED;
}

static void check_block(const struct kvmem *kv, uint32_t index)
{
    const struct kvmem_block *block = &kv->blocks[index];
    bool is_host = kvmem_is_host(kv, index);
    bool is_full = block->fill == kv->settings.block_tokens;
    ASSERT(block->fill <= kv->settings.block_tokens);
    ASSERT(block->move == KVMEM_BLOCK_NONE || block->move < kv->moves_count ||
           block->move - kv->moves_max < kv->copies_count);
    ASSERT(block->move == KVMEM_BLOCK_NONE || kvmem_move_at(kv, block->move)->to == index);
    switch (block->state) {
    case KVMEM_FREE:
        ASSERT(block->fill == 0);
        return;
    case KVMEM_PRIVATE:
        ASSERT(!is_host && block->fill == 0 && block->references == 1);
        return;
    case KVMEM_SHARED:
        ASSERT(block->declared <= kv->settings.prefixes);
        ASSERT(!is_host && is_full && block->references >= 1);
        break;
    case KVMEM_CACHED:
        ASSERT(block->fill > 0);
        break;
    case KVMEM_LEAVING:
        ASSERT(is_host && block->fill == 0);
        ASSERT(block->move == KVMEM_BLOCK_NONE);
        return;
    case KVMEM_MIRROR:
        ASSERT(is_host && block->fill == 0 && block->mirror != KVMEM_BLOCK_NONE);
        ASSERT(block->move == KVMEM_BLOCK_NONE);
        return;
    default:
        ASSERT(false);
    }
    ASSERT(block->declared == 0 || block->state == KVMEM_SHARED);
    /* Its name finds it, and nothing else. */
    struct kvmem_name name = kvmem_name_of(kv, index);
    ASSERT(block->identity < kv->next_identity);
    ASSERT(kvmem_name_find(kv, &name) == index);
}

/* Each of the two names the other. */
static void check_mirror(const struct kvmem *kv, uint32_t index)
{
    const struct kvmem_block *block = &kv->blocks[index];
    if (block->mirror == KVMEM_BLOCK_NONE) {
        return;
    }
    const struct kvmem_block *mirror = &kv->blocks[block->mirror];
    ASSERT(mirror->mirror == index);
    ASSERT(kvmem_is_host(kv, index) != kvmem_is_host(kv, block->mirror));
    if (kvmem_is_host(kv, index)) {
        ASSERT(block->state == KVMEM_MIRROR || block->state == KVMEM_LEAVING);
        ASSERT(block->state == KVMEM_MIRROR ||
               kvmem_move_at(kv, mirror->move)->from == index);
    } else {
        ASSERT(block->state == KVMEM_SHARED || block->state == KVMEM_CACHED);
        ASSERT(block->fill == kv->settings.block_tokens && block->declared == 0);
    }
}

/* The blocks of a list, all of one state. */
static void check_links(const struct kvmem *kv, const struct kvmem_tier *tier,
                        const struct kvmem_list *list, enum kvmem_state state)
{
    uint32_t before = KVMEM_BLOCK_NONE;
    uint32_t count = 0;
    for (uint32_t i = list->head; i != KVMEM_BLOCK_NONE; i = kv->blocks[i].next) {
        ASSERT(++count <= list->count);
        ASSERT(i - tier->first < tier->count);
        ASSERT(kv->blocks[i].state == state && kv->blocks[i].prev == before);
        before = i;
    }
    ASSERT(count == list->count && list->tail == before);
}

/* Free blocks: `is_whole`, those of clusters of which no block is taken. */
static void check_free(const struct kvmem *kv, const struct kvmem_tier *tier, bool is_whole)
{
    const struct kvmem_list *list = is_whole ? &tier->whole : &tier->free;
    check_links(kv, tier, list, KVMEM_FREE);
    for (uint32_t i = list->head; i != KVMEM_BLOCK_NONE; i = kv->blocks[i].next) {
        bool is_of_whole =
            tier == &kv->device && kv->cluster_free[i / KVMEM_CLUSTER] == KVMEM_CLUSTER;
        ASSERT(is_of_whole == is_whole);
    }
}

static void check_clusters(const struct kvmem *kv)
{
    for (uint32_t first = 0; first < kv->device.count; first += KVMEM_CLUSTER) {
        uint32_t free = 0;
        for (uint32_t i = first; i < first + KVMEM_CLUSTER && i < kv->device.count; i++) {
            free += kv->blocks[i].state == KVMEM_FREE;
        }
        ASSERT(kv->cluster_free[first / KVMEM_CLUSTER] == free);
    }
}

static void check_contents(const struct kvmem *kv, const struct kvmem_tier *tier, uint32_t shelf)
{
    const struct kvmem_list *list = kvmem_contents(kv, tier, shelf);
    check_links(kv, tier, list, KVMEM_CACHED);
    for (uint32_t i = list->head; i != KVMEM_BLOCK_NONE; i = kv->blocks[i].next) {
        const struct kvmem_block *block = &kv->blocks[i];
        ASSERT(block->shelf == shelf);
        ASSERT(block->prev == KVMEM_BLOCK_NONE ||
               kv->blocks[block->prev].used_us <= block->used_us);
    }
}

static void check_key(const struct heap *heap, uint32_t shelf, bool is_in, uint64_t key)
{
    ASSERT(heap_has(heap, shelf) == is_in);
    ASSERT(!is_in || heap->entries[heap->places[shelf]].key == key);
}

/* A shelf is in the heaps of the tier exactly when it has contents there. */
static void check_shelf(const struct kvmem *kv, const struct kvmem_tier *tier, uint32_t shelf)
{
    const struct kvmem_list *list = kvmem_contents(kv, tier, shelf);
    bool is_wanted = kvmem_is_wanted(kv, shelf);
    uint64_t used_us = list->count > 0 ? kv->blocks[list->head].used_us : 0;
    check_key(&tier->needs, shelf, list->count > 0,
              kvmem_need_of(kv, tier, shelf, used_us));
    check_key(&tier->ages[is_wanted], shelf, list->count > 0, used_us);
    check_key(&tier->ages[!is_wanted], shelf, false, 0);
}

static void check_tier(const struct kvmem *kv, const struct kvmem_tier *tier)
{
    uint32_t in_state[KVMEM_MIRROR + 1] = {0};
    for (uint32_t i = tier->first; i < tier->first + tier->count; i++) {
        check_block(kv, i);
        check_mirror(kv, i);
        in_state[kv->blocks[i].state]++;
        if (is_in_tables(&kv->blocks[i])) {
            kv->blocks[i].seen = 0;
        }
    }
    check_links(kv, tier, &tier->mirrors, KVMEM_MIRROR);
    ASSERT(in_state[KVMEM_MIRROR] == tier->mirrors.count);
    uint32_t cached[2] = {0};
    check_free(kv, tier, false);
    check_free(kv, tier, true);
    for (uint32_t shelf = 0; shelf < kvmem_shelves(&kv->settings); shelf++) {
        check_contents(kv, tier, shelf);
        check_shelf(kv, tier, shelf);
        cached[kvmem_is_wanted(kv, shelf)] += kvmem_contents(kv, tier, shelf)->count;
    }
    kvmem_share_check(kv, tier);
    heap_check(&tier->needs);
    heap_check(&tier->ages[false]);
    heap_check(&tier->ages[true]);
    ASSERT(in_state[KVMEM_FREE] == tier->free.count + tier->whole.count);
    ASSERT(in_state[KVMEM_CACHED] == cached[false] + cached[true]);
    ASSERT(cached[false] == tier->cached_count[false] && cached[true] == tier->cached_count[true]);
}

static void check_hash(const struct kvmem *kv)
{
    uint32_t chained = 0;
    uint32_t named = 0;
    for (uint32_t i = 0; i <= kv->hash_mask; i++) {
        uint32_t block = kv->hash[i];
        for (; block != KVMEM_BLOCK_NONE; block = kv->blocks[block].chain_next) {
            ASSERT(++chained <= kv->blocks_count);
            ASSERT(kv->blocks[block].fill > 0);
        }
    }
    for (uint32_t i = 0; i < kv->blocks_count; i++) {
        named += kv->blocks[i].fill > 0;
    }
    ASSERT(chained == named);
}

/* What lies before the block in the call's table is what lies before its content. */
static void check_place(const struct kvmem *kv, uint32_t call, uint32_t index)
{
    const uint32_t *table = kvmem_table_of(kv, call);
    const struct kvmem_block *block = &kv->blocks[table[index]];
    uint32_t before = index > 0 ? table[index - 1] : KVMEM_BLOCK_NONE;
    uint64_t salt = kv->calls[call].salt;
    struct kvmem_name name = kvmem_name_begin(kv, salt, before);
    if (block->declared > 0 && call < kv->settings.calls) {
        ASSERT(kvmem_name_may_be_declared(kv, salt, before));
        name = kvmem_name_begin_declared(kv, before);
    }
    ASSERT(block->index == index && block->before == name.before);
}

/* Full blocks follow each other; PRIVATE ones come after them. */
static void check_call(const struct kvmem *kv, uint32_t call)
{
    const struct kvmem_call *record = &kv->calls[call];
    const uint32_t *table = kvmem_table_of(kv, call);
    bool is_after_partial = false;
    ASSERT(record->count <= kv->settings.blocks_per_call);
    for (uint32_t i = 0; i < record->count; i++) {
        ASSERT(table[i] < kv->device.count);
        struct kvmem_block *block = &kv->blocks[table[i]];
        ASSERT(is_in_tables(block));
        block->seen++;
        ASSERT(block->fill == 0 || !is_after_partial);
        if (block->fill > 0 || block->begun > 0) {
            check_place(kv, call, i);
        }
        is_after_partial = is_after_partial || block->fill < kv->settings.block_tokens;
    }
}

static void check_moves(const struct kvmem *kv)
{
    uint32_t leaving = 0;
    uint32_t sources = 0;
    ASSERT(kv->moves_count <= kv->moves_max);
    for (uint32_t i = 0; i < kv->moves_count; i++) {
        const struct step_move *move = &kv->moves[i];
        ASSERT(move->from < kv->blocks_count && move->to < kv->blocks_count);
        ASSERT(kvmem_is_host(kv, move->from) != kvmem_is_host(kv, move->to));
        ASSERT(kv->blocks[move->to].move == i);
        sources += kvmem_is_host(kv, move->from);
        ASSERT(!kvmem_is_host(kv, move->from) ||
               kv->blocks[move->from].state == KVMEM_LEAVING);
    }
    ASSERT(kv->copies_count <= kv->settings.calls);
    for (uint32_t i = 0; i < kv->copies_count; i++) {
        ASSERT(kv->copies[i].from != kv->copies[i].to);
        ASSERT(step_move_phase(&kv->copies[i], kv->device.count) == STEP_PHASE_WITHIN);
    }
    for (uint32_t i = 0; i < kv->blocks_count; i++) {
        leaving += kv->blocks[i].state == KVMEM_LEAVING;
    }
    ASSERT(leaving == sources);
}

void kvmem_check(const struct kvmem *kv)
{
    ASSERT(kv->device.first == 0);
    ASSERT(kv->host.first == kv->device.count + kv->settings.aside_blocks);
    ASSERT(kv->host.first + kv->host.count == kv->blocks_count);
    check_clusters(kv);
    check_tier(kv, &kv->device);
    check_tier(kv, &kv->host);
    check_hash(kv);
    check_moves(kv);
    for (uint32_t call = 0; call < kvmem_calls_count(&kv->settings); call++) {
        check_call(kv, call);
    }
    uint32_t declared = 0;
    for (uint32_t i = 0; i < kv->blocks_count; i++) {
        const struct kvmem_block *block = &kv->blocks[i];
        ASSERT(!is_in_tables(block) || block->seen == block->references);
        declared += kv->blocks[i].declared > 0;
    }
    ASSERT(declared == kv->declared_count);
}
