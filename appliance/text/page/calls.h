/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the page `calls` of the text port. */
#include "appliance/text/view.h"
#include "config/base/text.h"

void textpage_calls(struct text *page, const struct textport_view *view, uint64_t now_us);
