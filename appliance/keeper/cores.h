/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the core, and the next core, which waits to take over.
 *
 * The keeper holds the listeners, too, so clients that connect meanwhile wait for the next core,
 * which takes over the workers as they are, and connections with their calls (pockets.h,
 * net/kept/). It is forked in advance, and waits with its memory (docs/decisions/0108); it gets the
 * keys when it is told to take over.
 *
 * Invariant: at most one of them is the core: the one that waits begins at control_begin_core(),
 * and not before.
 * Owner: the keeper.
 */
#include <sys/types.h>

#include "appliance/boot/boot.h"
#include "appliance/keeper/guard.h"
#include "appliance/keeper/reload.h"

struct cores {
    struct boot *boot;
    struct reload *reload;          /* who may come in, for the next one */
    void (*begin)(void *context);   /* called in each child first: leaves what is the parent's */
    void *context;
    pid_t core;                     /* -1: there is none */
    uint64_t since_us;              /* when that became the core */
    pid_t next;                     /* the one that waits; -1: there is none */
    uint32_t next_pause_ticks;      /* before there is one */
    struct guard guard;             /* how often cores have failed */
    uint32_t waited_ticks;          /* for the core to end */
};

/* boot, reload, begin and context are set. */
void cores_init(struct cores *cores);
/* The first one of the appliance. */
enum boot_exit cores_start(struct cores *cores);
/* Starts a core after that of another keeper; `takes`: that one has not died. False: there is none,
 * and the log says why. */
bool cores_begin(struct cores *cores, bool takes);
/* True when the child was the core, which is -1 then, or the one that waited. */
bool cores_reap(struct cores *cores, pid_t pid, int wait_status, enum boot_exit *exit_status);
/* A signal has ended the core: starts the next one. True when there is one. */
bool cores_replace(struct cores *cores, bool was_killed);
/* True when one should wait and does not. */
bool cores_next_is_due(const struct cores *cores);
/* Each GUARD_TICK_US, or less often. `may_wait`: a core may be forked that waits; `stop_now`: the
 * core was told to end. */
void cores_tick(struct cores *cores, bool may_wait, bool stop_now);
/* Kills and reaps them. */
void cores_end(struct cores *cores);
/* The same of the one that waits, if there is one. */
void cores_end_next(struct cores *cores);
