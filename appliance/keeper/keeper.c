/* SPDX-License-Identifier: MIT */
/*
 * What: the parent of the other two roles.
 *
 *   boot: listen -> fork core (text port says "starting") -> read weights -> fork workers -> watch
 *
 * Signals are waited for, never handled. They stay pending while weights are read; one that means
 * the end stops the reading, and watch() then takes it, with no worker forked. SIGHUP: reload.h.
 *
 * A core that a signal ends, while workers serve, has a successor: the listeners are the keeper's
 * too, so clients that come wait for it, and it takes over the workers as they are, and connections
 * with their calls (pockets.h, net/kept/). It has been forked before and waits, with its memory.
 * One that fails too often, or that ends by itself, ends the appliance with its exit status.
 *
 * Bounds: it wakes up every GUARD_TICK_US, and every control->idle_us while the core is quiet.
 */
#include "appliance/keeper/keeper.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "appliance/boot/files.h"
#include "appliance/boot/listen.h"
#include "appliance/boot/plan.h"
#include "appliance/clock.h"
#include "appliance/core.h"
#include "appliance/health.h"
#include "appliance/keeper/guard.h"
#include "appliance/keeper/notify.h"
#include "appliance/keeper/reload.h"
#include "appliance/keeper/workers.h"
#include "appliance/log.h"
#include "appliance/seal/keeper.h"

#define END_TICKS 10                /* for a core that was told to end now */
#define NEXT_PAUSE_TICKS 50         /* before another core waits, if the last ended in its wait */

struct keeper {
    struct boot *boot;
    pid_t pid;                      /* its own */
    pid_t core;                     /* -1: there is none */
    uint64_t core_since_us;
    pid_t next_core;                /* a core that waits; -1: there is none */
    uint32_t next_pause_ticks;      /* before there is one */
    struct guard core_guard;        /* how often cores have failed */
    uint64_t ticked_us;
    bool serves;                    /* workers have been started */
    struct workers workers;
    uint32_t waited_ticks;          /* for the core to end */
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
    signal(SIGXFSZ, SIG_IGN);           /* the log's file has reached a limit: lines are lost */
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
}

/* In the child: it dies with the keeper, whatever kills that. It ignores the signals that the
 * keeper takes, which may be sent to the whole group: the keeper decides when to end. */
static void follow(const struct keeper *keeper)
{
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    sigprocmask(SIG_UNBLOCK, &keeper->signals, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper->pid) {
        _exit(BOOT_EXIT_SYSTEM);
    }
}

/* In a core. */
static void begin_core(struct keeper *keeper)
{
    follow(keeper);
    notify_close(&keeper->notify);
    reload_close(keeper->boot, true);
    boot_forget_worker(keeper->boot);
}

static enum boot_exit fork_core(struct keeper *keeper)
{
    keeper->core_since_us = clock_us(CLOCK_MONOTONIC);
    keeper->core = fork();
    if (keeper->core < 0) {
        log_event(LOG_ERROR, "fork of the core: %s", strerror(errno));
        return BOOT_EXIT_SYSTEM;
    }
    if (keeper->core == 0) {
        begin_core(keeper);
        core_run(keeper->boot);
    }
    reload_begin(&keeper->reload);
    return BOOT_EXIT_OK;
}

/* ---- the core that waits --------------------------------------------------------------------- */

/* There is one once the core serves, so that it takes no time from that. */
static bool next_core_is_due(const struct keeper *keeper)
{
    const struct control *control = keeper->boot->shared.control;
    return keeper->next_core <= 0 && keeper->next_pause_ticks == 0 && keeper->serves &&
           plan_has_next_core(keeper->boot) && atomic_load(&control->stop) == CONTROL_RUN &&
           atomic_load(&control->health) != HEALTH_STARTING;
}

static void keep_next_core(struct keeper *keeper)
{
    const struct control *control = keeper->boot->shared.control;
    keeper->next_pause_ticks -= keeper->next_core <= 0 && keeper->next_pause_ticks > 0;
    if (!next_core_is_due(keeper) ||
        clock_us(CLOCK_MONOTONIC) - keeper->core_since_us < GUARD_TICK_US) {
        return;
    }
    uint32_t restarts = atomic_load(&control->core_restarts);
    keeper->next_pause_ticks = NEXT_PAUSE_TICKS;
    keeper->next_core = fork();
    if (keeper->next_core == 0) {
        begin_core(keeper);
        core_wait(keeper->boot, restarts);
    }
}

/* True when it has the keys, and is the core. */
static bool call_next_core(struct keeper *keeper)
{
    if (keeper->next_core <= 0 || !reload_hand_over(&keeper->reload)) {
        return false;
    }
    keeper->core = keeper->next_core;
    keeper->core_since_us = clock_us(CLOCK_MONOTONIC);
    keeper->next_core = -1;
    keeper->next_pause_ticks = 0;
    return true;
}

