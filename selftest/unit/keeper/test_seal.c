/* SPDX-License-Identifier: MIT */
/*
 * Goal: under the filters of boot and keeper every system call that no rule names ends the process,
 * and so does a named one with arguments that its rules do not have; what the rules allow is
 * allowed. Where the GPU serves, what the rules name ends it and a driver's needs are met.
 * Method: the filter is loaded in a child, which makes one call.
 */
#include "selftest/unit/test.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include "appliance/seal/filter.c"
#include "appliance/seal/keeper.c"

#define CALLS_END    512                /* Linux 6.18 ends at 469 */
#define URETPROBE    335                /* test_seal.c */
#define UPROBE       336
#define CALLS_MAX    68
#define NO_PID       0x3fffffffu        /* more than there may be */
#define PAGE_BYTES   4096

static struct boot boot;
/* The filter under test: that of boot, or the keeper's. */
static const struct filter *filter;
/* Those that list what is allowed. */
static const struct filter *const lists[] = {&by_boot, &by_cpu};
#define LISTS (sizeof lists / sizeof lists[0])

struct act {
    uint32_t call;
    long arguments[6];
};

static long make(const struct act *act)
{
    const long *a = act->arguments;
    return syscall(act->call, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* How a child ended that was sealed and made this call; it exits with the error of the call. */
static int status_of(const struct act *act)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSYS, SIG_DFL);
        setpgid(0, 0);                  /* a group that a failing test may end */
        close(STDERR_FILENO);           /* of what is written to it, and of the log */
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        int error = 255;
        if ((filter == &by_boot ? seal_boot(&boot) : seal_keeper(&boot)) == BOOT_EXIT_OK) {
            error = make(act) < 0 ? errno : 0;
        }
        syscall(SYS_exit_group, error);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static bool dies(const struct act *act)
{
    int status = status_of(act);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

static void begin(const struct filter *which)
{
    filter = which;
    config_defaults(&boot.options);
    boot.serves_by_gpu = which == &by_gpu;
    boot.source.fd = 100;
    boot.shared.engine_bell = 101;
    boot.shared.control_bell = 102;
    boot.shared.admission_pipe[1] = 104;
    boot.shared.replies_bell[1] = 105;
    boot.replies_handle = 106;
}

static const int known[DESCRIPTORS] = {[MODEL] = 100, [ENGINE_BELL] = 101, [CONTROL_BELL] = 102,
                                       [ADMISSION] = 104, [REPLIES_BELL] = 105, [REPLIES] = 106};

static struct act act_of(const struct filter_rule *rule)
{
    struct act act = {.call = rule->call};
    if (rule->call == SYS_kill) {
        act.arguments[0] = NO_PID;      /* 0 would be a group, which has a rule of its own */
    }
    for (uint32_t i = 0; i < checks_count(rule); i++) {
        const struct filter_check *check = &rule->checks[i];
        act.arguments[check->argument] = check->kind == FILTER_KNOWN ? (long)known[check->value]
                                                                     : (long)check->value;
    }
    return act;
}

static bool is_named(uint32_t call)
{
    for (uint32_t i = 0; i < filter->rules_count; i++) {
        if (filter->rules[i].call == call) {
            return true;
        }
    }
    return call == URETPROBE || call == UPROBE;
}

static void test_call_that_no_rule_names_ends_the_process(void **state)
{
    for (uint32_t which = 0; which < LISTS; which++) {
        uint32_t named = 0;
        begin(lists[which]);
        for (uint32_t call = 0; call < CALLS_END; call++) {
            if (is_named(call)) {
                named++;
            } else if (!dies(&(struct act){.call = call})) {
                fail_msg("filter %u lets system call %u pass", which, call);
            }
        }
        assert_in_range(named, 1, CALLS_MAX);
        assert_int_equal(filter_calls_count(filter) + 2, named);    /* and the kernel's two */
    }
}

static void test_calls_do_as_their_rules_say(void **state)
{
    for (uint32_t which = 0; which < LISTS; which++) {
        begin(lists[which]);
        for (uint32_t i = 0; i < filter->rules_count; i++) {
            const struct filter_rule *rule = &filter->rules[i];
            const struct act act = act_of(rule);
            int status = status_of(&act);
            bool has_died = WIFSIGNALED(status);
            if (has_died != (rule->verdict == FILTER_KILL) ||
                (rule->verdict == FILTER_NO_CALL && WEXITSTATUS(status) != ENOSYS)) {
                fail_msg("filter %u, rule %u, system call %u: status %x", which, i, rule->call,
                         status);
            }
        }
    }
}

static void test_another_argument_than_a_rule_allows_ends_the_process(void **state)
{
    for (uint32_t which = 0; which < LISTS; which++) {
        begin(lists[which]);
        for (uint32_t i = 0; i < filter->rules_count; i++) {
            const struct filter_rule *rule = &filter->rules[i];
            for (uint32_t k = 0; rule->verdict == FILTER_ALLOW && k < checks_count(rule); k++) {
                struct act act = act_of(rule);
                long *argument = &act.arguments[rule->checks[k].argument];
                *argument = rule->checks[k].kind == FILTER_BITS ? 0 : *argument ^ 0x400;
                if (!dies(&act)) {
                    fail_msg("filter %u, rule %u without its check %u", which, i, k);
                }
            }
        }
    }
}

static void expect_deaths(const struct act *acts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!dies(&acts[i])) {
            fail_msg("act %u, system call %u", i, acts[i].call);
        }
    }
}

