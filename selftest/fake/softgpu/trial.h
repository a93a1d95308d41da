/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the soft GPU's own kernel, for tests of the driver and of the soft GPU itself:
 * words[i] = words[i] * factor + addend, which shows what ran before what.
 */
#include <stdbool.h>
#include <stdint.h>

struct gpu_trial {
    uint64_t words;                 /* device address (count) of uint32_t */
    uint32_t count, factor, addend;
    uint32_t fails;                 /* not 0: fails like a kernel with an illegal access */
};

static inline bool trial_run(const struct gpu_trial *args)
{
    uint32_t *words = (uint32_t *)(uintptr_t)args->words;
    for (uint32_t i = 0; i < args->count; i++) {
        words[i] = words[i] * args->factor + args->addend;
    }
    return args->fails == 0;
}
