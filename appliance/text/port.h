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
#include "config/base/world.h"
#include "appliance/text/slot.h"

#define TEXTPORT_ACCEPTS_PER_PASS_MAX 8

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
/* Closes the listener; peers that are there stay. */
void textport_leave(struct textport *port);
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
