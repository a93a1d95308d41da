/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the page `stats` of the text port: a line for each statistic and each percentile. */
#include "appliance/text/view.h"
#include "config/base/text.h"

void textpage_stats(struct text *page, const struct textport_view *view, uint64_t now_us);
