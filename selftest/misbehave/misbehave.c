/* SPDX-License-Identifier: MIT */
/*
 * What: an appliance that misbehaves after it is sealed. build/agentix-misbehave is the objects of
 * the product linked with this file; selftest/e2e/test_seal.py must see it die.
 *
 *   AGENTIX_MISBEHAVE=core:mmap      in the core, before its first pass
 *   AGENTIX_MISBEHAVE=worker:mmap    in the worker, before it waits for its first step
 *   AGENTIX_MISBEHAVE=boot:code      before the first file is read that the options name
 *   AGENTIX_MISBEHAVE=keeper:code    in the keeper, once it watches
 *
 * The linker puts __wrap_X() where the product calls X() (Makefile): the product has no hook for
 * it. After an act that did not end it, the process says so and ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "config/base/say.h"
#include "appliance/boot/boot.h"
#include "appliance/keeper/notify.h"
#include "appliance/control.h"
#include "appliance/loop.h"
#include "selftest/misbehave/forbidden.h"

#define DEEP_BYTES (1u << 20)

static volatile uint8_t nothing;
static void allocate(void)
{
    void *(*volatile take)(size_t) = malloc;    /* or the compiler would drop it */
    take(1);
}

static void fail_assertion(void)
{
    ASSERT(nothing != 0);
}

/* Beyond the pages that were touched. */
static void fill_stack(void)
{
    uint8_t room[DEEP_BYTES];
    explicit_bzero(room, sizeof room);
}

static void say_error(const char *name, long result)
{
    char line[64];
    snprintf(line, sizeof line, "%s: %s\n", name, result < 0 ? strerror(errno) : "succeeds");
    say(line);
}

/* What the filter allows and Landlock does not: to read what a reload never reads, to remove a
 * file, to end a process of others. The last two are the test's own. */
static void reach_out(void)
{
    const char *file = getenv("AGENTIX_FILE"), *pid = getenv("AGENTIX_PID");
    say_error("read", open("/proc/self/status", O_RDONLY));
    say_error("remove", unlink(file == NULL ? "" : file));
    say_error("end", kill(pid == NULL ? INT32_MAX : (pid_t)strtol(pid, NULL, 10), SIGKILL));
    _exit(0);
}

static void act(const char *name)
{
    if (strcmp(name, "reach") == 0) {
        reach_out();
    }
    if (strcmp(name, "malloc") == 0) {
        allocate();
    } else if (strcmp(name, "assertion") == 0) {
        fail_assertion();
    } else if (strcmp(name, "stack") == 0) {
        fill_stack();
    }
    call_that_is_not_allowed(name);
    say("survived its misbehaviour\n");
    _exit(0);
}

/* `role` ends in a colon. */
static void misbehave(const char *role)
{
    const char *wanted = getenv("AGENTIX_MISBEHAVE");
    if (wanted != NULL && strncmp(wanted, role, strlen(role)) == 0) {
        act(wanted + strlen(role));
    }
}

bool __real_loop_pass(struct loop *loop, const struct loop_orders *orders,
                      const int32_t *listeners);
bool __wrap_loop_pass(struct loop *loop, const struct loop_orders *orders,
                      const int32_t *listeners);
bool __wrap_loop_pass(struct loop *loop, const struct loop_orders *orders,
                      const int32_t *listeners)
{
    misbehave("core:");
    return __real_loop_pass(loop, orders, listeners);
}

uint32_t __real_control_await(struct control_engine *control, uint32_t asked);
uint32_t __wrap_control_await(struct control_engine *control, uint32_t asked);
uint32_t __wrap_control_await(struct control_engine *control, uint32_t asked)
{
    misbehave("worker:");
    return __real_control_await(control, asked);
}

enum boot_exit __real_boot_measure(struct boot *boot);
enum boot_exit __wrap_boot_measure(struct boot *boot);
enum boot_exit __wrap_boot_measure(struct boot *boot)
{
    misbehave("boot:");
    return __real_boot_measure(boot);
}

void __real_notify_tick(struct notify *notify, const struct control *control);
void __wrap_notify_tick(struct notify *notify, const struct control *control);
void __wrap_notify_tick(struct notify *notify, const struct control *control)
{
    misbehave("keeper:");
    __real_notify_tick(notify, control);
}
