/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: which steps of an engine are computed twice (engine.doubt), and what came of it. Between
 * two canaries a CPU may compute wrongly and say nothing of it; of a step that is doubted the
 * worker computes each round again, with other threads, and compares (kernels/round/doubt.c).
 *
 *   draw     a share of all steps but canaries, by a hash of how many there were: a run that is
 *            repeated doubts the same ones, and no pattern of the load escapes it
 *   held     its results are taken like any other's
 *   else     nothing of the step counts, and the worker has to go
 *
 * No token of such a step is published before it is done.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/step.h"

struct doubt {
    uint32_t permille;              /* of the steps; 0: none */
    uint32_t engine;
    /* private: only doubt.c */
    uint64_t steps;                 /* that were drawn */
    bool is_drawn;                  /* the step in flight is doubted */
};

void doubt_init(struct doubt *doubt, uint32_t engine, uint32_t permille);
/* The step in the record is about to be submitted: says in its header whether it is doubted. */
void doubt_draw(struct doubt *doubt, const struct step *step);
/* The same for a step that never is. */
void doubt_spare(struct doubt *doubt, const struct step *step);
/* True when the step in flight is doubted. */
static inline bool doubt_is_drawn(const struct doubt *doubt)
{
    return doubt->is_drawn;
}
/* The step is done. False when it was doubted, and its worker does not say that it held. */
bool doubt_holds(const struct doubt *doubt, const struct step *step);
