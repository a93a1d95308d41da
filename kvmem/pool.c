/* SPDX-License-Identifier: MIT */
/*
 * What: both tiers of KV blocks and the block table of every call: boot, counts, a new beginning.
 *
 *   table    (calls, blocks_per_call): the blocks of a call in order of position
 *   tier     lists of free and of cached blocks (tier.c)
 *
 * Invariants: kvmem_check() (check.c). A device block is free, cached, or in a table; so the blocks
 * that a commit can hand out are those that no call holds.
 * Owner: sched asks and acts; nothing is allocated after init.
 * Bounds: O(1), but for boot and kvmem_lost(): O(blocks).
 * Why not chain the blocks of a call: the kernels need the ids as one array, and so does the step
 * record; a copy is cheaper than a walk.
 */
#include <string.h>

#include "config/base/assert.h"
#include "config/base/bounds.h"
#include "kvmem/tier.h"

#define TIERS 2
#define HEAPS 6                                /* of shelves: of each tier, needs and two of ages */
#define TOTAL_BLOCKS_MAX (UINT32_MAX / 8 + 1)  /* hash_heads() is at most eight times as many */

static uint32_t total_blocks(const struct kvmem_settings *settings)
{
    ASSERT(settings->device_blocks > 0);
    /* A tier, with as many blocks again for the canary and declared prefixes. */
    STATIC_ASSERT(BOUND_KV_BLOCKS <= TOTAL_BLOCKS_MAX / 4, "hash_heads() fits 32 bits");
    ASSERT(settings->host_blocks <= BOUND_KV_BLOCKS);
    ASSERT(settings->device_blocks <= 2 * BOUND_KV_BLOCKS);
    ASSERT(settings->aside_blocks <= BOUND_KV_BLOCKS);
    return settings->device_blocks + settings->aside_blocks + settings->host_blocks;
}

/* A power of two, four heads for each block or more: a question looks for the fills of a partial
 * block one by one, most of them in vain, and an empty chain costs no look at a block. */
static uint32_t hash_heads(uint32_t blocks)
{
    uint32_t heads = 4;
    while (heads / 4 < blocks) {
        heads *= 2;
    }
    return heads;
}

/* The last one is never whole. */
static uint32_t clusters_of(const struct kvmem_settings *settings)
{
    return settings->device_blocks / KVMEM_CLUSTER + 1;
}

void kvmem_settings_fill(struct kvmem_settings *settings, const struct limits *limits)
{
    *settings = (struct kvmem_settings){
        .device_blocks = limits->kv_blocks,
        .free_blocks = limits->kv_free_blocks / KVMEM_CLUSTER * KVMEM_CLUSTER,
        .aside_blocks = limits->canary_blocks,
        .host_blocks = limits->kv_host_blocks,
        .block_tokens = limits->kv_block_tokens,
        .calls = limits->calls,
        .prefixes = limits->prefixes,
        .blocks_per_call = limits->blocks_per_call,
        .holders = limits->programs,
        .retain_device_us = limits->retain_device_us,
        .retain_host_us = limits->retain_host_us,
        .retain_drop_us = limits->retain_drop_us,
    };
}

void kvmem_plan_memory(struct memory_plan *plan, const struct kvmem_settings *settings)
{
    uint32_t blocks = total_blocks(settings);
    memory_plan_add(plan, MEMORY_CORE, "kv blocks", blocks, sizeof(struct kvmem_block));
    memory_plan_add(plan, MEMORY_CORE, "kv block tokens", blocks,
             (uint64_t)settings->block_tokens * sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "kv clusters", clusters_of(settings), sizeof(uint8_t));
    memory_plan_add(plan, MEMORY_CORE, "kv block hash", hash_heads(blocks), sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "kv hash keys", KVMEM_NAME_KEYS +
                    (uint64_t)settings->block_tokens,
             sizeof(uint64_t));
    memory_plan_add(plan, MEMORY_CORE, "kv moves", kvmem_moves_max(settings->device_blocks),
             sizeof(struct step_move));
    memory_plan_add(plan, MEMORY_CORE, "kv copies", settings->calls, sizeof(struct step_move));
    memory_plan_add(plan, MEMORY_CORE, "kv calls", kvmem_calls_count(settings), sizeof(struct
                                                                                       kvmem_call));
    memory_plan_add(plan, MEMORY_CORE, "kv block tables", kvmem_calls_count(settings),
             (uint64_t)settings->blocks_per_call * sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "kv holders", settings->holders,
                    sizeof(struct kvmem_holder));
    for (uint32_t i = 0; i < TIERS; i++) {
        memory_plan_add(plan, MEMORY_CORE, "kv shelves", kvmem_shelves(settings),
                        sizeof(struct kvmem_list));
    }
    for (uint32_t i = 0; i < HEAPS; i++) {
        heap_plan_memory(plan, "kv order of shelves", kvmem_shelves(settings));
    }
}

static void reset_tier(struct kvmem *kv, struct kvmem_tier *tier, uint32_t first, uint32_t count)
{
    struct kvmem_list empty = {.head = KVMEM_BLOCK_NONE, .tail = KVMEM_BLOCK_NONE};
    tier->first = first;
    tier->count = count;
    tier->free = tier->whole = tier->mirrors = empty;
    tier->cached_last = KVMEM_BLOCK_NONE;
    tier->cached_count[false] = tier->cached_count[true] = 0;
    heap_clear(&tier->needs);
    heap_clear(&tier->ages[false]);
    heap_clear(&tier->ages[true]);
    kvmem_share_reset(tier);
    for (uint32_t shelf = 0; shelf < kvmem_shelves(&kv->settings); shelf++) {
        *kvmem_contents(kv, tier, shelf) = empty;
    }
    for (uint32_t block = first + count; block > first; block--) {
        kvmem_tier_release(kv, block - 1);
    }
}

