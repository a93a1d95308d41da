/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the figures of a run. Program-level token latency (paper 000, 6.2) is a program's
 * response time divided by the tokens of all its calls; the mean is the mean of the programs'
 * ratios, so a long program does not hide the short ones.
 *
 * Response time is the longest chain of calls that wait for each other, each from when it was due
 * to its last token, without the gaps of tools and people. "With gaps" is from the program's
 * arrival to its last token; so is the job completion time (JCT).
 */
#include <stdbool.h>
#include <stdint.h>

#include "tools/trace/distribution.h"

struct figures_program {
    uint64_t path_us, whole_us, tokens;
    bool completed;
};
struct figures {
    uint32_t programs, completed;
    struct distribution token, token_with_gaps, jct;    /* seconds */
};

/* Of programs [first, end), which are in order of arrival. `scratch` has room for as many. */
void figures_compute(struct figures *figures, const struct figures_program *programs,
                     uint32_t first, uint32_t end, double *scratch);
/* The steady state: the middle 60 % of `count` programs. */
static inline uint32_t figures_steady_first(uint32_t count) { return count / 5; }
static inline uint32_t figures_steady_end(uint32_t count) { return count - count / 5; }
