/* SPDX-License-Identifier: MIT */
/*
 * What: the choice of the entries of an answer, events or ended calls, and one line for each.
 * Invariants: the answer always fits: it has at most as many lines as the page has room for longest
 * ones. A number beyond the next entry is no error: the answer has no lines and says which number
 * is next. The wall clock of an entry is that of now, less the time since: a clock that was set in
 * between moves it.
 * Bounds: 256 lines, whatever the event log holds; a time of day is found by halving.
 */
#include "appliance/text/page/events.h"

#include <string.h>

#include "appliance/text/page/who.h"
#include "config/base/assert.h"

#define LINES_PER_ANSWER_MAX  256
#define EVENT_BYTES_MAX       224       /* `finished` with every number at its longest */
#define ENDED_BYTES_MAX       384
#define LAST_LINE_BYTES_MAX   192       /* with every number at its longest */
#define DAY_US                UINT64_C(86400000000)

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

/* Now, and then, by the wall clock and the monotonic one. */
struct moment {
    uint64_t wall_us, now_us;
};

static uint64_t wall_of(const struct moment *moment, uint64_t time_us)
{
    uint64_t ago_us = time_us < moment->now_us ? moment->now_us - time_us : 0;
    return ago_us < moment->wall_us ? moment->wall_us - ago_us : 0;
}

/* What each line begins with. */
static void add_head(struct text *page, uint64_t number, uint64_t time_us,
                     const struct moment *moment)
{
    text_add_u64(page, number);
    text_add(page, " ");
    text_add_u64(page, time_us);
    text_add(page, " ");
    text_add_wall(page, wall_of(moment, time_us));
    text_add(page, " ");
}

static void add_event(struct text *page, const struct event *event)
{
    ASSERT(event->what.kind < EVENT_KINDS_COUNT);
    const struct event_row *row = &event_rows[event->what.kind];
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
}

static const char *finish_word(uint8_t finish)
{
    static const char *const words[] = {
        [CALL_FINISH_REFUSED] = "refused",
#define FINISH(id, value, word, help) [value] = (word),
#include "config/base/finish.def"
#undef FINISH
    };
    bool is_known = finish < sizeof words / sizeof words[0] && words[finish] != NULL;
    return is_known ? words[finish] : "-";
}

