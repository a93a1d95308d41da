/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a replay: the player of a trace (tools/trace/player.h), the connections to an appliance,
 * and what the client knows of each call and program besides. replay.c is the command,
 * replay_loop.c sends the calls and reads the answers.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/agx/lanes.h"
#include "tools/agx/measure.h"
#include "tools/trace/player.h"
#include "tools/trace/prompt.h"

struct replay_call {
    bool is_sent;                   /* over `lane`, and not answered yet */
    uint32_t lane, busy_tries, closed_tries;
    uint64_t first_us;              /* when its first token came; 0: not yet */
};
struct replay_run {
    bool is_named;                  /* the appliance has been told its class */
    uint64_t tokens;
    uint8_t program_id[AGX_ID_BYTES];
};
struct replay {
    struct trace trace;
    struct prompt_book book;
    struct lanes lanes;
    struct player player;
    struct measure measure;
    struct retry retry;
    struct replay_run *runs;        /* [player.runs_count] */
    struct replay_call *calls;      /* [player.calls_count] */
    uint32_t **outputs;             /* [player.calls_count] into output_tokens */
    uint32_t *output_tokens, *prompt;
    uint32_t asked, complaints;     /* about programs, and not answered yet */
    uint64_t start_us, progress_us;
    FILE *calls_log;                /* NULL: none */
    int code;                       /* anything but EXIT_COMPLETE ends the replay */
    /* options */
    struct trace_options options;
    const char *path, *json, *calls_path;
    uint32_t programs, sessions, pool;
    double rate, token_scale, gap_scale, gap_s_max;
};

/* Until every program has ended; the exit code is in replay->code. */
void replay_run(struct replay *replay);
