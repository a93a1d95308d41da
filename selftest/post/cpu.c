/* SPDX-License-Identifier: MIT */
#include "selftest/post/cpu.h"

#include "config/base/assert.h"
#include "kernels/threads.h"

void post_cpus_init(struct post_cpus *cpus)
{
    CPU_ZERO(&cpus->all);
    if (sched_getaffinity(0, sizeof cpus->all, &cpus->all) != 0 || CPU_COUNT(&cpus->all) == 0) {
        CPU_SET(0, &cpus->all);     /* more CPUs than the set has bits: the first one */
    }
    cpus->count = (uint32_t)CPU_COUNT(&cpus->all);
    cpus->threads = cpus->count < KERNELS_THREADS_MAX ? cpus->count : KERNELS_THREADS_MAX;
}

uint32_t post_cpus_pin(const struct post_cpus *cpus, uint32_t index)
{
    cpu_set_t one;
    uint32_t cpu = 0;
    ASSERT(index < cpus->count);
    while (!CPU_ISSET(cpu, &cpus->all) || index-- > 0) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    /* A CPU that has gone meanwhile cannot be tested: the work runs where it may. */
    (void)!sched_setaffinity(0, sizeof one, &one);
    return cpu;
}

void post_cpus_unpin(const struct post_cpus *cpus)
{
    (void)!sched_setaffinity(0, sizeof cpus->all, &cpus->all);
}
