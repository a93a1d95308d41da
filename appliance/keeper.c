/* SPDX-License-Identifier: MIT */
/*
 * What: the parent of the other two roles.
 *
 *   boot: listen -> fork core (text port says "starting") -> read weights -> fork worker -> watch
 *
 * Signals are waited for, never handled. While weights are read they stay pending; one that means
 * the end breaks the reading off, and watch() takes it, without a worker.
 *
 * Invariants: a dead worker's epoch is counted up before its successor is forked, so that no step
 * is ever run by the wrong worker; the core's death ends everything with the core's exit status.
 * Bounds: a worker that dies START_FAILURES_MAX times in a row before it is ready is given up, and
 * health says `failed`; one that dies later is restarted at once, every time.
 */
#include "appliance/keeper.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "appliance/base/assert.h"
#include "appliance/core.h"
#include "appliance/listen.h"
#include "appliance/log.h"
#include "appliance/notify.h"
#include "appliance/seal.h"
#include "appliance/worker.h"

#define START_FAILURES_MAX 5
#define WAIT_S             1        /* before a fork is tried again; for a core told to end now */
#define TICK_NS            100000000    /* between two looks for the service manager */

struct keeper {
    struct boot *boot;
    pid_t core, worker;
    uint32_t start_failures;
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
        gguf_source_close(&keeper->boot->source);
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

static void give_up_worker(struct keeper *keeper)
{
    struct control *control = keeper->boot->shared.control;
    atomic_store(&control->phase, CONTROL_ENGINE_FAILED);
    atomic_fetch_add(&control->worker_epoch, 1);
    control_ring(keeper->boot->shared.engine_bell);
    keeper->worker = -1;
    log_event(LOG_ERROR, "engine worker died %d times before it was ready: given up",
              START_FAILURES_MAX);
}

static void replace_worker(struct keeper *keeper, int wait_status)
{
    const struct control *control = keeper->boot->shared.control;
    bool was_ready = atomic_load(&control->worker_ready) == atomic_load(&control->worker_epoch);
    keeper->start_failures = was_ready ? 0 : keeper->start_failures + 1;
    log_event(LOG_WARN, "engine worker died pid=%d signal=%d status=%d", (int)keeper->worker,
              WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0,
              WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0);
    if (keeper->start_failures >= START_FAILURES_MAX) {
        give_up_worker(keeper);
        return;
    }
    fork_worker(keeper);
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

/* What a fork has refused, and what a core that does not run never takes note of. */
static void act_on_time(struct keeper *keeper, bool stop_now)
{
    if (stop_now) {
        log_event(LOG_ERROR, "core does not end: killed");
        kill(keeper->core, SIGKILL);
    } else {
        fork_worker(keeper);
    }
}

static enum boot_exit watch(struct keeper *keeper)
{
    static const struct timespec wait = {.tv_sec = WAIT_S}, tick = {.tv_nsec = TICK_NS};
    const struct timespec *tick_or_none = notify_is_wanted(&keeper->notify) ? &tick : NULL;
    const struct control *control = keeper->boot->shared.control;
    enum boot_exit exit_status = BOOT_EXIT_OK;
    while (!reap(keeper, &exit_status)) {
        bool stop_now = atomic_load(&control->stop) == CONTROL_STOP_NOW;
        bool misses_worker =
            keeper->worker < 0 && atomic_load(&control->phase) == CONTROL_SERVING;
        int number = sigtimedwait(&keeper->signals, NULL,
                                  stop_now || misses_worker ? &wait : tick_or_none);
        if (number == SIGTERM || number == SIGINT) {
            pass_stop(keeper);
        } else if (number < 0 && errno == EAGAIN && (stop_now || misses_worker)) {
            act_on_time(keeper, stop_now);
        }
        notify_tick(&keeper->notify, control);
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

static enum boot_exit load_and_serve(struct keeper *keeper)
{
    static struct boot_load load;
    struct boot *boot = keeper->boot;
    struct control *control = boot->shared.control;
    log_event(LOG_INFO, "loading model=%s name=\"%s\" bytes=%llu", boot->source.name,
              boot->gguf->model_name, (unsigned long long)boot->source.size_bytes);
    enum boot_exit exit_status = read_weights(keeper, &load);
    if (exit_status != BOOT_EXIT_OK || !boot_load_is_done(&load)) {
        return exit_status;
    }
    boot_load_end(boot, &load);
    log_event(LOG_INFO, "loaded digest=%016llx", (unsigned long long)load.loading.digest);
    exit_status = boot_lock_memory(boot);
    if (exit_status == BOOT_EXIT_OK) {
        atomic_store(&control->phase, CONTROL_SERVING);
        fork_worker(keeper);
    }
    return exit_status;
}

enum boot_exit keeper_run(struct boot *boot)
{
    struct keeper keeper = {.boot = boot, .core = -1, .worker = -1};
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
        listen_remove(boot);
        return exit_status;
    }
    exit_status = watch(&keeper);
    listen_remove(boot);
    log_event(LOG_INFO, "ended status=%d", (int)exit_status);
    return exit_status;
}
