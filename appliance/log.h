/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: one line per event on descriptor 2, `WALL MONO role level event key=value ...`, for
 * boot, shutdown and faults; text/refused.c tells who was refused. Never allocates; a full
 * pipe drops the line.
 */
#include <stdint.h>

enum log_level { LOG_INFO, LOG_WARN, LOG_ERROR };

/* "keeper", "core" or "worker"; a string constant. */
void log_role(const char *role);
/* "worker", or "worker-2" where there are several. */
void log_role_worker(uint32_t engine, uint32_t engines);
void log_event(enum log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
