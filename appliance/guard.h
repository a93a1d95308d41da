/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the keeper's judgement of an engine's workers: whether this one is hung, and whether they
 * have failed too often. Pure: heartbeats, ticks and times are arguments.
 *
 *   hung    the heartbeat has stood still for engine.hang, counted in ticks of the keeper: a time
 *           in which the whole appliance was stopped (SIGSTOP, a suspended machine) is one tick
 *   often   engine.failures times within engine.failure_window
 */
#include <stdbool.h>
#include <stdint.h>

#define GUARD_TICK_US        UINT64_C(100000)
#define GUARD_FAILURES_MAX   16         /* engine.failures is no greater */
#define GUARD_START_PATIENCE 10         /* a worker that is not ready may be silent this many times
                                           longer: it maps and locks memory, opens a device */
struct guard {
    uint32_t hang_ticks;
    uint32_t failures_max;              /* 0: they may fail for ever */
    uint64_t window_us;
    /* private: only guard.c */
    uint64_t heartbeat;
    bool is_ready;
    uint32_t silent_ticks;              /* since the last heartbeat or change of is_ready */
    uint32_t failures;                  /* since boot */
    uint64_t failed_us[GUARD_FAILURES_MAX];     /* of the last ones */
};

void guard_init(struct guard *guard, uint64_t hang_us, uint32_t failures_max, uint64_t window_us);
/* A new worker starts. */
void guard_begin(struct guard *guard);
/* A tick has passed, and this is the worker's heartbeat now. True when it is hung. */
bool guard_tick(struct guard *guard, uint64_t heartbeat, bool is_ready);
/* The worker has failed. True when that was too often: there is to be no other. */
bool guard_fail(struct guard *guard, uint64_t now_us);
