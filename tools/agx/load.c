/* SPDX-License-Identifier: MIT */
/*
 * What: `agx load`: many short calls on one connection, as a soak test. Every call is checked: its
 * length, its indices and digest (by the library), and that the same prompt with the same length
 * gives the same tokens each time.
 *
 * Bounds: at most in_flight calls are open, including those that pause after a busy answer; memory
 * is taken once, before the first call.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/agx/dial.h"
#include "tools/trace/timer.h"

#define PROMPTS      64             /* different prompts */
#define PROMPT_MAX   8              /* tokens: prompt i has 1 + i % PROMPT_MAX */
#define LENGTHS_MAX  1024
#define SILENCE_MS   60000          /* the longest time without an answer */

struct load_call {                  /* does not move until it has ended: dial_next() */
    bool is_open;
    uint32_t busy_tries;
    struct agx_call call;
    uint32_t ids[PROMPT_MAX];
};
struct load {
    struct dial dial;
    struct load_call open[AGX_CALLS_MAX];
    struct timer pauses;            /* of open calls that were refused as busy */
    struct retry retry;
    uint32_t calls, in_flight, tokens_max;
    uint64_t *digests;              /* [PROMPTS * tokens_max]; 0: not seen yet */
    uint64_t started, completed, tokens;
    uint8_t programs[AGX_CALLS_MAX][AGX_ID_BYTES];  /* call i is of program i % in_flight */
};

static uint32_t length_of(const struct load *load, uint64_t index)
{
    return 1 + (uint32_t)(index / PROMPTS % load->tokens_max);
}

/* At most in_flight calls are open, so one is free. */
static struct load_call *free_call(struct load *load)
{
    struct load_call *call = load->open;
    while (call->is_open) {
        call++;
    }
    return call;
}

static struct load_call *open_call(struct load *load, uint64_t index)
{
    struct load_call *call = load->open;
    while (!call->is_open || call->call.call_id != index) {     /* the library says: it is open */
        call++;
    }
    return call;
}

static enum agx_result start(struct load *load, uint64_t index)
{
    uint32_t vocab = load->dial.agx.welcome.vocab_tokens;
    uint64_t prompt = index % PROMPTS;
    struct load_call *open = free_call(load);
    *open = (struct load_call){
        .is_open = true,
        .call = {.call_id = index, .max_tokens = length_of(load, index), .ignore_eos = 1,
                 .prompt_ids = open->ids,
                 .prompt_ids_count = 1 + (uint32_t)(prompt % PROMPT_MAX)}};
    for (uint32_t i = 0; i < open->call.prompt_ids_count; i++) {
        open->ids[i] = (uint32_t)((prompt * 31 + i * 7 + 3) % vocab);
    }
    memcpy(open->call.program_id, load->programs[index % load->in_flight], AGX_ID_BYTES);
    return agx_call_start(&load->dial.agx, &open->call);
}

static int check_done(struct load *load, const struct agx_event *done)
{
    uint64_t *seen = &load->digests[done->call_id % PROMPTS * load->tokens_max +
                                    length_of(load, done->call_id) - 1];
    if (done->finish != AGX_FINISH_LENGTH ||
        done->generated_tokens != length_of(load, done->call_id)) {
        fprintf(stderr, "agx: call %" PRIu64 " ended with %s after %" PRIu32 " tokens\n",
                done->call_id, agx_finish_text(done->finish), done->generated_tokens);
        return EXIT_INCOMPLETE;
    }
    if (*seen != 0 && *seen != done->digest) {
        fprintf(stderr, "agx: call %" PRIu64 ": other tokens than the last time\n", done->call_id);
        return EXIT_PROTOCOL;
    }
    *seen = done->digest;
    load->completed++;
    load->tokens += done->generated_tokens;
    return EXIT_COMPLETE;
}

/* ARGUMENT_GO_ON: the call will be sent again; else an exit code. */
static int on_refused(struct load *load, struct load_call *call)
{
    const struct agx_fault *fault = agx_fault(&load->dial.agx);
    uint64_t pause_us;
    if (!fault->is_busy || !retry_again(&load->retry, fault, &call->busy_tries, &pause_us)) {
        return dial_refused(fault);
    }
    timer_push(&load->pauses, dial_now_us() + pause_us, (uint32_t)(call - load->open));
    return ARGUMENT_GO_ON;
}

/* ARGUMENT_GO_ON, or an exit code. */
static int take_event(struct load *load, const struct agx_event *event)
{
    if (event->kind == AGX_REFUSED) {
        return on_refused(load, open_call(load, event->call_id));
    }
    if (event->kind != AGX_DONE) {
        return ARGUMENT_GO_ON;
    }
    open_call(load, event->call_id)->is_open = false;
    int code = check_done(load, event);
    return code == EXIT_COMPLETE ? ARGUMENT_GO_ON : code;
}

/* Sends paused calls again, then new ones. While a refused call pauses no new one is sent: it would
 * take the place of the refused one. */
