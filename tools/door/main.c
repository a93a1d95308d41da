/* SPDX-License-Identifier: MIT */
/*
 * What: agentix-door: HTTP clients reach the appliance. Command line, start, the loop.
 *
 * One thread. A pass takes what HTTP clients and the appliance have sent, and sends what there is
 * to send. Everything is reserved at the start; door.memory bounds the rest.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "appliance/boot/version.h"
#include "appliance/log.h"
#include "tools/agx/chat/conversation.h"
#include "tools/command_line.h"
#include "tools/door/api/responses.h"
#include "tools/door/clock.h"
#include "tools/door/http.h"
#include "tools/door/program.h"
#include "tools/door/request.h"
#include "tools/door/seal.h"
#include "tools/door/tokens.h"
#include "tools/door/uplink/call.h"
#include "tools/door/uplink/uplink.h"

#define EVENTS_MAX   256
#define TICK_US      1000000

struct line {
    const char *config;
    struct argument_texts sets;
    bool check;
};

static volatile sig_atomic_t stop_signals, reload_signals;

static void on_signal(int number)
{
    if (number == SIGHUP) {
        reload_signals = 1;
    } else {
        stop_signals++;
    }
}

static int fail(const char *text)
{
    fprintf(stderr, "agentix-door: %s\n", text);
    return EXIT_USAGE;
}

/* ---- start ----------------------------------------------------------------------------------- */