/* All blocks are free, no content has a name. */
static void reset(struct kvmem *kv)
{
    kv->moves_count = 0;
    kv->copies_count = 0;
    kv->bound = false;
    kv->declared_count = 0;
    kv->version++;
    for (uint32_t i = 0; i <= kv->hash_mask; i++) {
        kv->hash[i] = KVMEM_BLOCK_NONE;
    }
    for (uint32_t i = 0; i < kv->blocks_count; i++) {
        kv->blocks[i] = (struct kvmem_block){
            .state = KVMEM_PRIVATE, .chain_next = KVMEM_BLOCK_NONE, .after = KVMEM_BLOCK_NONE,
            .next = KVMEM_BLOCK_NONE, .prev = KVMEM_BLOCK_NONE, .move = KVMEM_BLOCK_NONE,
            .mirror = KVMEM_BLOCK_NONE};
    }
    uint32_t host_first = kv->settings.device_blocks + kv->settings.aside_blocks;
    kv->host.first = host_first;                    /* kvmem_is_host() */
    memset(kv->cluster_free, 0, clusters_of(&kv->settings));
    reset_tier(kv, &kv->device, 0, kv->settings.device_blocks);
    reset_tier(kv, &kv->host, host_first, kv->settings.host_blocks);
}

static void init_shelves(struct kvmem_tier *tier, uint32_t shelves, struct arena *arena)
{
    tier->contents = arena_take(arena, shelves, sizeof(struct kvmem_list));
    heap_init(&tier->needs, shelves, arena);
    heap_init(&tier->ages[false], shelves, arena);
    heap_init(&tier->ages[true], shelves, arena);
}

void kvmem_init(struct kvmem *kv, const struct kvmem_settings *settings, struct arena *arena)
{
    uint32_t blocks = total_blocks(settings);
    uint32_t heads = hash_heads(blocks);
    uint32_t moves_max = kvmem_moves_max(settings->device_blocks);
    STATIC_ASSERT(BOUND_KV_BLOCK_TOKENS <= KVMEM_BLOCK_TOKENS_MAX, "a block counts its tokens");
    ASSERT(settings->block_tokens > 0 && settings->block_tokens <= KVMEM_BLOCK_TOKENS_MAX);
    ASSERT(settings->calls > 0 && settings->blocks_per_call > 0);
    ASSERT(settings->prefixes <= KVMEM_PREFIXES_MAX);
    ASSERT(settings->retain_device_us <= settings->retain_host_us);
    ASSERT(settings->retain_host_us <= settings->retain_drop_us);
    *kv = (struct kvmem){
        .settings = *settings,
        .blocks_count = blocks,
        .blocks = arena_take(arena, blocks, sizeof(struct kvmem_block)),
        .tokens = arena_take(arena, blocks, (uint64_t)settings->block_tokens * sizeof(uint32_t)),
        .cluster_free = arena_take(arena, clusters_of(settings), sizeof(uint8_t)),
        .hash = arena_take(arena, heads, sizeof(uint32_t)),
        .hash_mask = heads - 1,
        .hash_keys = arena_take(arena, KVMEM_NAME_KEYS + (uint64_t)settings->block_tokens,
                                sizeof(uint64_t)),
        .moves = arena_take(arena, moves_max, sizeof(struct step_move)),
        .moves_max = moves_max,
        .copies = arena_take(arena, settings->calls, sizeof(struct step_move)),
        .calls = arena_take(arena, kvmem_calls_count(settings), sizeof(struct kvmem_call)),
        .table = arena_take(arena, kvmem_calls_count(settings),
                            (uint64_t)settings->blocks_per_call * sizeof(uint32_t)),
        .holders = arena_take(arena, settings->holders,
                              sizeof(struct kvmem_holder)),
        .next_identity = 1,
    };
    init_shelves(&kv->device, kvmem_shelves(settings), arena);
    init_shelves(&kv->host, kvmem_shelves(settings), arena);
    kvmem_name_init(kv);
    reset(kv);
}

uint32_t kvmem_owned(const struct kvmem *kv)
{
    return kv->device.count - kvmem_available(kv);
}

uint32_t kvmem_host_used(const struct kvmem *kv)
{
    return kv->host.count - kv->host.free.count - kv->host.mirrors.count;
}

void kvmem_cpu_prefetch(const struct kvmem *kv, uint32_t call)
{
    __builtin_prefetch(&kv->calls[call], 1);
    __builtin_prefetch(kvmem_table_of(kv, call), 1);
}

uint32_t kvmem_call_declared(const struct kvmem *kv, uint32_t call)
{
    const uint32_t *table = kvmem_table_of(kv, call);
    uint32_t declared = 0;
    while (declared < kvmem_call_blocks(kv, call) && kv->blocks[table[declared]].declared > 0) {
        declared++;
    }
    return declared;
}

uint32_t kvmem_call_common(const struct kvmem *kv, uint32_t call)
{
    const uint32_t *table = kvmem_table_of(kv, call);
    uint32_t first = kvmem_call_declared(kv, call), count = 0;
    while (first + count < kvmem_call_blocks(kv, call) &&
           kv->blocks[table[first + count]].is_common) {
        count++;
    }
    return count;
}

void kvmem_lost(struct kvmem *kv)
{
    for (uint32_t call = 0; call < kvmem_calls_count(&kv->settings); call++) {
        ASSERT(kv->calls[call].count == 0);
    }
    reset(kv);
}
