/* SPDX-License-Identifier: MIT */
/* What: system calls that end a sealed process (forbidden.h). */
#include "selftest/misbehave/forbidden.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_BYTES 4096

static _Alignas(PAGE_BYTES) volatile uint8_t page[PAGE_BYTES];
static const char nowhere[] = "/nonexistent";

static const struct {
    const char *name;
    long call, arguments[6];
} system_calls[] = {
    {"mmap", SYS_mmap, {0, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
    {"code", SYS_mmap, {0, PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
    {"mprotect", SYS_mprotect, {(long)page, PAGE_BYTES, PROT_READ | PROT_EXEC}},
    {"brk", SYS_brk, {0}},
    {"open", SYS_open, {(long)nowhere, O_RDONLY}},
    {"openat", SYS_openat, {AT_FDCWD, (long)nowhere, O_RDONLY}},
    {"create", SYS_openat, {AT_FDCWD, (long)nowhere, O_RDWR | O_CREAT, 0600}},
    {"execve", SYS_execve, {(long)nowhere}},
    {"fork", SYS_fork, {0}},
    {"clone", SYS_clone, {SIGCHLD}},
    {"socket", SYS_socket, {AF_INET, SOCK_STREAM}},
    {"dup", SYS_dup, {STDERR_FILENO}},
    {"ptrace", SYS_ptrace, {PTRACE_TRACEME}},
    {"kill", SYS_kill, {0, 0}},
    {"unlink", SYS_unlink, {(long)nowhere}},
    {"write", SYS_write, {STDOUT_FILENO, (long)page, 1}},       /* forbidden for this file */
};

void call_that_is_not_allowed(const char *name)
{
    for (uint32_t i = 0; i < sizeof system_calls / sizeof system_calls[0]; i++) {
        const long *a = system_calls[i].arguments;
        if (strcmp(name, system_calls[i].name) == 0) {
            syscall(system_calls[i].call, a[0], a[1], a[2], a[3], a[4], a[5]);
        }
    }
}
