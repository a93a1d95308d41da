/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the page `workflows` of the text port: a line for each that is open. */
#include "appliance/text/view.h"
#include "config/base/text.h"

void textpage_workflows(struct text *page, const struct textport_view *view, uint64_t now_us);
