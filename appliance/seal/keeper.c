/* SPDX-License-Identifier: MIT */
/*
 * What: the rules of the keeper, which its children inherit, each core after the first too:
 * their own come on top.
 *
 *              the CPU serves                        the GPU serves
 *   boot       boot_rules, if no GPU may serve       none: a probe executes the driver's program
 *   core       its own on top (seal.c)               its own (seal.c)
 *   keeper     cpu_rules, once the core is forked    gpu_rules, once the core is forked
 *   worker     its own on top (seal.c)               its own on top (gpu/seal.c)
 *
 * Invariants, where the CPU serves: no rule executes, connects, binds, makes a name space or a
 * file, opens one for writing, or maps code; a process that it signals ends.
 * Where the GPU serves, a worker is another program, whose driver may need what any program needs:
 * the rules name the ways into the kernel and into other processes, which none needs.
 * Why not fewer calls: docs/decisions/0095.
 */
#include "appliance/seal/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "appliance/log.h"
#include "appliance/seal/rules.h"

#ifdef AGENTIX_NO_TRAP
enum { IS_SEALED = 0 };                 /* a sanitizer maps and opens at any time */
#else
enum { IS_SEALED = 1 };
#endif

enum descriptor { MODEL, ENGINE_BELL, CONTROL_BELL, ADMISSION, REPLIES_BELL, REPLIES, DESCRIPTORS };

#define SPACES   (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
                  CLONE_NEWPID | CLONE_NEWNET)
#define CHANGES  (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#define NEGATIVE 0x80000000u

/* Of the processes of its user it could end any, but none by a group. */
#define CHILDREN \
    ALLOW(rt_sigtimedwait), ALLOW(rt_sigpending), ALLOW(wait4), \
    ALLOW(waitid, IS(0, P_PID), IS(3, WEXITED | WNOHANG | WNOWAIT)), \
    KILL(kill, IS(0, 0)), KILL(kill, HAS(0, NEGATIVE)), ALLOW(kill, IS(1, SIGKILL)), \
    KILL(clone, HAS(0, SPACES)), ALLOW(clone), NO_CALL(clone3), \
    ALLOW(getpid), ALLOW(getppid), ALLOW(geteuid)

#define FILES \
    KILL(openat, HAS(2, CHANGES)), ALLOW(openat, IS(0, (uint32_t)AT_FDCWD)), \
    ALLOW(newfstatat), ALLOW(unlink)            /* of its socket, at the end */

/* A child's start: its threads, its CPUs, its seal. */
#define START \
    ALLOW(rt_sigaction), ALLOW(rt_sigprocmask), ALLOW(set_robust_list), ALLOW(rseq), \
    ALLOW(sched_yield), ALLOW(sched_getaffinity), ALLOW(sched_setaffinity, IS(0, 0)), \
    KILL(mprotect, HAS(2, PROT_EXEC)), ALLOW(mprotect), \
    ALLOW(madvise), ALLOW(munlock), ALLOW(mlockall, IS(0, MCL_CURRENT)), \
    ALLOW(prctl, IS(0, PR_SET_PDEATHSIG), IS(1, SIGKILL)), ALLOW(prctl, IS(0, PR_SET_NAME)), \
    ALLOW(prctl, IS(0, PR_SET_SECUREBITS)), ALLOW(prctl, IS(0, PR_CAPBSET_READ)), \
    ALLOW(prctl, IS(0, PR_CAPBSET_DROP)), ALLOW(prctl, IS(0, PR_CAP_AMBIENT)), \
    ALLOW(prctl, IS(0, PR_SET_KEEPCAPS)), ALLOW(prctl, IS(0, PR_SET_NO_NEW_PRIVS)), \
    ALLOW(prctl, IS(0, PR_SET_DUMPABLE), IS(1, 0)), \
    ALLOW(capget), ALLOW(capset), \
    ALLOW(seccomp, IS(0, SECCOMP_SET_MODE_FILTER)), \
    ALLOW(prlimit64, IS(0, 0), IS(1, RLIMIT_NOFILE)), \
    ALLOW(prlimit64, IS(0, 0), IS(1, RLIMIT_STACK))

/* What a core that takes over looks at (pockets.c). */
#define LEFT_CONNECTIONS \
    ALLOW(recvmsg, IS(2, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC)), \
    ALLOW(ioctl, IS(1, SIOCINQ)), ALLOW(ioctl, IS(1, SIOCOUTQ))

