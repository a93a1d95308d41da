/* SPDX-License-Identifier: MIT */
/*
 * Goal: under the filter of each role every system call that no rule names ends the process, every
 * rule allows what it says, and a constant argument that is another one ends the process too, in
 * each thread. Method: the filter is loaded in a child, which makes one call.
 */
#include "selftest/unit/test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "appliance/seal/filter.c"
#include "appliance/seal/seal.c"

#define CALLS_END   512                 /* Linux 6.18 ends at 469 */
#define URETPROBE   335                 /* the kernel's own code makes these two, when a process */
#define UPROBE      336                 /* is traced; it lets them past every filter, inert */
#define CALLS_MAX   20

void heap_seal(void) {}

/* Any numbers: whether they are open does not matter to the filter. */
static const int descriptors[DESCRIPTORS] = {
    [EPOLL] = 100, [ENGINE_BELL] = 101, [CONTROL_BELL] = 102,
    [LISTENER_UNIX] = 103, [LISTENER_TCP] = 104, [LISTENER_TEXT] = 105,
    [POCKETS] = 200, [POCKETS_END] = 400,
};

struct act {
    uint32_t call;
    uint32_t arguments[6];
};

static const struct act *act_now;

static void act(void)
{
    const uint32_t *a = act_now->arguments;
    syscall(act_now->call, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* The signal of which a child under the filter of `role` died of `work`; 0: it ended by itself. */
static int signal_of(enum seal_role role, void (*work)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSYS, SIG_DFL);
        close(STDERR_FILENO);           /* of what is written to it, and of the log */
        if (rights_drop() == STATUS_OK && load_filter(role, descriptors) == BOOT_EXIT_OK) {
            work();
        }
        syscall(SYS_exit_group, 0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static int signal_of_act(enum seal_role role, const struct act *what)
{
    act_now = what;
    return signal_of(role, act);
}

static bool is_named(enum seal_role role, uint32_t call)
{
    for (uint32_t i = 0; i < filters[role].rules_count; i++) {
        if (filters[role].rules[i].call == call) {
            return true;
        }
    }
    return false;
}

static struct act act_of(const struct filter_rule *rule)
{
    struct act what = {.call = rule->call};
    for (uint32_t i = 0; i < checks_count(rule); i++) {
        const struct filter_check *check = &rule->checks[i];
        uint32_t value = is_known_at_load(check) ? (uint32_t)descriptors[check->value]
                                                 : check->value;
        what.arguments[check->argument] = check->kind == FILTER_BELOW ? value - 1 : value;
    }
    return what;
}

static bool must_end(enum seal_role role, uint32_t call)
{
    return !is_named(role, call) && call != URETPROBE && call != UPROBE;
}

static void test_call_that_no_rule_names_ends_the_process(void **state)
{
    for (uint32_t role = 0; role < SEAL_ROLES; role++) {
        for (uint32_t call = 0; call < CALLS_END; call++) {
            if (must_end(role, call) &&
                signal_of_act(role, &(struct act){.call = call}) != SIGSYS) {
                fail_msg("role %u survives system call %u", role, call);
            }
        }
    }
}

static void test_call_as_its_rule_says_is_allowed(void **state)
{
    for (uint32_t role = 0; role < SEAL_ROLES; role++) {
        for (uint32_t i = 0; i < filters[role].rules_count; i++) {
            struct act what = act_of(&filters[role].rules[i]);
            if (signal_of_act(role, &what) != 0) {
                fail_msg("role %u dies of rule %u, system call %u", role, i, what.call);
            }
        }
    }
}

static void test_another_constant_argument_ends_the_process(void **state)
{
    for (uint32_t role = 0; role < SEAL_ROLES; role++) {
        for (uint32_t i = 0; i < filters[role].rules_count; i++) {
            const struct filter_rule *rule = &filters[role].rules[i];
            for (uint32_t k = 0; k < checks_count(rule); k++) {
                struct act what = act_of(rule);
                what.arguments[rule->checks[k].argument] ^= 0x100;
                if (signal_of_act(role, &what) != SIGSYS) {
                    fail_msg("role %u survives rule %u without its check %u", role, i, k);
                }
            }
        }
    }
}

static void test_numbers_of_x32_end_the_process(void **state)
{
    for (uint32_t role = 0; role < SEAL_ROLES; role++) {
        for (uint32_t i = 0; i < filters[role].rules_count; i++) {
            struct act what = act_of(&filters[role].rules[i]);
            what.call |= X32_BIT;
            assert_int_equal(signal_of_act(role, &what), SIGSYS);
        }
    }
}

/* Number 3 is read() there and close() here. A kernel without the gate has another signal for
 * it. */
static void call_as_32_bits(void)
{
    __asm__ volatile("int $0x80" : : "a"(3), "b"(101) : "memory");
}

static void test_calls_of_32_bits_end_the_process(void **state)
{
    assert_int_not_equal(signal_of(SEAL_CORE, call_as_32_bits), 0);
}

static void *call_later(void *go)
{
    while (!*(volatile bool *)go) {
    }
    syscall(SYS_getpid);
    *(volatile bool *)go = false;
    return NULL;
}

static void test_threads_that_are_there_already_are_sealed_too(void **state)
{
    volatile bool go = false;
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        signal(SIGSYS, SIG_DFL);
        close(STDERR_FILENO);
        if (rights_drop() == STATUS_OK &&
            pthread_create(&thread, NULL, call_later, (void *)&go) == 0 &&
            load_filter(SEAL_WORKER, descriptors) == BOOT_EXIT_OK) {
            for (go = true; go;) {
            }
        }
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

static void test_what_is_allowed_is_little_and_none_of_what_must_not_be(void **state)
{
    static const uint32_t never[] = {
        SYS_mmap, SYS_mremap, SYS_mprotect, SYS_brk, SYS_munmap, SYS_madvise, SYS_shmat,
        SYS_open, SYS_openat, SYS_openat2, SYS_creat, SYS_memfd_create, SYS_io_uring_setup,
        SYS_execve, SYS_execveat, SYS_fork, SYS_vfork, SYS_clone, SYS_clone3,
        SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_pipe, SYS_pipe2,
        SYS_dup, SYS_dup2, SYS_dup3, SYS_fcntl, SYS_recvmsg,
        SYS_kill, SYS_tgkill, SYS_ptrace, SYS_process_vm_writev, SYS_pidfd_getfd, SYS_prctl,
        SYS_seccomp, SYS_setrlimit, SYS_prlimit64, SYS_ioctl, SYS_unlink, SYS_rename,
    };
    for (uint32_t role = 0; role < SEAL_ROLES; role++) {
        uint32_t named = 0;
        for (uint32_t call = 0; call < CALLS_END; call++) {
            named += is_named(role, call) ? 1 : 0;
        }
        assert_in_range(named, 1, CALLS_MAX);
        assert_int_equal(filter_calls_count(&filters[role]), named);
        for (uint32_t i = 0; i < sizeof never / sizeof never[0]; i++) {
            assert_false(is_named(role, never[i]));
        }
    }
}

static void test_handles_are_sent_into_pockets_only(void **state)
{
    static const struct { uint32_t handle; int signal; } tries[] = {
        {199, SIGSYS}, {200, 0}, {399, 0}, {400, SIGSYS}, {UINT32_MAX, SIGSYS}};
    for (uint32_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        const struct act what = {.call = SYS_sendmsg,
                                 .arguments = {tries[i].handle, 0, MSG_DONTWAIT | MSG_NOSIGNAL}};
        assert_int_equal(signal_of_act(SEAL_CORE, &what), tries[i].signal);
    }
}

int main(void)
{
    if (!IS_SEALED) {
        print_message("skipped: a build with sanitizers is not sealed\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call_that_no_rule_names_ends_the_process),
        cmocka_unit_test(test_call_as_its_rule_says_is_allowed),
        cmocka_unit_test(test_another_constant_argument_ends_the_process),
        cmocka_unit_test(test_numbers_of_x32_end_the_process),
        cmocka_unit_test(test_calls_of_32_bits_end_the_process),
        cmocka_unit_test(test_threads_that_are_there_already_are_sealed_too),
        cmocka_unit_test(test_handles_are_sent_into_pockets_only),
        cmocka_unit_test(test_what_is_allowed_is_little_and_none_of_what_must_not_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
