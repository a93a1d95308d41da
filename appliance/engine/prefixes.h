/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: computes the declared prefixes (config/prefixes.h): steps of the core's own, one row each,
 * before any step of the scheduler, on every worker anew. From then on kvmem finds their blocks for
 * every call, and nothing takes them away but the worker's death.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/step.h"
#include "config/prefixes.h"
#include "kvmem/kvmem.h"

struct prefixes {
    struct step step;               /* the record, which the scheduler's steps use too */
    const struct config_prefixes *declared;
    struct kvmem *kv;
    uint32_t chunk_max;             /* tokens of a step */
    /* private: only prefixes.c */
    uint32_t computed;              /* of the prefixes, how many are there to be found */
    uint32_t position;              /* of the next one: computed so far */
    uint32_t chunk;                 /* of it in the step in flight; 0: none is */
};

void prefixes_init(struct prefixes *prefixes, const struct step *step,
                   const struct config_prefixes *declared, struct kvmem *kv,
                   uint32_t chunk_max);
/* Something is left to compute: no other call may have blocks before it is done. */
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
/* Their step is done. False: no engine that works says this of it. */
bool prefixes_settle(struct prefixes *prefixes);
/* The worker has died: all is to be computed again. Before sched_engine_lost(). */
void prefixes_lost(struct prefixes *prefixes);
