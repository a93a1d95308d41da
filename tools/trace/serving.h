/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a run under the names of other benchmarks, so that a figure of ours stands beside one of
 * theirs; docs/traces.md defines each. Calls are requests there, and programs jobs.
 *
 *     due ---- time to first token ----> first --- inter-token latency, n - 1 times ---> last
 *     due ------------------------------ request latency ------------------------------> last
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/trace/distribution.h"

struct serving {
    double *first_ms, *latency_ms;  /* [calls_room] of calls that ended */
    double *token_ms, *speed;       /* [calls_room] of those with two tokens and more; 1 / token */
    double *job_s;                  /* [jobs_room] of programs that are complete */
    uint32_t calls, spaced, fast, jobs, calls_room, jobs_room;
    uint64_t tokens;
};
struct serving_totals {
    uint64_t duration_us, prompt_tokens, cached_tokens;
    uint32_t engines;               /* 0: not known */
};
struct serving_figures {
    struct distribution job_s, first_ms, token_ms, latency_ms, speed;
    double tokens_per_s, all_tokens_per_s, calls_per_s;
    double jobs_per_hour, jobs_per_hour_of_user;
    double engines, hit_ratio;      /* engines 0: not known */
};

/* False: no memory. serving_free() is due in any case. */
bool serving_init(struct serving *serving, uint32_t calls, uint32_t jobs);
void serving_free(struct serving *serving);
/* A call has ended that was due, had its first token and its last one at these times. */
void serving_call(struct serving *serving, const uint64_t times_us[3], uint32_t tokens);
/* A program is complete, so long after its arrival. */
void serving_job(struct serving *serving, uint64_t whole_us);
/* Comes last: sorts what was measured. */
struct serving_figures serving_figures(struct serving *serving,
                                       const struct serving_totals *totals);
void serving_print(const struct serving_figures *figures, FILE *out);
json_t *serving_json(const struct serving_figures *figures);
