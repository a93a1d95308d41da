/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: one line per event on descriptor 2, `WALL MONO role level event key=value ...`, for
 * boot, shutdown and faults; text/refusals.c tells who was refused. Never allocates; a full pipe or
 * disk drops the line. The next one of this process that can be written says how many were lost.
 */
#include <stdint.h>

#include "config/base/text.h"

enum log_level { LOG_INFO, LOG_WARN, LOG_ERROR };

/* "keeper", "core", "worker" or "door"; a string constant. */
void log_role(const char *role);
/* "worker", or "worker-2" where there are several. */
void log_role_worker(uint32_t engine, uint32_t engines);
void log_event(enum log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A whole line, its end included. */
void log_line(const char *bytes, uint32_t count);
/* Lines that this process has lost. */
uint32_t log_lost(void);

/* How a line begins: `2026-11-24T12:03:07.123Z 5512.123456 `, the wall clock in UTC and the
 * monotonic one, in which the event log counts. */
static inline void log_head(struct text *line, uint64_t wall_us, uint64_t monotonic_us)
{
    text_add_wall(line, wall_us);
    text_add(line, " ");
    text_add_fixed(line, monotonic_us, 6);
    text_add(line, " ");
}
