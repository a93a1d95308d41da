/* SPDX-License-Identifier: MIT */
/*
 * What: `agx chat`: a conversation with the model, from a terminal or from a file.
 *
 * The whole conversation is one program of the appliance: its KV is found again at each turn, and
 * the scheduler sees one client that waits between short calls.
 *
 * Invariant: the history holds whole turns. A question that got no answer is taken back.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/utf8.h"
#include "tools/agx/chat/answer.h"
#include "tools/agx/chat/format.h"
#include "tools/agx/chat/history.h"
#include "tools/agx/printable.h"

#define CODE_PROMPT_LENGTH 28       /* docs/protocol.md: prompt and max_tokens do not fit */
#define ANSWER_TOKENS      1024     /* of one answer, without --max-tokens */
#define ANSWER_TOKENS_LEAST 32      /* with less room, the oldest turn goes */

struct chat_command {
    struct dial dial;
    struct retry retry;
    struct agx_call call;
    const char *system, *class_name, *format_name;
    bool has_temperature, no_think;
    float temperature;
    bool to_terminal;               /* both sides are one */
    struct chat_format format;
    char date[16];
    struct history history;
    struct line line;
    struct answer answer;
    uint32_t turns;
    int code;                       /* of the last failure */
};

static int parse(struct chat_command *c, int argc, char **argv)
{
    static char more[4096];
    struct agx_call *call = &c->call;
    c->temperature = -1;
    const struct argument rows[] = {
        {"--system", "TEXT", ARGUMENT_TEXT, &c->system, 0, 0, "the system message"},
        CLASS_ROW(c->class_name),
        FORMAT_ROW(c->format_name),
        {"--no-think", "", ARGUMENT_FLAG, &c->no_think, 0, 0,
         "answers at once, where the format can ask for that"},
        {"--max-tokens", "N", ARGUMENT_U32, &call->max_tokens, 1, INT32_MAX,
         "tokens of an answer at most (default: 1024, or what fits)"},
        {"--temperature", "T", ARGUMENT_F32, &c->temperature, 0, 100,
         "0: greedy (default: 0.7; without a chat template 0)"},
        {"--top-k", "K", ARGUMENT_U32, &call->top_k, 0, INT32_MAX, "0: off (default)"},
        {"--top-p", "P", ARGUMENT_F32, &call->top_p, 0, 1, "1: off (default 0.95)"},
        {"--min-p", "P", ARGUMENT_F32, &call->min_p, 0, 0.999, "0: off (default)"},
        {"--repeat-penalty", "R", ARGUMENT_F32, &call->repeat_penalty, 0.1, 10,
         "1: off (default)"},
        {"--seed", "S", ARGUMENT_U64, &call->seed, 0, 0,
         "same seed, same answers (default: random)"},
        RETRY_ROW(c->retry, RETRY_OF_ONE),
    };
    const struct command_line line = {
        AGX_COMMAND("chat"), .usage = "[OPTION]...", .more = more,
        .purpose = "Talks with the model: a line is a question, /help lists commands. Ctrl-C\n"
                   "stops an answer, Ctrl-D ends.",
        .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    format_list(more, sizeof more);
    call->seed = dial_unique_call();
    call->top_p = 0.95f;
    return command_line_parse(&line, argc, argv);
}

/* ---- one turn -------------------------------------------------------------------------------- */

static void say(const struct chat_command *c, const char *words)
{
    fprintf(stderr, c->to_terminal ? "\033[2m-- %s\033[0m\n" : "agx: %s\n", words);
}

static void fail(struct chat_command *c, const char *words, int code)
{
    say(c, words);
    c->code = c->to_terminal ? c->code : code;      /* a person has seen it */
}

/* True when the call may be sent again: it asks for less, or the history is shorter. */
static bool make_it_fit(struct chat_command *c, const struct agx_fault *fault)
{
    uint64_t prompt = fault->found - c->call.max_tokens;
    uint64_t room = prompt < fault->max ? fault->max - prompt : 0;
    uint32_t least = c->call.max_tokens < ANSWER_TOKENS_LEAST ? c->call.max_tokens
                                                              : ANSWER_TOKENS_LEAST;
    if (room >= least && room < c->call.max_tokens) {
        c->call.max_tokens = (uint32_t)room;
        return true;
    }
    if (!history_drop_oldest(&c->history)) {
        fail(c, "the message does not fit the model's context", EXIT_REFUSED);
        return false;
    }
    say(c, "the context is full: the oldest turn was dropped");
    return true;
}

static bool try_again(struct chat_command *c, uint32_t *tries)
{
    const struct agx_fault *fault = agx_fault(&c->dial.agx);
    if (fault->code == CODE_PROMPT_LENGTH) {
        return make_it_fit(c, fault);
    }
    if (fault->is_busy && retry_wait(&c->retry, fault, tries)) {
        return true;
    }
    c->code = dial_refused(fault);
    return false;
}

/* ANSWER_REFUSED: a message was printed. */
static enum answer_kind ask(struct chat_command *c)
{
    const struct chat chat = {.date = {c->date, (uint32_t)strlen(c->date)},
                              .no_thinking = c->no_think};
    uint32_t wanted = c->call.max_tokens, tries = 0;
    enum answer_kind kind;
    do {
        struct chat_output output;
        enum chat_result result = history_render(&c->history, &c->format, chat, &output);
        if (result != CHAT_OK) {
            fail(c, chat_result_text(result), EXIT_USAGE);
            return ANSWER_REFUSED;
        }
        c->call.call_id = dial_unique_call();
        c->call.prompt_text = output.text;
        c->call.prompt_text_bytes = output.text_bytes;
        c->call.prompt_parts = output.parts;
        c->call.prompt_parts_count = output.parts_count;
        kind = answer_take(&c->answer, &c->dial, &c->call, &c->line, &c->code);
    } while (kind == ANSWER_REFUSED && try_again(c, &tries));
    c->call.max_tokens = wanted;
    return kind;
}

static void tell_end(struct chat_command *c)
{
    const struct agx_event *done = &c->answer.done;
    if (done->finish == AGX_FINISH_LENGTH) {
        say(c, "the answer is cut off here: --max-tokens, or the end of the context");
    } else if (done->finish == AGX_FINISH_CANCELLED) {
        say(c, c->answer.bytes > 0 ? "stopped" : "stopped; the question is taken back");
    } else if (done->finish > AGX_FINISH_STOP_TEXT) {
        c->code = dial_finished(done);
    }
}

/* False: the connection has ended. */
static bool take_turn(struct chat_command *c, const char *question)
{
    uint32_t bytes = (uint32_t)strlen(question);
    if (!utf8_is_valid(question, bytes)) {
        fail(c, "the message is not UTF-8", EXIT_USAGE);
        return true;
    }
    if (!history_add(&c->history, CHAT_USER, question, bytes)) {
        fail(c, "out of memory", EXIT_SYSTEM);
        return false;
    }
    enum answer_kind kind = ask(c);
    bool has_answer = kind == ANSWER_DONE && c->answer.bytes > 0;
    if (kind == ANSWER_DONE) {
        puts(c->to_terminal && c->answer.done.finish <= AGX_FINISH_STOP_TEXT ? "\n" : "");
        fflush(stdout);
        tell_end(c);
        c->turns++;
    }
    if (!has_answer) {
        history_take_back(&c->history);
    } else if (!history_add(&c->history, CHAT_ASSISTANT, c->answer.text, c->answer.bytes)) {
        fail(c, "out of memory", EXIT_SYSTEM);
        return false;
    }
    return kind != ANSWER_BROKEN;
}

/* ---- commands -------------------------------------------------------------------------------- */

static void help(struct chat_command *c, const char *rest)
{
    (void)rest;
    (void)c;
    fputs("/help           this list\n"
          "/stats          how the last answer came\n"
          "/system TEXT    sets the system message; without TEXT removes it\n"
          "/clear          forgets the conversation, but for the system message\n"
          "/quit           ends, as Ctrl-D does\n"
          "Ctrl-C stops an answer; what was said so far stays. A line that ends with \\ goes on\n"
          "in the next one. A message that begins with / is written with //.\n", stdout);
}

static void stats(struct chat_command *c, const char *rest)
{
    const struct agx_event *done = &c->answer.done;
    const struct pace *pace = &c->answer.pace;
    (void)rest;
    if (c->turns == 0) {
        puts("no answer yet");
        return;
    }
    printf("prompt          %" PRIu32 " tokens, of which %" PRIu32 " were cached\n"
           "answer          %" PRIu32 " tokens, %s\n", done->prompt_tokens, done->cached_tokens,
           done->generated_tokens, agx_finish_text(done->finish));
    if (pace->tokens > 0) {
        double first_us = (double)(pace->first_us - pace->start_us);
        printf("first token     after %.0f ms\n", first_us / 1e3);
    }
    if (pace->last_us > pace->first_us) {
        printf("between tokens  %.1f ms on average, %.1f ms in 99 of 100 cases\n"
               "speed           %.1f tokens/s after the first\n",
               (double)pace_between_us_mean(pace) / 1e3, (double)pace_between_us_p99(pace) / 1e3,
               pace_tokens_per_s(pace));
    }
    printf("appliance       %.1f ms in steps, %.1f ms in queues, queue %" PRIu32 ", preempted %"
           PRIu32 " times\n"
           "context         %" PRIu32 " of %" PRIu32 " tokens, %" PRIu32 " turns so far\n",
           (double)done->service_us / 1e3, (double)done->wait_us / 1e3, done->queue,
           done->preemptions, done->prompt_tokens + done->generated_tokens,
           c->dial.agx.welcome.context_tokens_max, c->turns);
}

static void set_system(struct chat_command *c, const char *rest)
{
    if (!utf8_is_valid(rest, (uint32_t)strlen(rest))) {
        say(c, "the message is not UTF-8");
    } else if (!history_set_system(&c->history, rest)) {
        fail(c, "out of memory", EXIT_SYSTEM);
    } else {
        say(c, *rest != '\0' ? "the system message is set" : "there is no system message");
    }
}

static void clear(struct chat_command *c, const char *rest)
{
    (void)rest;
    history_clear(&c->history);
    say(c, "the conversation begins anew");
}

static const struct {
    const char *name;
    void (*run)(struct chat_command *c, const char *rest);
} commands[] = {
    {"/help", help}, {"/stats", stats}, {"/system", set_system}, {"/clear", clear},
};

static void run_command(struct chat_command *c, const char *text)
{
    size_t name_bytes = strcspn(text, " \t");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strlen(commands[i].name) == name_bytes &&
            memcmp(commands[i].name, text, name_bytes) == 0) {
            commands[i].run(c, text + name_bytes + strspn(text + name_bytes, " \t"));
            fflush(stdout);
            return;
        }
    }
    fail(c, "there is no such command; /help lists them", EXIT_USAGE);
}

