/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the keeper's judgement of its workers: is this one hung, and have they failed too often?
 * Pure: heartbeats, ticks and times come in as arguments.
 *
 *   hung    its heart has stood still for engine.hang, counted in ticks of the keeper, of which one
 *           in which nobody ran (SIGSTOP, a suspended machine) is one, however long it was
 *   often   engine.failures times within engine.failure_window
 */
#include <stdbool.h>
#include <stdint.h>

#define GUARD_TICK_US        UINT64_C(100000)
#define GUARD_FAILURES_MAX   16         /* engine.failures is no greater */
#define GUARD_START_PATIENCE 10         /* a worker that is not ready maps and locks memory, opens a
                                           device, and may be silent this many times longer */
struct guard {
    uint32_t hang_ticks;
    uint32_t failures_max;              /* 0: there is no too often */
    uint64_t window_us;
    /* private: only guard.c */
    uint64_t heartbeat;
    bool is_ready;
    uint32_t silent_ticks;              /* in this state, of being ready or not */
    uint32_t failures;                  /* since boot */
    uint64_t failed_us[GUARD_FAILURES_MAX];     /* of the last ones */
};

void guard_init(struct guard *guard, uint64_t hang_us, uint32_t failures_max, uint64_t window_us);
/* A new worker starts. */
void guard_begin(struct guard *guard);
/* A tick has passed, and this is the worker's heartbeat now. True: it is hung. */
bool guard_tick(struct guard *guard, uint64_t heartbeat, bool is_ready);
/* The worker has failed, however it did. True: too often, there is to be no other. */
bool guard_fail(struct guard *guard, uint64_t now_us);
