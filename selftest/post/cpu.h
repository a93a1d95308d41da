/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the CPUs that the process may use, and threads on one of them. */
#include <sched.h>
#include <stdint.h>

struct post_cpus {
    cpu_set_t all;
    uint32_t count;
    uint32_t threads;               /* of the kernels, for these CPUs */
};

void post_cpus_init(struct post_cpus *cpus);
/* The calling thread runs on the index-th of them only; returns the CPU's number. */
uint32_t post_cpus_pin(const struct post_cpus *cpus, uint32_t index);
/* The calling thread may run on any of them again. */
void post_cpus_unpin(const struct post_cpus *cpus);
