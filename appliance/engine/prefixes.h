/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: computes the declared prefixes (config/prefixes.h): steps of the core's own, one row each,
 * before any step of the scheduler, for every new worker. From then on kvmem finds their blocks for
 * every call, and only the worker's death takes them away.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/step.h"
#include "config/prefixes.h"
#include "kvmem/kvmem.h"

struct prefixes {
    struct step step;               /* the record; the scheduler's steps use it too */
    const struct config_prefixes *declared;
    struct kvmem *kv;
    uint32_t chunk_max;             /* tokens of a step */
    /* private: only prefixes.c */
    uint32_t computed;              /* number of prefixes that are complete */
    uint32_t position;              /* tokens of the next one that are computed */
    uint32_t chunk;                 /* tokens of it in the step in flight; 0: none is in flight */
};

void prefixes_init(struct prefixes *prefixes, const struct step *step,
                   const struct config_prefixes *declared, struct kvmem *kv,
                   uint32_t chunk_max);
/* True when a prefix is left to compute: no call may have blocks before that is done. */
static inline bool prefixes_are_due(const struct prefixes *prefixes)
{
    return prefixes->computed < prefixes->declared->count;
}
/* Fills the step record; the caller submits it. */
void prefixes_launch(struct prefixes *prefixes);
static inline bool prefixes_are_in_flight(const struct prefixes *prefixes)
{
    return prefixes->chunk > 0;
}
/* Their step is done. False when no working engine could have given its results. */
bool prefixes_settle(struct prefixes *prefixes);
/* The worker has died: all are to be computed again. Call it before sched_engine_lost(). */
void prefixes_lost(struct prefixes *prefixes);
