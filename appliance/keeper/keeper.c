/* SPDX-License-Identifier: MIT */
/*
 * What: the parent of the other two roles.
 *
 *   boot: listen -> fork core (text port says "starting") -> read weights -> fork workers -> watch
 *
 * Signals are waited for, never handled. They stay pending while weights are read; one that means
 * the end stops the reading, and watch() then takes it, with no worker forked. SIGHUP: reload.h.
 *
 * A core that a signal ends, while workers serve, has a successor (cores.h). One that fails too
 * often, or that ends by itself, ends the appliance with its exit status.
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
#include "appliance/clock.h"
#include "appliance/keeper/cores.h"
#include "appliance/keeper/guard.h"
#include "appliance/keeper/notify.h"
#include "appliance/keeper/reload.h"
#include "appliance/keeper/replies/child.h"
#include "appliance/keeper/replies/file.h"
#include "appliance/keeper/upgrade/giver.h"
#include "appliance/keeper/upgrade/launcher.h"
#include "appliance/keeper/upgrade/taker.h"
#include "appliance/keeper/workers.h"
#include "appliance/log.h"
#include "appliance/seal/keeper.h"

struct keeper {
    struct boot *boot;
    pid_t pid;                      /* its own */
    uint64_t ticked_us;
    bool serves;                    /* workers have been started */
    struct cores cores;
    struct workers workers;
    struct replies_child writer;
    struct notify notify;
    struct reload reload;
    struct giver giver;             /* of all this to another keeper */
    bool takes;                     /* from another keeper, which serves still */
    uint32_t stops_due;             /* signals that came while another keeper may have it all */
    bool is_told;                   /* to end, though it drains for another keeper */
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

static void close_upgrade(const struct keeper *keeper)
{
    giver_close(&keeper->giver);
    if (keeper->boot->is_upgrade) {
        taker_close();
        launcher_close();
    }
}

/* In the child: it dies with the keeper, whatever kills that, if `dies`. It ignores the signals
 * that the keeper takes, which may be sent to the whole group: the keeper decides when to end.
 * It closes what the keeper alone speaks by. */
static void follow(struct keeper *keeper, bool dies)
{
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    sigprocmask(SIG_UNBLOCK, &keeper->signals, NULL);
    if (dies) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    if (getppid() != keeper->pid) {
        _exit(BOOT_EXIT_SYSTEM);
    }
    notify_close(&keeper->notify);
    close_upgrade(keeper);
}

/* In a core, with `context` as it is in the keeper. */
static void begin_core(void *context)
{
    struct keeper *keeper = context;
    follow(keeper, true);
    reload_close(keeper->boot, true);
    boot_forget_worker(keeper->boot);
    replies_file_forget(keeper->boot, true);
}

/* In the writer, with `context` as in the keeper. It has something to write when that dies. */
static void begin_writer(void *context)
{
    struct keeper *keeper = context;
    follow(keeper, false);
    reload_close(keeper->boot, false);
    boot_forget_worker(keeper->boot);
    listen_forget(keeper->boot);
    pockets_forget(&keeper->boot->pockets);
    close(keeper->boot->kept_handle);
    close(keeper->boot->shared.replies_bell[1]);
}

/* In a worker, with `context` as it is in the keeper. */
static void begin_worker(void *context)
{
    struct keeper *keeper = context;
    follow(keeper, true);
    reload_close(keeper->boot, false);
    listen_forget(keeper->boot);
    pockets_forget(&keeper->boot->pockets);
    boot_forget_core(keeper->boot);
    replies_file_forget(keeper->boot, false);
}

/* True when its end is a part of an upgrade: it has left all to another keeper's, or was to take
 * over from that, which goes on. */
static bool core_is_missed(const struct keeper *keeper)
{
    uint32_t stop = atomic_load(&keeper->boot->shared.control->stop);
    return stop != CONTROL_YIELD && (!keeper->takes || taker_has_all());
}

/* False: the keeper is to end. */
static bool replace_core(struct keeper *keeper, int wait_status, enum boot_exit exit_status)
{
    if (!core_is_missed(keeper)) {
        return !keeper->takes;
    }
    bool was_killed = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
    return keeper->serves && exit_status == BOOT_EXIT_CORE &&
           cores_replace(&keeper->cores, was_killed);
}

/* Reaps the children that have ended; true when there is no core any more. */
static bool reap(struct keeper *keeper, enum boot_exit *exit_status)
{
    int wait_status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        if (replies_child_reap(&keeper->writer, pid)) {
            continue;
        }
        if (!cores_reap(&keeper->cores, pid, wait_status, exit_status)) {
            workers_reap(&keeper->workers, pid, wait_status);
        } else if (keeper->cores.core < 0 && !replace_core(keeper, wait_status, *exit_status)) {
            return true;
        }
    }
    return false;
}

