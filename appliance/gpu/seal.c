/* SPDX-License-Identifier: MIT */
/*
 * What: the system calls that the GPU worker may not make, and its limits.
 *
 * Invariants: it opens, connects, executes, forks and traces nothing, and signals only itself; no
 * page becomes executable; the number of descriptors is fixed. It may start threads: a driver may
 * need them.
 */
#include "appliance/gpu/seal.h"

#include <errno.h>
#include <linux/sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "appliance/seal/filter.h"
#include "appliance/log.h"

#ifdef AGENTIX_NO_TRAP
enum { IS_SEALED = 0 };                 /* a sanitizer opens files at any time */
#else
enum { IS_SEALED = 1 };
#endif

enum value { OWN_PID, VALUES };

#define NEVER(name) {.call = SYS_##name, .verdict = FILTER_KILL}

static const struct filter_rule rules[] = {
    /* New code. */
    {SYS_mmap, {{FILTER_BITS, 2, PROT_EXEC}}, FILTER_KILL},
    {SYS_mprotect, {{FILTER_BITS, 2, PROT_EXEC}}, FILTER_KILL},
    {SYS_pkey_mprotect, {{FILTER_BITS, 2, PROT_EXEC}}, FILTER_KILL},
    NEVER(execve), NEVER(execveat), NEVER(uselib), NEVER(init_module), NEVER(finit_module),
    NEVER(kexec_load), NEVER(kexec_file_load), NEVER(bpf),
    /* Files and memory of others. */
    NEVER(open), NEVER(openat), NEVER(openat2), NEVER(creat), NEVER(name_to_handle_at),
    NEVER(open_by_handle_at), NEVER(memfd_create), NEVER(shmget), NEVER(shmat),
    NEVER(unlink), NEVER(unlinkat), NEVER(rename), NEVER(renameat), NEVER(renameat2),
    NEVER(link), NEVER(linkat), NEVER(symlink), NEVER(symlinkat), NEVER(mkdir), NEVER(mkdirat),
    NEVER(mknod), NEVER(mknodat), NEVER(truncate), NEVER(chmod), NEVER(fchmodat), NEVER(chown),
    NEVER(fchownat), NEVER(lchown), NEVER(mount), NEVER(umount2), NEVER(pivot_root),
    NEVER(chroot), NEVER(open_tree), NEVER(move_mount), NEVER(fsopen),
    /* Other machines, other processes. */
    NEVER(socket), NEVER(socketpair), NEVER(connect), NEVER(bind), NEVER(listen), NEVER(accept),
    NEVER(accept4), NEVER(io_uring_setup), NEVER(io_uring_enter), NEVER(io_uring_register),
    NEVER(fork), NEVER(vfork), NEVER(ptrace), NEVER(process_vm_readv), NEVER(process_vm_writev),
    NEVER(pidfd_open), NEVER(pidfd_getfd), NEVER(pidfd_send_signal), NEVER(kill), NEVER(tkill),
    NEVER(rt_sigqueueinfo), NEVER(rt_tgsigqueueinfo), NEVER(perf_event_open), NEVER(userfaultfd),
    NEVER(setns), NEVER(unshare), NEVER(keyctl), NEVER(add_key), NEVER(request_key),
    NEVER(prlimit64), NEVER(setrlimit),
    {SYS_tgkill, {{FILTER_KNOWN, 0, OWN_PID}}, FILTER_ALLOW},       /* abort() */
    NEVER(tgkill),
    /* Threads, but not processes. A filter cannot read the flags of clone3(), so there is none. */
    {SYS_clone, {{FILTER_BITS, 0, CLONE_THREAD}}, FILTER_ALLOW},
    NEVER(clone),
    {.call = SYS_clone3, .verdict = FILTER_NO_CALL},
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
    static const struct filter filter = {rules, sizeof rules / sizeof rules[0], FILTER_ALLOW};
    const int values[VALUES] = {[OWN_PID] = (int)getpid()};
    if (!IS_SEALED) {
        log_event(LOG_WARN, "not sealed: a build with sanitizers");
        return true;
    }
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (!fix_descriptors() || filter_load(&filter, values) != STATUS_OK) {
        log_event(LOG_ERROR, "boot failed: seccomp: %s", strerror(errno));
        return false;
    }
    log_event(LOG_INFO, "sealed refused_calls=%u", filter_calls_count(&filter));
    return true;
}
