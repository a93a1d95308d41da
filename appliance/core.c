/* SPDX-License-Identifier: MIT */
/*
 * What: the core role. Takes its arena, builds the loop, seals, then runs passes until it has
 * drained. One that is to take over when another dies waits between the first two: to find memory
 * for it takes longer than the rest, and at times ten times as long.
 * Invariant: after seal_process() this process allocates, opens and starts nothing.
 * Owner: one thread; the keeper reaches it by the control page only.
 */
#include "appliance/core.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "appliance/keeper/file_lock.h"
#include "appliance/log.h"
#include "appliance/loop.h"
#include "appliance/seal/seal.h"
#include "appliance/text/refusals.h"
#include "appliance/world_linux.h"

static const char *failure_of(const struct control_engine *control)
{
    static const char *const causes[] = {[CONTROL_NONE] = NULL, [CONTROL_DIED] = "engine died",
                                         [CONTROL_HUNG] = "engine hung",
                                         [CONTROL_WRONG] = "engine wrong",
                                         [CONTROL_INCONSISTENT] = "engine inconsistent",
                                         [CONTROL_WEIGHTS] = "weights damaged"};
    uint32_t failure = atomic_load(&control->failure);
    ASSERT(failure < CONTROL_FAILURES);
    return causes[failure];
}

static const char *wait_of(const struct control_engine *control)
{
    static const char *const causes[] = {[CONTROL_NONE] = NULL,
                                         [CONTROL_DIED] = "engine backs off: died",
                                         [CONTROL_HUNG] = "engine backs off: hung",
                                         [CONTROL_WRONG] = "engine backs off: wrong",
                                         [CONTROL_INCONSISTENT] =
                                             "engine backs off: inconsistent",
                                         [CONTROL_WEIGHTS] = "weights are read again"};
    uint32_t cause = atomic_load(&control->backs_off);
    ASSERT(cause < CONTROL_FAILURES);
    return causes[cause];
}

/* What the keeper has written lies in the pipe as a whole. */
static void read_whole(const struct shared *shared, struct config_admission *admission)
{
    uint8_t *bytes = (uint8_t *)admission;
    for (size_t count = 0; count < sizeof *admission;) {
        ssize_t got = read(shared->admission_pipe[0], bytes + count, sizeof *admission - count);
        ASSERT(got > 0);
        count += (size_t)got;
    }
}

static bool read_admission(const struct shared *shared, struct config_admission *admission)
{
    uint32_t taken = atomic_load(&shared->control->admissions_taken);
    if (atomic_load(&shared->control->admissions) == taken) {
        return false;
    }
    read_whole(shared, admission);
    return true;
}

static void read_orders(const struct control *control, struct loop_orders *orders)
{
    uint32_t stop = atomic_load(&control->stop);
    *orders = (struct loop_orders){
        .drain = stop == CONTROL_DRAIN || stop == CONTROL_LEAVE,
        .leaves = stop == CONTROL_LEAVE,
        .stop_now = stop == CONTROL_STOP_NOW,
        .yields = stop == CONTROL_YIELD,
        .load_permille = control->load_permille,
        .core_restarts = atomic_load(&control->core_restarts),
        .idle_us = control->idle_us,
        .weights_slices = atomic_load(&control->slices),
        .weights_damaged = atomic_load(&control->damages),
        .lines_lost = log_lost() + atomic_load(&control->lines_lost),
    };
    for (uint32_t i = 0; i < control->engines_count; i++) {
        orders->engines[i] = (struct engine_orders){
            .failure = failure_of(&control->engines[i]),
            .waits = wait_of(&control->engines[i]),
            .worker_pid = atomic_load(&control->engines[i].worker_pid)};
    }
}

/* For the keeper, which tells the service manager. */
static void report(const struct loop *loop, const struct loop_orders *orders,
                   struct control *control)
{
    struct health health;
    loop_health(loop, orders, &health);
    atomic_store(&control->health, health.state);
    atomic_fetch_add(&control->progress, health.moves ? 1 : 0);
    atomic_store(&control->is_quiet, loop_is_quiet(loop));
    if (loop->serving && atomic_load(&control->serves) == 0) {
        log_event(LOG_INFO, "%s model=\"%s\" engines=%u",
                  health.state == HEALTH_READY ? "ready:" : "serves, but is not ready:",
                  loop->settings.model_name, loop->engines_count);
    }
    atomic_store(&control->serves, loop->serving);
}

/* The next core must not learn from a worker what it is to judge it by. */
static void keep_canaries(const struct loop *loop, struct control *control)
{
    for (uint32_t i = 0; i < control->engines_count; i++) {
        const struct canary *canary = &loop->engines[i].canary;
        if (canary->is_known && atomic_load(&control->engines[i].knows_canary) == 0) {
            atomic_store(&control->engines[i].canary, canary->digest);
            atomic_store(&control->engines[i].knows_canary, 1);
        }
    }
}

static void recall_canaries(struct loop *loop, const struct control *control)
{
    for (uint32_t i = 0; i < control->engines_count; i++) {
        if (atomic_load(&control->engines[i].knows_canary) != 0) {
            canary_recall(&loop->engines[i].canary, atomic_load(&control->engines[i].canary));
        }
    }
}

/* Here and not in the loop: the log is the product's, and other worlds run the same loop. */
static void tell_refusals(struct loop *loop)
{
    if (loop->net.refusals.count == 0 && loop->net.refusals.left_out == 0) {
        return;
    }
    const struct refusals_moment moment = {loop->world->wall_us(loop->world->self), loop->now_us};
    refusals_tell(&loop->net, &moment);
}