/* The first drains, also where another process has it drain already; the second ends at once. */
static void pass_stop(struct keeper *keeper)
{
    struct control *control = keeper->boot->shared.control;
    uint32_t stop = atomic_load(&control->stop);
    if (stop == CONTROL_LEAVE && !keeper->is_told) {
        keeper->is_told = true;
        log_event(LOG_INFO, "draining");
        return;
    }
    uint32_t next = stop == CONTROL_RUN ? CONTROL_DRAIN : CONTROL_STOP_NOW;
    atomic_store(&control->stop, next);
    log_event(LOG_INFO, next == CONTROL_DRAIN ? "draining" : "stopping now");
    control_ring(keeper->boot->shared.control_bell);
}

/* SIGTERM and SIGINT. What another keeper has said before them counts; and what the command of an
 * upgrade passes on is for the upgrade, which may be done. */
static void take_stop(struct keeper *keeper, const siginfo_t *from)
{
    if (launcher_is(from->si_pid) && taker_has_told()) {
        log_event(LOG_INFO, "upgrade: the command was told to end when this process had all");
    } else if (keeper->takes || keeper->giver.state != GIVER_IDLE) {
        keeper->stops_due++;
    } else {
        pass_stop(keeper);
    }
}

/* A core waits while another one of this keeper serves. */
static bool may_wait(const struct keeper *keeper)
{
    return keeper->serves && !keeper->takes;
}

static bool child_is_due(const struct keeper *keeper)
{
    return may_wait(keeper) &&
           (cores_next_is_due(&keeper->cores) || replies_child_is_due(&keeper->writer));
}

static void tick_reload(struct keeper *keeper)
{
    if (!giver_is_bound(&keeper->giver)) {
        reload_tick(&keeper->reload);
    }
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
    tick_reload(keeper);
    workers_tick(&keeper->workers, stop_now);
    cores_tick(&keeper->cores, may_wait(keeper), stop_now);
    if (may_wait(keeper)) {
        replies_child_tick(&keeper->writer);
    }
}

static void end_children(struct keeper *keeper)
{
    cores_end(&keeper->cores);
    workers_end(&keeper->workers);
    replies_child_end(&keeper->writer);
}

static struct timespec tick_of(const struct keeper *keeper)
{
    const struct control *control = keeper->boot->shared.control;
    bool may_idle = atomic_load(&control->is_quiet) != 0 && !keeper->reload.is_due &&
                    atomic_load(&control->stop) == CONTROL_RUN &&
                    keeper->workers.weights.state == WEIGHTS_WHOLE &&
                    !child_is_due(keeper) &&
                    control->idle_us > GUARD_TICK_US;
    uint64_t us = may_idle ? control->idle_us : GUARD_TICK_US;
    if (keeper->takes || keeper->giver.state != GIVER_IDLE) {
        us = GIVER_TICK_US;
    }
    return (struct timespec){.tv_sec = (time_t)(us / 1000000),
                             .tv_nsec = (long)(us % 1000000 * 1000)};
}

/* ---- upgrades -------------------------------------------------------------------------------- */

/* A core that drains takes up no call: it first has to serve. A second signal does not wait. */
static void pass_due_stops(struct keeper *keeper)
{
    const struct control *control = keeper->boot->shared.control;
    while (keeper->stops_due > 0 && !giver_is_bound(&keeper->giver) &&
           (atomic_load(&control->serves) != 0 || keeper->stops_due > 1 ||
            atomic_load(&control->stop) != CONTROL_RUN)) {
        keeper->stops_due--;
        giver_refuse(&keeper->giver, "the appliance was told to end");
        pass_stop(keeper);
    }
}

/* Another keeper serves by itself: what is open here ends here, and all that comes goes there. If
 * this one was told to end, that is done so. */
static void leave(struct keeper *keeper)
{
    notify_successor(&keeper->notify, keeper->giver.peer);
    keeper->notify.is_muted = true;
    listen_disown();
    listen_forget(keeper->boot);
    giver_forget(keeper->boot);
    cores_end_next(&keeper->cores);
    keeper->is_told = keeper->stops_due > 0;
    keeper->stops_due -= keeper->is_told;
}

/* A core that has just taken over first has to serve: it takes up no call when it drains. */
static void pass_leave(struct keeper *keeper)
{
    struct control *control = keeper->boot->shared.control;
    if (keeper->giver.state == GIVER_RELIEVED && atomic_load(&control->serves) != 0 &&
        atomic_load(&control->stop) == CONTROL_RUN) {
        atomic_store(&control->stop, CONTROL_LEAVE);
        control_ring(keeper->boot->shared.control_bell);
    }
}

