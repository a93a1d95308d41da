/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the control pages, shared by keeper, core and workers, and the hand-over of steps: one page
 * of the whole appliance, then two of each engine.
 *
 *   core    fills the step record, then control_submit(): submitted_epoch, submitted, futex wake
 *   worker  runs the step when submitted_epoch is its own, then control_done(): done, bell
 *   core    names the epoch of a worker that computes wrongly; the keeper kills it
 *   keeper  counts worker_epoch up when a worker dies: all that the old one knew is gone
 *
 * A step that was submitted to a dead worker is never run by its successor: the epochs differ.
 * Each field has one writer, named above it. A worker writes one page, the second of its engine,
 * and maps all others read-only. Bells are eventfds, inherited.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/base/step.h"

enum control_failure { CONTROL_NONE, CONTROL_DIED, CONTROL_HUNG, CONTROL_WRONG };
enum control_stop { CONTROL_RUN, CONTROL_DRAIN, CONTROL_STOP_NOW };

struct control_engine {
    /* keeper */
    _Alignas(STEP_PAGE_BYTES) _Atomic uint32_t failure; /* enum control_failure: why there will be
                                                           no worker any more */
    _Atomic uint32_t worker_epoch;      /* 0: none yet; grows with each worker */
    _Atomic uint32_t worker_pid;
    /* core */
    _Alignas(64) _Atomic uint32_t submitted;    /* sequence of the newest step; worker's futex */
    _Atomic uint32_t submitted_epoch;
    _Atomic uint32_t condemned;         /* epoch of a worker that has to go; 0: none */
    /* worker */
    _Alignas(STEP_PAGE_BYTES) _Atomic uint32_t done;    /* sequence of the newest finished step */
    _Atomic uint32_t worker_ready;              /* epoch of the worker that can take steps */
    _Alignas(64) volatile uint64_t heartbeat;
};

struct control {
    /* keeper */
    _Atomic uint32_t stop;              /* enum control_stop */
    volatile uint32_t load_permille;
    uint32_t engines_count;             /* set at boot */
    /* core */
    _Alignas(64) _Atomic uint32_t health;       /* enum health_state, of its last pass */
    _Atomic uint32_t progress;          /* passes in which engines moved or had nothing to do */
    struct control_engine engines[];    /* [engines_count] */
};

/* What the roles inherit. */
struct shared {
    struct control *control;
    int engine_bell;                    /* workers and keeper ring, core listens */
    int control_bell;                   /* keeper rings, core listens */
};

uint64_t control_bytes(uint32_t engines);
/* Worker of `engine`: from now on a write to what others write ends it. False: refused. */
bool control_confine(struct control *control, uint32_t engine, const struct step *step);
void control_ring(int bell);
void control_hush(int bell);
void control_submit(struct control_engine *control, uint32_t sequence, uint32_t epoch);
/* Worker: waits at most `timeout_ms` for a sequence other than `seen` for `epoch`. True when there
 * is one. */
bool control_await(struct control_engine *control, uint32_t epoch, uint32_t *seen,
                   uint32_t timeout_ms);
void control_done(struct control_engine *control, uint32_t sequence, int bell);
/* Worker: true when a step for `epoch` is submitted and not done. */
bool control_is_owed(struct control_engine *control, uint32_t epoch);
