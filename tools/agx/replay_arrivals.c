/* SPDX-License-Identifier: MIT */
/*
 * What: the runs of a replay before the first one arrives: which program, when, which calls, and
 * room for every token that will be generated. All memory of a replay is taken here, but for the
 * buffers of lanes.
 */
#include "tools/agx/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/base/assert.h"

#define CALLS_MAX (1u << 26)

double replay_natural_rate(const struct trace *trace, uint32_t count)
{
    uint64_t span_us = trace->programs[count - 1].arrival_us - trace->programs[0].arrival_us;
    return span_us > 0 ? (double)(count - 1) * 1e6 / (double)span_us : 0;
}

/* The trace repeats with fresh programs when more are wanted than it has. */
static uint64_t arrival_us(const struct replay *replay, uint32_t run)
{
    const struct trace *trace = &replay->trace;
    uint32_t count = replay->programs < trace->programs_count ? replay->programs
                                                              : trace->programs_count;
    double natural = replay_natural_rate(trace, count), mean_us = 1e6 / replay->rate;
    if (natural == 0) {
        return (uint64_t)(run * mean_us);
    }
    uint64_t offset = trace->programs[run % count].arrival_us - trace->programs[0].arrival_us;
    return (uint64_t)((double)offset * natural / replay->rate + run / count * (count * mean_us));
}

static void prepare_run(struct replay *replay, uint32_t index, uint32_t *calls_first,
                        uint64_t *tokens_first)
{
    const struct trace *trace = &replay->trace;
    struct replay_run *run = &replay->runs[index];
    char name[32];
    run->program = &trace->programs[index % trace->programs_count];
    run->calls_first = *calls_first;
    run->calls_left = run->program->calls_count;
    run->arrival_us = arrival_us(replay, index);
    snprintf(name, sizeof name, "replay %" PRIu32, index);
    dial_unique_id(name, run->program_id);
    for (uint32_t n = 0; n < run->calls_left; n++) {
        const struct trace_call *traced = &trace->calls[run->program->calls_first + n];
        struct replay_call *call = &replay->calls[*calls_first + n];
        *call = (struct replay_call){.run = index, .number = n,
                                     .blocked_by = traced->after_count};
        replay->outputs[*calls_first + n] = replay->output_tokens + *tokens_first;
        *tokens_first += replay->book.out[run->program->calls_first + n];
        if (traced->after_count == 0) {
            call->place = REPLAY_TIMED;
            call->due_us = run->arrival_us +
                           (uint64_t)((double)traced->gap_us * replay->gap_scale);
            timer_push(&replay->timer, call->due_us, *calls_first + n);
        }
    }
    *calls_first += run->calls_left;
}

static int take_memory(struct replay *replay, uint64_t tokens)
{
    replay->runs = calloc(replay->runs_count, sizeof *replay->runs);
    replay->calls = calloc(replay->calls_count, sizeof *replay->calls);
    replay->outputs = calloc(replay->calls_count, sizeof *replay->outputs);
    replay->output_tokens = calloc(tokens, sizeof *replay->output_tokens);
    replay->prompt = calloc(replay->book.limits.context_tokens, sizeof *replay->prompt);
    if (replay->runs == NULL || replay->calls == NULL || replay->outputs == NULL ||
        replay->output_tokens == NULL || replay->prompt == NULL) {
        fprintf(stderr, "agx: out of memory\n");
        return EXIT_SYSTEM;
    }
    return timer_init(&replay->timer, replay->calls_count);
}

static int prepare_runs(struct replay *replay)
{
    const struct trace *trace = &replay->trace;
    uint64_t calls = 0, tokens = 0, tokens_first = 0;
    uint32_t calls_first = 0;
    for (uint32_t i = 0; i < replay->runs_count; i++) {
        const struct trace_program *program = &trace->programs[i % trace->programs_count];
        calls += program->calls_count;
        for (uint32_t n = 0; n < program->calls_count; n++) {
            tokens += replay->book.out[program->calls_first + n];
        }
    }
    if (calls > CALLS_MAX) {
        fprintf(stderr, "agx: --programs: %" PRIu64 " calls are too many\n", calls);
        return EXIT_USAGE;
    }
    replay->calls_count = (uint32_t)calls;
    int code = take_memory(replay, tokens);
    if (code != EXIT_COMPLETE) {
        return code;
    }
    for (uint32_t i = 0; i < replay->runs_count; i++) {
        prepare_run(replay, i, &calls_first, &tokens_first);
    }
    ASSERT(calls_first == replay->calls_count && tokens_first == tokens);
    replay->runs_left = replay->runs_count;
    return EXIT_COMPLETE;
}

int replay_prepare(struct replay *replay, const char *to)
{
    struct agx_welcome welcome;
    int code = lanes_init(&replay->lanes, to, &replay->retry, &welcome);
    if (code != EXIT_COMPLETE) {
        return code;
    }
    struct prompt_limits limits = {
        .token_scale = replay->token_scale, .context_tokens = welcome.context_tokens_max,
        /* The fixed part of a CALL frame is below 256 bytes. */
        .prompt_tokens_max = (welcome.frame_bytes_max - 256) / 4,
        .vocab_tokens = welcome.vocab_tokens, .bos_id = welcome.bos_id, .eos_id = welcome.eos_id};
    code = prompt_book_init(&replay->book, &replay->trace, &limits);
    code = code == EXIT_COMPLETE ? measure_init(&replay->measure, replay->runs_count) : code;
    return code == EXIT_COMPLETE ? prepare_runs(replay) : code;
}
