/* SPDX-License-Identifier: MIT */
/* What: the core, its successor, and the core that waits (cores.h). */
#include "appliance/keeper/cores.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "appliance/boot/plan.h"
#include "appliance/clock.h"
#include "appliance/core.h"
#include "appliance/health.h"
#include "appliance/log.h"

#define END_TICKS        10         /* for a core that was told to end now */
#define NEXT_PAUSE_TICKS 50         /* before another core waits, if the last ended in its wait */

void cores_init(struct cores *cores)
{
    const struct options *options = &cores->boot->options;
    cores->core = cores->next = -1;
    guard_init(&cores->guard, &(struct guard_settings){
        .hang_us = options->engine_hang.number,
        .failures_max = (uint32_t)options->appliance_core_failures.number,
        .window_us = options->engine_failure_window.number});
}

enum boot_exit cores_start(struct cores *cores)
{
    cores->since_us = clock_us(CLOCK_MONOTONIC);
    cores->core = fork();
    if (cores->core < 0) {
        log_event(LOG_ERROR, "fork of the core: %s", strerror(errno));
        return BOOT_EXIT_SYSTEM;
    }
    if (cores->core == 0) {
        cores->begin(cores->context);
        core_run(cores->boot);
    }
    reload_begin(cores->reload);
    return BOOT_EXIT_OK;
}

/* Kills and reaps it; -1: there is none. */
static void end(pid_t *pid)
{
    if (*pid > 0) {
        kill(*pid, SIGKILL);
        waitpid(*pid, NULL, 0);
    }
    *pid = -1;
}

/* ---- the core that waits --------------------------------------------------------------------- */

/* There is one once the core serves, so that it takes no time from that. */
bool cores_next_is_due(const struct cores *cores)
{
    const struct control *control = cores->boot->shared.control;
    return cores->next <= 0 && cores->next_pause_ticks == 0 && plan_has_next_core(cores->boot) &&
           atomic_load(&control->stop) == CONTROL_RUN &&
           atomic_load(&control->health) != HEALTH_STARTING;
}

static void keep_next(struct cores *cores)
{
    const struct control *control = cores->boot->shared.control;
    cores->next_pause_ticks -= cores->next <= 0 && cores->next_pause_ticks > 0;
    if (!cores_next_is_due(cores) ||
        clock_us(CLOCK_MONOTONIC) - cores->since_us < GUARD_TICK_US) {
        return;
    }
    uint32_t restarts = atomic_load(&control->core_restarts);
    cores->next_pause_ticks = NEXT_PAUSE_TICKS;
    cores->next = fork();
    if (cores->next == 0) {
        cores->begin(cores->context);
        core_wait(cores->boot, restarts);
    }
}

/* True when it has the keys, and is the core. */
static bool call_next(struct cores *cores)
{
    if (cores->next <= 0 || !reload_hand_over(cores->reload)) {
        return false;
    }
    cores->core = cores->next;
    cores->since_us = clock_us(CLOCK_MONOTONIC);
    cores->next = -1;
    cores->next_pause_ticks = 0;
    return true;
}

/* ---- the successor --------------------------------------------------------------------------- */

/* `was_killed`: the one before was, from outside. One that waits and got no keys must not begin. */
static bool succeed(struct cores *cores, bool was_killed)
{
    bool is_there = call_next(cores);
    end(&cores->next);
    control_begin_core(cores->boot->shared.control, was_killed);
    return is_there || cores_start(cores) == BOOT_EXIT_OK;
}

bool cores_begin(struct cores *cores, bool takes)
{
    bool is_there = reload_renew(cores->reload) && succeed(cores, true);
    if (takes) {
        atomic_store(&cores->boot->shared.control->core_restarts, 0);
    }
    return is_there;
}

/* Cores that die at once take no more of the machine than one for each tick does. */
static void wait_for_turn(const struct cores *cores)
{
    uint64_t lived_us = clock_us(CLOCK_MONOTONIC) - cores->since_us;
    clock_rest(lived_us < GUARD_TICK_US ? GUARD_TICK_US - lived_us : 0);
}

/* One that was told to end has no successor. */
bool cores_replace(struct cores *cores, bool was_killed)
{
    bool is_wanted = atomic_load(&cores->boot->shared.control->stop) == CONTROL_RUN;
    if (!is_wanted || guard_fail(&cores->guard, true, clock_us(CLOCK_MONOTONIC)) != 0 ||
        !reload_renew(cores->reload)) {
        return false;
    }
    wait_for_turn(cores);
    log_event(LOG_WARN, "another core takes over: connections, calls and workflows go on");
    return succeed(cores, was_killed);
}

/* ---- children that end, or should ------------------------------------------------------------ */

/* Exit status of a core that has ended. */
static enum boot_exit status_of(int wait_status)
{
    if (WIFEXITED(wait_status)) {
        return (enum boot_exit)WEXITSTATUS(wait_status);
    }
    log_event(LOG_ERROR, "core ended by signal %d", WTERMSIG(wait_status));
    return BOOT_EXIT_CORE;
}

bool cores_reap(struct cores *cores, pid_t pid, int wait_status, enum boot_exit *exit_status)
{
    if (pid == cores->next) {
        cores->next = -1;
        return true;
    }
    if (pid != cores->core) {
        return false;
    }
    cores->core = -1;
    *exit_status = status_of(wait_status);
    return true;
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

void cores_tick(struct cores *cores, bool may_wait, bool stop_now)
{
    if (may_wait) {
        keep_next(cores);
    }
    if (has_waited(&cores->waited_ticks, stop_now && cores->core > 0)) {
        log_event(LOG_ERROR, "core does not end: killed");
        kill(cores->core, SIGKILL);
    }
}

void cores_end_next(struct cores *cores)
{
    end(&cores->next);
}

void cores_end(struct cores *cores)
{
    end(&cores->core);
    end(&cores->next);
}
