/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the keeper's judgement of an engine's workers: whether this one is hung, and when the next
 * one may start. Pure: heartbeats, ticks and times are arguments. Times are counted in ticks of the
 * keeper: one in which the whole appliance was stopped (SIGSTOP, a suspended machine) is one tick.
 *
 *   hung    the worker owes an answer, and its heartbeat has stood still for engine.hang. Or,
 *           whatever its heartbeat says: it has not become ready in the time that a start may take,
 *           or has not ended the step of a dead core within ten times engine.hang
 *   wait    none after a worker that was ready, 1 s after one that never was. After engine.failures
 *           failures within engine.failure_window: 1, 2, 4 .. 60 s, until there are fewer
 *   never   after so many failures, if no worker of this engine has been ready since boot: another
 *           try would not change that
 */
#include <stdbool.h>
#include <stdint.h>

#define GUARD_TICK_US        UINT64_C(100000)
#define GUARD_FAILURES_MAX   16         /* engine.failures is no greater */
#define GUARD_START_PATIENCE 10         /* a worker that is not ready may be silent this many times
                                           longer: it maps and locks memory, opens a device */
#define GUARD_WAIT_TICKS     10         /* the first wait */
#define GUARD_WAIT_TICKS_MAX 600
#define GUARD_NEVER          UINT32_MAX

struct guard_settings {
    uint64_t hang_us;
    uint64_t load_us;                   /* that reading the model may take a worker at the most */
    uint32_t failures_max;              /* 0: none are too many */
    uint64_t window_us;
};

struct guard {
    uint32_t hang_ticks, start_ticks_max;
    uint32_t failures_max;
    uint64_t window_us;
    /* private: only guard.c */
    uint64_t heartbeat;
    bool is_ready, was_ever_ready;
    uint32_t silent_ticks;              /* since the last heartbeat, or since it became ready, or
                                           since it owed nothing */
    uint32_t start_ticks;               /* since it began, until it is ready */
    uint32_t finish_ticks;              /* in a row, in which it still ran a step of a dead core */
    uint32_t failures;                  /* since boot */
    uint64_t failed_us[GUARD_FAILURES_MAX];     /* of the last ones */
    uint32_t wait_ticks;                /* of the last wait; 0: there was none */
};

struct guard_signs {
    uint64_t heartbeat;
    bool is_ready;                      /* it has been ready, and stays so */
    bool owes;                          /* it was asked something that it has not answered */
    bool is_finishing;                  /* it runs a step of a core that has died */
};

void guard_init(struct guard *guard, const struct guard_settings *settings);
/* A new worker starts. */
void guard_begin(struct guard *guard);
/* A tick has passed, and this is what the worker shows now. True when it is hung. */
bool guard_tick(struct guard *guard, const struct guard_signs *signs);
/* The worker has failed. Returns the ticks until the next one may start, or GUARD_NEVER. */
uint32_t guard_fail(struct guard *guard, bool was_ready, uint64_t now_us);
/* True when the wait of the last failure was for too many of them. */
static inline bool guard_backs_off(const struct guard *guard)
{
    return guard->wait_ticks > 0;
}
