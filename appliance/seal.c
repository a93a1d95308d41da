/* SPDX-License-Identifier: MIT */
/*
 * What: the filter of system calls, written out as a classic BPF program, and the limits around it.
 *
 *   for each rule:  is it this call?  has each constant argument its value?  then allow
 *   at the end:     kill the process
 *
 * Invariants: no rule maps memory, opens, executes, forks, or changes a protection; the only new
 * descriptors are accepted connections, and no more of them than the plan has places for.
 * Bounds: a program of at most PROGRAM_MAX instructions; a call is compared with rules in their
 * order, so those of every pass stand first.
 * Why not libseccomp: it allocates, and the table below is all that it would read.
 */
#include "appliance/seal.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "appliance/base/assert.h"
#include "appliance/heap.h"
#include "appliance/log.h"

#define STACK_BYTES     (64u << 10)     /* tools/stack: each role takes less than half */
#define CHECKS_MAX      3
#define PROGRAM_MAX     256

#ifdef AGENTIX_NO_TRAP
enum { IS_SEALED = 0 };                 /* a sanitizer maps and opens when it likes */
#else
enum { IS_SEALED = 1 };
#endif

enum descriptor {
    EPOLL, ENGINE_BELL, CONTROL_BELL, LISTENER_UNIX, LISTENER_TCP, LISTENER_TEXT, DESCRIPTORS
};

/* The kernel reads 32 bits of each argument that is checked here: all are of type int. */
struct check {
    enum { CHECK_NONE, CHECK_VALUE, CHECK_DESCRIPTOR } kind;
    uint32_t argument;                  /* 0: the first */
    uint32_t value;                     /* or an enum descriptor */
};

struct rule {
    uint32_t call;
    struct check checks[CHECKS_MAX];
};

#define IS(argument, value)     {CHECK_VALUE, argument, value}
#define ON(descriptor)          {CHECK_DESCRIPTOR, 0, descriptor}

static const struct rule core_rules[] = {
    {SYS_epoll_wait, {ON(EPOLL)}},
    {SYS_recvfrom, {IS(3, MSG_DONTWAIT)}},
    {SYS_sendto, {IS(3, MSG_DONTWAIT | MSG_NOSIGNAL)}},
    {SYS_futex, {IS(1, FUTEX_WAKE)}},
    {SYS_read, {ON(ENGINE_BELL)}},
    {SYS_read, {ON(CONTROL_BELL)}},
    {.call = SYS_clock_gettime},                    /* where the clock is no page of the kernel's */
    {SYS_epoll_ctl, {ON(EPOLL), IS(1, EPOLL_CTL_MOD)}},
    {SYS_epoll_ctl, {ON(EPOLL), IS(1, EPOLL_CTL_ADD)}},
    {SYS_accept4, {ON(LISTENER_UNIX), IS(3, SOCK_NONBLOCK | SOCK_CLOEXEC)}},
    {SYS_accept4, {ON(LISTENER_TCP), IS(3, SOCK_NONBLOCK | SOCK_CLOEXEC)}},
    {SYS_accept4, {ON(LISTENER_TEXT), IS(3, SOCK_NONBLOCK | SOCK_CLOEXEC)}},
    {SYS_setsockopt, {IS(1, SOL_SOCKET), IS(2, SO_SNDBUF)}},
    {SYS_setsockopt, {IS(1, IPPROTO_TCP), IS(2, TCP_NODELAY)}},
    {SYS_getsockopt, {IS(1, SOL_SOCKET), IS(2, SO_PEERCRED)}},
    {SYS_getsockopt, {IS(1, SOL_SOCKET), IS(2, SO_PEERGROUPS)}},
    {.call = SYS_close},
    {SYS_getrandom, {IS(2, 0)}},
    {SYS_poll, {IS(1, 1), IS(2, 0)}},               /* of standard error: base/say.c */
    {SYS_write, {IS(0, STDERR_FILENO)}},
    {.call = SYS_exit_group},
};

static const struct rule worker_rules[] = {
    {SYS_futex, {IS(1, FUTEX_WAKE_PRIVATE)}},       /* the crew's barriers */
    {SYS_futex, {IS(1, FUTEX_WAIT_PRIVATE)}},
    {SYS_futex, {IS(1, FUTEX_WAIT)}},               /* for the next step */
    {SYS_write, {ON(ENGINE_BELL)}},
    {SYS_write, {IS(0, STDERR_FILENO)}},
    {SYS_poll, {IS(1, 1), IS(2, 0)}},
    {.call = SYS_clock_gettime},
    {.call = SYS_restart_syscall},                  /* a wait goes on after SIGCONT */
    {.call = SYS_exit_group},
};

struct profile {
    const struct rule *rules;
    uint32_t rules_count;
};
static const struct profile profiles[SEAL_ROLES] = {
    [SEAL_CORE] = {core_rules, sizeof core_rules / sizeof core_rules[0]},
    [SEAL_WORKER] = {worker_rules, sizeof worker_rules / sizeof worker_rules[0]},
};

struct program {
    struct sock_filter code[PROGRAM_MAX];
    uint32_t count;
};

static void emit(struct program *program, struct sock_filter instruction)
{
    ASSERT(program->count < PROGRAM_MAX);
    program->code[program->count++] = instruction;
}

