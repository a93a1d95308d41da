/* SPDX-License-Identifier: MIT */
/*
 * What: `agx demo`: three programs at once over one connection, streamed side by side. One loop:
 * start what is due, take events, draw.
 *
 * Invariants: a call is TIMED, QUEUED (sent, no token yet), RUNNING or DONE; a turn ends when all
 * of its calls are DONE. A busy appliance makes a call TIMED again.
 */
#include "tools/agx/demo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "appliance/base/assert.h"
#include "tools/agx/option.h"

#define BUSY_WAIT_US    100000
#define LOOK_MS         40          /* the longest wait between two frames */
#define SILENCE_US      60000000    /* without any event: something is wrong */
#define SURE_TOKENS     8           /* BOS and what a tokenizer may add to a text */

/* ---- turns ----------------------------------------------------------------------------------- */

/* Where the last `room` bytes of a text begin, at the start of a character. */
static const char *tail(const char *text, size_t room)
{
    size_t length = strlen(text);
    const char *from = length > room ? text + (length - room) : text;
    while (((unsigned char)*from & 0xc0) == 0x80) {
        from++;
    }
    return from;
}

void demo_ask(struct demo *demo, struct demo_program *program, const char *prompt,
              uint32_t max_tokens, const char *label)
{
    ASSERT(program->calls_count < DEMO_CALLS_MAX);
    struct demo_call *call = &program->calls[program->calls_count++];
    uint32_t context = demo->dial.agx.welcome.context_tokens_max, used = max_tokens + SURE_TOKENS;
    /* A token is at least a byte of text, so as many bytes as tokens are left surely fit. */
    size_t room = context > used ? context - used : 1;
    const char *from = tail(prompt, room < sizeof call->prompt ? room : sizeof call->prompt - 1);
    memset(call, 0, sizeof *call);
    memcpy(call->prompt, from, strlen(from));
    call->id = demo->next_id++;
    call->thread = program->calls_count - 1;
    call->max_tokens = max_tokens;
    screen_open(&demo->screen, program->panel, call->id, label,
                program->script->calls > program->script->turns && program->turn == 0 ? 3 : 0);
}

static void begin_turn(struct demo *demo, struct demo_program *program)
{
    program->in_turn = true;
    program->calls_count = 0;
    program->first_number = program->calls_done + 1;
    program->script->begin(demo, program);
    ASSERT(program->calls_count > 0);
}

/* EXIT_COMPLETE or an exit code. */
static int end_turn(struct demo *demo, struct demo_program *program)
{
    program->in_turn = false;
    program->next_us = dial_now_us() + program->script->end(demo, program);
    program->turn++;
    if (program->turn < program->script->turns) {
        return EXIT_COMPLETE;
    }
    enum agx_result result = agx_program_end(&demo->dial.agx, program->id);
    return result == AGX_OK ? EXIT_COMPLETE : dial_fail(&demo->dial.agx, result, "demo");
}

static int send_call(struct demo *demo, struct demo_program *program, struct demo_call *call)
{
    struct agx_call request = {
        .call_id = call->id, .thread = call->thread, .max_tokens = call->max_tokens,
        .temperature = 0.8f, .top_k = 40, .seed = call->id, .want_text = 1,
        .prompt_text = call->prompt, .prompt_text_bytes = strlen(call->prompt)};
    memcpy(request.program_id, program->id, AGX_ID_BYTES);
    enum agx_result result = agx_call_start(&demo->dial.agx, &request);
    if (result == AGX_AGAIN) {
        return EXIT_COMPLETE;       /* stays TIMED: the next pass tries again */
    }
    if (result != AGX_OK) {
        return dial_fail(&demo->dial.agx, result, "demo");
    }
    call->state = DEMO_QUEUED;
    call->sent_us = call->sent_us != 0 ? call->sent_us : dial_now_us();
    return EXIT_COMPLETE;
}

/* Everything of one program that is due. */
static int advance(struct demo *demo, struct demo_program *program, uint64_t now_us)
{
    bool is_over = program->turn == program->script->turns;
    if (!program->in_turn && !is_over && program->next_us <= now_us) {
        begin_turn(demo, program);
    }
    for (uint32_t i = 0; program->in_turn && i < program->calls_count; i++) {
        struct demo_call *call = &program->calls[i];
        if (call->state == DEMO_TIMED && call->due_us <= now_us) {
            int code = send_call(demo, program, call);
            if (code != EXIT_COMPLETE) {
                return code;
            }
        }
    }
    return EXIT_COMPLETE;
}

/* ---- events ---------------------------------------------------------------------------------- */

