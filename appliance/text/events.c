/* SPDX-License-Identifier: MIT */
/*
 * What: the choice of the events of an answer, and one line for each.
 * Invariants: the answer always fits: it has at most as many lines as the page has room for longest
 * ones; no line has more than LINE_BYTES_MAX bytes. A number beyond the next event is no error: the
 * answer has no events and says which number is next.
 * Bounds: 256 lines, whatever the event log holds; nothing is searched.
 */
#include "appliance/text/events.h"

#include <string.h>

#include "config/base/assert.h"

#define EVENTS_PER_ANSWER_MAX 256
#define LINE_BYTES_MAX        192       /* `finished` with every number at its longest */
#define LAST_LINE_BYTES_MAX   128       /* 105 with every number at its longest */

/* True when the text is digits only and the number fits 64 bits. */
static bool parse_number(const char *text, uint32_t bytes, uint64_t *number)
{
    *number = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(text[i] - '0'), number)) {
            return false;
        }
    }
    return bytes > 0;
}

static void add_value(struct text *page, const char *name, uint64_t value)
{
    text_add(page, name);
    text_add(page, "=");
    text_add_u64(page, value);
}

static void add_event(struct text *page, uint64_t number, const struct event *event)
{
    uint32_t start = page->length;
    ASSERT(event->what.kind < EVENT_KINDS_COUNT);
    const struct event_row *row = &event_rows[event->what.kind];
    text_add_u64(page, number);
    text_add(page, " ");
    text_add_u64(page, event->time_us);
    text_add(page, " ");
    text_add(page, row->name);
    if (event->call != CALL_NONE) {
        add_value(page, " call", event->call);
        add_value(page, " id", event->client_call_id);
    }
    if (event->program != EVENT_PROGRAM_NONE) {
        add_value(page, " program", event->program);
        text_add(page, ":");
        text_add_hex(page, event->program_tag, EVENT_PROGRAM_TAG_BYTES);
    }
    for (uint32_t i = 0; i < EVENT_VALUES_COUNT; i++) {
        if (row->values[i][0] != '\0') {
            text_add(page, " ");
            add_value(page, row->values[i], event->what.values[i]);
        }
    }
    text_add(page, "\n");
    ASSERT(page->length - start <= LINE_BYTES_MAX);
}

static uint32_t lines_that_fit(const struct text *page)
{
    ASSERT(page->max - page->length >= LAST_LINE_BYTES_MAX + LINE_BYTES_MAX);
    uint32_t lines = (page->max - page->length - LAST_LINE_BYTES_MAX) / LINE_BYTES_MAX;
    return lines < EVENTS_PER_ANSWER_MAX ? lines : EVENTS_PER_ANSWER_MAX;
}

bool textevents_render(struct text *page, const char *argument, uint32_t bytes,
                       const struct textport_view *view, uint64_t now_us)
{
    const struct event_log *event_log = view->event_log;
    uint64_t first = event_log_first(event_log), from = first, lost = 0;
    uint32_t lines = lines_that_fit(page);
    if (event_log->capacity == 0) {
        text_add(page, "error no events are kept, limits.events is 0\n");
        return true;
    }
    if (bytes == 0) {
        from = event_log->next - first > lines ? event_log->next - lines : first;
    } else if (!parse_number(argument, bytes, &from)) {
        return false;
    }
    if (from < first) {
        lost = first - from;
        from = first;
    }
    for (; from < event_log->next && lines > 0; from++, lines--) {
        add_event(page, from, event_log_at(event_log, from));
    }
    add_value(page, "next", from < event_log->next ? from : event_log->next);
    add_value(page, " end", event_log->next);
    add_value(page, " lost", lost);
    add_value(page, " now_us", now_us);
    text_add(page, "\n");
    ASSERT(!page->cut);
    return true;
}
