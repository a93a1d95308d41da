/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the event_log as lines of the text port's `events`, a page at a time.
 *
 *     NUMBER TIME_US KIND [call=SLOT id=ID] [program=SLOT:TAG] [VALUE=N]...
 *     next=NUMBER end=NUMBER lost=COUNT now_us=TIME_US
 *
 * ID is the client's, TAG the first bytes of the program's id, a VALUE is named in
 * config/base/events.def. `next` is what to ask for to go on, and `end` is where `next` is when
 * there is no more; `lost` is how many events from the number that was asked for are forgotten.
 */
#include "config/base/text.h"
#include "appliance/text/port.h"

/* `argument`: the number of the first event that is wanted; empty: the last ones. At most 256
 * events. False, and nothing written: the argument is no number. */
bool textevents_render(struct text *page, const char *argument, uint32_t bytes,
                       const struct textport_view *view, uint64_t now_us);
