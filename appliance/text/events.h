/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the event log as lines of the text port's `events`, a page at a time.
 *
 *     NUMBER TIME_US KIND [call=SLOT id=ID] [program=SLOT:TAG] [VALUE=N]...
 *     next=NUMBER end=NUMBER lost=COUNT now_us=TIME_US
 *
 * ID is the client's, TAG the first bytes of the program's id; config/base/events.def names the
 * VALUEs. `next` is the number to ask for next, and `end` is its value when there are no more
 * events. `lost` is the number of events, from the one that was asked for, that are forgotten.
 */
#include "config/base/text.h"
#include "appliance/text/view.h"

/* Writes at most 256 events. `argument`: number of the first one; empty: the last ones. False, with
 * nothing written, when the argument is no number. */
bool textevents_render(struct text *page, const char *argument, uint32_t bytes,
                       const struct textport_view *view, uint64_t now_us);