static struct demo_call *find_call(struct demo *demo, uint64_t id, struct demo_program **program)
{
    for (uint32_t p = 0; p < DEMO_PROGRAMS; p++) {
        *program = &demo->programs[p];
        for (uint32_t i = 0; i < (*program)->calls_count; i++) {
            if ((*program)->calls[i].id == id) {
                return &(*program)->calls[i];
            }
        }
    }
    return NULL;
}

static void on_tokens(struct demo *demo, struct demo_program *program, struct demo_call *call,
                      const struct agx_event *event)
{
    uint32_t room = (uint32_t)sizeof call->said - 1 - call->said_bytes;
    uint32_t count = event->text_bytes < room ? event->text_bytes : room;
    call->first_us = call->first_us != 0 ? call->first_us : dial_now_us();
    call->state = DEMO_RUNNING;
    memcpy(call->said + call->said_bytes, event->text, count);
    call->said_bytes += count;
    program->tokens += event->tokens_count;
    screen_add(&demo->screen, program->panel, call->id, event->text, event->text_bytes);
}

static int on_done(struct demo *demo, struct demo_program *program, struct demo_call *call,
                   const struct agx_event *event)
{
    call->state = DEMO_DONE;
    program->calls_done++;
    program->wait_us += event->wait_us;
    program->service_us += event->service_us;
    screen_close(&demo->screen, program->panel, call->id);
    int code = dial_finished(event);
    for (uint32_t i = 0; i < program->calls_count; i++) {
        if (code != EXIT_COMPLETE || program->calls[i].state != DEMO_DONE) {
            return code;
        }
    }
    return end_turn(demo, program);
}

static int on_event(struct demo *demo, const struct agx_event *event)
{
    struct demo_program *program;
    if (event->kind == AGX_PROGRAM) {
        demo->ended++;
        return EXIT_COMPLETE;
    }
    struct demo_call *call = find_call(demo, event->call_id, &program);
    if (event->kind == AGX_REFUSED) {
        const struct agx_fault *fault = agx_fault(&demo->dial.agx);
        if (call == NULL || !fault->is_busy) {
            return dial_refused(fault);
        }
        call->state = DEMO_TIMED;
        call->due_us = dial_now_us() + BUSY_WAIT_US;
        return EXIT_COMPLETE;
    }
    ASSERT(call != NULL);           /* the library lets no other calls through */
    if (event->kind == AGX_TOKENS) {
        on_tokens(demo, program, call, event);
    }
    return event->kind == AGX_DONE ? on_done(demo, program, call, event) : EXIT_COMPLETE;
}

/* ---- what is shown --------------------------------------------------------------------------- */

static const char *state_of(const struct demo_program *program)
{
    if (!program->in_turn) {
        return program->turn == program->script->turns ? "done" : "pause";
    }
    for (uint32_t i = 0; i < program->calls_count; i++) {
        if (program->calls[i].state == DEMO_RUNNING) {
            return "running";
        }
    }
    return "queued";
}

/* Since when the turn's calls wait for their first token, summed up: seconds. */
static double waited_s(const struct demo_program *program, uint64_t now_us)
{
    uint64_t sum_us = 0;
    for (uint32_t i = 0; i < program->calls_count; i++) {
        const struct demo_call *call = &program->calls[i];
        uint64_t until_us = call->first_us != 0 ? call->first_us : now_us;
        sum_us += call->sent_us != 0 && until_us > call->sent_us ? until_us - call->sent_us : 0;
    }
    return (double)sum_us / 1e6;
}

static void show_status(struct demo *demo, struct demo_program *program, uint64_t now_us)
{
    char number[24], first[SCREEN_WIDTH_MAX], second[SCREEN_WIDTH_MAX];
    uint32_t last = program->first_number + program->calls_count - 1;
    if (program->calls_count > 1) {
        snprintf(number, sizeof number, "calls %u-%u/%u", (unsigned)program->first_number,
                 (unsigned)last, (unsigned)program->script->calls);
    } else {
        snprintf(number, sizeof number, "call %u/%u", (unsigned)program->first_number,
                 (unsigned)program->script->calls);
    }
    snprintf(first, sizeof first, "%-12s %s", number, state_of(program));
    snprintf(second, sizeof second, "wait %.2f s  %u tokens", waited_s(program, now_us),
             (unsigned)program->tokens);
    screen_status(&demo->screen, program->panel, first, second);
}

static void show(struct demo *demo, bool is_last)
{
    uint64_t now_us = dial_now_us();
    for (uint32_t i = 0; i < DEMO_PROGRAMS; i++) {
        show_status(demo, &demo->programs[i], now_us);
    }
    screen_draw(&demo->screen, is_last ? UINT64_MAX : now_us);
}

