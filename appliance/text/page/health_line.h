/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the answer to `health`: one line. */
#include "appliance/text/view.h"
#include "config/base/text.h"

void textpage_health(struct text *page, const struct textport_view *view, uint64_t now_us);
