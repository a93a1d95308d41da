/* SPDX-License-Identifier: MIT */
/*
 * What: the parent of the other two roles.
 *
 *   boot: listen -> fork core (text port says "starting") -> read weights -> fork workers -> watch
 *
 * Signals are waited for, never handled. They stay pending while weights are read; one that means
 * the end stops the reading, and watch() then takes it, with no worker forked. SIGHUP: reload.h.
 *
 * A worker fails when it dies, hangs (it owes an answer and its heartbeat stands still, or the core
 * says that a step does not end) or is wrong (the core says so). It is then killed and replaced, at
 * once or after a wait; an engine of which no worker ever became ready is given up (guard.h).
 *
 * Invariants: an engine's epoch is counted up when its worker has ended, so that the core knows at
 * once, and no step is ever run by the wrong worker; the core's death ends the appliance with the
 * core's exit status.
 * Bounds: it wakes up every GUARD_TICK_US, and every control->idle_us while the core is quiet.
 */
#include "appliance/keeper.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "config/base/world.h"
#include "appliance/core.h"
#include "appliance/guard.h"
#include "appliance/boot/listen.h"
#include "appliance/log.h"
#include "appliance/boot/notify.h"
#include "appliance/boot/reload.h"
#include "appliance/boot/weights.h"
#include "appliance/seal/seal.h"
#include "appliance/worker.h"

#define WAIT_TICKS 10               /* before a fork is tried again; for a core told to end now */
#define LOAD_BYTES_PER_US_MIN 16    /* what reads a model more slowly stands still */

struct keeper_worker {
    uint32_t engine;                /* index of the engine that it runs */
    pid_t pid;                      /* -1: there is none */
    struct guard guard;
    enum control_failure failure;   /* why it dies, if it does */
    uint32_t wait_ticks;            /* until the next one may be forked; 0: there is one, or the
                                       engine is given up */
};

struct keeper {
    struct boot *boot;
    pid_t core;                     /* -1: there is none */
    struct keeper_worker workers[WORLD_ENGINES_MAX];    /* [limits.engines] */
    uint32_t waited_ticks;          /* for the core to end */
    struct weights weights;
    struct notify notify;
    struct reload reload;
    sigset_t signals;
};

