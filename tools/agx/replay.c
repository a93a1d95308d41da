/* SPDX-License-Identifier: MIT */
/*
 * What: `agx replay TRACE`: programs arrive and calls follow each other as the trace says, and
 * every call asks for exactly as many tokens as in the trace. The report comes at the end.
 */
#include "tools/agx/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX (1u << 26)

static int out_of_memory(void)
{
    fprintf(stderr, "agx: out of memory\n");
    return EXIT_SYSTEM;
}

static int report(struct replay *replay)
{
    struct measure *measure = &replay->measure;
    measure->trace = replay->path;
    measure->rate = replay->rate;
    measure->token_scale = replay->token_scale;
    measure->gap_scale = replay->gap_scale;
    measure->busy = replay->retry.waits;
    measure_close(measure);
    measure_print(measure, stdout);
    if (replay->json != NULL) {
        FILE *file = fopen(replay->json, "w");
        if (file != NULL) {
            measure_print_json(measure, file);
        }
        if (file == NULL || fclose(file) != 0) {
            fprintf(stderr, "agx: %s: cannot be written: %s\n", replay->json, strerror(errno));
            return EXIT_SYSTEM;
        }
    }
    return measure->failed > 0 ? EXIT_INCOMPLETE : EXIT_COMPLETE;
}

static int open_log(struct replay *replay)
{
    if (replay->calls_path == NULL) {
        return EXIT_COMPLETE;
    }
    replay->calls_log = fopen(replay->calls_path, "w");
    if (replay->calls_log == NULL) {
        fprintf(stderr, "agx: %s: cannot be written: %s\n", replay->calls_path, strerror(errno));
        return EXIT_SYSTEM;
    }
    return EXIT_COMPLETE;
}

static int close_log(struct replay *replay)
{
    bool failed = replay->calls_log != NULL && ferror(replay->calls_log) != 0;
    if (replay->calls_log != NULL && (fclose(replay->calls_log) != 0 || failed)) {
        fprintf(stderr, "agx: %s: not all could be written\n", replay->calls_path);
        return EXIT_SYSTEM;
    }
    return EXIT_COMPLETE;
}

/* ---- command line ---------------------------------------------------------------------------- */

static int parse(struct replay *replay, int argc, char **argv)
{
    const struct argument rows[] = {
        {"--form", "NAME", ARGUMENT_TEXT, &replay->options.form, 0, 0,
         TRACE_FORMS "\n(default: the one that the file has; docs/traces.md)"},
        {"--context-max", "TOKENS", ARGUMENT_U32, &replay->options.context_max, 1, UINT32_MAX,
         "leave out programs with a longer prompt and output"},
        {"--programs", "N", ARGUMENT_U32, &replay->programs, 1, 1 << 24,
         "the first N; more than it has: it repeats (default: all)"},
        {"--rate", "R", ARGUMENT_F64, &replay->rate, 1e-6, 1e6,
         "arrivals, programs a second (default: the trace's)"},
        {"--sessions", "N", ARGUMENT_U32, &replay->sessions, 1, 1 << 20,
         "a closed load: N programs are open, and a new one starts\nwhen one ends"},
        {"--pool", "N", ARGUMENT_U32, &replay->pool, 1, LANES_MAX,
         "N connections, each with an affinity key of its own: a program's\n"
         "calls all take the same one (docs/fleet.md)"},
        {"--token-scale", "F", ARGUMENT_F64, &replay->token_scale, 1e-6, 1e3,
         "times every count of tokens, at least 1 stays (default 1)"},
        {"--gap-scale", "F", ARGUMENT_F64, &replay->gap_scale, 0, 1e3,
         "times every tool gap (default 1)"},
        {"--gap-max", "SECONDS", ARGUMENT_F64, &replay->gap_s_max, 1e-6, 1e9,
         "a gap is no longer than this, before it is scaled"},
        RETRY_ROW(replay->retry, RETRY_OF_MANY),
        {"--seed", "S", ARGUMENT_U64, &replay->retry.lot, 0, 0,
         "of the pauses after busy answers (default 0)"},
        {"--json", "FILE", ARGUMENT_TEXT, &replay->json, 0, 0, "the report as one JSON object"},
        {"--calls-out", "FILE", ARGUMENT_TEXT, &replay->calls_path, 0, 0,
         "a line of JSON for each call, for tools/predict/calls.py"},
    };
    const struct command_line line = {
        AGX_COMMAND("replay"), .usage = "TRACE [OPTION]...",
        .purpose =
        "Replays a trace of programs (`agentix-trace 1`, or a form of others) and reports\n"
        "program-level token latency, throughput, waiting and service, and what other benchmarks\n"
        "report. A program's latency is the response time along its critical path, tool gaps left\n"
        "out, for each token of all its calls; the mean is that of the programs. Prompts longer\n"
        "than the context lose their front; an output is at most half the context. Programs are\n"
        "of the trace's classes.",
        .operand = &replay->path, .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    int code = command_line_parse(&line, argc, argv);
    if (code == ARGUMENT_GO_ON && replay->sessions > 0 && replay->rate > 0) {
        fprintf(stderr, "agx: --sessions is another load than --rate\n");
        return EXIT_USAGE;
    }
    return code;
}

/* ---- before the first arrival ---------------------------------------------------------------- */

static int start_player(struct replay *replay)
{
    struct player_settings settings = {.programs = replay->programs, .calls_max = CALLS_MAX,
                                       .sessions = replay->sessions, .rate = replay->rate,
                                       .gap_scale = replay->gap_scale,
                                       .gap_s_max = replay->gap_s_max};
    enum player_start start = player_init(&replay->player, &replay->trace, &settings);
    if (start == PLAYER_TOO_MANY_CALLS) {
        fprintf(stderr, "agx: --programs: %" PRIu64 " calls are too many\n",
                player_calls(&replay->trace, replay->programs));
        return EXIT_USAGE;
    }
    return start == PLAYER_READY ? EXIT_COMPLETE : out_of_memory();
}

static int start_measure(struct replay *replay)
{
    uint32_t programs = replay->player.runs_count;
    if (!sessions_fit(replay->sessions, programs)) {
        fprintf(stderr, "agx: --sessions: %" PRIu32 " programs are too few for %" PRIu32 " "
                "sessions: three for each are needed, the middle is measured;\nagx: "
                "--programs N repeats those of the file\n", programs, replay->sessions);
        return EXIT_USAGE;
    }
    int code = measure_init(&replay->measure, programs, replay->player.calls_count);
    sessions_init(&replay->measure.sessions, replay->sessions, programs);
    return code;
}

/* Room for every token that will be generated. */
static int take_outputs(struct replay *replay)
{
    uint32_t calls = replay->player.calls_count;
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < calls; i++) {
        tokens += replay->book.out[player_traced(&replay->player, i)];
    }
    replay->outputs = calloc(calls, sizeof *replay->outputs);
    replay->output_tokens = calloc(tokens, sizeof *replay->output_tokens);
    if (replay->outputs == NULL || replay->output_tokens == NULL) {
        return out_of_memory();
    }
    uint32_t *next = replay->output_tokens;
    for (uint32_t i = 0; i < calls; i++) {
        replay->outputs[i] = next;
        next += replay->book.out[player_traced(&replay->player, i)];
    }
    return EXIT_COMPLETE;
}

