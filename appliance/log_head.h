/* SPDX-License-Identifier: MIT */
#pragma once
/* What: how a line of the log begins: `2026-11-24T12:03:07.123Z 5512.123456 core warn `, the wall
 * clock in UTC and the monotonic one, in which the event log counts. */
#include "config/base/text.h"

static inline void log_head(struct text *line, uint64_t wall_us, uint64_t monotonic_us)
{
    text_add_wall(line, wall_us);
    text_add(line, " ");
    text_add_fixed(line, monotonic_us, 6);
    text_add(line, " ");
}
