/* SPDX-License-Identifier: MIT */
/*
 * What: `agx replay TRACE`: programs arrive as the trace says, their calls follow each other as the
 * trace says, and every call asks for exactly as many tokens; then the report.
 */
#include "tools/agx/replay.h"

#include <stdio.h>
#include <stdlib.h>

#include "tools/agx/option.h"

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
            fprintf(stderr, "agx: %s: cannot be written\n", replay->json);
            return EXIT_SYSTEM;
        }
    }
    return measure->failed > 0 ? EXIT_INCOMPLETE : EXIT_COMPLETE;
}

/* ---- command line ---------------------------------------------------------------------------- */

static int parse(struct replay *replay, int argc, char **argv)
{
    const struct option_row rows[] = {
        {"--programs", "N", OPTION_U32, &replay->programs, 1, 1 << 24,
         "the first N; more than it has: it repeats (default: all)"},
        {"--rate", "R", OPTION_F64, &replay->rate, 1e-6, 1e6,
         "arrivals, programs a second (default: the trace's)"},
        {"--token-scale", "F", OPTION_F64, &replay->token_scale, 1e-6, 1e3,
         "times every count of tokens, at least 1 stays (default 1)"},
        {"--gap-scale", "F", OPTION_F64, &replay->gap_scale, 0, 1e3,
         "times every tool gap (default 1)"},
        RETRY_ROW(replay->retry, RETRY_OF_MANY),
        {"--seed", "S", OPTION_U64, &replay->retry.lot, 0, 0,
         "of the pauses after busy answers (default 0)"},
        {"--json", "FILE", OPTION_TEXT, &replay->json, 0, 0, "the report as one JSON object"},
    };
    const struct option_table table = {
        "replay TRACE [OPTION]...",
        "Replays a trace of programs (format `agentix-trace 1`) and reports program-level token\n"
        "latency, throughput, waiting and service. A program's latency is the response time along\n"
        "its critical path, tool gaps left out, for each token of all its calls; the mean is that\n"
        "of the programs. Prompts longer than the context lose their front; an output is at most\n"
        "half the context.", &replay->path, rows,
        sizeof rows / sizeof rows[0], NULL};
    return option_parse(&table, argc, argv);
}

static void choose_load(struct replay *replay)
{
    uint32_t count = replay->trace.programs_count;
    replay->programs = replay->programs != 0 ? replay->programs : count;
    replay->runs_count = replay->programs;
    if (replay->rate == 0) {
        double natural = replay_natural_rate(&replay->trace,
                                      replay->programs < count ? replay->programs : count);
        replay->rate = natural > 0 ? natural : 1;
    }
}

static void release(struct replay *replay)
{
    lanes_free(&replay->lanes);
    timer_free(&replay->timer);
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
    if (code != OPTION_GO_ON) {
        return code;
    }
    code = trace_load(&replay.trace, replay.path);
    if (code != EXIT_COMPLETE) {
        return code;
    }
    choose_load(&replay);
    code = replay_prepare(&replay, to);
    if (code == EXIT_COMPLETE) {
        replay_run(&replay);
        code = replay.code;
    }
    if (code == EXIT_COMPLETE) {
        code = report(&replay);
    }
    release(&replay);
    return code;
}
