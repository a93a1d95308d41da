/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the canary: one step of the core's own whose results are known. It has one row, a prompt
 * that never changes and as many tokens as a step samples. Its results are these tokens and a
 * digest of every logit that led to them. The engine promises the same bits always, so each later
 * canary must give the first worker's results again; a worker that gives others computes wrongly.
 *
 *   when     before any other step of a worker that is new or suspected; else every
 *            engine.canary, or after half of that when the engine has nothing to do
 *   where    between two steps of the scheduler, over KV blocks of its own (limits.canary_blocks):
 *            it takes no call slot, no program, no queue
 *   failed   once: the worker is replaced. Twice in a row, by two workers: the engine is given up
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/step.h"
#include "config/config.h"

#define CANARY_FAILURES_MAX 2

struct canary {
    struct step step;               /* the record; the scheduler's steps use it too */
    const struct limits *limits;    /* canary_blocks = 0: there is no canary */
    uint64_t period_us;
    /* private: only canary.c */
    bool in_flight;
    bool hurries;                   /* it goes before any other step */
    bool is_known;                  /* the results of the first one are known: */
    uint64_t digest;                /* their digest */
    uint64_t good_us;               /* when the last good one was done */
    uint32_t failures;              /* in a row */
};

void canary_init(struct canary *canary, const struct step *step, const struct limits *limits,
                 uint64_t period_us);
/* Sets the known results to those that an earlier core has seen of this engine. */
void canary_recall(struct canary *canary, uint64_t digest);
/* True when a free engine should run it next. `is_idle`: no call waits for the engine. */
bool canary_is_due(const struct canary *canary, uint64_t now_us, bool is_idle);
/* A result is suspicious: the canary is due at once. */
void canary_hurry(struct canary *canary);
/* True until the first one of this worker is done. */
static inline bool canary_is_awaited(const struct canary *canary)
{
    return canary->limits->canary_blocks > 0 && (canary->hurries || canary->in_flight);
}
/* Fills the step record; the caller submits it. */
void canary_launch(struct canary *canary);
static inline bool canary_is_in_flight(const struct canary *canary)
{
    return canary->in_flight;
}
/* Its step is done. False when the results are not the known ones. */
bool canary_settle(struct canary *canary, uint64_t now_us);
/* The worker has died, whether or not the canary was in flight. */
void canary_lost(struct canary *canary);
/* True when no worker can be expected to give the known results. */
static inline bool canary_has_failed(const struct canary *canary)
{
    return canary->failures == CANARY_FAILURES_MAX;
}
/* Time since the last good one; UINT64_MAX: there was none. */
uint64_t canary_age_us(const struct canary *canary, uint64_t now_us);
