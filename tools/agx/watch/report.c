/* SPDX-License-Identifier: MIT */
/*
 * What: `agx report`: who had what in a stretch of time, from the record of calls that have ended:
 * a line for each trust domain, and the call that waited longest for its first token.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/agx/command.h"
#include "tools/agx/watch/page.h"
#include "tools/agx/watch/text_port.h"
#include "tools/trace/array.h"
#include "tools/trace/distribution.h"

#define DAY_S        86400
#define STAMP_BYTES  32                 /* 2026-11-24T23:29:00 and more */
#define SECOND_BYTES 19                 /* the same without a fraction */
#define ENDS_MAX     12                 /* words for how a call ended */
#define LINE_BYTES   512

/* A record has its number, the appliance's clock, the time of day, how the call ended, and
 * NAME=VALUE (docs/events.md). */
enum { RECORD_STAMP = 2, RECORD_END = 3, RECORD_WORDS = 5 };

struct tally {
    char who[64];
    bool is_printed;
    uint64_t calls, service_us, prompt, cached, output;
    struct { char word[24]; uint64_t calls; } ends[ENDS_MAX];
};

struct sample {
    uint32_t tally;
    uint64_t first_us, wait_us;         /* first_us 0: it had no token */
};

struct report {
    char from[STAMP_BYTES], to[STAMP_BYTES];
    struct tally *tallies;              /* from the heap */
    uint32_t tallies_count, tallies_room;
    struct sample *samples;             /* from the heap */
    uint32_t samples_count, samples_room;
    uint64_t slowest_us;
    char slowest[LINE_BYTES];           /* the record of that call */
};

/* ---- records --------------------------------------------------------------------------------- */

static uint64_t number(const struct page *record, const char *name)
{
    return strtoull(page_field(record, name), NULL, 10);
}

/* The place of this one's tally; UINT32_MAX: no memory. */
static uint32_t tally_of(struct report *report, const char *who)
{
    for (uint32_t i = 0; i < report->tallies_count; i++) {
        if (strncmp(report->tallies[i].who, who, sizeof report->tallies[i].who - 1) == 0) {
            return i;
        }
    }
    struct tally *tallies = array_grown(report->tallies, report->tallies_count,
                                        &report->tallies_room, sizeof *tallies);
    if (tallies == NULL) {
        return UINT32_MAX;
    }
    report->tallies = tallies;
    struct tally *tally = &report->tallies[report->tallies_count];
    *tally = (struct tally){.calls = 0};
    snprintf(tally->who, sizeof tally->who, "%s", who);
    return report->tallies_count++;
}

static void count_end(struct tally *tally, const char *word)
{
    uint32_t at = 0;
    while (at < ENDS_MAX - 1 && tally->ends[at].calls > 0 &&
           strcmp(tally->ends[at].word, word) != 0) {
        at++;
    }
    snprintf(tally->ends[at].word, sizeof tally->ends[at].word, "%s", word);
    tally->ends[at].calls++;
}

static void note_slowest(struct report *report, const struct page *record, uint64_t first_us)
{
    size_t used = 0;
    if (first_us <= report->slowest_us) {
        return;
    }
    report->slowest_us = first_us;
    for (uint32_t i = 0; i < record->words_count && used < LINE_BYTES; i++) {
        used += (size_t)snprintf(report->slowest + used, LINE_BYTES - used, "%s%s",
                                 i > 0 ? " " : "", record->words[i]);
    }
}

static bool add(struct report *report, const struct page *record)
{
    uint32_t at = tally_of(report, page_field(record, "who"));
    struct sample *samples = array_grown(report->samples, report->samples_count,
                                         &report->samples_room, sizeof *samples);
    if (samples != NULL) {
        report->samples = samples;
    }
    if (samples == NULL || at == UINT32_MAX) {
        fprintf(stderr, "agx: out of memory\n");
        return false;
    }
    struct tally *tally = &report->tallies[at];
    tally->calls++;
    tally->service_us += number(record, "service_us");
    tally->prompt += number(record, "prompt");
    tally->cached += number(record, "cached");
    tally->output += number(record, "output");
    count_end(tally, record->words[RECORD_END]);
    uint64_t first_us = number(record, "first_us");
    report->samples[report->samples_count++] = (struct sample){
        .tally = at, .first_us = first_us, .wait_us = number(record, "wait_us")};
    note_slowest(report, record, first_us);
    return true;
}

/* ---- the record's pages ---------------------------------------------------------------------- */

struct place { uint64_t next, end; char now[STAMP_BYTES]; };

