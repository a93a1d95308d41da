/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a bounded first-in first-out queue of uint32_t indices or of fixed records, inside one
 * thread. Capacity is a power of two. Each declaration of a ring states what happens when it is
 * full; push() asserts room, so an owner whose ring can be full asks ring_is_full() first.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/assert.h"

struct ring {
    uint32_t head;          /* next to pop; counts without bound, wraps modulo 2^32 */
    uint32_t tail;          /* next to push */
    uint32_t capacity;      /* power of two */
    uint32_t high_water;    /* largest count seen */
};

static inline uint32_t ring_capacity_ceil(uint32_t wanted)
{
    uint32_t capacity = 1;
    while (capacity < wanted) {
        capacity <<= 1;
    }
    return capacity;
}

static inline void ring_init(struct ring *ring, uint32_t capacity)
{
    ASSERT(capacity != 0 && (capacity & (capacity - 1)) == 0);
    *ring = (struct ring){.capacity = capacity};
}

static inline uint32_t ring_count(const struct ring *ring) { return ring->tail - ring->head; }
static inline bool ring_is_empty(const struct ring *ring) { return ring->tail == ring->head; }
static inline bool ring_is_full(const struct ring *ring)
{
    return ring_count(ring) == ring->capacity;
}

/* The index of the slot to write; the caller fills it at once. */
static inline uint32_t ring_push(struct ring *ring)
{
    ASSERT(!ring_is_full(ring));
    uint32_t at = ring->tail++ & (ring->capacity - 1);
    if (ring_count(ring) > ring->high_water) {
        ring->high_water = ring_count(ring);
    }
    return at;
}

/* The index of the slot of the i-th of those that wait. */
static inline uint32_t ring_at(const struct ring *ring, uint32_t i)
{
    ASSERT(i < ring_count(ring));
    return (ring->head + i) & (ring->capacity - 1);
}

/* The index of the slot to read; valid until the next push. */
static inline uint32_t ring_pop(struct ring *ring)
{
    ASSERT(!ring_is_empty(ring));
    return ring->head++ & (ring->capacity - 1);
}