/* ---- the conversation ------------------------------------------------------------------------ */

/* False: it ends. */
static bool take_line(struct chat_command *c)
{
    char *text;
    if (c->to_terminal) {
        fputs("> ", stdout);
        fflush(stdout);
    }
    enum line_kind kind = line_read(&c->line, &text);
    if (kind == LINE_INTERRUPTED && c->to_terminal) {
        puts("");
        say(c, "Ctrl-D ends");
        return true;
    }
    if (kind != LINE_TEXT) {
        c->code = kind == LINE_FAILED ? EXIT_SYSTEM
                  : kind == LINE_INTERRUPTED ? EXIT_INCOMPLETE : c->code;
        fputs(c->to_terminal ? "\n" : "", stdout);
        return false;
    }
    if (strcmp(text, "/quit") == 0) {
        return false;
    }
    if (*text == '/' && text[1] != '/') {
        run_command(c, text);
        return true;
    }
    return *text == '\0' || take_turn(c, *text == '/' ? text + 1 : text);
}

static void greet(const struct chat_command *c)
{
    char model[96];
    if (!c->to_terminal) {
        return;
    }
    printable_line(c->dial.agx.welcome.model, model, sizeof model);
    printf("%s, chat format %s, %" PRIu32 " tokens of context.\n"
           "/help lists commands, Ctrl-C stops an answer, Ctrl-D ends.\n",
           *model != '\0' ? model : "a model without a name", chat_format_name(c->format.id),
           c->dial.agx.welcome.context_tokens_max);
}