static const struct filter_rule boot_rules[] = {
    /* What the core calls in each pass: its own rules are stricter. */
    ALLOW(epoll_wait), ALLOW(recvfrom), ALLOW(sendto), ALLOW(futex), ALLOW(read), ALLOW(write),
    ALLOW(clock_gettime), ALLOW(epoll_ctl), ALLOW(close), ALLOW(accept4), ALLOW(setsockopt),
    ALLOW(getsockopt), ALLOW(getrandom), ALLOW(poll), ALLOW(exit_group),
    ALLOW(sendmsg, IS(2, MSG_DONTWAIT | MSG_NOSIGNAL)),
    /* What is read, and what the roles share. */
    FILES, ALLOW(pread64), ALLOW(lseek),
    ALLOW(fallocate), ALLOW(pwrite64), ALLOW(fdatasync), ALLOW(fstatfs),   /* limits.replies_file */
    ALLOW(memfd_create), ALLOW(ftruncate), ALLOW(eventfd2), ALLOW(pipe2), ALLOW(epoll_create1),
    ALLOW(fcntl, IS(1, F_ADD_SEALS)), ALLOW(fcntl, IS(1, F_GETPIPE_SZ)),
    ALLOW(fcntl, IS(1, F_SETLKW)),              /* of kept memory: core.c; of replies: writer.c */
    ALLOW(fcntl, IS(1, F_OFD_SETLKW)),
    ALLOW(fcntl, IS(1, F_DUPFD_CLOEXEC)),       /* of pockets */
    KILL(mmap, HAS(2, PROT_EXEC)), ALLOW(mmap), ALLOW(munmap),
    ALLOW(socket, IS(0, AF_UNIX), IS(1, SOCK_DGRAM | SOCK_CLOEXEC)),    /* to a manager */
    ALLOW(socketpair, IS(0, AF_UNIX)),          /* pockets */
    LEFT_CONNECTIONS, ALLOW(ioctl, IS(1, TCGETS)),  /* of a terminal that a plan is printed to */
    ALLOW(landlock_create_ruleset), ALLOW(landlock_add_rule), ALLOW(landlock_restrict_self),
    CHILDREN, START, ALLOW(prlimit64, IS(0, 0), IS(1, RLIMIT_MEMLOCK)),
};

static const struct filter_rule cpu_rules[] = {
    /* What a worker calls at each step, and all of them at times. */
    ALLOW(futex),
    ALLOW(write, ON(ENGINE_BELL)), ALLOW(write, ON(CONTROL_BELL)), ALLOW(write, ON(ADMISSION)),
    ALLOW(write, ON(REPLIES_BELL)), ALLOW(write, IS(0, STDERR_FILENO)),
    ALLOW(clock_gettime),
    ALLOW(poll, IS(1, 1), IS(2, 0)),            /* of standard error: config/base/say.c */
    ALLOW(exit_group),
    /* The model, and what a reload reads. */
    FILES, ALLOW(read), ALLOW(pread64, ON(MODEL)), ALLOW(pread64, ON(REPLIES)), ALLOW(close),
    /* The writer of replies, which may be forked again; the keeper binds the file to weights. */
    ALLOW(pwrite64, ON(REPLIES)), ALLOW(fdatasync, ON(REPLIES)),
    KILL(mmap, HAS(2, PROT_EXEC)), ALLOW(mmap, HAS(3, MAP_ANONYMOUS)),
    ALLOW(sendto, IS(3, MSG_DONTWAIT | MSG_NOSIGNAL)),
    CHILDREN, START,
    /* A core that takes over from one that has died: what seal.c leaves it, and its start. */
    ALLOW(epoll_create1), ALLOW(epoll_ctl), ALLOW(epoll_wait), ALLOW(munmap),
    ALLOW(recvfrom, IS(3, MSG_DONTWAIT)), ALLOW(accept4, IS(3, SOCK_NONBLOCK | SOCK_CLOEXEC)),
    ALLOW(setsockopt, IS(1, SOL_SOCKET), IS(2, SO_SNDBUF)),
    ALLOW(setsockopt, IS(1, IPPROTO_TCP), IS(2, TCP_NODELAY)),
    ALLOW(getsockopt, IS(1, SOL_SOCKET)),
    ALLOW(getsockopt, IS(1, IPPROTO_TCP), IS(2, TCP_INFO)), ALLOW(getrandom, IS(2, 0)),
    ALLOW(sendmsg, IS(2, MSG_DONTWAIT | MSG_NOSIGNAL)), ALLOW(fcntl, IS(1, F_SETLKW)),
    ALLOW(fcntl, IS(1, F_OFD_SETLKW)),
    LEFT_CONNECTIONS,
};