static void add_ended(struct text *page, const struct sched *sched, const struct event_ended *ended)
{
    const struct { const char *name; uint64_t value; } values[] = {
        {" code", ended->code}, {" queue", ended->queue}, {" engine", ended->engine},
        {" prompt", ended->prompt_tokens}, {" cached", ended->cached_tokens},
        {" output", ended->generated_tokens}, {" first_us", ended->first_token_us},
        {" wait_us", ended->wait_us}, {" service_us", ended->service_us},
        {" total_us", ended->total_us}, {" preempted", ended->preemptions},
        {" agreed", ended->agreed}};
    text_add(page, finish_word(ended->finish));
    text_add(page, " who=");
    text_add_domain(page, sched, ended->domain);
    text_add(page, " program=");
    text_add_hex(page, ended->program_tag, EVENT_PROGRAM_TAG_BYTES);
    add_value(page, " id", ended->client_call_id);
    for (uint32_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        add_value(page, values[i].name, values[i].value);
    }
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* One of the two rings. */
struct ring_view {
    const struct event_log *log;
    bool is_ended;
    uint64_t first, next;
    struct moment moment;
};

static uint64_t time_at(const struct ring_view *ring, uint64_t number)
{
    return ring->is_ended ? event_log_ended_at(ring->log, number)->time_us
                          : event_log_at(ring->log, number)->time_us;
}

/* The first entry of this time or later. */
static uint64_t find_time(const struct ring_view *ring, uint64_t time_us)
{
    uint64_t low = ring->first, high = ring->next;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (time_at(ring, middle) < time_us) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* "12:03" or "12:03:07", in UTC: the last time that the clock showed it, as the monotonic one. */
static bool parse_time(const char *text, uint32_t bytes, const struct moment *moment,
                       uint64_t *time_us)
{
    static const uint64_t limits[] = {24, 60, 60};
    uint64_t parts[3] = {0};
    if (bytes != 5 && bytes != 8) {
        return false;
    }
    for (uint32_t i = 0; 3 * i < bytes; i++) {
        if (!parse_number(text + 3 * i, 2, &parts[i]) || parts[i] >= limits[i] ||
            (3 * i + 2 < bytes && text[3 * i + 2] != ':')) {
            return false;
        }
    }
    uint64_t wanted_us = ((parts[0] * 60 + parts[1]) * 60 + parts[2]) * 1000000;
    uint64_t ago_us = (moment->wall_us % DAY_US + DAY_US - wanted_us) % DAY_US;
    *time_us = ago_us < moment->now_us ? moment->now_us - ago_us : 0;
    return true;
}

static uint32_t lines_that_fit(const struct text *page, bool is_ended)
{
    uint32_t bytes = is_ended ? ENDED_BYTES_MAX : EVENT_BYTES_MAX;
    ASSERT(page->max - page->length >= LAST_LINE_BYTES_MAX + bytes);
    uint32_t lines = (page->max - page->length - LAST_LINE_BYTES_MAX) / bytes;
    return lines < LINES_PER_ANSWER_MAX ? lines : LINES_PER_ANSWER_MAX;
}

/* Where the answer begins. False: the argument is neither a number nor a time. */
static bool parse_begin(const struct ring_view *ring, const struct textevents_question *question,
                        uint32_t lines, uint64_t *from)
{
    uint64_t time_us = 0;
    if (question->bytes == 0) {
        *from = ring->next - ring->first > lines ? ring->next - lines : ring->first;
        return true;
    }
    if (parse_time(question->argument, question->bytes, &ring->moment, &time_us)) {
        *from = find_time(ring, time_us);
        return true;
    }
    return parse_number(question->argument, question->bytes, from);
}

static void add_lines(struct text *page, const struct ring_view *ring, const struct sched *sched,
                      uint64_t from, uint64_t to)
{
    for (uint64_t number = from; number < to; number++) {
        uint32_t start = page->length;
        add_head(page, number, time_at(ring, number), &ring->moment);
        if (ring->is_ended) {
            add_ended(page, sched, event_log_ended_at(ring->log, number));
        } else {
            add_event(page, event_log_at(ring->log, number));
        }
        text_add(page, "\n");
        ASSERT(page->length - start <= (ring->is_ended ? ENDED_BYTES_MAX : EVENT_BYTES_MAX));
    }
}

bool textevents_render(struct text *page, const struct textevents_question *question,
                       const struct textport_view *view, uint64_t now_us)
{
    const struct event_log *log = view->event_log;
    bool is_ended = question->is_ended;
    const struct ring_view ring = {
        .log = log, .is_ended = is_ended,
        .first = is_ended ? event_log_ended_first(log) : event_log_first(log),
        .next = is_ended ? log->ended_next : log->next, .moment = {view->wall_us, now_us}};
    uint32_t lines = lines_that_fit(page, is_ended);
    uint64_t from = 0, lost = 0;
    if ((is_ended ? log->ended_capacity : log->capacity) == 0) {
        text_add(page, is_ended ? "error no ended calls are kept, limits.ended is 0\n"
                                : "error no events are kept, limits.events is 0\n");
        return true;
    }
    if (!parse_begin(&ring, question, lines, &from)) {
        return false;
    }
    if (from < ring.first) {
        lost = ring.first - from;
        from = ring.first;
    }
    uint64_t left = from < ring.next ? ring.next - from : 0;
    uint64_t to = from + (left < lines ? left : lines);
    add_lines(page, &ring, view->sched, from, to);
    add_value(page, "next", to < ring.next ? to : ring.next);
    add_value(page, " end", ring.next);
    add_value(page, " lost", lost);
    add_value(page, " now_us", now_us);
    text_add(page, " now=");
    text_add_wall(page, view->wall_us);
    text_add(page, "\n");
    ASSERT(!page->cut);
    return true;
}
