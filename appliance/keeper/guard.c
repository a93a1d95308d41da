/* SPDX-License-Identifier: MIT */
/*
 * What: the keeper's judgement of an engine's workers (appliance/keeper/guard.h).
 * Invariant: a worker's silence does not count against its successor; its failure does.
 * Bounds: O(1).
 */
#include "appliance/keeper/guard.h"

#include "config/base/assert.h"

static uint32_t ticks_of(uint64_t time_us)
{
    uint64_t ticks = (time_us + GUARD_TICK_US - 1) / GUARD_TICK_US;
    return ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX;
}

void guard_init(struct guard *guard, const struct guard_settings *settings)
{
    uint64_t start_us = settings->hang_us * GUARD_START_PATIENCE + settings->load_us;
    ASSERT(settings->hang_us > 0 && settings->hang_us <= UINT64_MAX / GUARD_START_PATIENCE);
    ASSERT(settings->failures_max <= GUARD_FAILURES_MAX);
    *guard = (struct guard){.hang_ticks = ticks_of(settings->hang_us),
                            .start_ticks_max = ticks_of(start_us),
                            .failures_max = settings->failures_max,
                            .window_us = settings->window_us};
}

void guard_begin(struct guard *guard)
{
    guard->is_ready = false;
    guard->heartbeat = 0;
    guard->silent_ticks = guard->start_ticks = guard->finish_ticks = 0;
}

bool guard_tick(struct guard *guard, const struct guard_signs *signs)
{
    uint32_t patience = signs->is_ready ? 1 : GUARD_START_PATIENCE;
    bool is_due = signs->owes || !signs->is_ready;
    bool is_silent = is_due && signs->is_ready == guard->is_ready &&
                     signs->heartbeat == guard->heartbeat;
    guard->silent_ticks = is_silent ? guard->silent_ticks + 1 : 0;
    guard->start_ticks += !signs->is_ready;
    guard->finish_ticks = signs->is_finishing ? guard->finish_ticks + 1 : 0;
    guard->is_ready = signs->is_ready;
    guard->heartbeat = signs->heartbeat;
    return guard->silent_ticks >= guard->hang_ticks * patience ||
           (!signs->is_ready && guard->start_ticks >= guard->start_ticks_max) ||
           guard->finish_ticks >= guard->hang_ticks * GUARD_START_PATIENCE;
}

static bool is_too_often(const struct guard *guard, uint64_t now_us)
{
    if (guard->failures_max == 0 || guard->failures < guard->failures_max) {
        return false;
    }
    uint32_t first = guard->failures - guard->failures_max;
    return now_us - guard->failed_us[first % GUARD_FAILURES_MAX] <= guard->window_us;
}

uint32_t guard_fail(struct guard *guard, bool was_ready, uint64_t now_us)
{
    guard->failed_us[guard->failures++ % GUARD_FAILURES_MAX] = now_us;
    guard->was_ever_ready = guard->was_ever_ready || was_ready;
    if (!is_too_often(guard, now_us)) {
        guard->wait_ticks = 0;
        return was_ready ? 0 : GUARD_WAIT_TICKS;
    }
    if (!guard->was_ever_ready) {
        return GUARD_NEVER;
    }
    uint32_t next = guard->wait_ticks == 0 ? GUARD_WAIT_TICKS : 2 * guard->wait_ticks;
    guard->wait_ticks = next < GUARD_WAIT_TICKS_MAX ? next : GUARD_WAIT_TICKS_MAX;
    return guard->wait_ticks;
}
