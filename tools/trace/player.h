/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the programs of a trace, played: when each run of a program arrives, which of its calls is
 * due when, and which calls open after others have ended. The player reads no clock and does no
 * I/O: every time is an argument.
 *
 *     BLOCKED --earlier calls over--> TIMED --player_due()--> OPEN --player_over()--> OVER
 *                                       ^                       |
 *                                       +--- player_again() ----+
 *
 * Open load: arrivals are the trace's, stretched to the rate that is asked for. With more runs than
 * the trace has programs it repeats, one mean gap after its last arrival. A seed other than 0 deals
 * the programs of each repetition anew over the same arrival times.
 *
 * Closed load: so many sessions, each of which plays one run after the other. The first runs arrive
 * at once; the end or failure of a run lets the next one arrive, until all have been played.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tools/trace/timer.h"
#include "tools/trace/trace.h"

struct player_settings {
    uint32_t programs;              /* runs; 0: as many as the trace has programs */
    uint32_t calls_max;             /* more calls than this are refused */
    uint32_t sessions;              /* runs that are open at once; 0: the load is open */
    double rate;                    /* of an open load, programs a second; 0: all at once */
    double gap_scale;               /* times every gap of the trace, */
    double gap_s_max;               /* which is at most this long before; 0: as it is */
    uint64_t start_us;              /* the first arrival */
    uint64_t seed;
};

enum player_place { PLAYER_BLOCKED, PLAYER_TIMED, PLAYER_OPEN, PLAYER_OVER };
struct player_call {
    enum player_place place;
    uint32_t run, number;           /* call `number` of this run */
    uint32_t blocked_by;            /* calls that it still waits for */
    uint64_t due_us;                /* when it was first due */
    uint64_t path_us;               /* response times on the longest chain before it */
};
struct player_run {
    const struct trace_program *program;
    uint32_t calls_first, calls_left;
    uint64_t arrival_us;            /* UINT64_MAX: not yet */
    uint64_t path_us;               /* response times on its longest chain so far */
    bool failed;
};
struct player {
    const struct trace *trace;
    struct player_settings settings;
    struct player_run *runs;        /* [runs_count] */
    struct player_call *calls;      /* [calls_count]; the calls of a run are neighbours */
    uint32_t runs_count, calls_count;
    uint32_t runs_arrived;          /* runs [0, runs_arrived) */
    uint32_t runs_left;             /* neither complete nor failed */
    struct timer timer;             /* calls by when they are due */
};

/* Programs a second that the first `programs` of the trace have by themselves; 0: all arrive at
 * once. */
double player_natural_rate(const struct trace *trace, uint32_t programs);
/* Calls of so many runs, where 0 means as many as the trace has programs. */
uint64_t player_calls(const struct trace *trace, uint32_t programs);

enum player_start { PLAYER_READY, PLAYER_TOO_MANY_CALLS, PLAYER_NO_MEMORY };
/* Takes all memory. player_free() is due after a failure, too. */
enum player_start player_init(struct player *player, const struct trace *trace,
                              const struct player_settings *settings);
void player_free(struct player *player);

/* Opens the next call that is due; false: none is due. The caller leaves a call of a failed run
 * alone. */
bool player_due(struct player *player, uint64_t now_us, uint32_t *call);
/* When the next call is due; UINT64_MAX: never. */
uint64_t player_next_us(const struct player *player);
/* Puts an open call back until `at_us`. Its response time still counts from when it was due. */
void player_again(struct player *player, uint32_t call, uint64_t at_us);
/* The open call has ended; calls that waited for it alone are due after their gaps. True when it
 * was the last of its run. In a failed run no call follows. */
bool player_over(struct player *player, uint32_t call, uint64_t now_us);
/* The open call has failed, and its run with it. True when the run had not failed before. */
bool player_fail(struct player *player, uint32_t call, uint64_t now_us);

/* The call in the trace that call `index` plays: an index in trace->calls. */
static inline uint32_t player_traced(const struct player *player, uint32_t index)
{
    const struct player_call *call = &player->calls[index];
    return player->runs[call->run].program->calls_first + call->number;
}