static void fill_call(struct chat_command *c)
{
    struct agx_call *call = &c->call;
    uint32_t half = c->dial.agx.welcome.context_tokens_max / 2;
    bool is_plain = c->format.id == CHAT_PLAIN;
    call->want_text = call->parse_special = call->no_bos = 1;
    call->temperature = c->temperature >= 0 ? c->temperature : is_plain ? 0.0f : 0.7f;
    if (call->max_tokens == 0) {
        call->max_tokens = half < ANSWER_TOKENS && half > 0 ? half : ANSWER_TOKENS;
    }
    call->stop_texts[0] = chat_format_stop(c->format.id);
    call->stop_texts_count = call->stop_texts[0] != NULL;
    if (chat_format_has_date(c->format.id)) {
        format_today(c->date);
    }
}

static int converse(struct chat_command *c)
{
    int code = format_choose(&c->dial, c->format_name, &c->format);
    if (code != EXIT_COMPLETE) {
        return code;
    }
    fill_call(c);
    code = dial_program_start(&c->dial, c->call.program_id, c->class_name);
    if (code != EXIT_COMPLETE) {
        return code;
    }
    if (c->system != NULL) {
        set_system(c, c->system);
    }
    greet(c);
    while (take_line(c)) {
    }
    if (agx_is_open(&c->dial.agx)) {
        code = dial_program_end(&c->dial, c->call.program_id);
    }
    return c->code != EXIT_COMPLETE ? c->code : code;
}

int chat_main(const char *to, int argc, char **argv)
{
    static struct chat_command c = {.retry = {.tries_max = RETRY_OF_ONE}};
    int code = parse(&c, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    c.dial.retry = &c.retry;
    printable_begin(&c.answer.out, stdout);
    c.to_terminal = !c.answer.out.is_raw && isatty(STDIN_FILENO);
    if (agx_unique_id(c.call.program_id) != AGX_OK || !line_init(&c.line)) {
        fprintf(stderr, "agx: the system gives no random numbers, or no signals\n");
        return EXIT_SYSTEM;
    }
    code = dial_open(&c.dial, to, 1u << 20);
    if (code == EXIT_COMPLETE) {
        code = converse(&c);
        agx_close(&c.dial.agx);
    }
    retry_report(&c.retry);
    history_free(&c.history);
    free(c.answer.text);
    free(c.line.bytes);
    free(c.dial.buffer);
    return code;
}
