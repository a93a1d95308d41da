/* SPDX-License-Identifier: MIT */
/*
 * What: the ring of events: numbers that grow without end, places that come round.
 * Invariant: number n is kept exactly while next - capacity <= n < next.
 * Bounds: a note is a copy of 48 bytes; nothing is ever searched, moved or waited for.
 */
#include "config/base/event_log.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/base/ring.h"

STATIC_ASSERT(sizeof(struct event) == 48, "as the text says, and without a gap");

const struct event_row event_rows[EVENT_KINDS_COUNT] = {
#define EVENT(NAME, name, a, b, c, d, help) [EVENT_##NAME] = {#name, {a, b, c, d}, help},
#include "config/base/events.def"
#undef EVENT
};

/* The largest that a ring can be rounded up to. */
#define EVENTS_MAX (1u << 31)

static uint32_t capacity_of(uint32_t events)
{
    ASSERT(events <= EVENTS_MAX);
    return events > 0 ? ring_capacity_ceil(events) : 0;
}

void event_log_plan_memory(struct memory_plan *plan, uint32_t events)
{
    memory_plan_add(plan, MEMORY_CORE, "event log events", capacity_of(events),
                    sizeof(struct event));
}

void event_log_init(struct event_log *event_log, uint32_t events, struct arena *arena)
{
    uint32_t capacity = capacity_of(events);
    *event_log = (struct event_log){.capacity = capacity};
    event_log->events = arena_take(arena, capacity, sizeof(struct event));
}

static bool is_kept(const struct event_log *event_log)
{
    return event_log != NULL && event_log->capacity > 0;
}

/* The place of the next event, which is written there at once. */
static struct event *next_place(struct event_log *event_log, const struct event_what *what)
{
    ASSERT(what->kind < EVENT_KINDS_COUNT);
    return &event_log->events[event_log->next++ & (event_log->capacity - 1)];
}

void event_log_note(struct event_log *event_log, uint64_t now_us, struct event_what what)
{
    if (is_kept(event_log)) {
        *next_place(event_log, &what) = (struct event){
            .time_us = now_us, .call = CALL_NONE, .program = EVENT_PROGRAM_NONE, .what = what};
    }
}

void event_log_note_program(struct event_log *event_log, uint64_t now_us, uint32_t program,
                            const uint8_t *program_id, struct event_what what)
{
    if (is_kept(event_log)) {
        struct event *event = next_place(event_log, &what);
        *event = (struct event){
            .time_us = now_us, .call = CALL_NONE, .program = program, .what = what};
        memcpy(event->program_tag, program_id, EVENT_PROGRAM_TAG_BYTES);
    }
}

void event_log_note_call(struct event_log *event_log, uint64_t now_us, const struct call *call,
                         struct event_what what)
{
    if (is_kept(event_log)) {
        struct event *event = next_place(event_log, &what);
        *event = (struct event){.time_us = now_us, .client_call_id = call->client_call_id,
                                .call = call->slot, .program = call->program, .what = what};
        memcpy(event->program_tag, call->program_id, EVENT_PROGRAM_TAG_BYTES);
    }
}

STATIC_ASSERT(EVENT_PROGRAM_NONE == CALL_NONE, "a call without a program says CALL_NONE");

uint64_t event_log_first(const struct event_log *event_log)
{
    return event_log->next > event_log->capacity ? event_log->next - event_log->capacity : 0;
}

const struct event *event_log_at(const struct event_log *event_log, uint64_t number)
{
    ASSERT(event_log_first(event_log) <= number && number < event_log->next);
    return &event_log->events[number & (event_log->capacity - 1)];
}