/* True when the keeper is to end. */
static bool give(struct keeper *keeper, enum boot_exit *exit_status)
{
    struct control *control = keeper->boot->shared.control;
    const struct giver_facts facts = {
        .may_give = keeper->serves && !keeper->takes && atomic_load(&control->serves) != 0 &&
                    atomic_load(&control->stop) == CONTROL_RUN,
        .has_core = keeper->cores.core > 0, .domains = &keeper->reload.known,
        .weights = weights_digest(&keeper->workers.weights),
        .now_us = clock_us(CLOCK_MONOTONIC)};
    switch (giver_tick(&keeper->giver, &facts)) {
    case GIVER_NOTHING:
        break;
    case GIVER_END_CORE:
        atomic_store(&control->stop, CONTROL_YIELD);
        control_ring(keeper->boot->shared.control_bell);
        break;
    case GIVER_KILL_CORE:
        kill(keeper->cores.core, SIGKILL);
        break;
    case GIVER_BEGIN_CORE:
        atomic_store(&control->stop, CONTROL_RUN);
        log_event(LOG_WARN, "upgrade: this process goes on");
        *exit_status = BOOT_EXIT_CORE;
        return !cores_begin(&keeper->cores, keeper->takes);
    case GIVER_LEAVE:
        leave(keeper);
        break;
    case GIVER_END:
        notify_successor(&keeper->notify, keeper->giver.peer);
        listen_disown();
        *exit_status = BOOT_EXIT_OK;
        return true;
    }
    pass_leave(keeper);
    pass_due_stops(keeper);
    return false;
}

/* The command has ended: what it has passed on is there. */
static void forget_launcher(struct keeper *keeper)
{
    const struct timespec now = {0};
    siginfo_t from;
    sigset_t stops;
    launcher_stops(&stops);
    while (sigtimedwait(&stops, &from, &now) > 0) {
        take_stop(keeper, &from);
    }
    launcher_forget();
}

/* True when the keeper is to end. */
static bool take(struct keeper *keeper, enum boot_exit *exit_status)
{
    const struct control *control = keeper->boot->shared.control;
    const struct taker_facts facts = {
        .is_ready = workers_are_ready(&keeper->workers),
        .core_waits = atomic_load(&control->waits) != 0,
        .core_serves = atomic_load(&control->serves) != 0,
        .has_launcher = !launcher_has_ended(), .now_us = clock_us(CLOCK_MONOTONIC),
        .weights = weights_digest(&keeper->workers.weights)};
    *exit_status = BOOT_EXIT_UPGRADE;
    if (keeper->stops_due > 0 && !taker_has_told()) {
        log_event(LOG_WARN, "upgrade given up: told to end");
        return true;
    }
    switch (taker_tick(&facts)) {
    case TAKER_NOTHING:
        return false;
    case TAKER_BEGIN_CORE:
        taker_domains(&keeper->reload.known);
        return !cores_begin(&keeper->cores, keeper->takes);
    case TAKER_TELL_LAUNCHER:
        log_event(LOG_INFO, "upgrade: this process has all");
        launcher_tell();
        return false;
    case TAKER_DONE:
        forget_launcher(keeper);
        keeper->takes = false;
        keeper->notify.is_muted = false;
        log_event(LOG_INFO, "upgraded: version=%s serves", keeper->boot->version);
        return false;
    case TAKER_END:
        return true;
    }
    return false;
}

static bool act_on_upgrade(struct keeper *keeper, enum boot_exit *exit_status)
{
    return keeper->takes ? take(keeper, exit_status) : give(keeper, exit_status);
}

static enum boot_exit watch(struct keeper *keeper)
{
    enum boot_exit exit_status = BOOT_EXIT_OK;
    while (!reap(keeper, &exit_status) && !act_on_upgrade(keeper, &exit_status)) {
        const struct timespec tick = tick_of(keeper);
        siginfo_t from = {.si_pid = 0};
        int number = sigtimedwait(&keeper->signals, &from, &tick);
        if (number == SIGTERM || number == SIGINT) {
            take_stop(keeper, &from);
        } else if (number == SIGHUP) {
            keeper->reload.is_due = true;
            tick_reload(keeper);
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
    waitid(P_PID, (id_t)keeper->cores.core, &core, WEXITED | WNOHANG | WNOWAIT);
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
    *exit_status = replies_file_bind(keeper->boot, weights_digest(weights),
                                     &keeper->writer.header);
    return *exit_status == BOOT_EXIT_OK;
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
    *keeper = (struct keeper){.boot = boot, .pid = getpid()};
    keeper->cores = (struct cores){.boot = boot, .reload = &keeper->reload, .begin = begin_core,
                                   .context = keeper};
    cores_init(&keeper->cores);
    keeper->workers = (struct workers){.boot = boot, .begin = begin_worker, .context = keeper};
    workers_init(&keeper->workers);
    keeper->writer = (struct replies_child){.boot = boot, .begin = begin_writer, .context = keeper};
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
    giver_init(&keeper.giver, boot);
    keeper.takes = keeper.notify.is_muted = boot->is_upgrade;
    boot->shared.control->upgrades = boot->is_upgrade ? taker_upgrades() : 0;
    enum boot_exit exit_status = boot->is_upgrade ? BOOT_EXIT_OK : cores_start(&keeper.cores);
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