static int prepare_runs(struct replay *replay)
{
    uint32_t runs = replay->player.runs_count;
    replay->runs = calloc(runs, sizeof *replay->runs);
    replay->calls = calloc(replay->player.calls_count, sizeof *replay->calls);
    replay->prompt = calloc(replay->book.limits.context_tokens, sizeof *replay->prompt);
    if (replay->runs == NULL || replay->calls == NULL || replay->prompt == NULL) {
        return out_of_memory();
    }
    for (uint32_t i = 0; i < runs; i++) {
        char name[32];
        snprintf(name, sizeof name, "replay %" PRIu32, i);
        dial_unique_id(name, replay->runs[i].program_id);
    }
    return take_outputs(replay);
}

/* Connects and takes all memory, except for the buffers of lanes. */
static int prepare(struct replay *replay, const char *to)
{
    struct agx_welcome welcome;
    int code = lanes_init(&replay->lanes, to, &replay->retry, &welcome);
    if (code != EXIT_COMPLETE) {
        return code;
    }
    if (replay->pool > 0) {
        code = lanes_make_pool(&replay->lanes, replay->pool);
        if (code != EXIT_COMPLETE) {
            return code;
        }
    }
    struct prompt_limits limits = {
        .token_scale = replay->token_scale, .context_tokens = welcome.context_tokens_max,
        /* The fixed part of a CALL frame is below 256 bytes. */
        .prompt_tokens_max = (welcome.frame_bytes_max - 256) / 4,
        .vocab_tokens = welcome.vocab_tokens, .bos_id = welcome.bos_id, .eos_id = welcome.eos_id};
    code = prompt_book_init(&replay->book, &replay->trace, &limits);
    code = code == EXIT_COMPLETE ? start_player(replay) : code;
    code = code == EXIT_COMPLETE ? start_measure(replay) : code;
    return code == EXIT_COMPLETE ? prepare_runs(replay) : code;
}

static void release(struct replay *replay)
{
    lanes_free(&replay->lanes);
    player_free(&replay->player);
    measure_free(&replay->measure);
    prompt_book_free(&replay->book);
    trace_free(&replay->trace);
    free(replay->runs);
    free(replay->calls);
    free(replay->outputs);
    free(replay->output_tokens);
    free(replay->prompt);
}

int replay_main(const char *to, int argc, char **argv)
{
    static struct replay replay;    /* zeroed; too large for a stack */
    replay.token_scale = replay.gap_scale = 1;
    replay.retry.tries_max = RETRY_OF_MANY;
    int code = parse(&replay, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    code = trace_load(&replay.trace, replay.path, &replay.options);
    if (code != EXIT_COMPLETE) {
        return code;
    }
    if (replay.rate == 0 && replay.sessions == 0) {
        double natural = player_natural_rate(&replay.trace, replay.programs);
        replay.rate = natural > 0 ? natural : 1;
    }
    code = open_log(&replay);
    code = code == EXIT_COMPLETE ? prepare(&replay, to) : code;
    if (code == EXIT_COMPLETE) {
        replay_run(&replay);
        code = replay.code;
    }
    if (code == EXIT_COMPLETE) {
        code = report(&replay);
    }
    int closed = close_log(&replay);
    release(&replay);
    return code == EXIT_COMPLETE ? closed : code;
}
