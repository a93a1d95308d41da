/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the control page (two, in truth), shared by keeper, core and worker, and the hand-over of
 * steps.
 *
 *   core    fills the step record, then control_submit(): submitted_epoch, submitted, futex wake
 *   worker  runs it when submitted_epoch is its own, then control_done(): done, bell
 *   core    names the epoch of a worker that computes wrongly; the keeper kills it
 *   keeper  counts worker_epoch up when a worker dies: everything that the old one knew is gone
 *
 * A step that was submitted to a worker that is dead is never run by its successor: the epochs
 * differ. Each field has one writer, named beside it; what is not the worker's lies in a page that
 * the worker maps read-only. Bells are eventfds, inherited.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/base/step.h"

enum control_phase { CONTROL_LOADING, CONTROL_SERVING, CONTROL_ENGINE_FAILED };
enum control_failure { CONTROL_DIED, CONTROL_HUNG, CONTROL_WRONG };
enum control_stop { CONTROL_RUN, CONTROL_DRAIN, CONTROL_STOP_NOW };

struct control {
    /* keeper */
    _Atomic uint32_t phase;             /* enum control_phase */
    _Atomic uint32_t failure;           /* enum control_failure: why ENGINE_FAILED */
    _Atomic uint32_t stop;              /* enum control_stop */
    _Atomic uint32_t worker_epoch;      /* 0: none yet; grows with each worker */
    _Atomic uint32_t worker_pid;
    volatile uint32_t load_permille;
    /* core */
    _Alignas(64) _Atomic uint32_t submitted;    /* sequence of newest step; worker's futex */
    _Atomic uint32_t submitted_epoch;
    _Atomic uint32_t condemned;         /* the epoch of a worker that has to go; 0: of none */
    _Atomic uint32_t health;            /* enum health_state, of its last pass */
    _Atomic uint32_t progress;          /* passes in which the engine moved or had nothing to do */
    /* worker */
    _Alignas(STEP_PAGE_BYTES) _Atomic uint32_t done;    /* sequence of the newest finished step */
    _Atomic uint32_t worker_ready;              /* the epoch of the worker that can take steps */
    _Alignas(64) volatile uint64_t heartbeat;
};

/* Everything that the roles inherit. */
struct shared {
    struct control *control;
    int engine_bell;                    /* worker and keeper ring, core listens */
    int control_bell;                   /* keeper rings, core listens */
};

/* Worker: from now on a write of its own to what others write ends it. False: refused. */
bool control_confine(struct control *control, const struct step *step);
void control_ring(int bell);
void control_hush(int bell);
void control_submit(struct control *control, uint32_t sequence, uint32_t epoch);
/* Worker: waits at most `timeout_ms` for a sequence other than `seen` for `epoch`; true: there is
 * one. */
bool control_await(struct control *control, uint32_t epoch, uint32_t *seen, uint32_t timeout_ms);
void control_done(struct control *control, uint32_t sequence, int bell);
/* Worker: a step for `epoch` is submitted and not done. */
bool control_is_owed(struct control *control, uint32_t epoch);
