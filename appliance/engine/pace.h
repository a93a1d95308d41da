/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: how long a step may take: the core's own measure of whether a worker works. A worker says
 * that it lives, by its heartbeat, and may be wrong about it; that steps end in time it cannot say.
 *
 *   cost       tokens that a step feeds or samples at the most, twice in one that is doubted, and
 *              blocks that it moves
 *   late       after PACE_MARGIN times what its cost has taken lately, PACE_LATE_US at least: from
 *              then on health does not say "ready"
 *   overdue    the same, but engine.hang at least: the worker has to go
 *
 * The first canary is the first measure: a single row, of which a token takes longer than in any
 * batch. Before that PACE_PATIENCE times engine.hang is allowed. A step that is overdue may also
 * have been judged too early (a machine with less time for us than before), and comes back: so each
 * one in a row that does not end has twice the time, up to 2^PACE_DOUBLINGS.
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
    uint32_t overdue;               /* steps in a row that did not end */
    /* of the step in flight */
    uint64_t submitted_us, late_us, overdue_us;
    uint64_t fed, sampled;          /* tokens, and blocks moved; tokens, if it has all its rounds */
    uint32_t rounds_max;
};

void pace_init(struct pace *pace, uint64_t hang_us);
/* The step that is in the record is submitted. */
void pace_begin(struct pace *pace, const struct step *step, uint64_t now_us);
/* So much of the time since it was submitted does not count. */
void pace_excuse(struct pace *pace, uint64_t us);
/* It is done. */
void pace_end(struct pace *pace, const struct step *step, uint64_t now_us);
/* It is not waited for any more. */
void pace_miss(struct pace *pace);
static inline bool pace_is_late(const struct pace *pace, uint64_t now_us)
{
    return now_us >= pace->late_us;
}
static inline bool pace_is_overdue(const struct pace *pace, uint64_t now_us)
{
    return now_us >= pace->overdue_us;
}