/* A line `next=N end=M ... now=2026-11-24T23:29:00.069Z` is the last of a page. */
static bool is_place(const struct page *line, struct place *place)
{
    if (strncmp(line->words[0], "next=", 5) != 0) {
        return false;
    }
    place->next = number(line, "next");
    place->end = number(line, "end");
    snprintf(place->now, sizeof place->now, "%s", page_field(line, "now"));
    return true;
}

/* Adds the records of an answer. EXIT_COMPLETE, or an exit code after a message. */
static int take_page(struct report *report, struct text_port *port, struct place *place)
{
    struct page line = {.next = port->page};
    while (page_next(&line)) {
        if (is_place(&line, place)) {
            return EXIT_COMPLETE;
        }
        if (line.words_count < RECORD_WORDS) {
            continue;
        }
        const char *stamp = line.words[RECORD_STAMP];
        if (strncmp(stamp, report->to, SECOND_BYTES) >= 0) {
            place->next = UINT64_MAX;          /* no page is left to ask for */
            return EXIT_COMPLETE;
        }
        if (strncmp(stamp, report->from, SECOND_BYTES) >= 0 && !add(report, &line)) {
            return EXIT_SYSTEM;
        }
    }
    fprintf(stderr, "agx: %s: this is no record of calls\n", port->address);
    return EXIT_PROTOCOL;
}

static int collect(struct report *report, struct text_port *port)
{
    char question[64];
    struct place place = {.next = 0};
    uint64_t last = UINT64_MAX;
    snprintf(question, sizeof question, "ended %.8s\n", report->from + strlen("2026-11-24T"));
    int code = text_port_ask(port, question);
    while (code == EXIT_COMPLETE) {
        code = take_page(report, port, &place);
        last = last == UINT64_MAX ? place.end : last;
        if (code != EXIT_COMPLETE || place.next >= last) {
            return code;
        }
        snprintf(question, sizeof question, "ended %" PRIu64 "\n", place.next);
        code = text_port_ask(port, question);
    }
    return code;
}

/* ---- which time ------------------------------------------------------------------------------ */

static void put_stamp(time_t at, char stamp[STAMP_BYTES])
{
    struct tm parts;
    strftime(stamp, STAMP_BYTES, "%Y-%m-%dT%H:%M:%S", gmtime_r(&at, &parts));
}

/* The appliance's time of day; 0 after a message. */
static time_t ask_now(struct text_port *port)
{
    struct place place = {.next = 0};
    struct tm parts = {.tm_year = 0};
    if (text_port_ask(port, "ended 18446744073709551615\n") != EXIT_COMPLETE) {
        return 0;
    }
    struct page line = {.next = port->page};
    while (page_next(&line) && !is_place(&line, &place)) {
    }
    if (strptime(place.now, "%Y-%m-%dT%H:%M:%S", &parts) == NULL) {
        fprintf(stderr, "agx: %s: this is no record of calls\n", port->address);
        return 0;
    }
    return timegm(&parts);
}

/* Seconds of a day, of HH:MM or HH:MM:SS; -1: neither. */
static long read_clock(const char *text)
{
    unsigned hour, minute, second = 0;
    int used = 0, longer = 0;
    if (sscanf(text, "%2u:%2u%n:%2u%n", &hour, &minute, &used, &second, &longer) < 2) {
        return -1;
    }
    used = longer > 0 ? longer : used;
    bool is_time = text[used] == '\0' && hour < 24 && minute < 60 && second < 60;
    return is_time ? (long)(hour * 3600 + minute * 60 + second) : -1;
}

/* The stretch that began last at that time of day, or the last one of all. */
static void choose_time(struct report *report, time_t now, long clock_s, uint32_t minutes)
{
    time_t from = clock_s < 0 ? now - (time_t)(60 * minutes) : now - now % DAY_S + clock_s;
    from -= from > now ? DAY_S : 0;
    put_stamp(from, report->from);
    put_stamp(clock_s < 0 ? now + 1 : from + (time_t)(60 * minutes), report->to);
}

/* ---- the report ------------------------------------------------------------------------------ */

/* Waits for first tokens, or for rows, of a tally, in milliseconds; how many. */
static uint32_t take_waits(const struct report *report, uint32_t tally, bool is_first,
                           double *values)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < report->samples_count; i++) {
        const struct sample *sample = &report->samples[i];
        if (sample->tally == tally && (!is_first || sample->first_us > 0)) {
            values[count++] = (double)(is_first ? sample->first_us : sample->wait_us) / 1000;
        }
    }
    return count;
}