/* Between two passes all is as a successor takes it up. The next core begins at once: closing the
 * handle unlocks, and what is left to the kernel takes milliseconds. */
static _Noreturn void yield(const struct boot *boot)
{
    close(boot->kept_handle);
    _exit(BOOT_EXIT_OK);
}

static void expect_ok(enum boot_exit exit_status)
{
    if (exit_status != BOOT_EXIT_OK) {
        _exit(exit_status);
    }
}

/* All that does not depend on when it serves. */
static void prepare(const struct boot *boot, const char *name, struct arena *arena)
{
    prctl(PR_SET_NAME, name);
    log_role("core");
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    if (arena_map(arena, memory_plan_bytes(&boot->plan, MEMORY_CORE), false) != STATUS_OK) {
        log_event(LOG_ERROR, "boot failed: cannot reserve the core's memory");
        _exit(BOOT_EXIT_MEMORY);
    }
    expect_ok(seal_prepare(boot));
}

static void build(struct loop *loop, struct world_linux *world, const struct boot *boot,
                  const struct config_admission *admission, struct arena *arena)
{
    struct arena kept = boot->kept_arena;
    struct loop_settings settings;
    boot_loop_settings(boot, &settings);
    settings.kept = &kept;
    settings.upgrades = boot->shared.control->upgrades;
    settings.was_killed = atomic_load(&boot->shared.control->core_was_killed) != 0;
    if (admission != NULL) {
        settings.keys = &admission->keys;
        config_access_admit(&settings.access, &admission->access);
    }
    if (world_linux_init(world, &boot->shared, &boot->step, &boot->pockets) != STATUS_OK) {
        log_event(LOG_ERROR, "boot failed: epoll");
        _exit(BOOT_EXIT_MEMORY);
    }
    atomic_store(&boot->shared.control->waits, 1);
    /* Kept memory belongs to one core at a time, of whichever keeper. The kernel gives the lock
     * back when its owner is gone, with all that it had mapped. */
    if (!file_lock(boot->kept_handle, F_SETLKW)) {
        log_event(LOG_ERROR, "boot failed: cannot lock the kept memory: error %d", errno);
        _exit(BOOT_EXIT_SYSTEM);
    }
    loop_init(loop, &settings, &world->world, arena);
    recall_canaries(loop, boot->shared.control);
    ASSERT(arena->used_bytes == memory_plan_bytes(&boot->plan, MEMORY_CORE));
    ASSERT(kept.used_bytes == memory_plan_bytes(&boot->plan, MEMORY_KEPT));
    arena_seal(arena);
    expect_ok(seal_process(SEAL_CORE, boot, world->epoll));
}

/* Once for each pass that has kept a reply. A pipe that is full has been rung enough. */
static void ring_writer(const struct boot *boot, uint64_t *rung)
{
    uint64_t kept = boot->replies.numbers->changed;
    if (boot->replies_handle > 0 && kept != *rung) {
        ssize_t ignored = write(boot->shared.replies_bell[1], "", 1);
        (void)ignored;
    }
    *rung = kept;
}

static _Noreturn void serve(struct loop *loop, const struct boot *boot)
{
    loop_listen_text(loop, boot->listeners[BOOT_LISTENER_TEXT]);
    const int32_t listeners[NET_LISTENERS_MAX] = {
        [NET_LISTENER_LOCAL] = boot->listeners[BOOT_LISTENER_UNIX],
        [NET_LISTENER_TCP] = boot->listeners[BOOT_LISTENER_TCP],
    };
    static struct config_admission admission;
    struct loop_orders orders;
    uint64_t rung = 0;                  /* what it has taken up is rung for, too */
    bool goes_on = true;
    while (goes_on) {
        read_orders(boot->shared.control, &orders);
        bool is_new = read_admission(&boot->shared, &admission);
        orders.admission = is_new ? &admission : NULL;
        goes_on = loop_pass(loop, &orders, listeners);
        if (is_new) {
            config_keys_wipe(&admission.keys);
            atomic_fetch_add(&boot->shared.control->admissions_taken, 1);
        }
        tell_refusals(loop);
        keep_canaries(loop, boot->shared.control);
        ring_writer(boot, &rung);
        report(loop, &orders, boot->shared.control);
        if (goes_on && orders.yields && loop_may_yield(loop)) {
            yield(boot);
        }
    }
    _exit(BOOT_EXIT_OK);
}

static struct loop the_loop;
static struct world_linux the_world;

_Noreturn void core_run(const struct boot *boot)
{
    struct arena arena;
    prepare(boot, "agentix-core", &arena);
    build(&the_loop, &the_world, boot, NULL, &arena);
    config_keys_wipe(boot->keys);
    serve(&the_loop, boot);
}

/* The keys come with the order to take over: those of its fork may have been replaced. */
_Noreturn void core_wait(const struct boot *boot, uint32_t core_restarts)
{
    static struct config_admission admission;
    const struct arena *kept = &boot->kept_arena;
    struct arena arena;
    prepare(boot, "agentix-next", &arena);
    (void)!madvise(kept->base, kept->size_bytes, MADV_POPULATE_WRITE);
    control_await_core(boot->shared.control, core_restarts);
    prctl(PR_SET_NAME, "agentix-core");
    read_whole(&boot->shared, &admission);
    build(&the_loop, &the_world, boot, &admission, &arena);
    config_keys_wipe(&admission.keys);
    serve(&the_loop, boot);
}
