/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the event log as lines of the text port's `events` and `ended`, a page at a time.
 *
 *     NUMBER TIME_US WALL KIND [call=SLOT id=ID] [program=SLOT:TAG] [VALUE=N]...
 *     NUMBER TIME_US WALL FINISH who=DOMAIN program=TAG id=ID code=N [NAME=N]...
 *     next=NUMBER end=NUMBER lost=COUNT now_us=TIME_US now=WALL
 *
 * TIME_US is of the monotonic clock, WALL the same in UTC. ID is the client's, TAG the first bytes
 * of the program's id; config/base/events.def names the VALUEs. `next` is the number to ask for
 * next, and `end` is its value when there are no more entries. `lost` is the number of entries
 * that are forgotten, from the one that was asked for.
 */
#include "config/base/text.h"
#include "appliance/text/view.h"

struct textevents_question {
    bool is_ended;                  /* calls that have ended; else events */
    const char *argument;           /* number of the first one, or a time of day in UTC, when the
                                       clock last showed it: 12:03, 12:03:07; empty: the last */
    uint32_t bytes;
};

/* Writes at most 256 lines. False, with nothing written, when the argument is neither. */
bool textevents_render(struct text *page, const struct textevents_question *question,
                       const struct textport_view *view, uint64_t now_us);