static void print_tally(const struct report *report, uint32_t at, double *values)
{
    const struct tally *tally = &report->tallies[at];
    uint32_t count = take_waits(report, at, true, values);
    struct distribution first = distribution_of(values, count);
    double most = count > 0 ? values[count - 1] : 0;
    struct distribution wait = distribution_of(values, take_waits(report, at, false, values));
    printf("%-16.16s %8" PRIu64 " %9.1f %9.1f %9.1f %9.1f %9.1f %6.0f%% %9" PRIu64 " ", tally->who,
           tally->calls, first.p50, first.p99, most, wait.p99, (double)tally->service_us / 1e6,
           tally->prompt == 0 ? 0 : 100.0 * (double)tally->cached / (double)tally->prompt,
           tally->output);
    for (uint32_t i = 0; i < ENDS_MAX && tally->ends[i].calls > 0; i++) {
        printf(" %s %" PRIu64, tally->ends[i].word, tally->ends[i].calls);
    }
    printf("\n");
}

/* The one that has had most service, of those that are not printed yet. */
static uint32_t next_tally(const struct report *report)
{
    uint32_t next = UINT32_MAX;
    for (uint32_t i = 0; i < report->tallies_count; i++) {
        const struct tally *tally = &report->tallies[i];
        bool is_more = next == UINT32_MAX ||
                       tally->service_us > report->tallies[next].service_us;
        next = !tally->is_printed && is_more ? i : next;
    }
    return next;
}

static int print(struct report *report)
{
    double *values = calloc(report->samples_count + 1, sizeof *values);
    if (values == NULL) {
        fprintf(stderr, "agx: out of memory\n");
        return EXIT_SYSTEM;
    }
    printf("%u calls ended from %s to %s UTC; times in ms, SERVICE in s\n", report->samples_count,
           report->from, report->to);
    if (report->samples_count == 0) {
        printf("no such call is on record; the record begins with the core (uptime_s of health)\n");
    }
    printf("%-16s %8s %9s %9s %9s %9s %9s %7s %9s  %s\n", "WHO", "CALLS", "FIRST-P50", "P99", "MAX",
           "WAIT-P99", "SERVICE", "CACHED", "OUTPUT", "HOW THEY ENDED");
    for (uint32_t i = 0; i < report->tallies_count; i++) {
        uint32_t next = next_tally(report);
        print_tally(report, next, values);
        report->tallies[next].is_printed = true;
    }
    if (report->slowest_us > 0) {
        printf("slowest first token: %s\n", report->slowest);
    }
    free(values);
    return EXIT_COMPLETE;
}

static int run(const char *text, long clock_s, uint32_t minutes)
{
    struct text_port port;
    struct report report = {.slowest_us = 0};
    int code = text_port_open(&port, text);
    time_t now = code == EXIT_COMPLETE ? ask_now(&port) : 0;
    if (code == EXIT_COMPLETE && now == 0) {
        code = EXIT_PROTOCOL;
    }
    if (code == EXIT_COMPLETE) {
        choose_time(&report, now, clock_s, minutes);
        code = collect(&report, &port);
    }
    code = code == EXIT_COMPLETE ? print(&report) : code;
    text_port_close(&port);
    free(report.tallies);
    free(report.samples);
    return code;
}

int report_main(const char *to, int argc, char **argv)
{
    const char *text = text_port_default();
    const char *clock = NULL;
    uint32_t minutes = 1;
    const struct argument rows[] = {
        {"--text", "ADDRESS", ARGUMENT_TEXT, &text, 0, 0, TEXT_PORT_HELP},
        {"--minutes", "N", ARGUMENT_U32, &minutes, 1, 1440, "so long a stretch (default 1)"},
    };
    const struct command_line line = {
        AGX_COMMAND("report"), .usage = "[OPTION]... [HH:MM[:SS]]",
        .purpose = "Who had what in the minute from HH:MM (UTC) on, or in the last one: calls, "
                   "waits, service\nand how they ended, for each trust domain.",
        .operand = &clock, .operand_may_lack = true, .rows = rows,
        .rows_count = sizeof rows / sizeof rows[0]};
    (void)to;                           /* this command does not use the binary protocol */
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    long clock_s = clock != NULL ? read_clock(clock) : -1;
    if (clock != NULL && clock_s < 0) {
        return command_line_refuse(&line, "HH:MM", clock, "a time of day, 00:00 to 23:59:59");
    }
    return run(text, clock_s, minutes);
}
