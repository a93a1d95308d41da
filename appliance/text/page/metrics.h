/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the page `metrics` of the text port, in Prometheus's text format 0.0.4. */
#include "appliance/text/view.h"
#include "config/base/text.h"

void textpage_metrics(struct text *page, const struct textport_view *view, uint64_t now_us);
