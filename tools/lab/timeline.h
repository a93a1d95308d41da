/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a run as a picture: Chrome trace events (Perfetto and about:tracing read them). Each
 * program is a process with a track for each of its calls that are open at once. A track shows
 * `wait` and `run` of the call, and the `gap` before it, while a tool or a person was at work. An
 * engine is a process with a track for each slot; a call keeps its slot from step to step.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tools/trace/chrome.h"

struct timeline_call {
    uint64_t since_us;              /* start of the open stretch */
    uint64_t until_us;              /* end of the last step that it was in; 0: none yet */
    uint32_t lane;
    bool has_lane;
    uint32_t slot;                  /* its last one */
};
struct timeline_slot {              /* a stretch in a slot */
    uint32_t engine, run, call, number;
    uint64_t since_us, until_us;    /* until 0: none yet */
};
struct timeline {
    struct chrome chrome;
    bool is_open;                   /* false: nothing is drawn */
    struct timeline_call *calls;    /* [calls] */
    uint64_t *lanes;                /* [programs]: bit n: track n is taken */
    bool *named;                    /* [programs] */
    struct timeline_slot *slots;    /* [engines_count * slots_count] */
    uint32_t engines_count, slots_count;
};

struct timeline_counts { uint32_t engines, slots, programs, calls; };   /* slots: of each engine */

/* 0, or an exit code after a message. */
int timeline_open(struct timeline *timeline, const char *path,
                  const struct timeline_counts *counts);
/* 0, or an exit code after a message: not all could be written. */
int timeline_close(struct timeline *timeline);
/* What a call (its index in all calls) of run `run` does: it is due `gap_us` from now; it is due
 * now; it is in a step; it is over. */
void timeline_gap(struct timeline *timeline, uint32_t run, uint32_t call, uint64_t now_us,
                  uint64_t gap_us);
void timeline_due(struct timeline *timeline, uint32_t run, uint32_t call, uint64_t now_us);
void timeline_step(struct timeline *timeline, const struct timeline_slot *drawn);
/* After timeline_step() of all rows of a step, for each of them: its slot during the step. A call
 * that was in the step before keeps its slot, others take the lowest that is free. */
void timeline_slot(struct timeline *timeline, const struct timeline_slot *drawn);
void timeline_over(struct timeline *timeline, uint32_t run, uint32_t call, uint64_t now_us);
