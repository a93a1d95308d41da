/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the answer to `engines`: a line for each engine. */
#include "config/base/text.h"
#include "appliance/text/view.h"

void textpage_engines(struct text *page, const struct textport_view *view, uint64_t now_us);
