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
 * The key is a keyed digest with 128 bits. Two prompts with one key would get one value: no client
 * can find such a pair without the secret of this boot.
 *
 * Bounds: O(chain + chunks of one value), and one entry given up for each chunk that is needed.
 */
#include "sched/workflow/prompt_cache.h"

#include <bearssl/bearssl_hmac.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/base/ring.h"

static uint32_t chunks_of(uint32_t tokens)
{
    return (tokens + PROMPT_CACHE_CHUNK - 1) / PROMPT_CACHE_CHUNK;
}

void prompt_cache_plan_memory(struct memory_plan *plan, uint32_t entries, uint32_t tokens)
{
    uint64_t chunks = chunks_of(tokens);
    memory_plan_add(plan, MEMORY_CORE, "prompt cache", entries, sizeof(struct prompt_cache_entry));
    memory_plan_add(plan, MEMORY_CORE, "prompt cache heads", ring_capacity_ceil(entries),
                    sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "prompt cache chunks", chunks, sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "prompt cache values", chunks * PROMPT_CACHE_CHUNK,
                    sizeof(uint32_t));
}

void prompt_cache_init(struct prompt_cache *cache, uint32_t entries, uint32_t tokens,
                       const uint8_t secret[32], struct arena *arena)
{
    uint32_t chunks = chunks_of(tokens), heads = ring_capacity_ceil(entries);
    *cache = (struct prompt_cache){.entries_count = entries, .chunks_count = chunks,
                                   .heads_mask = heads - 1, .free_entry = PROMPT_CACHE_NONE,
                                   .free_chunk = PROMPT_CACHE_NONE};
    memcpy(cache->secret, secret, sizeof cache->secret);
    cache->entries = arena_take(arena, entries, sizeof(struct prompt_cache_entry));
    cache->heads = arena_take(arena, heads, sizeof(uint32_t));
    cache->chunk_next = arena_take(arena, chunks, sizeof(uint32_t));
    cache->tokens = arena_take(arena, (uint64_t)chunks * PROMPT_CACHE_CHUNK, sizeof(uint32_t));
    for (uint32_t i = 0; i < heads; i++) {
        cache->heads[i] = PROMPT_CACHE_NONE;
    }
    for (uint32_t i = entries; i-- > 0;) {
        cache->entries[i] = (struct prompt_cache_entry){.hash_next = cache->free_entry};
        cache->free_entry = i;
    }
    for (uint32_t i = chunks; i-- > 0;) {
        cache->chunk_next[i] = cache->free_chunk;
        cache->free_chunk = i;
    }
}

/* ---- the key --------------------------------------------------------------------------------- */

/* All that the value of a greedy call depends on. Stop ids and stop texts in their order. */
struct prompt_cache_key prompt_cache_key(const struct prompt_cache *cache, uint64_t domain,
                                         const struct workflow_node *node, const uint32_t *prompt,
                                         uint32_t prompt_tokens)
{
    const struct call_sampling *sampling = &node->call.sampling;
    struct prompt_cache_key key;
    uint8_t mac[32];
    br_hmac_key_context with;
    br_hmac_context hmac;
    ASSERT(sampling->temperature == 0);
    br_hmac_key_init(&with, &br_sha256_vtable, cache->secret, sizeof cache->secret);
    br_hmac_init(&hmac, &with, 0);
    br_hmac_update(&hmac, &domain, sizeof domain);
    br_hmac_update(&hmac, &node->max_tokens, sizeof node->max_tokens);
    br_hmac_update(&hmac, &node->call.ignore_eos, sizeof node->call.ignore_eos);
    br_hmac_update(&hmac, &sampling->repeat_penalty, sizeof sampling->repeat_penalty);
    br_hmac_update(&hmac, &sampling->stop_ids_count, sizeof sampling->stop_ids_count);
    br_hmac_update(&hmac, sampling->stop_ids,
                   sampling->stop_ids_count * sizeof *sampling->stop_ids);
    br_hmac_update(&hmac, &node->call.stop_texts_count, sizeof node->call.stop_texts_count);
    for (uint32_t i = 0; i < node->call.stop_texts_count; i++) {
        const struct call_stop_text *text = &node->call.stop_texts[i];
        br_hmac_update(&hmac, &text->length_bytes, sizeof text->length_bytes);
        br_hmac_update(&hmac, text->bytes, text->length_bytes);
    }
    br_hmac_update(&hmac, prompt, prompt_tokens * sizeof *prompt);
    br_hmac_out(&hmac, mac);
    memcpy(key.bytes, mac, sizeof key.bytes);
    return key;
}

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
           memcmp(&cache->entries[at].key, key, sizeof *key) != 0) {
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

static void free_chunks(struct prompt_cache *cache, struct prompt_cache_entry *entry)
{
    uint32_t count = chunks_of(entry->tokens), at = entry->first_chunk;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t next = cache->chunk_next[at];
        cache->chunk_next[at] = cache->free_chunk;
        cache->free_chunk = at;
        at = next;
    }
    cache->used_chunks -= count;
    cache->domains[entry->domain].chunks -= count;
}

