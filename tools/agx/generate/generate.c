/* SPDX-License-Identifier: MIT */
/*
 * What: `agx generate`: one call, its text or its token ids as they come.
 *
 * Invariant: exit code 0 means that every token of a complete answer was received, verified and
 * written. Text goes to a pipe as it is; on a terminal it passes the filter of printable.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/agx/chat/format.h"
#include "tools/agx/chat/history.h"
#include "tools/agx/dial.h"
#include "tools/agx/generate/adjustment.h"
#include "tools/agx/generate/logprobs.h"
#include "tools/agx/pace.h"
#include "tools/agx/printable.h"

#define MAX_TOKENS_DEFAULT 128
#define CODE_PROMPT_LENGTH 28       /* docs/protocol.md: prompt and max_tokens do not fit */

struct generate {
    struct dial dial;
    struct retry retry;
    uint32_t tries;         /* of the call */
    struct agx_call call;
    const char *prompt, *program, *class_name, *format_name;
    struct history history;     /* with --chat: the prompt, as a turn of the user */
    struct pace pace;
    struct argument_ids ids, stop_ids;
    struct argument_texts stops;
    struct adjustment adjustment;
    uint64_t deadline_ms;
    uint32_t logprobs;      /* alternatives, or LOGPROBS_NONE */
    bool print_ids, stats, drafts, ignore_eos, no_bos, special, chat;
    bool default_max;       /* --max-tokens was not given: as many as fit, up to the default */
    struct printable out;
    uint32_t printed_ids;
};

/* ARGUMENT_GO_ON or an exit code. */
static int check(struct generate *g)
{
    g->chat = g->chat || g->format_name != NULL;
    if ((g->prompt == NULL) == (g->ids.ids == NULL)) {
        fprintf(stderr, "agx: give either --prompt or --ids\n");
        return EXIT_USAGE;
    }
    if (g->chat && g->prompt == NULL) {
        fprintf(stderr, "agx: --chat needs --prompt\n");
        return EXIT_USAGE;
    }
    return ARGUMENT_GO_ON;
}

