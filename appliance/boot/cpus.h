/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the CPUs that this process may use, and how several workers divide them.
 */
#include <stdbool.h>
#include <stdint.h>

struct cpus {
    uint64_t bits[16];              /* CPU i: bit i % 64 of bits[i / 64]; as the kernel has them */
};
#define CPUS_MAX        1024u
#define CPUS_TEXT_BYTES 64u

/* Of this thread. False: the system does not tell. */
bool cpus_read(struct cpus *cpus);
uint32_t cpus_count(const struct cpus *cpus);
/* Part `part` of `parts`: neighbours by number, no CPU in two parts, none left out, and sizes that
 * differ by one at most. False: there are fewer CPUs than parts. */
bool cpus_part(const struct cpus *cpus, uint32_t part, uint32_t parts, struct cpus *own);
/* This thread, and those that it starts, run on these only. */
bool cpus_keep_to(const struct cpus *cpus);
/* Like "0-3,8"; what does not fit is left out. */
void cpus_write(const struct cpus *cpus, char text[CPUS_TEXT_BYTES]);