static void emit_load(struct program *program, uint32_t offset)
{
    emit(program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

static void emit_skip_unless(struct program *program, uint32_t value, uint32_t skip)
{
    ASSERT(skip <= UINT8_MAX);
    emit(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, (uint8_t)skip));
}

static void emit_return(struct program *program, uint32_t action)
{
    emit(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

static uint32_t checks_count(const struct rule *rule)
{
    uint32_t count = 0;
    while (count < CHECKS_MAX && rule->checks[count].kind != CHECK_NONE) {
        count++;
    }
    return count;
}

/* The low half of an argument: x86-64 has the low byte first. */
static uint32_t argument_offset(const struct check *check)
{
    return (uint32_t)(offsetof(struct seccomp_data, args) + check->argument * sizeof(uint64_t));
}

static void emit_rule(struct program *program, const struct rule *rule, const int *descriptors)
{
    uint32_t count = checks_count(rule);
    emit_load(program, offsetof(struct seccomp_data, nr));
    emit_skip_unless(program, rule->call, 2 * count + 1);
    for (uint32_t i = 0; i < count; i++) {
        const struct check *check = &rule->checks[i];
        uint32_t value = check->kind == CHECK_DESCRIPTOR ? (uint32_t)descriptors[check->value]
                                                         : check->value;
        emit_load(program, argument_offset(check));
        emit_skip_unless(program, value, 2 * (count - i - 1) + 1);
    }
    emit_return(program, SECCOMP_RET_ALLOW);
}

/* A call of another architecture is none of these, whatever its number; one of x32 has a number
 * that no rule names. */
static void program_write(struct program *program, enum seal_role role, const int *descriptors)
{
    program->count = 0;
    emit_load(program, offsetof(struct seccomp_data, arch));
    emit(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
    emit_return(program, SECCOMP_RET_KILL_PROCESS);
    for (uint32_t i = 0; i < profiles[role].rules_count; i++) {
        emit_rule(program, &profiles[role].rules[i], descriptors);
    }
    emit_return(program, SECCOMP_RET_KILL_PROCESS);
}

/* Different calls; the rules of one stand together. */
static uint32_t calls_count(enum seal_role role)
{
    const struct rule *rules = profiles[role].rules;
    uint32_t count = 1;
    for (uint32_t i = 1; i < profiles[role].rules_count; i++) {
        count += rules[i].call != rules[i - 1].call ? 1 : 0;
    }
    return count;
}

void seal_privileges(void)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    /* Prompts and keys go into no core file, and no process of the same user reads them. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* So that no page of it comes later. */
static __attribute__((noinline)) void touch_stack(void)
{
    uint8_t room[STACK_BYTES];
    explicit_bzero(room, sizeof room);      /* memset() would be left out */
}

/* Everything that is open at once, and the peer for whom there is no place, while he is told. */
static rlim_t descriptors_max(const struct boot *boot)
{
    return STDERR_FILENO + 1 + DESCRIPTORS + (rlim_t)boot->limits.connections +
           boot->limits.text_slots + 1;
}

static enum boot_exit fix_limits(const struct boot *boot)
{
    rlim_t descriptors = descriptors_max(boot);
    struct rlimit before = {.rlim_max = 0};
    getrlimit(RLIMIT_NOFILE, &before);
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){descriptors, descriptors}) != 0) {
        log_event(LOG_ERROR, "boot failed: limits.connections = %u: needs %llu descriptors, the "
                  "system allows %llu: raise the limit (ulimit -n)",
                  boot->limits.connections, (unsigned long long)descriptors,
                  (unsigned long long)before.rlim_max);
        return BOOT_EXIT_SYSTEM;
    }
    setrlimit(RLIMIT_STACK, &(struct rlimit){STACK_BYTES, STACK_BYTES});    /* is there already */
    return BOOT_EXIT_OK;
}

static enum boot_exit load_filter(enum seal_role role, const int *descriptors)
{
    static struct program program;
    program_write(&program, role, descriptors);
    const struct sock_fprog code = {.len = (unsigned short)program.count, .filter = program.code};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &code) != 0) {
        log_event(LOG_ERROR, "boot failed: seccomp: %s", strerror(errno));
        return BOOT_EXIT_SYSTEM;
    }
    log_event(LOG_INFO, "sealed system_calls=%u", calls_count(role));
    return BOOT_EXIT_OK;
}

enum boot_exit seal_process(enum seal_role role, const struct boot *boot, int epoll)
{
    const int descriptors[DESCRIPTORS] = {
        [EPOLL] = epoll,
        [ENGINE_BELL] = boot->shared.engine_bell,
        [CONTROL_BELL] = boot->shared.control_bell,
        [LISTENER_UNIX] = boot->listeners[BOOT_LISTENER_UNIX],
        [LISTENER_TCP] = boot->listeners[BOOT_LISTENER_TCP],
        [LISTENER_TEXT] = boot->listeners[BOOT_LISTENER_TEXT],
    };
    touch_stack();
    enum boot_exit exit_status = boot_lock_memory(boot);
    if (exit_status == BOOT_EXIT_OK && IS_SEALED) {
        exit_status = fix_limits(boot);
    }
    heap_seal();
    if (exit_status != BOOT_EXIT_OK) {
        return exit_status;
    }
    if (!IS_SEALED) {
        log_event(LOG_WARN, "not sealed: a build with sanitizers");
        return BOOT_EXIT_OK;
    }
    return load_filter(role, descriptors);
}