/* In a worker, with `context` as it is in the keeper. */
static void begin_worker(void *context)
{
    struct keeper *keeper = context;
    follow(keeper);
    notify_close(&keeper->notify);
    reload_close(keeper->boot, false);
    listen_forget(keeper->boot);
    pockets_forget(&keeper->boot->pockets);
    boot_forget_core(keeper->boot);
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

/* One that was told to end, or that ends by itself, has no successor. */
static bool may_have_successor(struct keeper *keeper, enum boot_exit exit_status)
{
    bool is_wanted = atomic_load(&keeper->boot->shared.control->stop) == CONTROL_RUN;
    return exit_status == BOOT_EXIT_CORE && is_wanted && keeper->serves &&
           guard_fail(&keeper->core_guard, true, clock_us(CLOCK_MONOTONIC)) == 0;
}

/* Cores that die at once take no more of the machine than one for each tick does. */
static void wait_for_turn(const struct keeper *keeper)
{
    sigset_t none;
    uint64_t lived_us = clock_us(CLOCK_MONOTONIC) - keeper->core_since_us;
    uint64_t rest_us = lived_us < GUARD_TICK_US ? GUARD_TICK_US - lived_us : 0;
    const struct timespec rest = {.tv_nsec = (long)(rest_us * 1000)};
    sigemptyset(&none);
    (void)sigtimedwait(&none, NULL, &rest);
}

/* True when there is another core. */
static bool replace_core(struct keeper *keeper, enum boot_exit exit_status, bool was_killed)
{
    keeper->core = -1;
    if (!may_have_successor(keeper, exit_status) || !reload_renew(&keeper->reload)) {
        return false;
    }
    wait_for_turn(keeper);
    bool is_there = call_next_core(keeper);
    control_begin_core(keeper->boot->shared.control, was_killed);
    log_event(LOG_WARN, "another core takes over: connections and calls go on, workflows are "
              "lost");
    return is_there || fork_core(keeper) == BOOT_EXIT_OK;
}

/* Reaps the children that have ended; true when there is no core any more. */
static bool reap(struct keeper *keeper, enum boot_exit *exit_status)
{
    int wait_status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        if (pid == keeper->next_core) {
            keeper->next_core = -1;
            continue;
        }
        if (pid != keeper->core) {
            workers_reap(&keeper->workers, pid, wait_status);
            continue;
        }
        *exit_status = core_status(wait_status);
        bool was_killed = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
        if (!replace_core(keeper, *exit_status, was_killed)) {
            return true;
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

/* True once in END_TICKS of waiting. */
static bool has_waited(uint32_t *ticks, bool waits)
{
    *ticks = waits ? *ticks + 1 : 0;
    if (*ticks < END_TICKS) {
        return false;
    }
    *ticks = 0;
    return true;
}

/* What no signal tells: a worker that is missing, hung or wrong, and a core that does not follow
 * its orders. */
static void act_on_tick(struct keeper *keeper)
{
    uint64_t now_us = clock_us(CLOCK_MONOTONIC);
    if (now_us - keeper->ticked_us < GUARD_TICK_US) {
        return;                         /* a signal came in between, as often as children end */
    }
    keeper->ticked_us = now_us;
    atomic_store(&keeper->boot->shared.control->lines_lost, log_lost());
    bool stop_now = atomic_load(&keeper->boot->shared.control->stop) == CONTROL_STOP_NOW;
    reload_tick(&keeper->reload);
    workers_tick(&keeper->workers, stop_now);
    keep_next_core(keeper);
    if (has_waited(&keeper->waited_ticks, stop_now)) {
        log_event(LOG_ERROR, "core does not end: killed");
        kill(keeper->core, SIGKILL);
    }
}

static void end_children(struct keeper *keeper)
{
    if (keeper->core > 0) {
        kill(keeper->core, SIGKILL);
        waitpid(keeper->core, NULL, 0);
    }
    if (keeper->next_core > 0) {
        kill(keeper->next_core, SIGKILL);
        waitpid(keeper->next_core, NULL, 0);
    }
    workers_end(&keeper->workers);
}

static struct timespec tick_of(const struct keeper *keeper)
{
    const struct control *control = keeper->boot->shared.control;
    bool may_idle = atomic_load(&control->is_quiet) != 0 && !keeper->reload.is_due &&
                    atomic_load(&control->stop) == CONTROL_RUN &&
                    keeper->workers.weights.state == WEIGHTS_WHOLE && !next_core_is_due(keeper) &&
                    control->idle_us > GUARD_TICK_US;
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
        }
        act_on_tick(keeper);
        notify_tick(&keeper->notify, keeper->boot->shared.control);
    }
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
    struct weights *weights = &keeper->workers.weights;
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
    workers_start(&keeper->workers);
    keeper->serves = true;
    return boot_lock_memory(keeper->boot);  /* last: it is slow, and a fork undoes a part of it */
}

static void init(struct keeper *keeper, struct boot *boot)
{
    const struct options *options = &boot->options;
    *keeper = (struct keeper){.boot = boot, .pid = getpid(), .core = -1, .next_core = -1};
    keeper->workers = (struct workers){.boot = boot, .begin = begin_worker, .context = keeper};
    workers_init(&keeper->workers);
    guard_init(&keeper->core_guard, &(struct guard_settings){
        .hang_us = options->engine_hang.number,
        .failures_max = (uint32_t)options->appliance_core_failures.number,
        .window_us = options->engine_failure_window.number});
}

enum boot_exit keeper_run(struct boot *boot)
{
    static struct keeper keeper;        /* too large for a stack that children inherit */
    init(&keeper, boot);
    log_role("keeper");
    files_confine_service(boot);
    notify_open(&keeper.notify);
    boot->shared.control->idle_us = notify_idle_us(&keeper.notify);
    block_signals(&keeper);
    reload_init(&keeper.reload, boot);
    enum boot_exit exit_status = fork_core(&keeper);
    if (exit_status == BOOT_EXIT_OK) {
        exit_status = seal_keeper(boot);
    }
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
