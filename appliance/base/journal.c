/* SPDX-License-Identifier: MIT */
/*
 * What: the ring of events: numbers that grow without end, places that come round.
 * Invariant: number n is kept exactly while next - capacity <= n < next.
 * Bounds: a note is a copy of 48 bytes; nothing is ever searched, moved or waited for.
 */
#include "appliance/base/journal.h"

#include <string.h>

#include "appliance/base/assert.h"
#include "appliance/base/ring.h"

STATIC_ASSERT(sizeof(struct event) == 48, "as the text says, and without a gap");

const struct event_row event_rows[EVENT_KINDS_COUNT] = {
#define EVENT(NAME, name, a, b, c, d, help) [EVENT_##NAME] = {#name, {a, b, c, d}, help},
#include "appliance/base/events.def"
#undef EVENT
};

/* The largest that a ring can be rounded up to. */
#define EVENTS_MAX (1u << 31)

static uint32_t capacity_of(uint32_t events)
{
    ASSERT(events <= EVENTS_MAX);
    return events > 0 ? ring_capacity_ceil(events) : 0;
}

void journal_plan(struct plan *plan, uint32_t events)
{
    plan_add(plan, TIER_CORE, "journal events", capacity_of(events), sizeof(struct event));
}

void journal_init(struct journal *journal, uint32_t events, struct arena *arena)
{
    uint32_t capacity = capacity_of(events);
    *journal = (struct journal){.capacity = capacity};
    journal->events = arena_take(arena, capacity, sizeof(struct event));
}

static bool is_kept(const struct journal *journal)
{
    return journal != NULL && journal->capacity > 0;
}

/* The place of the next event, which is written there at once. */
static struct event *next_place(struct journal *journal, const struct event_what *what)
{
    ASSERT(what->kind < EVENT_KINDS_COUNT);
    return &journal->events[journal->next++ & (journal->capacity - 1)];
}

void journal_note(struct journal *journal, uint64_t now_us, struct event_what what)
{
    if (is_kept(journal)) {
        *next_place(journal, &what) = (struct event){
            .time_us = now_us, .call = CALL_NONE, .program = EVENT_PROGRAM_NONE, .what = what};
    }
}

void journal_note_program(struct journal *journal, uint64_t now_us, uint32_t program,
                          const uint8_t *program_id, struct event_what what)
{
    if (is_kept(journal)) {
        struct event *event = next_place(journal, &what);
        *event = (struct event){
            .time_us = now_us, .call = CALL_NONE, .program = program, .what = what};
        memcpy(event->program_tag, program_id, EVENT_PROGRAM_TAG_BYTES);
    }
}

void journal_note_call(struct journal *journal, uint64_t now_us, const struct call_table *table,
                       uint32_t call_index, struct event_what what)
{
    if (is_kept(journal)) {
        ASSERT(call_index < table->count);
        const struct call *call = &table->calls[call_index];
        struct event *event = next_place(journal, &what);
        *event = (struct event){.time_us = now_us, .client_call_id = call->client_call_id,
                                .call = call_index, .program = call->program, .what = what};
        memcpy(event->program_tag, call->program_id, EVENT_PROGRAM_TAG_BYTES);
    }
}

STATIC_ASSERT(EVENT_PROGRAM_NONE == CALL_NONE, "a call without a program says CALL_NONE");

uint64_t journal_first(const struct journal *journal)
{
    return journal->next > journal->capacity ? journal->next - journal->capacity : 0;
}

const struct event *journal_at(const struct journal *journal, uint64_t number)
{
    ASSERT(journal_first(journal) <= number && number < journal->next);
    return &journal->events[number & (journal->capacity - 1)];
}