static enum agx_result send_due(struct load *load)
{
    enum agx_result result = AGX_OK;
    uint32_t index;
    while (result == AGX_OK && timer_pop(&load->pauses, dial_now_us(), &index)) {
        result = agx_call_start(&load->dial.agx, &load->open[index].call);
    }
    while (result == AGX_OK && load->pauses.count == 0 && load->started < load->calls &&
           load->started - load->completed < load->in_flight) {
        result = start(load, load->started++);
    }
    return result;
}

static int wait_ms(const struct load *load)
{
    uint64_t due_us = timer_next_us(&load->pauses), now_us = dial_now_us();
    uint64_t left_ms = due_us > now_us ? (due_us - now_us) / 1000 + 1 : 0;
    return left_ms < SILENCE_MS ? (int)left_ms : SILENCE_MS;
}

static int run(struct load *load)
{
    int code = ARGUMENT_GO_ON;
    while (code == ARGUMENT_GO_ON && load->completed < load->calls) {
        struct agx_event event;
        enum agx_result result = send_due(load);
        result = result == AGX_OK ? dial_next(&load->dial, &event, wait_ms(load)) : result;
        if (result == AGX_OK) {
            code = take_event(load, &event);
        } else if (result != AGX_AGAIN || load->pauses.count == 0) {
            code = dial_fail(&load->dial.agx, result == AGX_AGAIN ? AGX_ERROR_TIMEOUT : result,
                             "load");
        }
    }
    return code == ARGUMENT_GO_ON ? EXIT_COMPLETE : code;
}

static int prepare(struct load *load)
{
    const struct agx_welcome *welcome = &load->dial.agx.welcome;
    if (load->tokens_max + PROMPT_MAX > welcome->context_tokens_max) {
        fprintf(stderr, "agx: --max-tokens and prompts of up to %d tokens do not fit a context of %"
                PRIu32 "\n", PROMPT_MAX, welcome->context_tokens_max);
        return EXIT_USAGE;
    }
    if (load->in_flight > welcome->calls_per_connection_max) {
        load->in_flight = welcome->calls_per_connection_max;
    }
    load->digests = calloc((size_t)PROMPTS * load->tokens_max, sizeof *load->digests);
    if (load->digests == NULL || load->in_flight == 0 ||
        !timer_init(&load->pauses, AGX_CALLS_MAX)) {
        fprintf(stderr, "agx: out of memory, or no calls allowed\n");
        return EXIT_SYSTEM;
    }
    for (uint32_t i = 0; i < load->in_flight; i++) {
        char name[32];
        snprintf(name, sizeof name, "load %" PRIu32, i);
        dial_unique_id(name, load->programs[i]);
    }
    return EXIT_COMPLETE;
}

static int measure(struct load *load)
{
    uint64_t start_us = dial_now_us();
    int code = run(load);
    double seconds = (double)(dial_now_us() - start_us + 1) / 1e6;
    uint32_t programs = load->calls < load->in_flight ? load->calls : load->in_flight;
    for (uint32_t i = 0; i < programs && code == EXIT_COMPLETE; i++) {
        code = dial_program_end(&load->dial, load->programs[i]);
    }
    printf("%" PRIu64 " calls, %" PRIu64 " tokens, %" PRIu64 " busy, %.2f s, %.0f calls/s, "
           "%.0f tokens/s\n", load->completed, load->tokens, load->retry.waits, seconds,
           (double)load->completed / seconds, (double)load->tokens / seconds);
    return code;
}

int load_main(const char *to, int argc, char **argv)
{
    struct load load = {.calls = 1000, .in_flight = 32, .tokens_max = 4,
                        .retry = {.tries_max = RETRY_OF_MANY}};
    const struct argument rows[] = {
        {"--calls", "N", ARGUMENT_U32, &load.calls, 1, UINT32_MAX, "calls in all (default 1000)"},
        {"--in-flight", "K", ARGUMENT_U32, &load.in_flight, 1, AGX_CALLS_MAX,
         "open at once, each a program of its own (default 32)"},
        {"--max-tokens", "N", ARGUMENT_U32, &load.tokens_max, 1, LENGTHS_MAX,
         "calls ask for 1 to N tokens (default 4)"},
        RETRY_ROW(load.retry, RETRY_OF_MANY),
        {"--seed", "S", ARGUMENT_U64, &load.retry.lot, 0, 0,
         "of the pauses after busy answers (default 0)"},
    };
    const struct command_line line = {
        AGX_COMMAND("load"), .usage = "[OPTION]...",
        .purpose = "Sends many short calls and checks every answer.",
        .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    load.dial.retry = &load.retry;
    code = dial_open(&load.dial, to, 0);
    if (code == EXIT_COMPLETE) {
        code = prepare(&load);
        code = code == EXIT_COMPLETE ? measure(&load) : code;
        agx_close(&load.dial.agx);
    }
    timer_free(&load.pauses);
    free(load.digests);
    free(load.dial.buffer);
    return code;
}