static const struct filter_rule gpu_rules[] = {
    /* The kernel itself. */
    KILL(init_module), KILL(finit_module), KILL(delete_module), KILL(kexec_load),
    KILL(kexec_file_load), KILL(bpf), KILL(perf_event_open), KILL(userfaultfd),
    KILL(io_uring_setup), KILL(io_uring_enter), KILL(io_uring_register), KILL(iopl), KILL(ioperm),
    KILL(reboot), KILL(swapon), KILL(swapoff), KILL(acct), KILL(settimeofday),
    KILL(clock_settime), KILL(clock_adjtime), KILL(adjtimex), KILL(syslog), KILL(quotactl),
    KILL(quotactl_fd), KILL(keyctl), KILL(add_key), KILL(request_key), KILL(uselib),
    /* Another view of the files. */
    KILL(mount), KILL(umount2), KILL(pivot_root), KILL(chroot), KILL(open_tree), KILL(move_mount),
    KILL(fsopen), KILL(fsconfig), KILL(fsmount), KILL(fspick), KILL(mount_setattr),
    KILL(open_by_handle_at), KILL(setns), KILL(unshare),
    KILL(clone, HAS(0, SPACES)), NO_CALL(clone3),       /* whose flags a filter cannot read */
    /* Other processes. */
    KILL(ptrace), KILL(process_vm_readv), KILL(process_vm_writev), KILL(pidfd_getfd),
    /* Other users, should there ever be a right to become one. */
    KILL(setuid), KILL(setgid), KILL(setreuid), KILL(setregid), KILL(setresuid), KILL(setresgid),
    KILL(setgroups), KILL(setfsuid), KILL(setfsgid), KILL(chown), KILL(fchown), KILL(lchown),
    KILL(fchownat),
    /* Other machines. A driver may ask a daemon of this one. */
    ALLOW(socket, IS(0, AF_UNIX)), NO_CALL(socket), KILL(listen), KILL(accept),
    ALLOW(accept4, IS(3, SOCK_NONBLOCK | SOCK_CLOEXEC)), KILL(accept4),    /* the core's */
};

static const struct filter by_boot = RULES(boot_rules, FILTER_KILL);
static const struct filter by_cpu = RULES(cpu_rules, FILTER_KILL);
static const struct filter by_gpu = RULES(gpu_rules, FILTER_ALLOW);

static enum boot_exit load(const struct filter *filter, const int *values)
{
    if (filter_load(filter, values) == STATUS_OK) {
        return BOOT_EXIT_OK;
    }
    log_event(LOG_ERROR, "boot failed: seccomp: %s", strerror(errno));
    return BOOT_EXIT_SYSTEM;
}

enum boot_exit seal_boot(const struct boot *boot)
{
    return IS_SEALED && !boot_may_use_gpu(boot) ? load(&by_boot, NULL) : BOOT_EXIT_OK;
}

enum boot_exit seal_keeper(const struct boot *boot)
{
    const struct filter *filter = boot->serves_by_gpu ? &by_gpu : &by_cpu;
    const int descriptors[DESCRIPTORS] = {
        [MODEL] = boot->source.fd,
        [ENGINE_BELL] = boot->shared.engine_bell,
        [CONTROL_BELL] = boot->shared.control_bell,
        [ADMISSION] = boot->shared.admission_pipe[1],
        [REPLIES_BELL] = boot->replies_handle > 0 ? boot->shared.replies_bell[1] : -1,
        [REPLIES] = boot->replies_handle > 0 ? boot->replies_handle : -1,
    };
    if (!IS_SEALED) {
        return BOOT_EXIT_OK;            /* core and worker say so */
    }
    enum boot_exit exit_status = load(filter, descriptors);
    if (exit_status == BOOT_EXIT_OK) {
        log_event(LOG_INFO, "sealed %s=%u", boot->serves_by_gpu ? "refused_calls" : "system_calls",
                  filter_calls_count(filter));
    }
    return exit_status;
}
