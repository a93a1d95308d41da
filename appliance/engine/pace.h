/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: how long a step may take: the core's own measure of whether a worker works. A broken worker
 * may still send a heartbeat, but it cannot pretend that its steps end in time.
 *
 *   cost       the most tokens that a step feeds or samples, twice if the step is doubted, and the
 *              blocks that it moves
 *   late       after PACE_MARGIN times what such a cost took lately, PACE_LATE_US at least: from
 *              then on health does not say "ready"
 *   overdue    the same, but engine.hang at least: the worker is replaced
 *
 * The first canary is the first measure: a single row, in which a token takes longer than in any
 * batch. Before that PACE_PATIENCE times engine.hang is allowed. An overdue step may also have been
 * judged too early, on a machine that has less time for us than before, and its calls are computed
 * again: so each overdue step in a row doubles the time, up to 2^PACE_DOUBLINGS times.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/step.h"

#define PACE_MARGIN    10
#define PACE_LATE_US   UINT64_C(1500000)
#define PACE_PATIENCE  10
#define PACE_DOUBLINGS 5
#define PACE_TOKENS    65536        /* what is measured counts half after about so many tokens */

struct pace {
    uint64_t hang_us;
    /* private: only pace.c */
    uint64_t tokens, us;            /* of the steps that were measured; older ones count less */
    uint32_t overdue;               /* steps in a row that were */
    /* of the step in flight */
    uint64_t submitted_us, late_us, overdue_us;
    uint64_t fed, sampled;          /* tokens, and blocks moved; tokens, if it has all its rounds */
    uint32_t rounds_max;
};

void pace_init(struct pace *pace, uint64_t hang_us);
/* The step that is in the record is submitted. */
void pace_begin(struct pace *pace, const struct step *step, uint64_t now_us);
/* `us` of the time since it was submitted do not count. */
void pace_excuse(struct pace *pace, uint64_t us);
/* The step is done. */
void pace_end(struct pace *pace, const struct step *step, uint64_t now_us);
/* The step is no longer waited for. */
void pace_miss(struct pace *pace);
static inline bool pace_is_late(const struct pace *pace, uint64_t now_us)
{
    return now_us >= pace->late_us;
}
static inline bool pace_is_overdue(const struct pace *pace, uint64_t now_us)
{
    return now_us >= pace->overdue_us;
}
