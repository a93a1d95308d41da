/* SPDX-License-Identifier: MIT */
/* What: the workers (appliance/keeper/workers.h). */
#include "appliance/keeper/workers.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "appliance/clock.h"
#include "appliance/log.h"
#include "appliance/worker.h"

#define LOAD_BYTES_PER_US_MIN 16    /* what reads a model more slowly stands still */

static struct control_engine *control_of(const struct workers *workers,
                                         const struct workers_seat *seat)
{
    return &workers->boot->shared.control->engines[seat->engine];
}

/* How the log calls a worker's engine: by its number, where there are several. */
static const char *name_of(const struct workers *workers, const struct workers_seat *seat)
{
    static char name[24] = "engine";
    if (workers->boot->limits.engines > 1) {
        snprintf(name, sizeof name, "engine %u", seat->engine);
    }
    return name;
}

/* There is no worker now; the next one has another epoch. */
static void begin_epoch(const struct workers *workers, const struct workers_seat *seat)
{
    struct control_engine *control = control_of(workers, seat);
    control_begin(control, atomic_load(&control->worker_epoch) + 1);
    atomic_store(&control->worker_pid, 0);
    control_ring(workers->boot->shared.engine_bell);
}

static void give_up_worker(const struct workers *workers, const struct workers_seat *seat)
{
    atomic_store(&control_of(workers, seat)->failure, seat->failure);
    control_ring(workers->boot->shared.engine_bell);
    log_event(LOG_ERROR, "%s worker cannot serve: given up", name_of(workers, seat));
}

/* True when a worker may have the weights; else it is tried again, or they are lost. */
static bool has_weights(const struct workers *workers, struct workers_seat *seat)
{
    enum weights_state state = workers->weights.state;
    if (state == WEIGHTS_WHOLE) {
        return true;
    }
    if (state == WEIGHTS_LOST) {
        seat->failure = CONTROL_WEIGHTS;
        give_up_worker(workers, seat);
        return false;
    }
    if (state != WEIGHTS_SUSPECTED) {
        atomic_store(&control_of(workers, seat)->backs_off, CONTROL_WEIGHTS);
    }
    seat->wait_ticks = 1;
    return false;
}

static void fork_worker(struct workers *workers, struct workers_seat *seat)
{
    struct control_engine *control = control_of(workers, seat);
    uint32_t epoch = atomic_load(&control->worker_epoch);
    if (!has_weights(workers, seat)) {
        return;
    }
    atomic_store(&control->backs_off, CONTROL_NONE);
    guard_begin(&seat->guard);
    seat->failure = CONTROL_DIED;
    seat->pid = fork();
    if (seat->pid == 0) {
        workers->begin(workers->context);
        worker_run(workers->boot, seat->engine, epoch);
    }
    if (seat->pid < 0) {
        seat->wait_ticks = WORKERS_WAIT_TICKS;
        log_event(LOG_WARN, "%s worker: fork: %s: tried again", name_of(workers, seat),
                  strerror(errno));
    }
    atomic_store(&control->worker_pid, (uint32_t)(seat->pid < 0 ? 0 : seat->pid));
}

/* What worker.c does about CPUs is told once, and not by each worker. */
static void log_sharing(const struct boot *boot)
{
    uint32_t cpus = boot->machine.cpus, engines = boot->limits.engines;
    if (!boot->serves_by_gpu && engines > 1 && cpus < engines) {
        log_event(LOG_WARN, "engine.workers = %u, and %u CPUs: they share them", engines, cpus);
    }
}

void workers_start(struct workers *workers)
{
    log_sharing(workers->boot);
    for (uint32_t i = 0; i < workers->boot->limits.engines; i++) {
        begin_epoch(workers, &workers->seats[i]);
        fork_worker(workers, &workers->seats[i]);
    }
}

/* The worker may fail again at once, and with it what others do on this machine. */
static void back_off(const struct workers *workers, struct workers_seat *seat, uint32_t ticks)
{
    seat->wait_ticks = ticks;
    if (!guard_backs_off(&seat->guard)) {
        return;
    }
    atomic_store(&control_of(workers, seat)->backs_off, seat->failure);
    log_event(LOG_WARN, "%s worker fails often: the next one starts in %llu s",
              name_of(workers, seat),
              (unsigned long long)(ticks * GUARD_TICK_US / 1000000));
}

/* As the core has seen it: what it has seen no worker can take back. */
static bool was_worker_ready(const struct control_engine *control)
{
    return atomic_load(&control->ready) == atomic_load(&control->worker_epoch);
}

/* The file is not what it was at boot: another try would not change that. */
static bool has_another_model(int wait_status)
{
    return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == BOOT_EXIT_MODEL;
}

