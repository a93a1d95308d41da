/* SPDX-License-Identifier: MIT */
/*
 * What: the parent of the other two roles.
 *
 *   boot: listen -> fork core (text port says "starting") -> read weights -> fork worker -> watch
 *
 * Signals are waited for, never handled. While weights are read they stay pending; one that means
 * the end breaks the reading off, and watch() takes it, without a worker.
 *
 * A worker fails by dying, by hanging (its heart stands still) or by being wrong (the core says
 * so). It is killed then, and replaced; too often, and the engine is given up (guard.h).
 *
 * Invariants: a dead worker's epoch is counted up before its successor is forked, so that no step
 * is ever run by the wrong worker; the core's death ends everything with the core's exit status.
 * Bounds: it wakes up every GUARD_TICK_US. A worker that was ready is replaced at once, one that
 * never was after WAIT_TICKS.
 */
#include "appliance/keeper.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "appliance/core.h"
#include "appliance/guard.h"
#include "appliance/boot/listen.h"
#include "appliance/log.h"
#include "appliance/boot/notify.h"
#include "appliance/seal/seal.h"
#include "appliance/worker.h"

#define WAIT_TICKS 10               /* before a fork is tried again; for a core told to end now */

struct keeper {
    struct boot *boot;
    pid_t core, worker;             /* -1: there is none */
    struct guard guard;
    enum control_failure failure;   /* why the worker dies, if it does */
    uint32_t waited_ticks;          /* for either of these */
    struct notify notify;
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
}

/* In the child: dies with the keeper, whatever kills that; and what the keeper takes, which may be
 * sent to the whole group, is not for it: the keeper decides when to end. */
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
        boot_forget_worker(keeper->boot);
        core_run(keeper->boot);
    }
    return BOOT_EXIT_OK;
}

static void fork_worker(struct keeper *keeper)
{
    struct control *control = keeper->boot->shared.control;
    uint32_t epoch = atomic_load(&control->worker_epoch) + 1;
    pid_t parent = getpid();
    atomic_store(&control->worker_epoch, epoch);
    guard_begin(&keeper->guard);
    keeper->failure = CONTROL_DIED;
    keeper->worker = fork();
    if (keeper->worker == 0) {
        follow_parent(parent, &keeper->signals);
        notify_close(&keeper->notify);
        worker_run(keeper->boot, epoch);
    }
    if (keeper->worker < 0) {
        log_event(LOG_WARN, "engine worker: fork: %s: tried again", strerror(errno));
    }
    atomic_store(&control->worker_pid, (uint32_t)(keeper->worker < 0 ? 0 : keeper->worker));
    control_ring(keeper->boot->shared.engine_bell);
}

static void give_up_worker(const struct keeper *keeper)
{
    struct control *control = keeper->boot->shared.control;
    atomic_store(&control->failure, keeper->failure);
    atomic_store(&control->phase, CONTROL_ENGINE_FAILED);
    atomic_fetch_add(&control->worker_epoch, 1);
    control_ring(keeper->boot->shared.engine_bell);
    log_event(LOG_ERROR, "engine worker failed too often: given up");
}

