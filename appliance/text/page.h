/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the answers of the text port, from a command to its page. Pure functions of a view. */
#include "config/base/text.h"
#include "appliance/text/view.h"

#define TEXTPAGE_AGENT "agent-check"        /* its answer is one line, and nothing after it */

/* Renders the answer to a line: a command (any case) and, for `events` and `ended`, an argument. A
 * wrong one is answered with what was expected. False, with nothing written: no such command. */
bool textpage_render(struct text *page, const char *line, uint32_t bytes,
                     const struct textport_view *view, uint64_t now_us);
