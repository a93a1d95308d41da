/* SPDX-License-Identifier: MIT */
/*
 * What: users, capabilities and limits, by the kernel's own calls: a C library's would change each
 * thread by a signal, and there are no threads yet.
 *
 * Invariant: the order. Bounding set and secure bits need CAP_SETPCAP, the user needs CAP_SETUID,
 * so capabilities go last. A call that fails because the process was not privileged leaves it so;
 * that it has no capability afterwards is checked.
 */
#include "appliance/seal/rights.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef AGENTIX_NO_TRAP
enum { IS_TRACED = 1 };             /* a sanitizer looks for leaks by ptrace() */
#else
enum { IS_TRACED = 0 };
#endif

#define SECURE_BITS (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_KEEP_CAPS | \
                     SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

static struct __user_cap_header_struct head(void)
{
    return (struct __user_cap_header_struct){.version = _LINUX_CAPABILITY_VERSION_3};
}

/* The sets of the calling thread, in two halves. */
static void read_capabilities(struct __user_cap_data_struct now[_LINUX_CAPABILITY_U32S_3])
{
    struct __user_cap_header_struct header = head();
    memset(now, 0xff, _LINUX_CAPABILITY_U32S_3 * sizeof *now);
    (void)syscall(SYS_capget, &header, now);
}

static bool has_capability(uint32_t number)
{
    struct __user_cap_data_struct now[_LINUX_CAPABILITY_U32S_3];
    read_capabilities(now);
    return (now[CAP_TO_INDEX(number)].effective & CAP_TO_MASK(number)) != 0;
}

/* No program that it executes has capabilities, be it root's. A change of the user keeps those that
 * are permitted. */
static void close_ways(void)
{
    (void)prctl(PR_SET_SECUREBITS, SECURE_BITS, 0, 0, 0);
    for (unsigned long number = 0; prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0; number++) {
        (void)prctl(PR_CAPBSET_DROP, number, 0, 0, 0);
    }
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    (void)prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
}

/* After the last change of user, which makes it traceable or not by a setting of the system. A
 * process that has no others is spared the call: a filter of the service manager may end it. */
static enum status keep_capabilities(uint32_t low)
{
    struct __user_cap_header_struct header = head();
    const struct __user_cap_data_struct kept[_LINUX_CAPABILITY_U32S_3] = {
        {.effective = low, .permitted = low}};
    struct __user_cap_data_struct now[_LINUX_CAPABILITY_U32S_3];
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    /* No core file holds prompts and keys, and no process of the same user reads them. */
    (void)prctl(PR_SET_DUMPABLE, IS_TRACED, 0, 0, 0);
    read_capabilities(now);
    return memcmp(now, kept, sizeof now) == 0 || syscall(SYS_capset, &header, kept) == 0
               ? STATUS_OK : STATUS_DEVICE_IO;
}

/* Soft limits stay as they are: fix_limits() of the seal sets what is needed. */
static void raise_limits(uint64_t descriptors)
{
    struct rlimit limit = {.rlim_max = 0};
    (void)setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < descriptors) {
        limit.rlim_max = descriptors;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* The one right that memory takes where the limit cannot be raised, as in a container that was
 * given just this. */
static uint32_t locking_right(void)
{
    struct rlimit limit = {.rlim_cur = 0};
    bool is_bounded = getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return is_bounded && has_capability(CAP_IPC_LOCK) ? CAP_TO_MASK(CAP_IPC_LOCK) : 0;
}

static enum status become(const struct config_user *user, struct config_error *error)
{
    uid_t uid = user->uid;
    gid_t gid = user->gid;
    if (geteuid() == uid && getuid() == uid && getegid() == gid && getgid() == gid) {
        return STATUS_OK;
    }
    if (geteuid() != 0) {
        snprintf(error->text, sizeof error->text, "appliance.user: user %u cannot become user %u "
                 "with group %u: only root can", (unsigned)geteuid(), (unsigned)uid, (unsigned)gid);
        return STATUS_CONFIG_OPTION;
    }
    if (syscall(SYS_setgroups, 0, NULL) != 0 || syscall(SYS_setresgid, gid, gid, gid) != 0 ||
        syscall(SYS_setresuid, uid, uid, uid) != 0) {
        snprintf(error->text, sizeof error->text, "appliance.user: cannot become user %u with "
                 "group %u: %s", (unsigned)uid, (unsigned)gid, strerror(errno));
        return STATUS_CONFIG_OPTION;
    }
    return STATUS_OK;
}

enum status rights_confine(const struct config_user *user, uint64_t descriptors,
                           struct config_error *error)
{
    raise_limits(descriptors);
    uint32_t kept = locking_right();
    close_ways();
    if (user->is_named) {
        TRY(become(user, error));
    }
    enum status status = keep_capabilities(kept);
    if (status != STATUS_OK) {
        snprintf(error->text, sizeof error->text, "capabilities cannot be given up: %s",
                 strerror(errno));
    }
    return status;
}

enum status rights_drop(void)
{
    close_ways();
    return keep_capabilities(0);
}
