/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: finds races and misaligned accesses of kernels on the soft GPU. It is the runtime of
 * gcc's -fsanitize=thread, in place of gcc's own: that one knows threads of the host, but CUDA
 * threads are fibers of one. Kernels that are compiled so and linked with this call it at each
 * access. A launch that has a race or a misaligned access says so on standard error, and fails.
 *
 * A race is what shadow.h says. Misaligned is an access to an address that is no multiple of its
 * size, where a GPU faults; gcc says this size of numbers, and of records of 16 bytes.
 */
#include <stdbool.h>
#include <stdint.h>

#include "selftest/fake/races/shadow.h"

enum race_kind { RACE_NONE, RACE_OF_LANES, RACE_OF_WARPS, RACE_OF_THREAD_BLOCKS, MISALIGNED };

struct race {
    enum race_kind kind;
    uint32_t thread_block[3];
    struct shadow_now now;
    struct shadow_other other;  /* of a race */
};

/* The first one of the last launch. */
const struct race *races_found(void);