static void replace_worker(struct workers *workers, struct workers_seat *seat, int wait_status)
{
    static const char *const causes[] = {[CONTROL_DIED] = "died", [CONTROL_HUNG] = "was hung",
                                         [CONTROL_WRONG] = "was wrong",
                                         [CONTROL_INCONSISTENT] = "was inconsistent",
                                         [CONTROL_WEIGHTS] = "had damaged weights"};
    log_event(LOG_WARN, "%s worker %s pid=%d signal=%d status=%d", name_of(workers, seat),
              causes[seat->failure], (int)seat->pid,
              WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0,
              WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0);
    bool was_ready = was_worker_ready(control_of(workers, seat));
    seat->pid = -1;
    begin_epoch(workers, seat);
    if (seat->failure == CONTROL_WRONG || seat->failure == CONTROL_INCONSISTENT) {
        weights_suspect(&workers->weights);
    }
    uint32_t ticks = guard_fail(&seat->guard, was_ready, clock_us(CLOCK_MONOTONIC));
    if (ticks == GUARD_NEVER || has_another_model(wait_status)) {
        give_up_worker(workers, seat);
    } else if (ticks == 0) {
        fork_worker(workers, seat);
    } else {
        back_off(workers, seat, ticks);
    }
}

/* That a worker is ready is the core's to see (control_poll()); here for the next one. */
bool workers_are_ready(struct workers *workers)
{
    uint32_t ready = 0, given_up = 0;
    for (uint32_t i = 0; i < workers->boot->limits.engines; i++) {
        struct control_engine *control = control_of(workers, &workers->seats[i]);
        uint32_t epoch = atomic_load(&control->worker_epoch);
        bool is_ready = atomic_load(&control->worker_ready) == epoch;
        if (atomic_load(&control->failure) != CONTROL_NONE) {
            given_up++;
        } else if (is_ready) {
            atomic_store(&control->ready, epoch);
            ready++;
        }
    }
    return ready > 0 && ready + given_up == workers->boot->limits.engines;
}

void workers_reap(struct workers *workers, pid_t pid, int wait_status)
{
    for (uint32_t i = 0; i < workers->boot->limits.engines; i++) {
        if (workers->seats[i].pid == pid) {
            replace_worker(workers, &workers->seats[i], wait_status);
            return;
        }
    }
}

/* A worker that is hung or wrong is killed here, and replaced when it is reaped. */
static void watch_worker(const struct workers *workers, struct workers_seat *seat)
{
    const struct control_engine *control = control_of(workers, seat);
    const struct guard_signs signs = {
        .heartbeat = control->heartbeat, .is_ready = was_worker_ready(control),
        .is_finishing = control_is_finishing(control),
        .owes = atomic_load(&control->asked) != atomic_load(&control->answered)};
    if (atomic_load(&control->condemned) == atomic_load(&control->worker_epoch)) {
        seat->failure = (enum control_failure)atomic_load(&control->condemned_for);
        kill(seat->pid, SIGKILL);
    } else if (guard_tick(&seat->guard, &signs)) {
        seat->failure = CONTROL_HUNG;
        kill(seat->pid, SIGKILL);
    }
}

static void tick_worker(struct workers *workers, struct workers_seat *seat, bool is_ending)
{
    if (seat->pid > 0) {
        watch_worker(workers, seat);
    } else if (seat->wait_ticks > 0 && !is_ending && --seat->wait_ticks == 0) {
        fork_worker(workers, seat);
    }
}

/* All workers have the same pages. */
static void tick_weights(struct workers *workers)
{
    bool are_used = false;
    for (uint32_t i = 0; i < workers->boot->limits.engines; i++) {
        are_used = are_used || workers->seats[i].pid > 0;
    }
    weights_tick(&workers->weights, are_used, clock_us(CLOCK_MONOTONIC));
    for (uint32_t i = 0; i < workers->boot->limits.engines; i++) {
        struct workers_seat *seat = &workers->seats[i];
        if (workers->weights.state == WEIGHTS_DAMAGED && seat->pid > 0) {
            seat->failure = CONTROL_WEIGHTS;
            kill(seat->pid, SIGKILL);
        }
    }
}

void workers_tick(struct workers *workers, bool is_ending)
{
    tick_weights(workers);
    for (uint32_t i = 0; i < workers->boot->limits.engines; i++) {
        tick_worker(workers, &workers->seats[i], is_ending);
    }
}

void workers_end(struct workers *workers)
{
    for (uint32_t i = 0; i < workers->boot->limits.engines; i++) {
        pid_t pid = workers->seats[i].pid;
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
    }
}

void workers_init(struct workers *workers)
{
    const struct options *options = &workers->boot->options;
    ASSERT(workers->boot->limits.engines <= WORLD_ENGINES_MAX);
    for (uint32_t i = 0; i < workers->boot->limits.engines; i++) {
        struct workers_seat *seat = &workers->seats[i];
        *seat = (struct workers_seat){.engine = i, .pid = -1};
        guard_init(&seat->guard, &(struct guard_settings){
            .hang_us = options->engine_hang.number,
            .load_us = workers->boot->source.size_bytes / LOAD_BYTES_PER_US_MIN,
            .failures_max = (uint32_t)options->engine_failures.number,
            .window_us = options->engine_failure_window.number});
    }
}