static bool is_worker_ready(const struct control *control)
{
    return atomic_load(&control->worker_ready) == atomic_load(&control->worker_epoch);
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void replace_worker(struct keeper *keeper, int wait_status)
{
    static const char *const causes[] = {[CONTROL_DIED] = "died", [CONTROL_HUNG] = "was hung",
                                         [CONTROL_WRONG] = "was wrong"};
    log_event(LOG_WARN, "engine worker %s pid=%d signal=%d status=%d", causes[keeper->failure],
              (int)keeper->worker, WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0,
              WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0);
    keeper->worker = -1;
    if (guard_fail(&keeper->guard, now_us())) {
        give_up_worker(keeper);
    } else if (is_worker_ready(keeper->boot->shared.control)) {
        fork_worker(keeper);
    }
}

static void end_child(pid_t pid)
{
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

/* Exit status of a core that has ended. */
static enum boot_exit core_status(int wait_status)
{
    if (WIFEXITED(wait_status)) {
        return (enum boot_exit)WEXITSTATUS(wait_status);
    }
    log_event(LOG_ERROR, "core ended by signal %d", WTERMSIG(wait_status));
    return BOOT_EXIT_CORE;
}

/* Reaps whoever has died; true when it was the core. */
static bool reap(struct keeper *keeper, enum boot_exit *exit_status)
{
    int wait_status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        if (pid == keeper->core) {
            *exit_status = core_status(wait_status);
            return true;
        }
        if (pid == keeper->worker) {
            replace_worker(keeper, wait_status);
        }
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

/* It is killed, and replaced when it is reaped. */
static void watch_worker(struct keeper *keeper)
{
    const struct control *control = keeper->boot->shared.control;
    if (guard_tick(&keeper->guard, control->heartbeat, is_worker_ready(control))) {
        keeper->failure = CONTROL_HUNG;
        kill(keeper->worker, SIGKILL);
    } else if (atomic_load(&control->condemned) == atomic_load(&control->worker_epoch)) {
        keeper->failure = CONTROL_WRONG;
        kill(keeper->worker, SIGKILL);
    }
}

/* What no signal tells: a worker that is missing, hung or wrong, and a core that never takes note
 * of its orders. */
static void act_on_tick(struct keeper *keeper)
{
    const struct control *control = keeper->boot->shared.control;
    bool stop_now = atomic_load(&control->stop) == CONTROL_STOP_NOW;
    bool misses_worker = keeper->worker < 0 && atomic_load(&control->phase) == CONTROL_SERVING;
    if (keeper->worker > 0) {
        watch_worker(keeper);
    }
    keeper->waited_ticks = stop_now || misses_worker ? keeper->waited_ticks + 1 : 0;
    if (keeper->waited_ticks < WAIT_TICKS) {
        return;
    }
    keeper->waited_ticks = 0;
    if (stop_now) {
        log_event(LOG_ERROR, "core does not end: killed");
        kill(keeper->core, SIGKILL);
    } else {
        fork_worker(keeper);
    }
}

static enum boot_exit watch(struct keeper *keeper)
{
    static const struct timespec tick = {.tv_nsec = (long)GUARD_TICK_US * 1000};
    enum boot_exit exit_status = BOOT_EXIT_OK;
    while (!reap(keeper, &exit_status)) {
        int number = sigtimedwait(&keeper->signals, NULL, &tick);
        if (number == SIGTERM || number == SIGINT) {
            pass_stop(keeper);
        } else if (number < 0 && errno == EAGAIN) {
            act_on_tick(keeper);
        }
        notify_tick(&keeper->notify, keeper->boot->shared.control);
    }
    end_child(keeper->worker);
    return exit_status;
}

/* SIGTERM or SIGINT waits to be taken, or the core has ended. */
static bool end_is_wanted(const struct keeper *keeper)
{
    sigset_t pending;
    siginfo_t core = {.si_pid = 0};
    sigpending(&pending);
    waitid(P_PID, (id_t)keeper->core, &core, WEXITED | WNOHANG | WNOWAIT);
    return sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT) || core.si_pid != 0;
}

/* OK with the load not done: somebody wants the boot to end. */
static enum boot_exit read_weights(struct keeper *keeper, struct boot_load *load)
{
    volatile uint32_t *permille = &keeper->boot->shared.control->load_permille;
    enum boot_exit exit_status = boot_load_begin(keeper->boot, load);
    while (exit_status == BOOT_EXIT_OK && !boot_load_is_done(load) && !end_is_wanted(keeper)) {
        exit_status = boot_load_next(load, permille);
        notify_loading(&keeper->notify, *permille);
    }
    return exit_status;
}

/* True: the weights are there. The GPU's worker reads them itself. */
static bool load(struct keeper *keeper, enum boot_exit *exit_status)
{
    static struct boot_load load;
    struct boot *boot = keeper->boot;
    log_event(LOG_INFO, "loading model=%s name=\"%s\" bytes=%llu", boot->source.name,
              boot->gguf->model_name, (unsigned long long)boot->source.size_bytes);
    if (boot->serves_by_gpu) {
        boot->shared.control->load_permille = 1000;
        return true;
    }
    *exit_status = read_weights(keeper, &load);
    if (*exit_status != BOOT_EXIT_OK || !boot_load_is_done(&load)) {
        return false;
    }
    boot_load_end(boot, &load);
    log_event(LOG_INFO, "loaded digest=%016llx", (unsigned long long)load.loading.digest);
    return true;
}

static enum boot_exit load_and_serve(struct keeper *keeper)
{
    enum boot_exit exit_status = BOOT_EXIT_OK;
    if (!load(keeper, &exit_status)) {
        return exit_status;
    }
    atomic_store(&keeper->boot->shared.control->phase, CONTROL_SERVING);
    fork_worker(keeper);
    return boot_lock_memory(keeper->boot);  /* last: nobody waits for it, a fork undoes a part */
}

enum boot_exit keeper_run(struct boot *boot)
{
    struct keeper keeper = {.boot = boot, .core = -1, .worker = -1};
    const struct options *options = &boot->options;
    guard_init(&keeper.guard, options->engine_hang.number,
               (uint32_t)options->engine_failures.number, options->engine_failure_window.number);
    enum boot_exit exit_status = listen_open(boot);
    if (exit_status != BOOT_EXIT_OK) {
        return exit_status;
    }
    log_role("keeper");
    seal_privileges();
    notify_open(&keeper.notify);
    block_signals(&keeper);
    exit_status = fork_core(&keeper);
    config_keys_wipe(boot->keys);       /* the core has its own; nobody else needs them */
    listen_forget(boot);
    if (exit_status == BOOT_EXIT_OK) {
        exit_status = load_and_serve(&keeper);
    }
    if (exit_status != BOOT_EXIT_OK) {
        end_child(keeper.core);
        end_child(keeper.worker);
        listen_remove(boot);
        return exit_status;
    }
    exit_status = watch(&keeper);
    listen_remove(boot);
    log_event(LOG_INFO, "ended status=%d", (int)exit_status);
    return exit_status;
}
