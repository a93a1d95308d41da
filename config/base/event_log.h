/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the last few thousand events, one record each, in a ring whose oldest entry is overwritten.
 * The stages write, the text port's `events` reads; both run in the core's one thread. Most events
 * are of steps and soon gone, so each call that ends, or is refused by the scheduler, leaves a
 * record of its own in a second ring, which reaches back far longer (`ended`;
 * docs/decisions/0080).
 *
 *   number   0   1   2   3   4   5   6   7   8   9      capacity 8: 0 and 1 are forgotten
 *                    ^ first                      ^ next
 *
 * Event n lies at n modulo the capacity, so a reader that remembers a number can go on there and
 * knows how many it has missed. A stage whose event log is NULL notes nothing.
 */
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/call.h"

#define EVENT_VALUES_COUNT      4
#define EVENT_VALUE_ENGINE      3       /* of the events of an engine: its index. It has no name in
                                           events.def, so no line shows it */
#define EVENT_PROGRAM_TAG_BYTES 4       /* of a program id: never the whole of it */
#define EVENT_PROGRAM_NONE      UINT32_MAX

enum event_kind {
#define EVENT(NAME, name, a, b, c, d, help) EVENT_##NAME,
#include "config/base/events.def"
#undef EVENT
    EVENT_KINDS_COUNT
};

/* The same list as a table. */
struct event_row {
    const char *name;
    const char *values[EVENT_VALUES_COUNT];     /* "": not shown */
    const char *help;
};
extern const struct event_row event_rows[EVENT_KINDS_COUNT];

/* What happened; the values are named in events.def, those too large for 32 bits are UINT32_MAX. */
struct event_what {
    uint32_t kind;                  /* enum event_kind */
    uint32_t values[EVENT_VALUES_COUNT];
};

struct event {
    uint64_t time_us;
    uint64_t client_call_id;        /* with `call` */
    uint32_t call;                  /* slot; CALL_NONE: of no call */
    uint32_t program;               /* slot in the process table, or EVENT_PROGRAM_NONE */
    uint8_t program_tag[EVENT_PROGRAM_TAG_BYTES];       /* how the program's id begins; or zero */
    struct event_what what;
};

/* A call that has ended. Times that do not fit are UINT32_MAX. */
struct event_ended {
    uint64_t time_us;
    uint64_t client_call_id, domain;
    uint8_t program_tag[EVENT_PROGRAM_TAG_BYTES];
    uint32_t prompt_tokens, cached_tokens, generated_tokens;
    uint32_t first_token_us;        /* from its arrival; 0: it had none */
    uint32_t wait_us, service_us, total_us;
    uint16_t code;                  /* of docs/protocol.md */
    uint8_t finish, queue, engine;  /* finish: enum call_finish */
    uint8_t preemptions;            /* 255: or more */
    uint16_t agreed;                /* tokens of drafts that were right; 65535: or more */
};

struct event_log {
    struct event *events;           /* [capacity] */
    uint32_t capacity;              /* power of two; 0: nothing is kept */
    uint64_t next;                  /* number of the next event */
    struct event_ended *ended;      /* [ended_capacity]: number n lies at n modulo that */
    uint32_t ended_capacity;        /* 0: nothing is kept */
    uint64_t ended_next;
};

void event_log_plan_memory(struct memory_plan *plan, uint32_t events, uint32_t ended);
/* Keeps at least `events` of them, and `ended` calls; 0: none. */
void event_log_init(struct event_log *event_log, uint32_t events, uint32_t ended,
                    struct arena *arena);

/* Notes what concerns no call and no program. O(1), as the others. */
void event_log_note(struct event_log *event_log, uint64_t now_us, struct event_what what);
void event_log_note_program(struct event_log *event_log, uint64_t now_us, uint32_t program,
                            const uint8_t *program_id, struct event_what what);
void event_log_note_call(struct event_log *event_log, uint64_t now_us, const struct call *call,
                         struct event_what what);

/* Notes that the call ends now, with its `finish` and `status`. O(1). */
void event_log_note_ended(struct event_log *event_log, uint64_t now_us, const struct call *call);
/* Number of the oldest call that is kept; event_log.ended_next when there is none. */
uint64_t event_log_ended_first(const struct event_log *event_log);
const struct event_ended *event_log_ended_at(const struct event_log *event_log, uint64_t number);
/* Number of the oldest event that is kept; event_log.next when there is none. */
uint64_t event_log_first(const struct event_log *event_log);
/* first <= number < next; valid until the next note. */
const struct event *event_log_at(const struct event_log *event_log, uint64_t number);

/* A quantity as an event's value. */
static inline uint32_t event_value(uint64_t quantity)
{
    return quantity < UINT32_MAX ? (uint32_t)quantity : UINT32_MAX;
}
