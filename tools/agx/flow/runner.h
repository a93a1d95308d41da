/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the state of a run, for run.c (the loop) and answers.c (what comes back). Private to both.
 */
#include "tools/agx/dial.h"
#include "tools/agx/flow/rows.h"
#include "tools/agx/flow/run.h"
#include "tools/agx/flow/values.h"

enum row_state { ROW_TO_SEND, ROW_SENT, ROW_DONE };

struct asks {                               /* arguments that wait for a free place */
    struct lambda_call *calls;              /* [count]; each owns its argument */
    uint32_t count, room;
    char *part;                             /* of the argument that is coming */
    size_t part_bytes;
};

struct runner {
    const struct run_settings *settings;
    struct flow_file *file;
    struct rows rows;
    uint8_t *states;                        /* [rows.count], enum row_state */
    uint32_t rows_done, rows_open, rows_max;
    uint32_t next;                          /* row to look at, round and round */
    bool is_full;                           /* a row was refused: until another is done, or, */
    uint64_t full_until_us;                 /* where none of ours is open, until then */
    uint32_t outputs_shown;                 /* those of the file; more are there to be measured */
    struct dial dial;
    struct retry retry;
    uint32_t tries;
    struct agx_flow_run run;
    bool is_open, is_resumed, is_ending, is_done;
    bool is_stale;                          /* resumed, but it had ended: begins again after that */
    struct values values;
    struct lambdas lambdas;
    struct asks asks;
    struct lengths lengths;
    uint64_t calls, shared, fetched;        /* of the rows that are done */
    bool has_bar;                           /* progress as a bar that is drawn again and again */
    int code;                               /* of the worst that has happened */
};

/* answers.c: an exit code when the run cannot go on, else EXIT_COMPLETE. */
int runner_take(struct runner *r, const struct agx_event *event);
/* Starts commands for what was asked, and answers with what they have said. */
int runner_answer(struct runner *r);
/* After a break: nothing that was asked is to be answered. */
void runner_forget(struct runner *r);
/* Opens the workflow for what is not done: after a break, or under another id. */
enum agx_result runner_open_again(struct runner *r, bool other_id);
void runner_show_progress(const struct runner *r);
