/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: times of work on a GPU, by the driver's events, and the table that they are printed in.
 *
 * Work that is queued is timed while the device is still busy with something else, so the time is
 * the device's and not that of its host. A step runs by itself and has the host in its time.
 */
#include "tools/bench/gpu/machine.h"

/* Something to be timed. */
struct work {
    void (*queue)(struct machine *machine, const void *of);
    const void *of;
    bool waits;                     /* it returns when the work is done, as a step does */
    uint32_t count;                 /* the time is that of one of so many equal parts */
};

struct timed {
    double us;                      /* the median */
    uint32_t runs;
};

double timer_now_us(void);
struct timed timer_median(struct machine *machine, const struct work *work);
/* Between two timed events that are past. */
double timer_between_us(const struct machine *machine, struct CUevent_st *begin,
                        struct CUevent_st *end);
/* The median of values, which become sorted. */
double timer_median_of(double *values, uint32_t count);
/* Queues reads that take the device some milliseconds. */
void timer_keep_busy(struct machine *machine);

/* A row of the table. */
struct row {
    const char *name, *with;        /* `with`: what computes the products, or "" */
    uint32_t rows, tokens;          /* 0: it has none */
    double bytes, operations;       /* 0: not counted */
    double floor_us;                /* 0: there is none */
};

/* Its head: what is measured. */
void table_begin(const struct machine *machine);
/* False: no time is left, and the row says so. */
bool table_may_run(const struct machine *machine, const struct row *row);
void table_print(const struct row *row, struct timed timed);
void table_skip(const struct row *row, const char *reason);
/* Measures and prints, if there is time; the time, 0: there was none. */
double table_measure(struct machine *machine, const struct row *row, const struct work *work);
/* By the ceilings of this run: the larger of the times for bytes and for operations; 0: unknown. */
double table_floor_us(const struct machine *machine, double bytes, double operations);