static void print_summary(const struct demo *demo)
{
    double seconds = (double)(dial_now_us() - demo->start_us) / 1e6;
    uint32_t tokens = 0;
    printf("\n%-8s %6s %7s %10s %10s   %s\n", "program", "calls", "tokens", "wait ms", "service ms",
           "what");
    for (uint32_t i = 0; i < DEMO_PROGRAMS; i++) {
        const struct demo_program *p = &demo->programs[i];
        printf("%-8s %6u %7u %10.1f %10.1f   %s\n", p->script->name, (unsigned)p->calls_done,
               (unsigned)p->tokens, (double)p->wait_us / 1e3, (double)p->service_us / 1e3,
               p->script->about);
        tokens += p->tokens;
    }
    printf("%u tokens in %.1f s, thinking and tools included; every answer verified\n",
           (unsigned)tokens, seconds);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Until the next turn or retry is due, but never so long that the picture stands still. */
static int wait_ms(const struct demo *demo, uint64_t now_us)
{
    uint64_t wait_us = LOOK_MS * 1000;
    for (uint32_t i = 0; i < DEMO_PROGRAMS; i++) {
        const struct demo_program *program = &demo->programs[i];
        bool is_paused = !program->in_turn && program->turn < program->script->turns;
        if (is_paused && program->next_us < now_us + wait_us) {
            wait_us = program->next_us > now_us ? program->next_us - now_us : 0;
        }
    }
    return (int)((wait_us + 999) / 1000);
}

/* Takes what has arrived; sets `heard` if that is anything. */
static int take_events(struct demo *demo, int timeout_ms, bool *heard)
{
    struct agx_event event;
    enum agx_result result = agx_next(&demo->dial.agx, &event, timeout_ms);
    *heard = result == AGX_OK;
    while (result == AGX_OK) {
        int code = on_event(demo, &event);
        if (code != EXIT_COMPLETE) {
            return code;
        }
        show(demo, false);
        result = agx_next(&demo->dial.agx, &event, 0);
    }
    return result == AGX_AGAIN ? EXIT_COMPLETE : dial_fail(&demo->dial.agx, result, "demo");
}

static int run(struct demo *demo)
{
    uint64_t heard_us = dial_now_us();
    while (demo->ended < DEMO_PROGRAMS) {
        uint64_t now_us = dial_now_us();
        bool heard;
        for (uint32_t i = 0; i < DEMO_PROGRAMS; i++) {
            int code = advance(demo, &demo->programs[i], now_us);
            if (code != EXIT_COMPLETE) {
                return code;
            }
        }
        show(demo, false);
        int code = take_events(demo, wait_ms(demo, now_us), &heard);
        if (code != EXIT_COMPLETE) {
            return code;
        }
        heard_us = heard ? dial_now_us() : heard_us;
        if (dial_now_us() - heard_us > SILENCE_US) {
            return dial_fail(&demo->dial.agx, AGX_ERROR_TIMEOUT, "demo");
        }
    }
    show(demo, true);
    return EXIT_COMPLETE;
}

static void prepare(struct demo *demo)
{
    const char *titles[DEMO_PROGRAMS];
    for (uint32_t i = 0; i < DEMO_PROGRAMS; i++) {
        demo->programs[i].script = &demo_scripts[i];
        demo->programs[i].panel = i;
        demo->programs[i].first_number = 1;
        dial_unique_id(demo_scripts[i].name, demo->programs[i].id);
        titles[i] = demo_scripts[i].name;
    }
    screen_init(&demo->screen, titles);
    demo->next_id = 1;
    demo->start_us = dial_now_us();
    printf("%s, context of %" PRIu32 " tokens; three programs at once\n\n",
           demo->dial.agx.welcome.model[0] != '\0' ? demo->dial.agx.welcome.model : "a model",
           demo->dial.agx.welcome.context_tokens_max);
}

int demo_main(const char *to, int argc, char **argv)
{
    static struct demo demo;        /* zeroed; too large for a stack */
    demo.max_tokens = 48;
    const struct option_row rows[] = {
        {"--max-tokens", "N", OPTION_U32, &demo.max_tokens, 2, 4096,
         "tokens of the longest answers (default 48)"},
    };
    const struct option_table table = {
        "demo [--max-tokens N]",
        "Three programs at once: a chat, a ReAct-style loop with a tool, a fan-out with a merge.",
        NULL, rows, 1, NULL};
    int code = option_parse(&table, argc, argv);
    if (code != OPTION_GO_ON) {
        return code;
    }
    code = dial_open(&demo.dial, to, DEMO_TEXT_BYTES);
    if (code == EXIT_COMPLETE) {
        prepare(&demo);
        code = run(&demo);
        agx_close(&demo.dial.agx);
    }
    if (code == EXIT_COMPLETE) {
        print_summary(&demo);
    }
    free(demo.dial.buffer);
    return code;
}
