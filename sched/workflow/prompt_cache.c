/* SPDX-License-Identifier: MIT */
/*
 * What: the prompt cache: a hash table of entries, and values in chunks.
 *
 *   FREE --open--> OPEN --fill--> KNOWN --the least recently used of its domain--> FREE
 *                   +-----drop-----------------------------------------------------^
 *
 * Room: a domain may hold all of it while no other needs any. A domain that needs room and holds
 * less than its share takes it from the domain that holds most; one that holds its share or more
 * gives up its own oldest values. So no domain can evict another below its share.
 *
 * Death: values, the links of their chunks and the secret lie in memory that outlives the core; all
 * that links entries is made anew. A value counts by its check word, which is written after all of
 * it and taken back before any of it changes; so a death leaves it or not. Which was used last is
 * not kept.
 *
 * Bounds: O(chain + chunks of one value), and one entry given up for each chunk that is needed.
 * Where a core takes over, O(all tokens), if nothing but deaths has changed what was left.
 */
#include "sched/workflow/prompt_cache.h"

#include <stddef.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/base/bounds.h"
#include "config/base/fnv.h"
#include "config/base/ring.h"

STATIC_ASSERT(offsetof(struct prompt_cache_value, check) == PROMPT_CACHE_KEY_BYTES + 16,
              "no padding in what is digested");

static uint32_t chunks_of(uint32_t tokens)
{
    return (tokens + PROMPT_CACHE_CHUNK - 1) / PROMPT_CACHE_CHUNK;
}

void prompt_cache_plan_memory(struct memory_plan *plan, struct prompt_cache_counts counts)
{
    uint32_t entries = counts.entries, chunks = chunks_of(counts.tokens);
    memory_plan_add(plan, MEMORY_CORE, "prompt cache", entries, sizeof(struct prompt_cache_entry));
    memory_plan_add(plan, MEMORY_CORE, "prompt cache heads", ring_capacity_ceil(entries),
                    sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "prompt cache free chunks", chunks, sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_KEPT, "prompt cache head", 1, sizeof(struct prompt_cache_head));
    memory_plan_add(plan, MEMORY_KEPT, "prompt cache values", entries,
                    sizeof(struct prompt_cache_value));
    memory_plan_add(plan, MEMORY_KEPT, "prompt cache chunks", chunks, sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_KEPT, "prompt cache tokens",
                    (uint64_t)chunks * PROMPT_CACHE_CHUNK, sizeof(uint32_t));
}

/* ---- the hash table -------------------------------------------------------------------------- */

static uint32_t *head_of(const struct prompt_cache *cache, const struct prompt_cache_key *key)
{
    uint32_t hash;
    memcpy(&hash, key->bytes, sizeof hash);
    return &cache->heads[hash & cache->heads_mask];
}

