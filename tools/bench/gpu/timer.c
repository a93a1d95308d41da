/* SPDX-License-Identifier: MIT */
/*
 * What: times of work, and their table; see timer.h.
 * Bounds: RUNS_MAX runs, fewer if they take more than ROW_US together; what takes SLOW_US is run
 * once, without a warm-up.
 */
#include "tools/bench/gpu/timer.h"

#include <stdio.h>
#include <time.h>

#define RUNS_MAX   9u
#define RUNS_QUICK 3u
#define ROW_US     1e6
#define SLOW_US    1e6
#define BUSY_BYTES (UINT64_C(8) << 30)

double timer_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

double timer_between_us(const struct machine *machine, struct CUevent_st *begin,
                        struct CUevent_st *end)
{
    float milliseconds = 0;
    machine->driver.cuEventElapsedTime(&milliseconds, begin, end);
    return (double)milliseconds * 1e3;
}

double timer_median_of(double *values, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        double value = values[i];
        uint32_t at = i;
        for (; at > 0 && values[at - 1] > value; at--) {
            values[at] = values[at - 1];
        }
        values[at] = value;
    }
    return count == 0 ? 0 : values[count / 2];
}

void timer_keep_busy(struct machine *machine)
{
    struct machine *m = machine;
    uint64_t bytes = m->settings.kv_blocks * m->engine->kv.block_bytes;
    for (uint64_t read = 0; read < BUSY_BYTES && !m->wishes.is_quick; read += bytes) {
        machine_queue_read(m, bytes);
    }
}

static double time_once(struct machine *m, const struct work *work)
{
    if (!work->waits) {
        timer_keep_busy(m);
    }
    gpu_mark(&m->queue, m->begin);
    work->queue(m, work->of);
    gpu_mark(&m->queue, m->end);
    machine_check(m);
    return timer_between_us(m, m->begin, m->end);
}

struct timed timer_median(struct machine *machine, const struct work *work)
{
    double values[RUNS_MAX], all = 0;
    uint32_t most = machine->wishes.is_quick ? RUNS_QUICK : RUNS_MAX, runs = 0;
    double first = time_once(machine, work);
    if (first > SLOW_US) {
        values[runs++] = first;
    }
    while (runs < most && (runs == 0 || all < ROW_US) && first <= SLOW_US) {
        values[runs] = time_once(machine, work);
        all += values[runs++];
    }
    return (struct timed){timer_median_of(values, runs) / work->count, runs};
}

/* ---- the table ---- */

void table_begin(const struct machine *machine)
{
    printf("%s, compute capability %u.%u, %llu MiB, driver %d.%d; %s %s; products by %s\n",
           machine->device.name, machine->device.capability / 10,
           machine->device.capability % 10,
           (unsigned long long)machine->device.memory_bytes >> 20,
           machine->driver.version / 1000, machine->driver.version % 1000 / 10,
           machine->model.gguf.shape.family->name,
           gguf_type_name(machine->wishes.type),
           machine->blas.library != NULL ? "the library, and our own" : "our own");
    printf("%-30s %-8s %5s %7s %12s %10s %10s %12s %8s %5s\n", "row", "products", "rows", "tokens",
           "time us", "GB/s", "GFLOP/s", "floor us", "of it %", "runs");
}

static void print_count(int width, uint32_t count)
{
    if (count == 0) {
        printf(" %*s", width, "-");
    } else {
        printf(" %*u", width, count);
    }
}

static void print_number(int width, int digits, double number)
{
    if (number == 0) {
        printf(" %*s", width, "-");
    } else {
        printf(" %*.*f", width, digits, number);
    }
}

static void print_name(const struct row *row)
{
    printf("%-30s %-8s", row->name, row->with[0] == '\0' ? "-" : row->with);
    print_count(5, row->rows);
    print_count(7, row->tokens);
}

void table_print(const struct row *row, struct timed timed)
{
    double us = timed.us > 1e-3 ? timed.us : 1e-3;  /* less than a clock can tell */
    print_name(row);
    print_number(12, us < 100 ? 2 : 1, us);
    print_number(10, 1, row->bytes / us * 1e-3);
    print_number(10, 1, row->operations / us * 1e-3);
    print_number(12, row->floor_us < 100 ? 2 : 1, row->floor_us);
    print_number(8, 1, row->floor_us / us * 100);
    printf(" %5u\n", timed.runs);
    fflush(stdout);
}

void table_skip(const struct row *row, const char *reason)
{
    print_name(row);
    printf(" not run: %s\n", reason);
    fflush(stdout);
}

bool table_may_run(const struct machine *machine, const struct row *row)
{
    bool may_run = machine->wishes.until_us == 0 || timer_now_us() < machine->wishes.until_us;
    if (!may_run) {
        table_skip(row, "no time is left");
    }
    return may_run;
}

double table_measure(struct machine *machine, const struct row *row, const struct work *work)
{
    if (!table_may_run(machine, row)) {
        return 0;
    }
    struct timed timed = timer_median(machine, work);
    table_print(row, timed);
    return timed.us;
}

double table_floor_us(const struct machine *machine, double bytes, double operations)
{
    double by_bytes = machine->read_bytes > 0 ? bytes / machine->read_bytes : 0;
    double by_operations = machine->operations > 0 ? operations / machine->operations : 0;
    return by_bytes > by_operations ? by_bytes : by_operations;
}
