/* SPDX-License-Identifier: MIT */
#pragma once
/* What: takes lines of the text port's input, one at a time, and answers in the slot's page. */
#include "appliance/text/slot.h"

#define TEXTREQUEST_PAGE_BYTES_MIN 4096

/* True when the input has a whole line. */
bool textrequest_has_line(const struct textport_slot *slot);
/* True when the input ends within a line or a telnet sequence. */
bool textrequest_is_half_line(const struct textport_slot *slot);
/* Takes one line off the input; false when there is none. Afterwards the slot is ANSWERING, or
 * waits for more lines (after an empty line or an HTTP header). Refuses a line as soon as it is too
 * long, before its end. */
bool textrequest_take_line(const struct textport_turn *turn, struct textport_slot *slot);
/* Answers an HTTP request whose peer ended before its headers did. */
void textrequest_finish(const struct textport_turn *turn, struct textport_slot *slot);
