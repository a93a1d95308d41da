/* SPDX-License-Identifier: MIT */
/*
 * What: the log (appliance/log.h).
 * Invariant: an event is one line of printable ASCII, whatever a path, a model file or a driver has
 * brought into it: a terminal shows it, and one event cannot look like two. A disk that runs full
 * may cut a line: what a process that has lost some writes next begins a new one, and so an empty
 * line may come before it.
 */
#include "appliance/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "appliance/clock.h"
#include "config/base/say.h"

#define LINE_BYTES 640

static const char *role_name = "boot";
static struct {
    uint32_t count, untold;         /* lines; untold: since the last one that was written */
} lost;

void log_role(const char *role)
{
    bool is_child = strcmp(role_name, "keeper") == 0;
    if (is_child) {
        lost.count = lost.untold = 0;   /* what the keeper has lost it tells itself */
    }
    role_name = role;
}

void log_role_worker(uint32_t engine, uint32_t engines)
{
    static char name[24] = "worker";
    if (engines > 1) {
        snprintf(name, sizeof name, "worker-%u", engine);
    }
    log_role(name);
}

/* On a line of its own: a full disk may have cut the last one, of whichever process it was. */
static bool tell_lost(void)
{
    char bytes[LINE_BYTES];
    struct text line;
    text_init(&line, bytes, sizeof bytes);
    text_add(&line, "\n");
    log_head(&line, clock_us(CLOCK_REALTIME), clock_us(CLOCK_MONOTONIC));
    text_add(&line, role_name);
    text_add(&line, " warn log lost=");
    text_add_u64(&line, lost.untold);
    text_add(&line, "\n");
    return say_bytes(bytes, line.length) == line.length;
}

void log_line(const char *bytes, uint32_t count)
{
    if (lost.untold > 0 && tell_lost()) {
        lost.untold = 0;
    }
    if (lost.untold > 0 || say_bytes(bytes, count) < count) {
        lost.untold++;
        lost.count++;
    }
}

uint32_t log_lost(void)
{
    return lost.count;
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
    log_line(line, (uint32_t)length);
}
