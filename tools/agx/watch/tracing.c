/* SPDX-License-Identifier: MIT */
/*
 * What: `agx trace`: the appliance's event log, read from its text port, as a file of Chrome trace
 * events. It begins with the oldest event that the log still holds, follows the log until the time
 * is over or ^C, and then reads up to that moment. So `--seconds 0` shows what just happened.
 * Bounds: a question every REST_MS, and at once while there is more to read.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tools/agx/dial.h"
#include "tools/agx/watch/events.h"
#include "tools/agx/watch/picture.h"

#define REST_MS              50
#define SECONDS_MAX          1e9

struct tracing {
    struct events events;
    struct chrome chrome;
    struct picture picture;
    uint64_t taken;                 /* events */
    uint64_t before;                /* lost before the first question */
    uint64_t lost;
    uint64_t last_us;               /* time of the last one taken */
};

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

/* The second ^C ends the command at once. */
static void catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* One question and its answer. */
static int take_answer(struct tracing *tracing)
{
    uint64_t number, expected = tracing->events.next;
    struct event event;
    int code = events_ask(&tracing->events);
    while (code == EXIT_COMPLETE && events_take(&tracing->events, &number, &event)) {
        if (number > expected && tracing->taken == 0) {
            tracing->before = number;
        } else if (number > expected) {
            tracing->lost += number - expected;
            picture_lose(&tracing->picture, number - expected, tracing->last_us);
        }
        expected = number + 1;
        tracing->last_us = event.time_us;
        tracing->taken++;
        picture_add(&tracing->picture, &event);
    }
    return code;
}

/* Without this, a port that announces more and sends nothing would be asked for ever. */
static int refuse_standstill(const struct tracing *tracing)
{
    fprintf(stderr, "agx: %s: asked for event %" PRIu64 " of %" PRIu64 ", got nothing new\n",
            tracing->events.port.address, tracing->events.next, tracing->events.end);
    return EXIT_PROTOCOL;
}

/* Follows the log until the time is over and all events before that are read. */
static int follow(struct tracing *tracing, double seconds)
{
    uint64_t began_us = dial_now_us(), end = UINT64_MAX;
    for (;;) {
        bool is_over = interrupted || (double)(dial_now_us() - began_us) >= seconds * 1e6;
        uint64_t asked = tracing->events.next;
        int code = take_answer(tracing);
        if (code == EXIT_COMPLETE && tracing->events.next <= asked &&
            tracing->events.next < tracing->events.end) {
            code = refuse_standstill(tracing);
        }
        if (code != EXIT_COMPLETE) {
            return code;
        }
        if (is_over && end == UINT64_MAX) {
            end = tracing->events.end;
        }
        if (tracing->events.next >= end) {
            return EXIT_COMPLETE;
        }
        if (tracing->events.next >= tracing->events.end) {
            events_rest(&tracing->events, REST_MS);
        }
    }
}

static void report(const struct tracing *tracing)
{
    printf("%s: %" PRIu64 " events, %" PRIu64 " calls, %" PRIu32 " programs; %" PRIu64
           " events lost", tracing->chrome.path, tracing->taken, tracing->picture.calls_seen,
           tracing->picture.programs_count, tracing->lost);
    if (tracing->before > 0) {
        printf(", %" PRIu64 " forgotten before", tracing->before);
    }
    printf("\n");
    if (tracing->picture.out_of_memory) {
        fprintf(stderr, "agx: out of memory, or slots beyond all limits: the picture lacks some\n");
    }
}

static int trace_to(struct tracing *tracing, const char *out, double seconds)
{
    if (!chrome_open(&tracing->chrome, out)) {
        fprintf(stderr, "agx: %s: cannot be written: %s\n", out, strerror(errno));
        return EXIT_SYSTEM;
    }
    catch_interrupt();
    picture_begin(&tracing->picture, &tracing->chrome);
    int code = follow(tracing, seconds);
    picture_end(&tracing->picture, tracing->events.now_us);
    bool closed = chrome_close(&tracing->chrome);
    report(tracing);
    if (!closed) {
        fprintf(stderr, "agx: %s: not all could be written\n", out);
        return EXIT_SYSTEM;
    }
    return code;
}

int trace_main(const char *to, int argc, char **argv)
{
    const char *text = text_port_default(), *out = "trace.json";
    double seconds = SECONDS_MAX;
    const struct argument rows[] = {
        {"--text", "ADDRESS", ARGUMENT_TEXT, &text, 0, 0, TEXT_PORT_HELP},
        {"--seconds", "S", ARGUMENT_F64, &seconds, 0, SECONDS_MAX,
         "end after this; 0: what just happened (default: at ^C)"},
        {"--out", "FILE", ARGUMENT_TEXT, &out, 0, 0, "Chrome trace JSON (default trace.json)"},
    };
    const struct command_line line = {
        AGX_COMMAND("trace"), .usage = "[--text ADDRESS] [--seconds S] [--out FILE]",
        .purpose =
        "What the appliance does, from its text port into a file for ui.perfetto.dev: a track for\n"
        "each engine slot, and for each program its calls with waits, runs, gaps, preemptions.",
        .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    struct tracing tracing = {0};
    (void)to;                           /* this command does not use the binary protocol */
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    code = events_open(&tracing.events, text);
    if (code == EXIT_COMPLETE) {
        code = events_ask(&tracing.events);     /* no file without an answer */
    }
    if (code == EXIT_COMPLETE) {
        code = trace_to(&tracing, out, seconds);
    }
    events_close(&tracing.events);
    return code;
}