static void forget(struct prompt_cache *cache, uint32_t index)
{
    struct prompt_cache_entry *entry = &cache->entries[index];
    uint32_t *link = head_of(cache, &entry->key);
    if (entry->state == PROMPT_CACHE_KNOWN) {
        unlink_known(cache, index);
        free_chunks(cache, entry);
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
    uint32_t index = cache->free_entry, *head = head_of(cache, key);
    struct prompt_cache_entry *entry = &cache->entries[index];
    cache->free_entry = entry->hash_next;
    *entry = (struct prompt_cache_entry){.state = PROMPT_CACHE_OPEN, .key = *key, .domain = owner,
                                         .waiters = PROMPT_CACHE_NONE, .hash_next = *head};
    *head = index;
    cache->domains[owner].entries++;
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

void prompt_cache_fill(struct prompt_cache *cache, uint32_t index, const uint32_t *tokens,
                       uint32_t count)
{
    struct prompt_cache_entry *entry = &cache->entries[index];
    ASSERT(entry->state == PROMPT_CACHE_OPEN);
    if (entry->is_doubted || !reserve_chunks(cache, entry->domain, chunks_of(count))) {
        forget(cache, index);
        return;
    }
    uint32_t *link = &entry->first_chunk;
    for (uint32_t at = 0; at < count; at += PROMPT_CACHE_CHUNK) {
        uint32_t chunk = cache->free_chunk, part = count - at;
        part = part < PROMPT_CACHE_CHUNK ? part : PROMPT_CACHE_CHUNK;
        cache->free_chunk = cache->chunk_next[chunk];
        memcpy(cache->tokens + (uint64_t)chunk * PROMPT_CACHE_CHUNK, tokens + at,
               part * sizeof *tokens);
        *link = chunk;
        link = &cache->chunk_next[chunk];
    }
    entry->state = PROMPT_CACHE_KNOWN;
    entry->tokens = count;
    entry->waiters = PROMPT_CACHE_NONE;
    cache->used_chunks += chunks_of(count);
    cache->domains[entry->domain].chunks += chunks_of(count);
    cache->known++;
    link_first(cache, index);
}

void prompt_cache_drop(struct prompt_cache *cache, uint32_t index)
{
    ASSERT(cache->entries[index].state == PROMPT_CACHE_OPEN);
    forget(cache, index);
}

uint32_t prompt_cache_read(struct prompt_cache *cache, uint32_t index, uint32_t *tokens)
{
    struct prompt_cache_entry *entry = &cache->entries[index];
    uint32_t chunk = entry->first_chunk;
    ASSERT(entry->state == PROMPT_CACHE_KNOWN);
    for (uint32_t at = 0; at < entry->tokens; at += PROMPT_CACHE_CHUNK) {
        uint32_t part = entry->tokens - at;
        part = part < PROMPT_CACHE_CHUNK ? part : PROMPT_CACHE_CHUNK;
        memcpy(tokens + at, cache->tokens + (uint64_t)chunk * PROMPT_CACHE_CHUNK,
               part * sizeof *tokens);
        chunk = cache->chunk_next[chunk];
    }
    unlink_known(cache, index);
    link_first(cache, index);
    return entry->tokens;
}

void prompt_cache_doubt(struct prompt_cache *cache)
{
    for (uint32_t i = 0; i < cache->entries_count; i++) {
        if (cache->entries[i].state == PROMPT_CACHE_KNOWN) {
            forget(cache, i);
        } else {
            cache->entries[i].is_doubted = cache->entries[i].state == PROMPT_CACHE_OPEN;
        }
    }
}

/* ---- reporting ------------------------------------------------------------------------------- */

void prompt_cache_check(const struct prompt_cache *cache)
{
    uint32_t known = 0, chunks = 0;
    for (uint32_t i = 0; i < cache->entries_count; i++) {
        const struct prompt_cache_entry *entry = &cache->entries[i];
        if (entry->state == PROMPT_CACHE_FREE) {
            continue;
        }
        ASSERT(prompt_cache_find(cache, &entry->key) == i);
        ASSERT(entry->domain < cache->domains_count);
        known += entry->state == PROMPT_CACHE_KNOWN;
        chunks += entry->state == PROMPT_CACHE_KNOWN ? chunks_of(entry->tokens) : 0;
    }
    ASSERT(known == cache->known && chunks == cache->used_chunks);
}
