/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the operator's text port: lines in, pages of text out, for telnet, scripts and HTTP probes.
 *
 *   CLOSED --accept--> READING --a line--> ANSWERING --all sent--> READING
 *                         |                    |  ^              (HTTP, quit, a long line: CLOSED)
 *                         +--HTTP request--> HEADERS --blank line--+
 *
 * Every state has a total time, so no peer holds a slot by sending or reading a byte now and then.
 * A page is rendered in one go, so it is a snapshot that later steps do not change.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/call.h"
#include "config/base/event_log.h"
#include "config/base/stats.h"
#include "config/base/world.h"
#include "appliance/health.h"
#include "config/config.h"
#include "sched/sched.h"

#define TEXTPORT_LINE_BYTES_MAX  512                    /* of a request, line end excluded */
#define TEXTPORT_HEADERS_MAX     64                 /* lines of an HTTP request that are skipped */
#define TEXTPORT_IDLE_US         (60 * UINT64_C(1000000))
#define TEXTPORT_LINE_US         (5 * UINT64_C(1000000))  /* from a line's first byte to its last */
#define TEXTPORT_ANSWER_US       (10 * UINT64_C(1000000)) /* from rendering to the last byte sent */
#define TEXTPORT_ACCEPTS_PER_PASS_MAX 8

/* The sources of the answers; read only, valid during textport_poll(). */
struct textport_view {
    const struct stats *stats;
    const struct sched *sched;
    const struct call_table *calls;
    const struct event_log *event_log;
    const struct options *options;
    const struct limits *limits;
    const struct health *health;
};

enum textport_state { TEXTPORT_CLOSED, TEXTPORT_READING, TEXTPORT_HEADERS, TEXTPORT_ANSWERING };

/* The place of the next byte of input in a telnet sequence (IAC ...). */
enum textport_telnet { TELNET_DATA, TELNET_COMMAND, TELNET_OPTION, TELNET_SUB, TELNET_SUB_COMMAND };

struct textport_slot {
    enum textport_state state;
    int32_t handle;
    uint32_t interest;              /* events that the world watches for now */
    bool readable;                  /* noted by an event */
    bool ended;                     /* the peer will send no more */
    bool closes;                    /* after this answer */
    enum textport_telnet telnet;
    uint32_t input_bytes;
    char *input;                    /* [TEXTPORT_INPUT_BYTES]: lines not yet answered */
    uint32_t headers_count;
    uint32_t request;               /* HTTP: the answer after the headers; only request.c */
    char *page;                     /* [limits.text_page_bytes] */
    uint32_t page_sent, page_bytes; /* [sent, bytes) is still to be sent */
    uint64_t deadline_us;           /* of the present state */
};
#define TEXTPORT_INPUT_BYTES (TEXTPORT_LINE_BYTES_MAX + 2)      /* a line and its CR LF */

struct textport {
    const struct world *world;
    struct stats *stats;
    struct textport_slot *slots;    /* [slots_count]; all busy: accept and close at once, count */
    uint32_t slots_count;
    uint32_t page_bytes;
    int32_t listener;               /* -1: off */
    bool accept_ready;              /* noted by an event */
    uint64_t accept_again_us;       /* no accept before this time; 0: no descriptor was missing */
};

void textport_plan_memory(struct memory_plan *plan, const struct limits *limits);
void textport_init(struct textport *port, const struct limits *limits, const struct world *world,
                   struct stats *stats, struct arena *arena);
/* Starts to accept on a listening handle. */
void textport_listen(struct textport *port, int32_t handle);
/* Notes readiness of WORLD_SOURCE_TEXT; work is done in textport_poll(). */
void textport_event(struct textport *port, const struct world_event *event);
/* True when a peer is connected or waits for it: textport_poll() has something to do. */
bool textport_is_awake(const struct textport *port);
/* Accepts, reads, answers at most one line of each connection, sends, applies deadlines. */
void textport_poll(struct textport *port, const struct textport_view *view, uint64_t now_us);
/* The time at which it must run even if nothing happens. 0: now; UINT64_MAX: never. */
uint64_t textport_next_us(const struct textport *port, uint64_t now_us);
/* Asserts every invariant. */
void textport_check(const struct textport *port);