static int parse(struct generate *g, int argc, char **argv)
{
    struct agx_call *call = &g->call;
    const struct argument rows[] = {
        {"--prompt", "TEXT", ARGUMENT_TEXT, &g->prompt, 0, 0, "the prompt; '' sends BOS alone"},
        {"--ids", "1,2,3", ARGUMENT_IDS, &g->ids, 0, 0,
         "the prompt as token ids, sent as they are"},
        {"--max-tokens", "N", ARGUMENT_U32, &call->max_tokens, 1, INT32_MAX,
         "tokens at most (default: 128, or what fits)"},
        {"--temperature", "T", ARGUMENT_F32, &call->temperature, 0, 100, "0: greedy (default)"},
        {"--top-k", "K", ARGUMENT_U32, &call->top_k, 0, INT32_MAX, "0: off (default)"},
        {"--top-p", "P", ARGUMENT_F32, &call->top_p, 0, 1, "1: off (default)"},
        {"--min-p", "P", ARGUMENT_F32, &call->min_p, 0, 0.999, "0: off (default)"},
        {"--repeat-penalty", "R", ARGUMENT_F32, &call->repeat_penalty, 0.1, 10, "1: off (default)"},
        ADJUSTMENT_ROWS(call, g->adjustment),
        {"--seed", "S", ARGUMENT_U64, &call->seed, 0, 0, "same seed, same tokens (default 0)"},
        {"--stop", "TEXT", ARGUMENT_TEXTS, &g->stops, 0, AGX_STOP_TEXTS_MAX,
         "ends before TEXT; up to four"},
        {"--stop-id", "ID", ARGUMENT_IDS, &g->stop_ids, 0, 0,
         "ends after a token; a list, or again"},
        {"--ignore-eos", "", ARGUMENT_FLAG, &g->ignore_eos, 0, 0, "goes on after end of text"},
        {"--special", "", ARGUMENT_FLAG, &g->special, 0, 0,
         "special tokens in the prompt are tokens, not text"},
        {"--chat", "", ARGUMENT_FLAG, &g->chat, 0, 0,
         "the prompt is what a user says, in the model's chat format"},
        FORMAT_ROW(g->format_name),
        {"--no-bos", "", ARGUMENT_FLAG, &g->no_bos, 0, 0, "does not put BOS before the text"},
        {"--deadline-ms", "MS", ARGUMENT_U64, &g->deadline_ms, 0, 0,
         "ends the call after this time"},
        {"--program", "NAME", ARGUMENT_TEXT, &g->program, 0, 0,
         "the program that the call belongs to; it goes on (default: one of its own)"},
        CLASS_ROW(g->class_name),
        RETRY_ROW(g->retry, RETRY_OF_ONE),
        LOGPROBS_ROW(g->logprobs),
        {"--print-ids", "", ARGUMENT_FLAG, &g->print_ids, 0, 0, "token ids instead of text"},
        {"--stats", "", ARGUMENT_FLAG, &g->stats, 0, 0,
         "the terminal frame, and how the tokens came, on stderr"},
        {"--drafts", "", ARGUMENT_FLAG, &g->drafts, 0, 0, "what drafts brought, on stderr"},
    };
    const struct command_line line = {
        AGX_COMMAND("generate"), .usage = "(--prompt TEXT | --ids 1,2,3) [OPTION]...",
        .purpose =
        "Sends one call and prints what the model says as it comes: to a file or a pipe as it is,\n"
        "on a terminal with '.' for what could deceive it or its reader (controls, directions of\n"
        "text, invisible characters). `agx generate ... | cat` shows it unfiltered.",
        .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    int code = command_line_parse(&line, argc, argv);
    return code == ARGUMENT_GO_ON ? check(g) : code;
}

/* ARGUMENT_GO_ON or an exit code. */
static int fill_call(struct generate *g)
{
    struct agx_call *call = &g->call;
    call->call_id = dial_unique_call();         /* a named program remembers ids of earlier runs */
    call->want_logprobs = g->logprobs != LOGPROBS_NONE;
    call->top_logprobs = call->want_logprobs ? g->logprobs : 0;
    call->want_text = !g->print_ids && !call->want_logprobs;
    call->want_drafts = g->drafts;
    call->ignore_eos = g->ignore_eos;
    call->no_bos = g->no_bos;
    call->parse_special = g->special;
    call->prompt_ids = g->ids.ids;
    call->prompt_ids_count = g->ids.count;
    call->prompt_text = g->prompt;
    call->prompt_text_bytes = g->prompt != NULL ? strlen(g->prompt) : 0;
    call->stop_ids = g->stop_ids.ids;
    call->stop_ids_count = g->stop_ids.count;
    call->stop_texts_count = g->stops.count;
    memcpy(call->stop_texts, g->stops.texts, sizeof call->stop_texts);
    if (g->deadline_ms > UINT64_MAX / 1000) {
        fprintf(stderr, "agx: --deadline-ms: %" PRIu64 " is too large\n", g->deadline_ms);
        return EXIT_USAGE;
    }
    call->deadline_us = g->deadline_ms * 1000;
    g->retry.lot = call->seed ^ call->call_id;  /* differs from other clients with the same seed */
    g->dial.retry = &g->retry;
    printable_begin(&g->out, stdout);
    return ARGUMENT_GO_ON;
}

/* As many tokens as fit after a prompt of ids. A text may have fewer tokens than bytes, so for a
 * text the first guess is the highest, and refusals halve it. */
static void choose_max_tokens(struct generate *g)
{
    uint32_t context = g->dial.agx.welcome.context_tokens_max;
    g->default_max = g->call.max_tokens == 0;
    if (!g->default_max) {
        return;
    }
    uint32_t fits = g->ids.count < context ? context - g->ids.count : 1;
    g->call.max_tokens = fits < MAX_TOKENS_DEFAULT ? fits : MAX_TOKENS_DEFAULT;
}

/* ---- output ---------------------------------------------------------------------------------- */

static void print_tokens(struct generate *g, const struct agx_event *event)
{
    pace_add(&g->pace, event->tokens_count, dial_now_us());
    if (event->logprobs != NULL) {
        logprobs_print(event);
    } else if (!g->print_ids) {
        printable_add(&g->out, event->text, event->text_bytes);
    }
    bool ids_only = g->print_ids && event->logprobs == NULL;
    for (uint32_t i = 0; ids_only && i < event->tokens_count; i++) {
        printf("%s%" PRIu32, g->printed_ids++ > 0 ? " " : "", event->tokens[i]);
    }
    fflush(stdout);
}

static void print_end(struct generate *g, const struct agx_event *done)
{
    printable_end(&g->out);
    if (!g->call.want_logprobs && (g->print_ids || !g->out.is_raw)) {
        printf("\n");
        fflush(stdout);
    }
    if (g->stats) {
        fprintf(stderr, "finish=%s prompt=%" PRIu32 " cached=%" PRIu32 " generated=%" PRIu32
                " preemptions=%" PRIu32 " wait_us=%" PRIu64 " service_us=%" PRIu64
                " total_us=%" PRIu64, agx_finish_text(done->finish), done->prompt_tokens,
                done->cached_tokens, done->generated_tokens, done->preemptions, done->wait_us,
                done->service_us, done->total_us);
        pace_print(&g->pace, stderr);
    }
    if (g->drafts) {
        fprintf(stderr, "%sdrafted=%" PRIu32 " agreed=%" PRIu32, g->stats ? " " : "",
                done->draft_tokens, done->draft_tokens_agreed);
    }
    if (g->stats || g->drafts) {
        fprintf(stderr, "\n");
    }
}

/* ---- chat ------------------------------------------------------------------------------------ */

/* With --chat: puts the prompt into the model's chat format. EXIT_COMPLETE, or an exit code after a
 * message. */
static int put_into_format(struct generate *g)
{
    struct agx_call *call = &g->call;
    struct chat_format format;
    struct chat_output output;
    char date[16] = "";
    if (!g->chat) {
        return EXIT_COMPLETE;
    }
    int code = format_choose(&g->dial, g->format_name, &format);
    if (code != EXIT_COMPLETE) {
        return code;
    }
    if (chat_format_has_date(format.id)) {
        format_today(date);
    }
    const struct chat chat = {.date = {date, (uint32_t)strlen(date)}};
    if (!history_add(&g->history, CHAT_USER, g->prompt, (uint32_t)strlen(g->prompt)) ||
        history_render(&g->history, &format, chat, &output) != CHAT_OK) {
        fprintf(stderr, "agx: the prompt is too long\n");
        return EXIT_SYSTEM;
    }
    call->prompt_text = output.text;
    call->prompt_text_bytes = output.text_bytes;
    call->prompt_parts = output.parts;
    call->prompt_parts_count = output.parts_count;
    call->parse_special = call->no_bos = 1;
    const char *stop = chat_format_stop(format.id);
    if (stop != NULL && call->stop_texts_count < AGX_STOP_TEXTS_MAX) {
        call->stop_texts[call->stop_texts_count++] = stop;
    }
    return EXIT_COMPLETE;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* ARGUMENT_GO_ON: send the call again, either with fewer tokens or after the pause of a busy
 * answer. */
static int refused(struct generate *g)
{
    const struct agx_fault *fault = agx_fault(&g->dial.agx);
    if (fault->code == CODE_PROMPT_LENGTH && g->default_max && g->call.max_tokens > 1) {
        g->call.max_tokens /= 2;
        return ARGUMENT_GO_ON;
    }
    return fault->is_busy && retry_wait(&g->retry, fault, &g->tries) ? ARGUMENT_GO_ON
                                                                     : dial_refused(fault);
}

static int stream(struct generate *g)
{
    struct agx_event event;
    pace_start(&g->pace, dial_now_us());
    enum agx_result result = agx_call_start(&g->dial.agx, &g->call);
    if (result != AGX_OK) {
        return dial_fail(&g->dial.agx, result, "call");
    }
    while ((result = dial_next(&g->dial, &event, -1)) == AGX_OK) {
        if (event.kind == AGX_TOKENS) {
            print_tokens(g, &event);
        } else if (event.kind == AGX_REFUSED) {
            return refused(g);
        } else if (event.kind == AGX_DONE) {
            print_end(g, &event);
            return dial_finished(&event);
        }
    }
    return dial_fail(&g->dial.agx, result, "call");
}

static int run(struct generate *g)
{
    int code = put_into_format(g);
    code = code == EXIT_COMPLETE ? dial_program_start(&g->dial, g->call.program_id,
                                                         g->class_name) : code;
    if (code != EXIT_COMPLETE) {
        return code;
    }
    choose_max_tokens(g);
    do {
        code = stream(g);
    } while (code == ARGUMENT_GO_ON);
    if (g->program == NULL && agx_is_open(&g->dial.agx)) {
        int ended = dial_program_end(&g->dial, g->call.program_id);
        code = code == EXIT_COMPLETE ? ended : code;
    }
    return code;
}

static int connect_and_run(struct generate *g, const char *to)
{
    if (g->program != NULL) {
        agx_program_id(g->program, g->call.program_id);
    } else {
        dial_unique_id("generate", g->call.program_id);
    }
    int code = dial_open(&g->dial, to, g->call.prompt_text_bytes + 4 * (size_t)g->ids.count);
    if (code == EXIT_COMPLETE) {
        code = run(g);
        agx_close(&g->dial.agx);
    }
    retry_report(&g->retry);
    if (ferror(stdout) != 0 || fflush(stdout) != 0) {
        fprintf(stderr, "agx: cannot write the output\n");
        return EXIT_SYSTEM;
    }
    return code;
}

int generate_main(const char *to, int argc, char **argv)
{
    struct generate g = {.logprobs = LOGPROBS_NONE, .retry = {.tries_max = RETRY_OF_ONE}};
    int code = parse(&g, argc, argv);
    code = code == ARGUMENT_GO_ON ? adjustment_fill(&g.adjustment, &g.call) : code;
    code = code == ARGUMENT_GO_ON ? fill_call(&g) : code;
    code = code == ARGUMENT_GO_ON ? connect_and_run(&g, to) : code;
    history_free(&g.history);
    free(g.dial.buffer);
    free(g.ids.ids);
    free(g.stop_ids.ids);
    return code;
}
