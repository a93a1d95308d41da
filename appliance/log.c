/* SPDX-License-Identifier: MIT */
/*
 * What: the log (appliance/log.h).
 * Invariant: an event is one line of printable ASCII, whatever a path, a model file or a driver has
 * brought into it: a terminal shows it, and one event cannot look like two.
 */
#include "appliance/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "appliance/clock.h"
#include "config/base/say.h"

#define LINE_BYTES 640

static const char *role_name = "boot";

void log_role(const char *role)
{
    role_name = role;
}

void log_role_worker(uint32_t engine, uint32_t engines)
{
    static char name[24] = "worker";
    if (engines > 1) {
        snprintf(name, sizeof name, "worker-%u", engine);
    }
    role_name = name;
}

void log_event(enum log_level level, const char *format, ...)
{
    static const char *const names[] = {"info", "warn", "error"};
    char line[LINE_BYTES];
    struct text begin;
    text_init(&begin, line, sizeof line);
    log_head(&begin, clock_us(CLOCK_REALTIME), clock_us(CLOCK_MONOTONIC));
    int head = (int)begin.length;
    head += snprintf(line + head, sizeof line - begin.length, "%s %s ", role_name, names[level]);
    va_list arguments;
    va_start(arguments, format);
    int body = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, arguments);
    va_end(arguments);
    int length = head + (body < 0 ? 0 : body);
    if (length > LINE_BYTES - 2) {
        length = LINE_BYTES - 2;
    }
    for (int i = head; i < length; i++) {
        line[i] = line[i] >= ' ' && line[i] <= '~' ? line[i] : '?';
    }
    line[length++] = '\n';
    say_bytes(line, (uint32_t)length);
}
