/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: an indexed binary heap: numbers 0 .. ids - 1, each with a key while it is in the heap, and
 * the one with the least key first. Equal keys come in no particular order, but in the same one in
 * each run. There is room for every number, so it is never full.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/assert.h"

#define HEAP_NONE UINT32_MAX

struct heap_entry {
    uint64_t key;
    uint32_t id;
};
struct heap {
    uint32_t count, ids;
    /* private */
    struct heap_entry *entries;     /* [ids]: entry i is not after its children 2i + 1, 2i + 2 */
    uint32_t *places;               /* [ids]: of each number in the entries, or HEAP_NONE */
};

static inline bool heap_has(const struct heap *heap, uint32_t id)
{
    return heap->places[id] != HEAP_NONE;
}

/* The number with the least key, or HEAP_NONE. */
static inline uint32_t heap_first(const struct heap *heap)
{
    return heap->count > 0 ? heap->entries[0].id : HEAP_NONE;
}

/* Its key, or UINT64_MAX. */
static inline uint64_t heap_first_key(const struct heap *heap)
{
    return heap->count > 0 ? heap->entries[0].key : UINT64_MAX;
}

/* Of an id that is in the heap. */
static inline uint64_t heap_key(const struct heap *heap, uint32_t id)
{
    ASSERT(heap_has(heap, id));
    return heap->entries[heap->places[id]].key;
}

/* Empties it; O(ids). */
static inline void heap_clear(struct heap *heap)
{
    heap->count = 0;
    for (uint32_t id = 0; id < heap->ids; id++) {
        heap->places[id] = HEAP_NONE;
    }
}

static inline void heap_plan_memory(struct memory_plan *plan, const char *name, uint32_t ids)
{
    memory_plan_add(plan, MEMORY_CORE, name, ids, sizeof(struct heap_entry));
    memory_plan_add(plan, MEMORY_CORE, name, ids, sizeof(uint32_t));
}

/* In room for `ids` entries and places that the caller has. */
static inline void heap_init_at(struct heap *heap, uint32_t ids, struct heap_entry *entries,
                                uint32_t *places)
{
    ASSERT(ids > 0 && ids < HEAP_NONE / 2);
    *heap = (struct heap){.ids = ids, .entries = entries, .places = places};
    heap_clear(heap);
}

static inline void heap_init(struct heap *heap, uint32_t ids, struct arena *arena)
{
    struct heap_entry *entries = arena_take(arena, ids, sizeof(struct heap_entry));
    heap_init_at(heap, ids, entries, arena_take(arena, ids, sizeof(uint32_t)));
}

static inline void heap_put(struct heap *heap, uint32_t place, struct heap_entry entry)
{
    heap->entries[place] = entry;
    heap->places[entry.id] = place;
}

/* The entry belongs at this place or above it. */
static inline void heap_rise(struct heap *heap, uint32_t place, struct heap_entry entry)
{
    while (place > 0 && heap->entries[(place - 1) / 2].key > entry.key) {
        heap_put(heap, place, heap->entries[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    heap_put(heap, place, entry);
}

/* The entry belongs at this place or below it. */
static inline void heap_sink(struct heap *heap, uint32_t place, struct heap_entry entry)
{
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child + 1 < heap->count && heap->entries[child + 1].key < heap->entries[child].key) {
            child++;
        }
        if (child >= heap->count || heap->entries[child].key >= entry.key) {
            break;
        }
        heap_put(heap, place, heap->entries[child]);
        place = child;
    }
    heap_put(heap, place, entry);
}

static inline void heap_settle(struct heap *heap, uint32_t place, struct heap_entry entry)
{
    bool is_above = place > 0 && heap->entries[(place - 1) / 2].key > entry.key;
    if (is_above) {
        heap_rise(heap, place, entry);
    } else {
        heap_sink(heap, place, entry);
    }
}

/* The number has this key from now on, whether it was in the heap or not. O(log count), and O(1)
 * where the key stays the same. */
static inline void heap_set(struct heap *heap, uint32_t id, uint64_t key)
{
    ASSERT(id < heap->ids);
    uint32_t place = heap->places[id];
    if (place == HEAP_NONE) {
        place = heap->count++;
        heap->entries[place] = (struct heap_entry){.key = UINT64_MAX, .id = id};
    } else if (heap->entries[place].key == key) {
        return;
    }
    heap_settle(heap, place, (struct heap_entry){.key = key, .id = id});
}

/* Free when the number is not in the heap. O(log count). */
static inline void heap_remove(struct heap *heap, uint32_t id)
{
    ASSERT(id < heap->ids);
    uint32_t place = heap->places[id];
    if (place == HEAP_NONE) {
        return;
    }
    struct heap_entry last = heap->entries[--heap->count];
    heap->places[id] = HEAP_NONE;
    if (last.id != id) {
        heap_settle(heap, place, last);
    }
}

/* Asserts the order; O(ids). */
static inline void heap_check(const struct heap *heap)
{
    uint32_t in_heap = 0;
    ASSERT(heap->count <= heap->ids);
    for (uint32_t place = 0; place < heap->count; place++) {
        ASSERT(heap->places[heap->entries[place].id] == place);
        ASSERT(place == 0 || heap->entries[(place - 1) / 2].key <= heap->entries[place].key);
    }
    for (uint32_t id = 0; id < heap->ids; id++) {
        in_heap += heap_has(heap, id);
    }
    ASSERT(in_heap == heap->count);
}
