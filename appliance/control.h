/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the control pages, shared by keeper, core and workers, and the hand-over of steps: one page
 * of the whole appliance, then two of each engine.
 *
 *   core    fills the step record, then control_submit(): submitted_epoch, submitted, futex wake
 *   worker  runs the step when submitted_epoch is its own, then control_done(): proof, done, bell
 *   core    has no step, and wants to know whether the worker lives: control_ask(), futex wake
 *   worker  answers each step and each question with a heartbeat
 *   core    names the epoch of a worker that has to be replaced, and why; the keeper kills it
 *   core    that takes over from one that has died: control_adopt(); the worker stays as it is
 *   keeper  clears the worker's page and counts worker_epoch up when a worker has died: all that
 *           the old one knew, and all that it wrote, is gone
 *
 * A step that was submitted to a dead worker is never run by its successor: the epochs differ.
 * Each field has one writer, named above it, while that lives: the keeper writes those of a core
 * that has died, before the next one is told to take over, and of a worker. A worker writes one
 * page, the second of its engine, and maps all others read-only. Bells are eventfds, inherited.
 *
 * A worker may write anything there, at any time (a wild pointer). So the core believes once that a
 * worker is ready, and says so in `ready`; it believes that a step is done only with its proof. The
 * heartbeat can show that a worker stands still, never that it works: for that there is the time of
 * each step (appliance/engine/pace.h).
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/base/step.h"
#include "config/base/world.h"

enum control_failure {
    CONTROL_NONE, CONTROL_DIED, CONTROL_HUNG, CONTROL_WRONG, CONTROL_INCONSISTENT,
    CONTROL_WEIGHTS,
    CONTROL_FAILURES
};
/* When another keeper takes over (upgrade/): YIELD: the core ends between two passes, and leaves
 * everything to the other keeper's core. LEAVE: it drains, while that core serves its addresses. */
enum control_stop { CONTROL_RUN, CONTROL_DRAIN, CONTROL_STOP_NOW, CONTROL_YIELD, CONTROL_LEAVE };

struct control_engine {
    /* keeper */
    _Alignas(STEP_PAGE_BYTES) _Atomic uint32_t failure; /* enum control_failure: why no worker
                                                           follows */
    _Atomic uint32_t worker_epoch;      /* 0: none yet; grows with each worker */
    _Atomic uint32_t worker_pid;
    _Atomic uint32_t backs_off;         /* enum control_failure: why the next worker has to wait */
    _Atomic uint32_t left;              /* newest step of a core that has died */
    /* core */
    _Alignas(64) _Atomic uint32_t asked;        /* grows with each step and question; worker's
                                                   futex */
    _Atomic uint32_t submitted;         /* sequence of the newest step */
    _Atomic uint32_t submitted_epoch;
    _Atomic uint32_t condemned;         /* epoch of a worker that must be replaced; 0: none */
    _Atomic uint32_t condemned_for;     /* enum control_failure: why; written before `condemned` */
    _Atomic uint32_t ready;             /* epoch of the newest worker that has been ready */
    _Atomic uint32_t knows_canary;      /* `canary` is known: the digest of the canary's results */
    _Atomic uint64_t canary;
    /* worker */
    _Alignas(STEP_PAGE_BYTES) _Atomic uint32_t done;    /* sequence of the newest finished step */
    _Atomic uint32_t answered;                  /* value of `asked` when it last owed nothing */
    _Atomic uint32_t worker_ready;              /* epoch of the worker that can take steps */
    _Atomic uint64_t proof;                     /* step_proof() of that step; written before it */
    _Alignas(64) volatile uint64_t heartbeat;
};

/* What the core knows of an engine's worker, in memory that no worker can reach. */
struct control_view {
    uint32_t sequence;                  /* of the newest submitted step */
    uint32_t epoch;                     /* of the worker that the core believes in */
    uint32_t condemned;                 /* epoch of the last one that was condemned; 0: none */
    bool is_ready;                      /* the worker of this epoch has said so */
    bool in_flight;
};

