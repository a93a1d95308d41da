/* SPDX-License-Identifier: MIT */
/*
 * What: the keeper's judgement of an engine's workers (appliance/guard.h).
 * Invariant: a worker's silence does not count against its successor; its failure does.
 * Bounds: O(1).
 */
#include "appliance/guard.h"

#include "config/base/assert.h"

void guard_init(struct guard *guard, uint64_t hang_us, uint32_t failures_max, uint64_t window_us)
{
    uint64_t ticks = (hang_us + GUARD_TICK_US - 1) / GUARD_TICK_US;
    ASSERT(ticks > 0 && ticks <= UINT32_MAX / GUARD_START_PATIENCE);
    ASSERT(failures_max <= GUARD_FAILURES_MAX);
    *guard = (struct guard){.hang_ticks = (uint32_t)ticks, .failures_max = failures_max,
                            .window_us = window_us};
}

void guard_begin(struct guard *guard)
{
    guard->is_ready = false;
    guard->silent_ticks = 0;
}

bool guard_tick(struct guard *guard, uint64_t heartbeat, bool is_ready)
{
    uint32_t patience = is_ready ? 1 : GUARD_START_PATIENCE;
    bool is_silent = is_ready == guard->is_ready && heartbeat == guard->heartbeat;
    guard->silent_ticks = is_silent ? guard->silent_ticks + 1 : 0;
    guard->is_ready = is_ready;
    guard->heartbeat = heartbeat;
    return guard->silent_ticks >= guard->hang_ticks * patience;
}

bool guard_fail(struct guard *guard, uint64_t now_us)
{
    guard->failed_us[guard->failures++ % GUARD_FAILURES_MAX] = now_us;
    if (guard->failures_max == 0 || guard->failures < guard->failures_max) {
        return false;
    }
    uint32_t first = guard->failures - guard->failures_max;
    return now_us - guard->failed_us[first % GUARD_FAILURES_MAX] <= guard->window_us;
}