static void block_signals(struct keeper *keeper)
{
    sigemptyset(&keeper->signals);
    sigaddset(&keeper->signals, SIGCHLD);
    sigaddset(&keeper->signals, SIGTERM);
    sigaddset(&keeper->signals, SIGINT);
    sigaddset(&keeper->signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &keeper->signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
}

/* In the child: it dies with the keeper, whatever kills that. It ignores the signals that the
 * keeper takes, which may be sent to the whole group: the keeper decides when to end. */
static void follow_parent(pid_t parent, const sigset_t *signals)
{
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    sigprocmask(SIG_UNBLOCK, signals, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(BOOT_EXIT_SYSTEM);
    }
}

static enum boot_exit fork_core(struct keeper *keeper)
{
    pid_t parent = getpid();
    keeper->core = fork();
    if (keeper->core < 0) {
        log_event(LOG_ERROR, "boot failed: fork: %s", strerror(errno));
        return BOOT_EXIT_SYSTEM;
    }
    if (keeper->core == 0) {
        follow_parent(parent, &keeper->signals);
        notify_close(&keeper->notify);
        reload_close(keeper->boot, true);
        boot_forget_worker(keeper->boot);
        core_run(keeper->boot);
    }
    return BOOT_EXIT_OK;
}

static struct control_engine *control_of(const struct keeper *keeper,
                                         const struct keeper_worker *worker)
{
    return &keeper->boot->shared.control->engines[worker->engine];
}

/* How the log calls a worker's engine: by its number, where there are several. */
static const char *name_of(const struct keeper *keeper, const struct keeper_worker *worker)
{
    static char name[24] = "engine";
    if (keeper->boot->limits.engines > 1) {
        snprintf(name, sizeof name, "engine %u", worker->engine);
    }
    return name;
}

/* There is no worker now; the next one has another epoch. */
static void begin_epoch(const struct keeper *keeper, const struct keeper_worker *worker)
{
    struct control_engine *control = control_of(keeper, worker);
    control_begin(control, atomic_load(&control->worker_epoch) + 1);
    atomic_store(&control->worker_pid, 0);
    control_ring(keeper->boot->shared.engine_bell);
}

static void give_up_worker(const struct keeper *keeper, const struct keeper_worker *worker)
{
    atomic_store(&control_of(keeper, worker)->failure, worker->failure);
    control_ring(keeper->boot->shared.engine_bell);
    log_event(LOG_ERROR, "%s worker cannot serve: given up", name_of(keeper, worker));
}

/* True when a worker may have the weights; else it is tried again, or they are lost. */
static bool has_weights(const struct keeper *keeper, struct keeper_worker *worker)
{
    enum weights_state state = keeper->weights.state;
    if (state == WEIGHTS_WHOLE) {
        return true;
    }
    if (state == WEIGHTS_LOST) {
        worker->failure = CONTROL_WEIGHTS;
        give_up_worker(keeper, worker);
        return false;
    }
    if (state != WEIGHTS_SUSPECTED) {
        atomic_store(&control_of(keeper, worker)->backs_off, CONTROL_WEIGHTS);
    }
    worker->wait_ticks = 1;
    return false;
}

static void fork_worker(struct keeper *keeper, struct keeper_worker *worker)
{
    struct control_engine *control = control_of(keeper, worker);
    uint32_t epoch = atomic_load(&control->worker_epoch);
    pid_t parent = getpid();
    if (!has_weights(keeper, worker)) {
        return;
    }
    atomic_store(&control->backs_off, CONTROL_NONE);
    guard_begin(&worker->guard);
    worker->failure = CONTROL_DIED;
    worker->pid = fork();
    if (worker->pid == 0) {
        follow_parent(parent, &keeper->signals);
        notify_close(&keeper->notify);
        reload_close(keeper->boot, false);
        worker_run(keeper->boot, worker->engine, epoch);
    }
    if (worker->pid < 0) {
        worker->wait_ticks = WAIT_TICKS;
        log_event(LOG_WARN, "%s worker: fork: %s: tried again", name_of(keeper, worker),
                  strerror(errno));
    }
    atomic_store(&control->worker_pid, (uint32_t)(worker->pid < 0 ? 0 : worker->pid));
}

/* What worker.c does about CPUs is told once, and not by each worker. */
static void log_sharing(const struct boot *boot)
{
    uint32_t cpus = boot->machine.cpus, engines = boot->limits.engines;
    if (!boot->serves_by_gpu && engines > 1 && cpus < engines) {
        log_event(LOG_WARN, "engine.workers = %u, and %u CPUs: they share them", engines, cpus);
    }
}

static void fork_workers(struct keeper *keeper)
{
    log_sharing(keeper->boot);
    for (uint32_t i = 0; i < keeper->boot->limits.engines; i++) {
        begin_epoch(keeper, &keeper->workers[i]);
        fork_worker(keeper, &keeper->workers[i]);
    }
}

/* The worker may fail again at once, and with it what others do on this machine. */
static void back_off(const struct keeper *keeper, struct keeper_worker *worker, uint32_t ticks)
{
    worker->wait_ticks = ticks;
    if (!guard_backs_off(&worker->guard)) {
        return;
    }
    atomic_store(&control_of(keeper, worker)->backs_off, worker->failure);
    log_event(LOG_WARN, "%s worker fails often: the next one starts in %llu s",
              name_of(keeper, worker),
              (unsigned long long)(ticks * GUARD_TICK_US / 1000000));
}

/* As the core has seen it: what it has seen no worker can take back. */
static bool was_worker_ready(const struct control_engine *control)
{
    return atomic_load(&control->ready) == atomic_load(&control->worker_epoch);
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* The file is not what it was at boot: another try would not change that. */
static bool has_another_model(int wait_status)
{
    return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == BOOT_EXIT_MODEL;
}

static void replace_worker(struct keeper *keeper, struct keeper_worker *worker, int wait_status)
{
    static const char *const causes[] = {[CONTROL_DIED] = "died", [CONTROL_HUNG] = "was hung",
                                         [CONTROL_WRONG] = "was wrong",
                                         [CONTROL_INCONSISTENT] = "was inconsistent",
                                         [CONTROL_WEIGHTS] = "had damaged weights"};
    log_event(LOG_WARN, "%s worker %s pid=%d signal=%d status=%d", name_of(keeper, worker),
              causes[worker->failure], (int)worker->pid,
              WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0,
              WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0);
    bool was_ready = was_worker_ready(control_of(keeper, worker));
    worker->pid = -1;
    begin_epoch(keeper, worker);
    if (worker->failure == CONTROL_WRONG || worker->failure == CONTROL_INCONSISTENT) {
        weights_suspect(&keeper->weights);
    }
    uint32_t ticks = guard_fail(&worker->guard, was_ready, now_us());
    if (ticks == GUARD_NEVER || has_another_model(wait_status)) {
        give_up_worker(keeper, worker);
    } else if (ticks == 0) {
        fork_worker(keeper, worker);
    } else {
        back_off(keeper, worker, ticks);
    }
}

static void end_child(pid_t pid)
{
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

static void reap_worker(struct keeper *keeper, pid_t pid, int wait_status)
{
    for (uint32_t i = 0; i < keeper->boot->limits.engines; i++) {
        if (keeper->workers[i].pid == pid) {
            replace_worker(keeper, &keeper->workers[i], wait_status);
            return;
        }
    }
}

/* Reaps the children that have ended; true when the core is among them. */
static bool reap(struct keeper *keeper, enum boot_exit *exit_status)
{
    int wait_status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        if (pid == keeper->core) {
            *exit_status = core_exit(wait_status);
            return true;
        }
        reap_worker(keeper, pid, wait_status);
    }
    return false;
}

/* SIGTERM and SIGINT: the first drains, the second ends at once. */
static void pass_stop(const struct keeper *keeper)
{
    struct control *control = keeper->boot->shared.control;
    uint32_t stop = atomic_load(&control->stop);
    uint32_t next = stop == CONTROL_RUN ? CONTROL_DRAIN : CONTROL_STOP_NOW;
    atomic_store(&control->stop, next);
    log_event(LOG_INFO, next == CONTROL_DRAIN ? "draining" : "stopping now");
    control_ring(keeper->boot->shared.control_bell);
}

/* A worker that is hung or wrong is killed here, and replaced when it is reaped. */
static void watch_worker(const struct keeper *keeper, struct keeper_worker *worker)
{
    const struct control_engine *control = control_of(keeper, worker);
    const struct guard_signs signs = {
        .heartbeat = control->heartbeat, .is_ready = was_worker_ready(control),
        .owes = atomic_load(&control->asked) != atomic_load(&control->answered)};
    if (atomic_load(&control->condemned) == atomic_load(&control->worker_epoch)) {
        worker->failure = (enum control_failure)atomic_load(&control->condemned_for);
        kill(worker->pid, SIGKILL);
    } else if (guard_tick(&worker->guard, &signs)) {
        worker->failure = CONTROL_HUNG;
        kill(worker->pid, SIGKILL);
    }
}

/* True once in WAIT_TICKS of waiting. */
static bool has_waited(uint32_t *ticks, bool waits)
{
    *ticks = waits ? *ticks + 1 : 0;
    if (*ticks < WAIT_TICKS) {
        return false;
    }
    *ticks = 0;
    return true;
}

static void tick_worker(struct keeper *keeper, struct keeper_worker *worker, bool stop_now)
{
    if (worker->pid > 0) {
        watch_worker(keeper, worker);
    } else if (worker->wait_ticks > 0 && !stop_now && --worker->wait_ticks == 0) {
        fork_worker(keeper, worker);
    }
}

/* All workers have the same pages. */
static void tick_weights(struct keeper *keeper)
{
    bool are_used = false;
    for (uint32_t i = 0; i < keeper->boot->limits.engines; i++) {
        are_used = are_used || keeper->workers[i].pid > 0;
    }
    weights_tick(&keeper->weights, are_used, now_us());
    for (uint32_t i = 0; i < keeper->boot->limits.engines; i++) {
        struct keeper_worker *worker = &keeper->workers[i];
        if (keeper->weights.state == WEIGHTS_DAMAGED && worker->pid > 0) {
            worker->failure = CONTROL_WEIGHTS;
            kill(worker->pid, SIGKILL);
        }
    }
}

/* What no signal tells: weights that are damaged, a worker that is missing, hung or wrong, and a
 * core that does not follow its orders. */
static void act_on_tick(struct keeper *keeper)
{
    bool stop_now = atomic_load(&keeper->boot->shared.control->stop) == CONTROL_STOP_NOW;
    reload_tick(&keeper->reload);
    tick_weights(keeper);
    for (uint32_t i = 0; i < keeper->boot->limits.engines; i++) {
        tick_worker(keeper, &keeper->workers[i], stop_now);
    }
    if (has_waited(&keeper->waited_ticks, stop_now)) {
        log_event(LOG_ERROR, "core does not end: killed");
        kill(keeper->core, SIGKILL);
    }
}

static void end_children(const struct keeper *keeper)
{
    end_child(keeper->core);
    for (uint32_t i = 0; i < keeper->boot->limits.engines; i++) {
        end_child(keeper->workers[i].pid);
    }
}

static struct timespec tick_of(const struct keeper *keeper)
{
    const struct control *control = keeper->boot->shared.control;
    bool may_idle = atomic_load(&control->is_quiet) != 0 && !keeper->reload.is_due &&
                    keeper->weights.state == WEIGHTS_WHOLE && control->idle_us > GUARD_TICK_US;
    uint64_t us = may_idle ? control->idle_us : GUARD_TICK_US;
    return (struct timespec){.tv_sec = (time_t)(us / 1000000),
                             .tv_nsec = (long)(us % 1000000 * 1000)};
}

static enum boot_exit watch(struct keeper *keeper)
{
    enum boot_exit exit_status = BOOT_EXIT_OK;
    while (!reap(keeper, &exit_status)) {
        const struct timespec tick = tick_of(keeper);
        int number = sigtimedwait(&keeper->signals, NULL, &tick);
        if (number == SIGTERM || number == SIGINT) {
            pass_stop(keeper);
        } else if (number == SIGHUP) {
            reload_signal(&keeper->reload);
        } else if (number < 0 && errno == EAGAIN) {
            act_on_tick(keeper);
        }
        notify_tick(&keeper->notify, keeper->boot->shared.control);
    }
    keeper->core = -1;
    end_children(keeper);
    return exit_status;
}

/* True when SIGTERM or SIGINT is pending, or the core has ended. */
static bool end_is_wanted(const struct keeper *keeper)
{
    sigset_t pending;
    siginfo_t core = {.si_pid = 0};
    sigpending(&pending);
    waitid(P_PID, (id_t)keeper->core, &core, WEXITED | WNOHANG | WNOWAIT);
    return sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT) || core.si_pid != 0;
}

/* True when the weights are there; else the boot is to end, with that status. */
static bool load(struct keeper *keeper, enum boot_exit *exit_status)
{
    struct weights *weights = &keeper->weights;
    *exit_status = weights_begin(weights, keeper->boot);
    while (*exit_status == BOOT_EXIT_OK && !weights_are_read(weights) && !end_is_wanted(keeper)) {
        *exit_status = weights_next(weights);
        notify_loading(&keeper->notify, keeper->boot->shared.control->load_permille);
    }
    if (*exit_status != BOOT_EXIT_OK || !weights_are_read(weights)) {
        return false;
    }
    weights_end(weights);
    return true;
}

static enum boot_exit load_and_serve(struct keeper *keeper)
{
    enum boot_exit exit_status = BOOT_EXIT_OK;
    if (!load(keeper, &exit_status)) {
        return exit_status;
    }
    fork_workers(keeper);
    return boot_lock_memory(keeper->boot);  /* last: it is slow, and a fork undoes a part of it */
}

static void init_workers(struct keeper *keeper)
{
    const struct options *options = &keeper->boot->options;
    ASSERT(keeper->boot->limits.engines <= WORLD_ENGINES_MAX);
    for (uint32_t i = 0; i < keeper->boot->limits.engines; i++) {
        struct keeper_worker *worker = &keeper->workers[i];
        *worker = (struct keeper_worker){.engine = i, .pid = -1};
        guard_init(&worker->guard, &(struct guard_settings){
            .hang_us = options->engine_hang.number,
            .load_us = keeper->boot->source.size_bytes / LOAD_BYTES_PER_US_MIN,
            .failures_max = (uint32_t)options->engine_failures.number,
            .window_us = options->engine_failure_window.number});
    }
}

enum boot_exit keeper_run(struct boot *boot)
{
    static struct keeper keeper;        /* too large for a stack that children inherit */
    keeper.boot = boot;
    keeper.core = -1;
    init_workers(&keeper);
    enum boot_exit exit_status = listen_open(boot);
    if (exit_status != BOOT_EXIT_OK) {
        return exit_status;
    }
    log_role("keeper");
    seal_privileges();
    notify_open(&keeper.notify);
    boot->shared.control->idle_us = notify_idle_us(&keeper.notify);
    block_signals(&keeper);
    reload_init(&keeper.reload, boot);
    exit_status = fork_core(&keeper);
    reload_begin(&keeper.reload);
    listen_forget(boot);
    if (exit_status == BOOT_EXIT_OK) {
        exit_status = load_and_serve(&keeper);
    }
    if (exit_status != BOOT_EXIT_OK) {
        end_children(&keeper);
        listen_remove(boot);
        return exit_status;
    }
    exit_status = watch(&keeper);
    listen_remove(boot);
    log_event(LOG_INFO, "ended status=%d", (int)exit_status);
    return exit_status;
}
