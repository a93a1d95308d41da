/* SPDX-License-Identifier: MIT */
/*
 * What: the handler of SIGSYS (trap.h).
 *
 * It runs where the call would have been made, on its caller's stack, so it may use what that may
 * use: it formats a line without allocating, and writes it.
 * Bounds: TOLD_MAX lines of calls that were refused: a driver may try the same one in each step.
 */
#include "appliance/gpu/trap.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "appliance/log.h"

#define TOLD_MAX 16
#define NO_PATH  (-1)
#define IS_FATAL (-2)

static const struct stopped {
    int call;
    const char *name;
    int path;                           /* the argument that is one, or NO_PATH, or IS_FATAL */
} stopped[] = {
#define REFUSED(name, path) {SYS_##name, #name, path},
#define FATAL(name)         {SYS_##name, #name, IS_FATAL},
#include "appliance/gpu/calls.def"
#undef REFUSED
#undef FATAL
    {SYS_mmap, "mmap of code", IS_FATAL},
    {SYS_mprotect, "mprotect to code", IS_FATAL},
    {SYS_pkey_mprotect, "pkey_mprotect to code", IS_FATAL},
    {SYS_rt_sigaction, "rt_sigaction of SIGSYS", IS_FATAL},
    {SYS_tgkill, "tgkill", IS_FATAL},
    {SYS_clone, "clone of a process", IS_FATAL},
};

/* The process ends by SIGSYS: by a call that the filter itself kills for, since nothing may change
 * what the signal does. */
static _Noreturn void end(const char *name, int call)
{
    log_event(LOG_ERROR, "ends by a system call that is not allowed: call=%s number=%d", name,
              call);
    for (;;) {
        syscall(SYS_uselib, "");
    }
}

static void tell_refused(const struct stopped *of, const mcontext_t *machine)
{
    static const int arguments[] = {REG_RDI, REG_RSI};
    static uint32_t told;
    if (told < TOLD_MAX) {
        const char *path = of->path == NO_PATH
                               ? "-" : (const char *)machine->gregs[arguments[of->path]];
        log_event(LOG_WARN, "system call refused: call=%s path=%s%s", of->name,
                  path != NULL ? path : "-", ++told == TOLD_MAX ? " (the last that is told)" : "");
    }
}

static void on_stopped(int number, siginfo_t *info, void *context)
{
    mcontext_t *machine = &((ucontext_t *)context)->uc_mcontext;
    int saved = errno;
    for (uint32_t i = 0; i < sizeof stopped / sizeof *stopped; i++) {
        if (stopped[i].call == info->si_syscall) {
            if (stopped[i].path == IS_FATAL) {
                end(stopped[i].name, info->si_syscall);
            }
            tell_refused(&stopped[i], machine);
            machine->gregs[REG_RAX] = -EACCES;
            errno = saved;
            return;
        }
    }
    end("unknown", info->si_syscall);
}

bool trap_catch(void)
{
    struct sigaction action = {.sa_sigaction = on_stopped, .sa_flags = SA_SIGINFO};
    return sigaction(SIGSYS, &action, NULL) == 0;
}
