/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the answers of the text port: command name to page. Pure functions of a view. */
#include "appliance/base/text.h"
#include "appliance/textport.h"

/* Renders the answer to one command (any case); false: there is no such command. */
bool textpage_render(struct text *page, const char *name, uint32_t name_bytes,
                     const struct textport_view *view, uint64_t now_us);
