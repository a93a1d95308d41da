/* SPDX-License-Identifier: MIT */
/*
 * What: the ring of events: numbers that grow without end, places that come round.
 * Invariant: number n is kept exactly while next - capacity <= n < next.
 * Bounds: a note is a copy of 48 bytes, of 64 for a call that ends; nothing is ever searched, moved
 * or waited for.
 */
#include "config/base/event_log.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/base/ring.h"
#include "config/base/status.h"

STATIC_ASSERT(sizeof(struct event) == 48, "as the text says, and without a gap");
STATIC_ASSERT(sizeof(struct event_ended) == 64, "a cache line, and 38 MB for ten minutes");

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

void event_log_plan_memory(struct memory_plan *plan, uint32_t events, uint32_t ended)
{
    memory_plan_add(plan, MEMORY_CORE, "event log events", capacity_of(events),
                    sizeof(struct event));
    memory_plan_add(plan, MEMORY_CORE, "event log ended calls", ended, sizeof(struct event_ended));
}

void event_log_init(struct event_log *event_log, uint32_t events, uint32_t ended,
                    struct arena *arena)
{
    uint32_t capacity = capacity_of(events);
    *event_log = (struct event_log){.capacity = capacity, .ended_capacity = ended};
    event_log->events = arena_take(arena, capacity, sizeof(struct event));
    event_log->ended = arena_take(arena, ended, sizeof(struct event_ended));
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

/* ---- ended calls ----------------------------------------------------------------------------- */

static uint32_t since(uint64_t from_us, uint64_t now_us)
{
    return event_value(now_us > from_us ? now_us - from_us : 0);
}

void event_log_note_ended(struct event_log *event_log, uint64_t now_us, const struct call *call)
{
    if (event_log == NULL || event_log->ended_capacity == 0) {
        return;
    }
    struct event_ended *ended =
        &event_log->ended[event_log->ended_next++ % event_log->ended_capacity];
    *ended = (struct event_ended){
        .time_us = now_us, .client_call_id = call->client_call_id, .domain = call->domain,
        .prompt_tokens = call->prompt_tokens, .cached_tokens = call->cached_tokens,
        .generated_tokens = call->generated_tokens,
        .first_token_us = call->first_token_us != 0 ? since(call->arrived_us, call->first_token_us)
                                                    : 0,
        .wait_us = event_value(call->wait_us), .service_us = event_value(call->service_us),
        .total_us = since(call->arrived_us, now_us), .code = (uint16_t)status_wire(call->status),
        .finish = (uint8_t)call->finish, .queue = (uint8_t)call->queue, .engine = call->engine,
        .preemptions = (uint8_t)(call->preemptions < UINT8_MAX ? call->preemptions : UINT8_MAX),
        .agreed = (uint16_t)(call->draft_tokens_agreed < UINT16_MAX ? call->draft_tokens_agreed
                                                                    : UINT16_MAX)};
    memcpy(ended->program_tag, call->program_id, EVENT_PROGRAM_TAG_BYTES);
}

uint64_t event_log_ended_first(const struct event_log *event_log)
{
    uint64_t kept = event_log->ended_capacity;
    return event_log->ended_next > kept ? event_log->ended_next - kept : 0;
}

const struct event_ended *event_log_ended_at(const struct event_log *event_log, uint64_t number)
{
    ASSERT(event_log_ended_first(event_log) <= number && number < event_log->ended_next);
    return &event_log->ended[number % event_log->ended_capacity];
}
