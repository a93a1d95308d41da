/* SPDX-License-Identifier: MIT */
/*
 * What: the answers of the text port's `events`, and one line of them as a struct event.
 *
 *     12 8812345678 2026-11-24T12:03:07.123Z ran call=3 id=17 program=1:a5a50000 row=0 us=1234 ...
 *     next=13 end=13 lost=0 now_us=8812345999 now=2026-11-24T12:03:07.123Z
 *     end
 */
#include "tools/agx/watch/events.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

int events_open(struct events *events, const char *address)
{
    *events = (struct events){0};
    int code = text_port_open(&events->port, address);
    events->line = events->port.page;
    return code;
}

void events_close(struct events *events)
{
    text_port_close(&events->port);
    events->line = NULL;
}

void events_rest(const struct events *events, uint32_t milliseconds)
{
    struct pollfd watched = {.fd = events->port.descriptor, .events = POLLIN};
    (void)poll(&watched, 1, (int)milliseconds);
}

int events_ask(struct events *events)
{
    char question[40];
    snprintf(question, sizeof question, "events %" PRIu64 "\n", events->next);
    int code = text_port_ask(&events->port, question);
    events->line = events->port.page;
    return code;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Digits up to the first other byte; false: there are none, or their value is above `max`. */
static bool take_number(const char **at, uint64_t max, uint64_t *number)
{
    const char *first = *at;
    *number = 0;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        uint64_t digit = (uint64_t)(**at - '0');
        if (digit > max || *number > (max - digit) / 10) {
            return false;
        }
        *number = *number * 10 + digit;
    }
    return *at > first;
}

static bool take_word(const char **at, const char *word)
{
    size_t length = strlen(word);
    bool is_there = strncmp(*at, word, length) == 0;
    *at += is_there ? length : 0;
    return is_there;
}

/* ` name=value`, of 32 bits. */
static bool take_field(const char **at, const char *name, uint32_t *value)
{
    const char *from = *at;
    uint64_t number = 0;
    if (take_word(&from, " ") && take_word(&from, name) && take_word(&from, "=") &&
        take_number(&from, UINT32_MAX, &number)) {
        *at = from;
        *value = (uint32_t)number;
        return true;
    }
    return false;
}

/* `:a5a50000` */
static bool take_tag(const char **at, uint8_t tag[EVENT_PROGRAM_TAG_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    if (!take_word(at, ":")) {
        return false;
    }
    memset(tag, 0, EVENT_PROGRAM_TAG_BYTES);
    for (uint32_t i = 0; i < 2 * EVENT_PROGRAM_TAG_BYTES; i++, ++*at) {
        const char *digit = **at != '\0' ? strchr(digits, **at) : NULL;
        if (digit == NULL) {
            return false;
        }
        tag[i / 2] = (uint8_t)(tag[i / 2] << 4 | (uint32_t)(digit - digits));
    }
    return true;
}

static bool take_kind(const char **at, uint32_t *kind)
{
    size_t length = strcspn(*at, " ");
    for (*kind = 0; *kind < EVENT_KINDS_COUNT; ++*kind) {
        const char *name = event_rows[*kind].name;
        if (strlen(name) == length && memcmp(name, *at, length) == 0) {
            *at += length;
            return true;
        }
    }
    return false;
}

/* ` 2026-11-24T12:03:07.123Z `: the monotonic time has it all. */
static bool take_wall(const char **at)
{
    static const char form[] = " 0000-00-00T00:00:00.000Z ";
    for (uint32_t i = 0; i < sizeof form - 1; i++, ++*at) {
        bool is_digit = **at >= '0' && **at <= '9';
        if (form[i] == '0' ? !is_digit : **at != form[i]) {
            return false;
        }
    }
    return true;
}

/* A whole line, or nothing. */
static bool parse_event(const char *at, uint64_t *number, struct event *event)
{
    *event = (struct event){.call = CALL_NONE, .program = EVENT_PROGRAM_NONE};
    if (!take_number(&at, UINT64_MAX, number) || !take_word(&at, " ") ||
        !take_number(&at, UINT64_MAX, &event->time_us) || !take_wall(&at) ||
        !take_kind(&at, &event->what.kind)) {
        return false;
    }
    if (take_field(&at, "call", &event->call) &&
        !(take_word(&at, " id=") && take_number(&at, UINT64_MAX, &event->client_call_id))) {
        return false;
    }
    if (take_field(&at, "program", &event->program) && !take_tag(&at, event->program_tag)) {
        return false;
    }
    for (uint32_t i = 0; i < EVENT_VALUES_COUNT; i++) {
        const char *name = event_rows[event->what.kind].values[i];
        if (name[0] != '\0' && !take_field(&at, name, &event->what.values[i])) {
            return false;
        }
    }
    return *at == '\0';
}

static void take_summary(struct events *events, const char *at)
{
    uint64_t next = 0, end = 0, lost = 0, now_us = 0;
    if (take_word(&at, "next=") && take_number(&at, UINT64_MAX, &next) &&
        take_word(&at, " end=") && take_number(&at, UINT64_MAX, &end) &&
        take_word(&at, " lost=") && take_number(&at, UINT64_MAX, &lost) &&
        take_word(&at, " now_us=") && take_number(&at, UINT64_MAX, &now_us)) {
        events->next = next;
        events->end = end;
        events->now_us = now_us;
    }
}

bool events_take(struct events *events, uint64_t *number, struct event *event)
{
    char *end;
    while ((end = strchr(events->line, '\n')) != NULL) {
        const char *line = events->line;
        *end = '\0';
        events->line = end + 1;
        if (parse_event(line, number, event)) {
            return true;
        }
        take_summary(events, line);
    }
    return false;
}
