/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the workers, one for each engine: forked, watched, and replaced when they fail.
 *
 * A worker fails when it dies, hangs (it owes an answer and its heartbeat stands still, or the core
 * says that a step does not end) or is wrong (the core says so). It is then killed and replaced, at
 * once or after a wait; an engine of which no worker ever became ready is given up (guard.h).
 *
 * Invariant: an engine's epoch is counted up when its worker has ended, so that the core knows at
 * once, and no step is ever run by the wrong worker.
 * Owner: the keeper.
 */
#include <sys/types.h>

#include "appliance/boot/boot.h"
#include "appliance/keeper/weights.h"
#include "appliance/keeper/guard.h"
#include "config/base/world.h"

#define WORKERS_WAIT_TICKS 10       /* of GUARD_TICK_US, before a fork is tried again */

struct workers_seat {
    uint32_t engine;                /* index of the engine that the worker runs */
    pid_t pid;                      /* -1: there is none */
    struct guard guard;
    enum control_failure failure;   /* why it dies, if it does */
    uint32_t wait_ticks;            /* until the next one may be forked; 0: there is one, or the
                                       engine is given up */
};

struct workers {
    struct boot *boot;
    void (*begin)(void *context);   /* called in each child first: leaves what is the parent's */
    void *context;
    struct weights weights;         /* that all of them have */
    struct workers_seat seats[WORLD_ENGINES_MAX];       /* [limits.engines] */
};

/* boot, begin and context are set. */
void workers_init(struct workers *workers);
/* The weights are read: forks one for each engine. */
void workers_start(struct workers *workers);
/* There is no core, and the next one shall find them ready: true when they are, or are given up. */
bool workers_are_ready(struct workers *workers);
/* A child has ended; if it was a worker, it is replaced. */
void workers_reap(struct workers *workers, pid_t pid, int wait_status);
/* Each GUARD_TICK_US, or less often: looks at weights and workers. `is_ending`: none is forked any
 * more. */
void workers_tick(struct workers *workers, bool is_ending);
/* Kills and reaps them all. */
void workers_end(struct workers *workers);