static int parse(struct line *line, int argc, char **argv)
{
    const struct argument rows[] = {
        {"--config", "FILE", ARGUMENT_TEXT, &line->config, 0, 0,
         "the appliance's INI file; section [door] is the door's"},
        {"--set", "S.K=V", ARGUMENT_TEXTS, &line->sets, 0, ARGUMENT_TEXTS_MAX,
         "overrides one option; may be repeated"},
        {"--check", "", ARGUMENT_FLAG, &line->check, 0, 0,
         "checks options and model, prints the memory plan, exits"},
    };
    const struct command_line command = {
        .program = "agentix-door", .version = version_text, .usage = "[OPTION]...",
        .purpose = "Serves OpenAI's and Anthropic's HTTP APIs in front of a running appliance.",
        .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    return command_line_parse(&command, argc, argv);
}

static enum status read_options(struct options *options, const struct line *line,
                                struct config_error *error)
{
    config_defaults(options);
    if (line->config != NULL) {
        TRY(config_load_file(options, line->config, error));
    }
    for (uint32_t i = 0; i < line->sets.count; i++) {
        TRY(config_set(options, line->sets.texts[i], error));
    }
    return config_check(options, error);
}

/* The unix socket, where there is one and clients need no key of their own. */
static void find_appliance(struct door *door)
{
    bool has_keys = false;
    for (uint32_t i = 0; i < door->domains_count; i++) {
        has_keys = has_keys || door->domains[i].key != NULL;
    }
    if (door->options.net_unix.text[0] != '\0' && !has_keys) {
        snprintf(door->appliance, sizeof door->appliance, "unix:%.240s",
                 door->options.net_unix.text);
    } else {
        snprintf(door->appliance, sizeof door->appliance, "%s", door->options.net_tcp.text);
    }
}

static enum status reserve(struct door *door, struct config_error *error)
{
    const struct options *options = &door->options;
    uint32_t body = (uint32_t)options->door_body_bytes.number;
    memory_begin(options->door_memory.number);
    TRY(tokens_begin(door, error));
    find_appliance(door);
    TRY(model_load(&door->model, options, body, error));
    door->uplinks_count = 1 + ((uint32_t)options->door_calls.number + AGX_CALLS_MAX - 1) /
                                  AGX_CALLS_MAX;
    for (uint32_t i = 0; i < door->domains_count; i++) {
        TRY(uplinks_begin(door, &door->domains[i]));
    }
    door->requests = calloc(options->door_requests.number, sizeof *door->requests);
    door->choices = calloc(door->domains_count * options->door_calls.number,
                           sizeof *door->choices);
    door->conversation = calloc(1, sizeof *door->conversation);
    door->rendered = (struct chat_output){
        .text = malloc(body), .text_max = body, .parts_max = AGX_PARTS_MAX,
        .parts = malloc(AGX_PARTS_MAX * sizeof *door->rendered.parts)};
    requests_begin(door);
    bool has_all = door->requests != NULL && door->choices != NULL && door->conversation != NULL &&
                   door->rendered.text != NULL && door->rendered.parts != NULL;
    TRY(has_all ? programs_begin(door) : STATUS_CONFIG_MEMORY);
    return responses_begin(door);
}

static void print_row(const char *owner, uint64_t count, uint64_t size)
{
    printf("  %-28s %10llu x %12llu = %10.1f MiB\n", owner, (unsigned long long)count,
           (unsigned long long)size, (double)(count * size) / (1 << 20));
}

/* What the door will take at most. */
static void print_plan(const struct door *door)
{
    const struct options *o = &door->options;
    uint64_t body = o->door_body_bytes.number;
    printf("agentix-door: %s in front of %s, model %s\n", o->door_listen.text, door->appliance,
           door->model.name);
    print_row("connections", o->door_connections.number, 32768 + 1024);
    print_row("requests", o->door_requests.number, sizeof(struct request));
    print_row("calls", door->domains_count * o->door_calls.number, sizeof(struct choice));
    print_row("buffers of the appliance's", (uint64_t)door->domains_count * door->uplinks_count,
              sizeof(struct uplink) + 3 * (body + AGX_BUFFER_BYTES_MIN));
    print_row("programs", o->door_programs.number, sizeof(struct program) + 8 * 40);
    print_row("tokenizer", 1, vocab_scratch_bytes((uint32_t)body) + 16 * (body + 1));
    print_row("a prompt", 1, body + AGX_PARTS_MAX * 4 + sizeof(struct conversation));
    print_row("bodies, prompts, answers", 1, o->door_memory.number);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void take_events(struct door *door, int wait_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(door->epoll, events, EVENTS_MAX, wait_ms);
    door->now_us = clock_us();
    for (int i = 0; i < count; i++) {
        struct request *request = events[i].data.ptr;
        if (request != NULL && request->state != REQUEST_FREE && !request->has_left) {
            request_leave(request);
        }
    }
}

static bool has_requests(const struct door *door)
{
    for (uint64_t i = 0; i < door->options.door_requests.number; i++) {
        if (door->requests[i].state != REQUEST_FREE) {
            return true;
        }
    }
    return false;
}

/* SIGTERM lets no more clients in, and open requests have door.drain to end; a second one ends
 * them. SIGHUP: a sealed door reads no file again, and says so. */
static bool goes_on(struct door *door)
{
    if (reload_signals) {
        reload_signals = 0;
        log_event(LOG_WARN, "SIGHUP: options and tokens are read at the start; restart the door, "
                  "open requests have door.drain to end");
    }
    if (stop_signals == 0) {
        return true;
    }
    if (!door->drains) {
        door->drain_end_us = door->now_us + door->options.door_drain.number;
        http_drain(door);
    }
    return stop_signals == 1 && has_requests(door) && door->now_us < door->drain_end_us;
}

static int serve(struct door *door)
{
    uint64_t tick_us = 0;
    while (goes_on(door)) {
        int http_ms = http_wait_ms(door), uplinks_ms = uplinks_wait_ms(door);
        take_events(door, http_ms < uplinks_ms ? http_ms : uplinks_ms);
        uplinks_run(door);
        calls_run(door);
        http_run(door);
        if (door->now_us >= tick_us) {
            tick_us = door->now_us + TICK_US;
            programs_run(door);
            request_tell_refusals(door);
        }
    }
    http_end(door);
    return EXIT_COMPLETE;
}

static void handle_signals(void)
{
    const struct sigaction stop = {.sa_handler = on_signal};
    (void)sigaction(SIGTERM, &stop, NULL);
    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGHUP, &stop, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

int main(int argc, char **argv)
{
    static struct door door;
    struct line line = {0};
    struct config_error error = {.text = ""};
    int code = parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    enum status status = read_options(&door.options, &line, &error);
    status = status == STATUS_OK ? reserve(&door, &error) : status;
    if (status != STATUS_OK) {
        return fail(error.text[0] != '\0' ? error.text : status_text(status));
    }
    if (line.check) {
        print_plan(&door);
        return EXIT_COMPLETE;
    }
    log_role("door");
    handle_signals();
    door.epoll = epoll_create1(EPOLL_CLOEXEC);
    door.now_us = clock_us();
    uplinks_run(&door);
    return http_begin(&door) && seal(&door) ? serve(&door) : EXIT_SYSTEM;
}
