/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the page `connections` of the text port: a line for each client. */
#include "appliance/text/view.h"
#include "config/base/text.h"

void textpage_connections(struct text *page, const struct textport_view *view, uint64_t now_us);
