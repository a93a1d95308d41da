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
#include <unistd.h>

#include "appliance/seal/rules.h"
#include "appliance/log.h"

#ifdef AGENTIX_NO_TRAP
enum { IS_SEALED = 0 };                 /* a sanitizer opens files at any time */
#else
enum { IS_SEALED = 1 };
#endif

enum value { OWN_PID, VALUES };

static const struct filter_rule rules[] = {
    /* New code. */
    KILL(mmap, HAS(2, PROT_EXEC)), KILL(mprotect, HAS(2, PROT_EXEC)),
    KILL(pkey_mprotect, HAS(2, PROT_EXEC)),
    KILL(execve), KILL(execveat), KILL(uselib), KILL(init_module), KILL(finit_module),
    KILL(kexec_load), KILL(kexec_file_load), KILL(bpf),
    /* Files and memory of others. */
    KILL(open), KILL(openat), KILL(openat2), KILL(creat), KILL(name_to_handle_at),
    KILL(open_by_handle_at), KILL(memfd_create), KILL(shmget), KILL(shmat),
    KILL(unlink), KILL(unlinkat), KILL(rename), KILL(renameat), KILL(renameat2),
    KILL(link), KILL(linkat), KILL(symlink), KILL(symlinkat), KILL(mkdir), KILL(mkdirat),
    KILL(mknod), KILL(mknodat), KILL(truncate), KILL(chmod), KILL(fchmodat), KILL(chown),
    KILL(fchownat), KILL(lchown), KILL(mount), KILL(umount2), KILL(pivot_root),
    KILL(chroot), KILL(open_tree), KILL(move_mount), KILL(fsopen),
    /* Other machines, other processes. */
    KILL(socket), KILL(socketpair), KILL(connect), KILL(bind), KILL(listen), KILL(accept),
    KILL(accept4), KILL(io_uring_setup), KILL(io_uring_enter), KILL(io_uring_register),
    KILL(fork), KILL(vfork), KILL(ptrace), KILL(process_vm_readv), KILL(process_vm_writev),
    KILL(pidfd_open), KILL(pidfd_getfd), KILL(pidfd_send_signal), KILL(kill), KILL(tkill),
    KILL(rt_sigqueueinfo), KILL(rt_tgsigqueueinfo), KILL(perf_event_open), KILL(userfaultfd),
    KILL(setns), KILL(unshare), KILL(keyctl), KILL(add_key), KILL(request_key),
    KILL(prlimit64), KILL(setrlimit),
    ALLOW(tgkill, ON(OWN_PID)),         /* abort() */
    KILL(tgkill),
    /* Threads, but not processes. A filter cannot read the flags of clone3(), so there is none. */
    ALLOW(clone, HAS(0, CLONE_THREAD)),
    KILL(clone), NO_CALL(clone3),
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