/* The rules are not asked here. */
static void test_what_must_not_be_ends_the_process(void **state)
{
    static const struct act never[] = {
        {SYS_execve, {0}}, {SYS_execveat, {0}}, {SYS_open, {0}}, {SYS_creat, {0}},
        {SYS_openat, {AT_FDCWD, 0, O_WRONLY}}, {SYS_openat, {AT_FDCWD, 0, O_RDWR}},
        {SYS_openat, {AT_FDCWD, 0, O_RDONLY | O_CREAT}},
        {SYS_openat, {AT_FDCWD, 0, O_RDONLY | O_TRUNC}}, {SYS_openat, {100, 0, O_RDONLY}},
        {SYS_mmap, {0, PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1}},
        {SYS_mprotect, {0, PAGE_BYTES, PROT_READ | PROT_EXEC}}, {SYS_socket, {AF_INET, SOCK_DGRAM}},
        {SYS_socket, {AF_UNIX, SOCK_STREAM}}, {SYS_socket, {AF_INET, SOCK_STREAM}},
        {SYS_connect, {100}}, {SYS_bind, {100}}, {SYS_listen, {100}}, {SYS_sendmsg, {103}},
        {SYS_ptrace, {0}}, {SYS_kill, {0, SIGKILL}}, {SYS_kill, {-(long)NO_PID, SIGKILL}},
        {SYS_kill, {NO_PID, SIGSTOP}}, {SYS_clone, {CLONE_NEWUSER | SIGCHLD}},
        {SYS_unshare, {CLONE_NEWUSER}}, {SYS_rename, {0}}, {SYS_ioctl, {0}}, {SYS_fcntl, {0}},
        {SYS_prctl, {PR_SET_DUMPABLE, 1}}, {SYS_prlimit64, {1, RLIMIT_NOFILE}},
        {SYS_prlimit64, {0, RLIMIT_CORE}}, {SYS_dup2, {100, 101}}, {SYS_setresuid, {0}},
    };
    static const struct act never_in_service[] = {
        {SYS_mmap, {0, PAGE_BYTES, PROT_READ, MAP_PRIVATE, 100}}, {SYS_sendto, {100}},
        {SYS_write, {STDOUT_FILENO}}, {SYS_socket, {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC}},
        {SYS_accept4, {100}}, {SYS_recvfrom, {100}}, {SYS_memfd_create, {0}},
    };
    for (uint32_t which = 0; which < LISTS; which++) {
        begin(lists[which]);
        expect_deaths(never, sizeof never / sizeof never[0]);
    }
    begin(&by_cpu);
    expect_deaths(never_in_service, sizeof never_in_service / sizeof never_in_service[0]);
}

static void test_where_the_gpu_serves_what_is_named_ends_the_process(void **state)
{
    uint32_t killed = 0;
    begin(&by_gpu);
    for (uint32_t i = 0; i < sizeof gpu_rules / sizeof gpu_rules[0]; i++) {
        const struct act act = act_of(&gpu_rules[i]);
        if (gpu_rules[i].verdict == FILTER_KILL) {
            killed++;
            if (!dies(&act)) {
                fail_msg("rule %u, system call %u", i, gpu_rules[i].call);
            }
        }
    }
    assert_true(killed > 50);
}

static void test_where_the_gpu_serves_a_driver_may_start(void **state)
{
    static const struct { struct act act; int error; } may[] = {
        {{SYS_execve, {0}}, EFAULT}, {{SYS_openat, {AT_FDCWD, 0, O_RDWR}}, EFAULT},
        {{SYS_mmap, {0, PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1}}, 0},
        {{SYS_socket, {AF_UNIX, SOCK_STREAM}}, 0}, {{SYS_socket, {AF_INET, SOCK_STREAM}}, ENOSYS},
        {{SYS_ioctl, {-1}}, EBADF}, {{SYS_clone3, {0}}, ENOSYS}, {{SYS_kill, {0, 0}}, 0},
        {{SYS_kill, {NO_PID, SIGTERM}}, ESRCH},
    };
    begin(&by_gpu);
    for (uint32_t i = 0; i < sizeof may / sizeof may[0]; i++) {
        int status = status_of(&may[i].act);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != may[i].error) {
            fail_msg("system call %u: status %x", may[i].act.call, status);
        }
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
        cmocka_unit_test(test_calls_do_as_their_rules_say),
        cmocka_unit_test(test_another_argument_than_a_rule_allows_ends_the_process),
        cmocka_unit_test(test_what_must_not_be_ends_the_process),
        cmocka_unit_test(test_where_the_gpu_serves_what_is_named_ends_the_process),
        cmocka_unit_test(test_where_the_gpu_serves_a_driver_may_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
