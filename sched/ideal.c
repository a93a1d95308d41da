/* SPDX-License-Identifier: MIT */
/*
 * What: the clock of the ideal system, in integers. V moves on piece by piece: to the smallest tag,
 * where a program leaves and N shrinks, then to the next one. What a division leaves over is kept
 * for the next piece, so no service is lost, however often it comes.
 *
 * Invariants: an entry is free, in the heap, or in the list of those that left last; N is the sum
 * of the weights in the heap; no tag in the heap is below V.
 * Bounds: SCHED_IDEAL_TIMES entries for each program of the process table. When all are taken, the
 * smallest tag leaves early, which is counted.
 */
#include "sched/ideal.h"

#include "config/base/assert.h"

/* One is for the program that comes when all others are taken. */
static uint32_t entries_of(uint32_t programs)
{
    return SCHED_IDEAL_TIMES * programs + 1;
}

void sched_ideal_plan_memory(struct memory_plan *plan, uint32_t programs)
{
    memory_plan_add(plan, MEMORY_CORE, "sched ideal system", entries_of(programs),
                    sizeof(struct sched_ideal_entry));
    heap_plan_memory(plan, "sched ideal system", entries_of(programs));
}

void sched_ideal_init(struct sched_ideal *ideal, uint32_t programs, struct arena *arena)
{
    uint32_t count = entries_of(programs);
    *ideal = (struct sched_ideal){.left = SCHED_IDEAL_NONE, .left_last = SCHED_IDEAL_NONE};
    ideal->entries = arena_take(arena, count, sizeof *ideal->entries);
    heap_init(&ideal->tags, count, arena);
    for (uint32_t i = 0; i < count; i++) {
        ideal->entries[i].next = i + 1 < count ? i + 1 : SCHED_IDEAL_NONE;
    }
}

static void give_back(struct sched_ideal *ideal, uint32_t entry)
{
    ideal->entries[entry].next = ideal->free;
    ideal->free = entry;
}

/* The smallest tag leaves. */
static void pop(struct sched_ideal *ideal, uint64_t now_us)
{
    uint32_t entry = heap_first(&ideal->tags);
    ASSERT(entry != HEAP_NONE && ideal->weights >= ideal->entries[entry].weight);
    heap_remove(&ideal->tags, entry);
    ideal->weights -= ideal->entries[entry].weight;
    ideal->entries[entry].left_us = now_us;
    ideal->entries[entry].next = SCHED_IDEAL_NONE;
    *(ideal->left == SCHED_IDEAL_NONE ? &ideal->left
                                      : &ideal->entries[ideal->left_last].next) = entry;
    ideal->left_last = entry;
}

static void give_back_left(struct sched_ideal *ideal)
{
    while (ideal->left != SCHED_IDEAL_NONE) {
        uint32_t entry = ideal->left;
        ideal->left = ideal->entries[entry].next;
        give_back(ideal, entry);
    }
}

uint32_t sched_ideal_enter(struct sched_ideal *ideal, const struct sched_ideal_entry *what,
                           uint64_t now_us)
{
    ASSERT(what->weight > 0 && what->tag >= ideal->virtual_time);
    if (ideal->free == SCHED_IDEAL_NONE) {
        give_back_left(ideal);
    }
    if (ideal->tags.count + 1 == ideal->tags.ids) {
        pop(ideal, now_us);
        ideal->early++;
    }
    uint32_t entry = ideal->free;
    ASSERT(entry != SCHED_IDEAL_NONE);
    ideal->free = ideal->entries[entry].next;
    ideal->entries[entry] = *what;
    heap_set(&ideal->tags, entry, what->tag);
    ideal->weights += what->weight;
    return entry;
}

bool sched_ideal_has(const struct sched_ideal *ideal, uint32_t entry, uint32_t program)
{
    return entry != SCHED_IDEAL_NONE && heap_has(&ideal->tags, entry) &&
           ideal->entries[entry].program == program;
}

void sched_ideal_move(struct sched_ideal *ideal, uint32_t entry, uint64_t tag)
{
    ASSERT(heap_has(&ideal->tags, entry) && tag >= ideal->virtual_time);
    ideal->entries[entry].tag = tag;
    heap_set(&ideal->tags, entry, tag);
}

/* The service that moves V on to the smallest tag. */
static unsigned __int128 service_to_first(const struct sched_ideal *ideal)
{
    uint64_t tag = heap_first_key(&ideal->tags);
    uint64_t way = tag > ideal->virtual_time ? tag - ideal->virtual_time : 0;
    unsigned __int128 service = (unsigned __int128)way * ideal->weights;
    return service > ideal->remainder ? service - ideal->remainder : 0;
}

/* That share of the duration, as fine as 64 bits allow. */
static uint64_t share_us(uint64_t duration_us, uint64_t part, uint64_t whole)
{
    uint64_t product = 0;
    while (__builtin_mul_overflow(duration_us, part, &product)) {
        part /= 2;
        whole /= 2;
    }
    return product / (whole > 0 ? whole : 1);
}

/* Service that brings no program to its tag. */
static void advance_clock(struct sched_ideal *ideal, uint64_t served)
{
    uint64_t weights = ideal->weights;
    uint64_t rest = served % weights + ideal->remainder % weights;
    ideal->virtual_time += served / weights + ideal->remainder / weights + (rest >= weights);
    ideal->remainder = rest >= weights ? rest - weights : rest;
}

void sched_ideal_advance(struct sched_ideal *ideal, uint64_t served, uint64_t begun_us,
                         uint64_t duration_us)
{
    uint64_t left = served;
    give_back_left(ideal);
    while (ideal->tags.count > 0 && service_to_first(ideal) <= left) {
        left -= (uint64_t)service_to_first(ideal);
        ideal->virtual_time = heap_first_key(&ideal->tags);
        ideal->remainder = 0;
        pop(ideal, begun_us + share_us(duration_us, served - left, served));
    }
    if (ideal->weights > 0) {
        advance_clock(ideal, left);
    }
}

void sched_ideal_rest(struct sched_ideal *ideal, uint64_t now_us)
{
    while (ideal->tags.count > 0) {
        ideal->virtual_time = heap_first_key(&ideal->tags);
        pop(ideal, now_us);
    }
    ideal->remainder = 0;
}

void sched_ideal_check(const struct sched_ideal *ideal)
{
    uint64_t weights = 0;
    uint32_t entries = 0;
    heap_check(&ideal->tags);
    for (uint32_t i = 0; i < ideal->tags.ids; i++) {
        bool is_in = heap_has(&ideal->tags, i);
        weights += is_in ? ideal->entries[i].weight : 0;
        ASSERT(!is_in || ideal->entries[i].tag >= ideal->virtual_time);
    }
    ASSERT(weights == ideal->weights);
    for (uint32_t i = ideal->free; i != SCHED_IDEAL_NONE; i = ideal->entries[i].next) {
        ASSERT(++entries <= ideal->tags.ids);
    }
    for (uint32_t i = ideal->left; i != SCHED_IDEAL_NONE; i = ideal->entries[i].next) {
        ASSERT(++entries <= ideal->tags.ids);
        ASSERT(ideal->entries[i].next != SCHED_IDEAL_NONE || ideal->left_last == i);
    }
    ASSERT(entries + ideal->tags.count == ideal->tags.ids);
}
