/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: patterns over memory, each by moving inversions in four steps:
 *
 *   write   the pattern everywhere
 *   up      from the first page to the last: compare it, write its inverse
 *   down    from the last page to the first: compare the inverse, write the pattern
 *   read    compare it
 *
 * So each bit is read as 0 and as 1, after its neighbours on either side have changed. The CPUs
 * share the work: each has a part of its own.
 */
#include "kernels/threads.h"
#include "selftest/post/check.h"
#include "selftest/post/cpu.h"

enum post_step { POST_STEP_WRITE, POST_STEP_UP, POST_STEP_DOWN, POST_STEP_READ, POST_STEPS };

/* One step of one pattern. `round` selects the shift of the walking bit, or the random words. */
struct post_pass {
    enum post_pattern pattern;
    enum post_step step;
    uint64_t round;
};

struct post_area {
    uint64_t *words;
    uint64_t count;
    uint64_t seed;
    struct post_cpus cpus;
    struct kernels_threads threads;
    struct post_pass pass;              /* the current one */
    struct post_faults *faults;         /* [threads]: of the pass */
};

/* With one thread for each CPU, or with one thread. */
void post_area_plan_memory(struct memory_plan *plan, uint64_t bytes, bool alone);
struct post_area *post_area_init(struct arena *arena, uint64_t bytes, bool alone, uint64_t seed);
void post_area_pass(struct post_area *area, const struct post_pass *pass,
                    struct post_faults *faults);
