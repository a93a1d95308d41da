/* SPDX-License-Identifier: MIT */
/*
 * What: an appliance that misbehaves once it is sealed: build/agentix-misbehave, the objects of the
 * product linked with this file, so that selftest/e2e/test_seal.py can see it die.
 *
 *   AGENTIX_MISBEHAVE=core:mmap      in the core, before its first pass
 *   AGENTIX_MISBEHAVE=worker:mmap    in the worker, before it waits for its first step
 *
 * The linker puts __wrap_X() where the product calls X() (Makefile): the product has no hook for
 * it. An act that returns was not the end of the process, which then says so and ends.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "appliance/base/assert.h"
#include "appliance/base/say.h"
#include "appliance/control.h"
#include "appliance/loop.h"

#define PAGE_BYTES 4096
#define DEEP_BYTES (1u << 20)

static _Alignas(PAGE_BYTES) volatile uint8_t page[PAGE_BYTES];
static const char nowhere[] = "/nonexistent";

static const struct {
    const char *name;
    long call, arguments[6];
} system_calls[] = {
    {"mmap", SYS_mmap, {0, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
    {"mprotect", SYS_mprotect, {(long)page, PAGE_BYTES, PROT_READ | PROT_EXEC}},
    {"brk", SYS_brk, {0}},
    {"open", SYS_open, {(long)nowhere, O_RDONLY}},
    {"openat", SYS_openat, {AT_FDCWD, (long)nowhere, O_RDONLY}},
    {"execve", SYS_execve, {(long)nowhere}},
    {"fork", SYS_fork, {0}},
    {"clone", SYS_clone, {SIGCHLD}},
    {"socket", SYS_socket, {AF_INET, SOCK_STREAM}},
    {"dup", SYS_dup, {STDERR_FILENO}},
    {"ptrace", SYS_ptrace, {PTRACE_TRACEME}},
    {"kill", SYS_kill, {0, 0}},
    {"unlink", SYS_unlink, {(long)nowhere}},
    {"write", SYS_write, {STDOUT_FILENO, (long)page, 1}},       /* allowed, but not there */
};

static void allocate(void)
{
    void *(*volatile take)(size_t) = malloc;    /* or the compiler would leave it out */
    take(1);
}

static void fail_assertion(void)
{
    ASSERT(page[0] != 0);
}

/* Further down than the pages that were touched. */
static void fill_stack(void)
{
    uint8_t room[DEEP_BYTES];
    explicit_bzero(room, sizeof room);
}

static void act(const char *name)
{
    if (strcmp(name, "malloc") == 0) {
        allocate();
    } else if (strcmp(name, "assertion") == 0) {
        fail_assertion();
    } else if (strcmp(name, "stack") == 0) {
        fill_stack();
    }
    for (uint32_t i = 0; i < sizeof system_calls / sizeof system_calls[0]; i++) {
        const long *a = system_calls[i].arguments;
        if (strcmp(name, system_calls[i].name) == 0) {
            syscall(system_calls[i].call, a[0], a[1], a[2], a[3], a[4], a[5]);
        }
    }
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

bool __real_control_await(struct control *control, uint32_t epoch, uint32_t *seen,
                          uint32_t timeout_ms);
bool __wrap_control_await(struct control *control, uint32_t epoch, uint32_t *seen,
                          uint32_t timeout_ms);
bool __wrap_control_await(struct control *control, uint32_t epoch, uint32_t *seen,
                          uint32_t timeout_ms)
{
    misbehave("worker:");
    return __real_control_await(control, epoch, seen, timeout_ms);
}
