/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a replay: runs of traced programs, their calls, and everything that moves them.
 *
 *     BLOCKED --earlier calls over--> TIMED --due--> OPEN --done--> OVER
 *                                       ^             |
 *                                       +--busy, closed
 *
 * replay.c is the command, replay_arrivals.c prepares the runs, replay_loop.c moves the calls.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tools/agx/lanes.h"
#include "tools/agx/measure.h"
#include "tools/trace/prompt.h"
#include "tools/trace/timer.h"
#include "tools/trace/trace.h"

enum replay_place { REPLAY_BLOCKED, REPLAY_TIMED, REPLAY_OPEN, REPLAY_OVER };

struct replay_call {
    enum replay_place place;
    uint32_t run, number;           /* which call of which run */
    uint32_t blocked_by;            /* calls that it still waits for */
    uint32_t lane, busy_tries, closed_tries;
    uint64_t due_us;
    uint64_t path_us;               /* response times on the longest chain before it */
};
struct replay_run {
    const struct trace_program *program;
    uint32_t calls_first, calls_left;
    uint64_t arrival_us, path_us, tokens;
    bool failed;
    uint8_t program_id[AGX_ID_BYTES];
};
struct replay {
    struct trace trace;
    struct prompt_book book;
    struct lanes lanes;
    struct timer timer;
    struct measure measure;
    struct retry retry;
    struct replay_run *runs;
    struct replay_call *calls;
    uint32_t **outputs;             /* [calls] into output_tokens */
    uint32_t *output_tokens, *prompt;
    uint32_t runs_count, calls_count, runs_left, ends_open, complaints;
    uint64_t start_us, progress_us;
    int code;                       /* not EXIT_COMPLETE: stop */
    /* options */
    const char *path, *json;
    uint32_t programs;
    double rate, token_scale, gap_scale;
};

/* Programs a second that the first `count` of the trace have by themselves; 0: all at once. */
double replay_natural_rate(const struct trace *trace, uint32_t count);
/* Connects and takes all memory. 0, or an exit code after a message. */
int replay_prepare(struct replay *replay, const char *to);
/* Until every program has ended; the exit code is in replay->code. */
void replay_run(struct replay *replay);