struct control {
    /* keeper */
    _Atomic uint32_t stop;              /* enum control_stop */
    volatile uint32_t load_permille;
    uint32_t engines_count;             /* set at boot */
    _Atomic uint32_t admissions;        /* each a struct config_admission in the pipe */
    uint64_t idle_us;                   /* how long core and keeper may wait while all is quiet */
    _Atomic uint32_t core_restarts;     /* cores that took over from one that had died; the futex of
                                           the core that waits to; */
    _Atomic uint32_t core_was_killed;   /* whether the last was killed, rather than failed */
    _Atomic uint32_t slices;            /* of the weights that were compared since boot; */
    _Atomic uint32_t damages;           /* those that had changed */
    _Atomic uint32_t lines_lost;        /* of the log, by the keeper */
    uint32_t upgrades;                  /* keepers before this one in a chain of upgrades */
    /* core */
    _Alignas(64) _Atomic uint32_t health;       /* enum health_state, of its last pass */
    _Atomic uint32_t progress;          /* passes in which engines moved or had nothing to do */
    _Atomic uint32_t is_quiet;          /* it serves, and has nothing to do */
    _Atomic uint32_t admissions_taken;
    _Atomic uint32_t waits;             /* it has its own memory, and may wait for kept memory */
    _Atomic uint32_t serves;            /* it has kept memory, and listens */
    struct control_engine engines[];    /* [engines_count] */
};

/* What the roles inherit. */
struct shared {
    struct control *control;
    int engine_bell;                    /* workers and keeper ring, core listens */
    int control_bell;                   /* keeper rings, core listens */
    int admission_pipe[2];              /* core reads, keeper writes; workers have neither end */
    int replies_bell[2];                /* the writer reads, core writes; 0: there is no writer */
};

uint64_t control_bytes(uint32_t engines);
/* Worker of `engine`: from now on the kernel ends it when it writes to others' pages. False: the
 * kernel refused that. */
bool control_confine(struct control *control, uint32_t engine, const struct step *step);
void control_ring(int bell);
void control_hush(int bell);
/* Keeper: there is no worker now, and the next one has this epoch. */
void control_begin(struct control_engine *control, uint32_t epoch);
/* Keeper: there is no core now; the one that waits takes over, and writes the core's words. */
void control_begin_core(struct control *control, bool was_killed);
/* A core that waits: returns when it is to take over. `core_restarts`: the count at its start. */
void control_await_core(struct control *control, uint32_t core_restarts);
/* The part of control_begin_core() for one engine: its last step is of a core that has died. */
void control_leave(struct control_engine *control);
/* Core, before all else: the steps so far are not its own. The worker is ready once it has done the
 * last of them. */
void control_adopt(struct control_view *view, const struct control_engine *control);
/* True while the worker runs a step of a core that has died. */
bool control_is_finishing(const struct control_engine *control);
/* Core: the step record is filled. */
void control_submit(struct control_view *view, struct control_engine *control);
/* Core: asks a worker without a step to show that it lives. */
void control_ask(struct control_engine *control);
/* Core: how the step in the record stands, as world.engine_poll() says. */
enum world_engine control_poll(struct control_view *view, struct control_engine *control,
                               const struct step *step);
void control_condemn(struct control_view *view, struct control_engine *control,
                     enum control_failure why);
/* Worker: waits for something new to do. `asked` is the value that the last call returned. */
uint32_t control_await(struct control_engine *control, uint32_t asked);
/* Worker: true when there is a sequence other than `seen`, and it is for `epoch`. */
bool control_take(struct control_engine *control, uint32_t epoch, uint32_t *seen);
/* Worker: the outs of the step are written. */
void control_done(struct control_engine *control, const struct step *step, uint32_t sequence);
/* Worker: answers what it was asked up to `asked` by a heartbeat, unless a step for `epoch` is
 * submitted and not done. */
void control_answer(struct control_engine *control, uint32_t epoch, uint32_t asked);
