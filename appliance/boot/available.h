/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the memory that this process may take: three bounds, each with a cause of its own. They are
 * read once at boot. What is planned from them is a function of these numbers, so that tests can
 * give others.
 */
#include <stdbool.h>
#include <stdint.h>

#define MEMORY_UNBOUNDED UINT64_MAX /* there is no such bound, or it is unknown */

struct memory_bounds {              /* bytes */
    uint64_t machine;               /* MemAvailable */
    uint64_t group;                 /* left in the control groups of this process */
    uint64_t locked;                /* that each process may lock; unbounded where none must */
};

/* BOOT_ONLY. `must_lock`: memory.lock = yes. */
void memory_bounds_read(struct memory_bounds *bounds, bool must_lock);