uint32_t prompt_cache_find(const struct prompt_cache *cache, const struct prompt_cache_key *key)
{
    uint32_t at = cache->entries_count > 0 ? *head_of(cache, key) : PROMPT_CACHE_NONE;
    while (at != PROMPT_CACHE_NONE &&
           memcmp(&cache->values[at].key, key, sizeof *key) != 0) {
        at = cache->entries[at].hash_next;
    }
    return at;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void unlink_known(struct prompt_cache *cache, uint32_t index)
{
    struct prompt_cache_entry *entry = &cache->entries[index];
    struct prompt_cache_domain *domain = &cache->domains[entry->domain];
    *(entry->prev != PROMPT_CACHE_NONE ? &cache->entries[entry->prev].next : &domain->first) =
        entry->next;
    *(entry->next != PROMPT_CACHE_NONE ? &cache->entries[entry->next].prev : &domain->last) =
        entry->prev;
}

static void link_first(struct prompt_cache *cache, uint32_t index)
{
    struct prompt_cache_entry *entry = &cache->entries[index];
    struct prompt_cache_domain *domain = &cache->domains[entry->domain];
    entry->prev = PROMPT_CACHE_NONE;
    entry->next = domain->first;
    *(domain->first != PROMPT_CACHE_NONE ? &cache->entries[domain->first].prev : &domain->last) =
        index;
    domain->first = index;
}

static void free_chunks(struct prompt_cache *cache, uint32_t index)
{
    const struct prompt_cache_value *value = &cache->values[index];
    uint32_t count = chunks_of(value->tokens), at = value->first_chunk;
    for (uint32_t i = 0; i < count; i++) {
        cache->free_next[at] = cache->free_chunk;
        cache->free_chunk = at;
        at = cache->chunk_next[at];
    }
    cache->used_chunks -= count;
    cache->domains[cache->entries[index].domain].chunks -= count;
}

static void forget(struct prompt_cache *cache, uint32_t index)
{
    struct prompt_cache_entry *entry = &cache->entries[index];
    uint32_t *link = head_of(cache, &cache->values[index].key);
    cache->values[index].check = 0;
    kept_order();
    if (entry->state == PROMPT_CACHE_KNOWN) {
        unlink_known(cache, index);
        free_chunks(cache, index);
        cache->known--;
    }
    while (*link != index) {
        ASSERT(*link != PROMPT_CACHE_NONE);
        link = &cache->entries[*link].hash_next;
    }
    *link = entry->hash_next;
    cache->domains[entry->domain].entries--;
    *entry = (struct prompt_cache_entry){.hash_next = cache->free_entry};
    cache->free_entry = index;
}

/* ---- room ------------------------------------------------------------------------------------ */

static uint32_t domain_of(struct prompt_cache *cache, uint64_t domain)
{
    for (uint32_t i = 0; i < cache->domains_count; i++) {
        if (cache->domains[i].domain == domain) {
            return i;
        }
    }
    for (uint32_t i = 0; i < cache->domains_count; i++) {
        if (cache->domains[i].entries == 0) {
            cache->domains[i].domain = domain;
            return i;
        }
    }
    if (cache->domains_count == PROMPT_CACHE_DOMAINS) {
        return PROMPT_CACHE_DOMAINS - 1;
    }
    cache->domains[cache->domains_count] = (struct prompt_cache_domain){
        .domain = domain, .first = PROMPT_CACHE_NONE, .last = PROMPT_CACHE_NONE};
    return cache->domains_count++;
}

/* What a domain holds of entries or of chunks, whichever is the larger part, in thousandths. */
static uint64_t held_permille(const struct prompt_cache *cache, uint32_t index)
{
    const struct prompt_cache_domain *domain = &cache->domains[index];
    uint64_t entries = (uint64_t)domain->entries * 1000 / cache->entries_count;
    uint64_t chunks = (uint64_t)domain->chunks * 1000 / cache->chunks_count;
    return entries > chunks ? entries : chunks;
}

static uint64_t share_permille(const struct prompt_cache *cache)
{
    uint32_t holders = 0;
    for (uint32_t i = 0; i < cache->domains_count; i++) {
        holders += cache->domains[i].entries > 0;
    }
    return 1000 / (holders > 0 ? holders : 1);
}

/* Gives up one value, so that this domain gets room; false when there is none that it may take. */
static bool make_room(struct prompt_cache *cache, uint32_t domain)
{
    uint32_t from = domain;
    uint64_t share = share_permille(cache);
    if (held_permille(cache, domain) < share) {
        for (uint32_t i = 0; i < cache->domains_count; i++) {
            from = held_permille(cache, i) > held_permille(cache, from) ? i : from;
        }
    }
    uint32_t victim = cache->domains[from].last;
    victim = victim != PROMPT_CACHE_NONE ? victim : cache->domains[domain].last;
    if (victim == PROMPT_CACHE_NONE) {
        return false;
    }
    forget(cache, victim);
    return true;
}

/* A free entry, there is one, has this key now. */
static void take_entry(struct prompt_cache *cache, uint32_t index, uint32_t owner)
{
    uint32_t *head = head_of(cache, &cache->values[index].key);
    cache->entries[index] = (struct prompt_cache_entry){
        .state = PROMPT_CACHE_OPEN, .domain = owner, .waiters = PROMPT_CACHE_NONE,
        .hash_next = *head};
    *head = index;
    cache->domains[owner].entries++;
}

uint32_t prompt_cache_open(struct prompt_cache *cache, uint64_t domain,
                           const struct prompt_cache_key *key)
{
    uint32_t owner = domain_of(cache, domain);
    ASSERT(prompt_cache_find(cache, key) == PROMPT_CACHE_NONE);
    while (cache->free_entry == PROMPT_CACHE_NONE) {
        if (!make_room(cache, owner)) {
            return PROMPT_CACHE_NONE;
        }
    }
    uint32_t index = cache->free_entry;
    cache->free_entry = cache->entries[index].hash_next;
    cache->values[index] = (struct prompt_cache_value){.key = *key, .domain = domain};
    take_entry(cache, index, owner);
    return index;
}

static bool reserve_chunks(struct prompt_cache *cache, uint32_t domain, uint32_t count)
{
    if (count > cache->chunks_count) {
        return false;
    }
    while (cache->chunks_count - cache->used_chunks < count) {
        if (!make_room(cache, domain)) {
            return false;
        }
    }
    return true;
}

/* The value at this entry, whose links are sound, as `check` says it. Never 0. */
static uint64_t check_of_value(const struct prompt_cache *cache, uint32_t index)
{
    const struct prompt_cache_value *value = &cache->values[index];
    uint64_t digest = fnv_add_words(FNV_START, value, offsetof(struct prompt_cache_value, check));
    uint32_t chunk = value->first_chunk;
    digest = fnv_add_words(digest, &cache->head->doubts, sizeof cache->head->doubts);
    for (uint32_t at = 0; at < value->tokens; at += PROMPT_CACHE_CHUNK) {
        uint32_t part = lesser(value->tokens - at, PROMPT_CACHE_CHUNK);
        digest = fnv_add_words(digest, cache->tokens + (uint64_t)chunk * PROMPT_CACHE_CHUNK,
                               part * sizeof(uint32_t));
        chunk = cache->chunk_next[chunk];
    }
    return digest | 1;
}

/* The entry, whose value is there with all its chunks, is KNOWN. */
static void know(struct prompt_cache *cache, uint32_t index)
{
    struct prompt_cache_entry *entry = &cache->entries[index];
    uint32_t chunks = chunks_of(cache->values[index].tokens);
    entry->state = PROMPT_CACHE_KNOWN;
    entry->waiters = PROMPT_CACHE_NONE;
    cache->used_chunks += chunks;
    cache->domains[entry->domain].chunks += chunks;
    cache->known++;
    link_first(cache, index);
}

void prompt_cache_fill(struct prompt_cache *cache, uint32_t index, const uint32_t *tokens,
                       uint32_t count)
{
    struct prompt_cache_entry *entry = &cache->entries[index];
    struct prompt_cache_value *value = &cache->values[index];
    ASSERT(entry->state == PROMPT_CACHE_OPEN);
    if (entry->is_doubted || !reserve_chunks(cache, entry->domain, chunks_of(count))) {
        forget(cache, index);
        return;
    }
    uint32_t *link = &value->first_chunk;
    for (uint32_t at = 0; at < count; at += PROMPT_CACHE_CHUNK) {
        uint32_t chunk = cache->free_chunk, part = lesser(count - at, PROMPT_CACHE_CHUNK);
        cache->free_chunk = cache->free_next[chunk];
        memcpy(cache->tokens + (uint64_t)chunk * PROMPT_CACHE_CHUNK, tokens + at,
               part * sizeof *tokens);
        *link = chunk;
        link = &cache->chunk_next[chunk];
    }
    value->tokens = count;
    kept_order();
    value->check = check_of_value(cache, index);
    know(cache, index);
}

void prompt_cache_drop(struct prompt_cache *cache, uint32_t index)
{
    ASSERT(cache->entries[index].state == PROMPT_CACHE_OPEN);
    forget(cache, index);
}

uint32_t prompt_cache_read(struct prompt_cache *cache, uint32_t index, uint32_t *tokens)
{
    const struct prompt_cache_value *value = &cache->values[index];
    uint32_t chunk = value->first_chunk;
    ASSERT(cache->entries[index].state == PROMPT_CACHE_KNOWN);
    for (uint32_t at = 0; at < value->tokens; at += PROMPT_CACHE_CHUNK) {
        uint32_t part = lesser(value->tokens - at, PROMPT_CACHE_CHUNK);
        memcpy(tokens + at, cache->tokens + (uint64_t)chunk * PROMPT_CACHE_CHUNK,
               part * sizeof *tokens);
        chunk = cache->chunk_next[chunk];
    }
    unlink_known(cache, index);
    link_first(cache, index);
    return value->tokens;
}

void prompt_cache_doubt(struct prompt_cache *cache)
{
    cache->head->doubts++;          /* with one store: a death leaves none of them */
    kept_order();
    for (uint32_t i = 0; i < cache->entries_count; i++) {
        if (cache->entries[i].state == PROMPT_CACHE_KNOWN) {
            forget(cache, i);
        } else {
            cache->entries[i].is_doubted = cache->entries[i].state == PROMPT_CACHE_OPEN;
        }
    }
}

void prompt_cache_doubt_for(struct prompt_cache *cache, uint64_t damages)
{
    if (cache->head->damages != damages) {
        prompt_cache_doubt(cache);
        kept_order();
        cache->head->damages = damages;
    }
}

/* ---- the beginning, and what a core has left ------------------------------------------------- */

#define TAKEN (PROMPT_CACHE_NONE - 1)   /* in free_next: a value has the chunk */

/* True when the entry has a value that is whole. */
static bool is_whole(const struct prompt_cache *cache, uint32_t index)
{
    const struct prompt_cache_value *value = &cache->values[index];
    uint32_t at = value->first_chunk;
    if (value->tokens > (uint64_t)cache->chunks_count * PROMPT_CACHE_CHUNK) {
        return false;
    }
    for (uint32_t i = 0; i < chunks_of(value->tokens); i++) {
        if (at >= cache->chunks_count) {
            return false;
        }
        at = cache->chunk_next[at];
    }
    return value->check == check_of_value(cache, index);
}

/* The chunks of the value are taken; false, and none is: another value has one, or it has one
 * twice. */
static bool take_chunks(struct prompt_cache *cache, const struct prompt_cache_value *value)
{
    uint32_t count = chunks_of(value->tokens), taken = 0, at = value->first_chunk;
    for (; taken < count && cache->free_next[at] != TAKEN; taken++) {
        cache->free_next[at] = TAKEN;
        at = cache->chunk_next[at];
    }
    at = value->first_chunk;
    for (uint32_t i = 0; taken < count && i < taken; i++) {
        cache->free_next[at] = PROMPT_CACHE_NONE;
        at = cache->chunk_next[at];
    }
    return taken == count;
}

/* All that is there is KNOWN or free. */
static void take_up(struct prompt_cache *cache)
{
    for (uint32_t i = cache->entries_count; i-- > 0;) {
        struct prompt_cache_value *value = &cache->values[i];
        if (is_whole(cache, i) && prompt_cache_find(cache, &value->key) == PROMPT_CACHE_NONE &&
            take_chunks(cache, value)) {
            take_entry(cache, i, domain_of(cache, value->domain));
            know(cache, i);
        } else {
            value->check = 0;
            cache->entries[i].hash_next = cache->free_entry;
            cache->free_entry = i;
        }
    }
    for (uint32_t i = cache->chunks_count; i-- > 0;) {
        if (cache->free_next[i] != TAKEN) {
            cache->free_next[i] = cache->free_chunk;
            cache->free_chunk = i;
        }
    }
}

/* Never 0, which stands for none. */
static uint64_t check_of_head(const struct prompt_cache_head *head)
{
    return fnv_add_words(FNV_START, head->secret, sizeof head->secret) | 1;
}

static void init_head(struct prompt_cache_head *head, const struct prompt_cache_source *source)
{
    bool has_secret = head->check == check_of_head(head);
    if (!has_secret || head->upgrades != source->upgrades) {
        head->doubts++;
        kept_order();
        head->upgrades = source->upgrades;
        head->damages = 0;
    }
    if (!has_secret) {
        memcpy(head->secret, source->secret, sizeof head->secret);
        kept_order();
        head->check = check_of_head(head);
    }
}

void prompt_cache_init(struct prompt_cache *cache, struct prompt_cache_counts counts,
                       const struct prompt_cache_source *source, struct arena *arena,
                       struct arena *kept)
{
    uint32_t entries = counts.entries, chunks = chunks_of(counts.tokens);
    uint32_t heads = ring_capacity_ceil(entries);
    *cache = (struct prompt_cache){.entries_count = entries, .chunks_count = chunks,
                                   .heads_mask = heads - 1, .free_entry = PROMPT_CACHE_NONE,
                                   .free_chunk = PROMPT_CACHE_NONE};
    cache->entries = arena_take(arena, entries, sizeof(struct prompt_cache_entry));
    cache->heads = arena_take(arena, heads, sizeof(uint32_t));
    cache->free_next = arena_take(arena, chunks, sizeof(uint32_t));
    cache->head = arena_take(kept, 1, sizeof(struct prompt_cache_head));
    cache->values = arena_take(kept, entries, sizeof(struct prompt_cache_value));
    cache->chunk_next = arena_take(kept, chunks, sizeof(uint32_t));
    cache->tokens = arena_take(kept, (uint64_t)chunks * PROMPT_CACHE_CHUNK, sizeof(uint32_t));
    init_head(cache->head, source);
    for (uint32_t i = 0; i < heads; i++) {
        cache->heads[i] = PROMPT_CACHE_NONE;
    }
    take_up(cache);
}

/* ---- reporting ------------------------------------------------------------------------------- */

void prompt_cache_check(const struct prompt_cache *cache)
{
    uint32_t known = 0, chunks = 0;
    for (uint32_t i = 0; i < cache->entries_count; i++) {
        const struct prompt_cache_entry *entry = &cache->entries[i];
        ASSERT(cache->values[i].check ==
               (entry->state == PROMPT_CACHE_KNOWN ? check_of_value(cache, i) : 0));
        if (entry->state == PROMPT_CACHE_FREE) {
            continue;
        }
        ASSERT(prompt_cache_find(cache, &cache->values[i].key) == i);
        ASSERT(entry->domain < cache->domains_count);
        known += entry->state == PROMPT_CACHE_KNOWN;
        chunks += entry->state == PROMPT_CACHE_KNOWN ? chunks_of(cache->values[i].tokens) : 0;
    }
    ASSERT(known == cache->known && chunks == cache->used_chunks);
}
