/* SPDX-License-Identifier: MIT */
/*
 * What: the times of the kernels of one step; see probe.h.
 * Bounds: LAUNCHES_MAX launches of a step; later ones are not timed.
 */
#include "tools/bench/gpu/probe.h"

#include <string.h>

#include "tools/bench/gpu/timer.h"

#define LAUNCHES_MAX 2048u
#define BUSY_TIMES   4u                 /* a step has several hundred launches, each with events */

/* The driver calls the probe without a context. */
static struct {
    struct machine *machine;            /* NULL: no step is probed */
    __typeof__(((struct driver *)NULL)->cuLaunchKernel) launch;
    struct CUevent_st *begin[LAUNCHES_MAX], *end[LAUNCHES_MAX];
    enum probe_group groups[LAUNCHES_MAX];
    uint32_t count;
} probe;

static enum probe_group group_of(const struct CUfunc_st *function)
{
    static const char *const names[] = {
#define KERNEL(name) #name,
#include "kernels/cuda/device/kernels.def"
#undef KERNEL
    };
    static const char *const begins[] = {
#define PROBE_GROUP(noun, begin) begin,
        PROBE_GROUPS
#undef PROBE_GROUP
    };
    uint32_t kernel = 0, group = 0;
    while (kernel < GPU_KERNELS - 1 && probe.machine->queue.kernels[kernel] != function) {
        kernel++;
    }
    while (strncmp(names[kernel], begins[group], strlen(begins[group])) != 0) {
        group++;
    }
    return (enum probe_group)group;
}

/* style-waiver: the driver's own parameters. */
static unsigned launch_timed(struct CUfunc_st *function, unsigned grid_x, unsigned grid_y,
                             unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                             unsigned shared_bytes, struct CUstream_st *stream, void **parameters,
                             void **extra)
{
    const struct driver *driver = &probe.machine->driver;
    bool is_timed = probe.count < LAUNCHES_MAX;
    uint32_t at = probe.count;
    if (is_timed) {
        probe.groups[at] = group_of(function);
        driver->cuEventRecord(probe.begin[at], stream);
    }
    unsigned result = probe.launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                   shared_bytes, stream, parameters, extra);
    if (is_timed) {
        driver->cuEventRecord(probe.end[at], stream);
        probe.count++;
    }
    return result;
}

static void make_events(const struct driver *driver)
{
    for (uint32_t i = 0; i < LAUNCHES_MAX && probe.begin[i] == NULL; i++) {
        driver->cuEventCreate(&probe.begin[i], 0);
        driver->cuEventCreate(&probe.end[i], 0);
    }
}

void probe_step(struct machine *machine, struct probe_sum sums[PROBE_GROUPS_COUNT])
{
    struct machine *m = machine;
    make_events(&m->driver);
    for (uint32_t i = 0; i < BUSY_TIMES; i++) {
        timer_keep_busy(m);
    }
    probe.machine = m;
    probe.count = 0;
    probe.launch = m->driver.cuLaunchKernel;
    m->driver.cuLaunchKernel = launch_timed;
    machine_run_step(m);
    m->driver.cuLaunchKernel = probe.launch;
    memset(sums, 0, PROBE_GROUPS_COUNT * sizeof *sums);
    for (uint32_t i = 0; i < probe.count; i++) {
        struct probe_sum *sum = &sums[probe.groups[i]];
        sum->us += timer_between_us(m, probe.begin[i], probe.end[i]);
        sum->launches++;
    }
}
