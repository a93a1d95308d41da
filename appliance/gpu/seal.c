/* SPDX-License-Identifier: MIT */
/*
 * What: the system calls that the GPU worker may not make, and its limits.
 *
 * Two filters, because a handler of SIGSYS can say which call it was, but a thread that blocks that
 * signal would die of it, and a driver's own threads may block all signals:
 *
 *   every thread   what a driver may try is refused in silence; what is fatal raises SIGSYS
 *   this one       what is refused raises SIGSYS, too: trap.c tells it, and refuses it. Most of a
 *                  driver's calls are made here, by the functions that the engine calls
 *
 * Invariants: it opens, connects, executes, forks and traces nothing, and signals only itself; no
 * page becomes executable; the number of descriptors is fixed. It may start threads: a driver may
 * need them.
 */
#include "appliance/gpu/seal.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "appliance/gpu/trap.h"
#include "appliance/log.h"
#include "appliance/seal/rules.h"

#ifdef AGENTIX_NO_TRAP
enum { IS_SEALED = 0 };                 /* a sanitizer opens files at any time */
#else
enum { IS_SEALED = 1 };
#endif

enum value { OWN_PID, VALUES };

static const struct filter_rule rules[] = {
    KILL(uselib),                       /* trap.c ends the process by it */
#define REFUSED(name, path) REFUSE(name),
#define FATAL(name)         TRAP(name),
#include "appliance/gpu/calls.def"
#undef REFUSED
#undef FATAL
    TRAP(mmap, HAS(2, PROT_EXEC)), TRAP(mprotect, HAS(2, PROT_EXEC)),
    TRAP(pkey_mprotect, HAS(2, PROT_EXEC)),
    ALLOW(prlimit64, IS(2, 0)),         /* which only asks: a thread that looks for its stack */
    REFUSE(prlimit64),
    TRAP(rt_sigaction, IS(0, SIGSYS)),
    ALLOW(tgkill, ON(OWN_PID)),         /* abort() */
    TRAP(tgkill),
    /* Threads, but not processes. A filter cannot read the flags of clone3(), so there is none. */
    ALLOW(clone, HAS(0, CLONE_THREAD)),
    TRAP(clone), NO_CALL(clone3),
};

static const struct filter_rule own_rules[] = {
#define REFUSED(name, path) TRAP(name),
#define FATAL(name)
#include "appliance/gpu/calls.def"
#undef REFUSED
#undef FATAL
};

/* The limit is the lowest free descriptor, which is the one that an open would get. */
static bool fix_descriptors(void)
{
    int next = dup(STDERR_FILENO);
    close(next);
    return next >= 0 &&
           setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next, (rlim_t)next}) == 0;
}

bool seal_gpu(void)
{
    static const struct filter filter = RULES(rules, FILTER_ALLOW);
    static const struct filter own_filter = RULES(own_rules, FILTER_ALLOW);
    const int values[VALUES] = {[OWN_PID] = (int)getpid()};
    if (!IS_SEALED) {
        log_event(LOG_WARN, "not sealed: a build with sanitizers");
        return true;
    }
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (!trap_catch() || !fix_descriptors() || filter_load(&filter, values) != STATUS_OK ||
        filter_load_own(&own_filter, values) != STATUS_OK) {
        log_event(LOG_ERROR, "boot failed: seccomp: %s", strerror(errno));
        return false;
    }
    log_event(LOG_INFO, "sealed refused_calls=%u", filter_calls_count(&filter));
    return true;
}
