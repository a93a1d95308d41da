/* SPDX-License-Identifier: MIT */
/*
 * Goal: under the seal of the GPU's worker every call that its rules name ends the process; what a
 * driver may need is left to it: memory without code, threads, its own end.
 * Method: the seal is put on in a child, which makes one call.
 */
#include "selftest/unit/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "appliance/seal/filter.c"
#include "appliance/gpu/seal.c"

#define ARGUMENT_BYTES 4096

/* How a child ended that was sealed and then did this; it exits with 0 if `work` was right. */
static int status_of(bool (*work)(const void *with), const void *with)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSYS, SIG_DFL);
        close(STDERR_FILENO);
        open("/dev/null", O_WRONLY);                /* as descriptor 2, which seal_gpu() copies */
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        bool is_right = seal_gpu() && work(with);
        _exit(is_right ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static bool make_call(const void *with)
{
    const struct filter_rule *rule = with;
    long arguments[6] = {0};
    for (uint32_t i = 0; i < checks_count(rule); i++) {
        arguments[rule->checks[i].argument] = rule->checks[i].value;
    }
    syscall(rule->call, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
            arguments[5]);
    return true;
}

static void test_what_a_rule_names_ends_the_process(void **state)
{
    (void)state;
    uint32_t killed = 0;
    for (uint32_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].verdict == FILTER_KILL) {
            int status = status_of(make_call, &rules[i]);
            if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS) {
                fail_msg("rule %u, system call %u: status %x", i, rules[i].call, status);
            }
            killed++;
        }
    }
    assert_true(killed > 70);
}

static bool call_plainly(const void *with)
{
    syscall(*(const uint32_t *)with, 0, 0, 0, 0, 0, 0);
    return true;
}

/* The rules are not asked here. */
static void test_what_must_not_be_is_named(void **state)
{
    (void)state;
    static const uint32_t never[] = {
        SYS_open, SYS_openat, SYS_openat2, SYS_creat, SYS_memfd_create, SYS_io_uring_setup,
        SYS_execve, SYS_execveat, SYS_fork, SYS_vfork, SYS_clone, SYS_socket, SYS_socketpair,
        SYS_connect, SYS_bind, SYS_kill, SYS_tkill, SYS_tgkill, SYS_ptrace, SYS_process_vm_writev,
        SYS_pidfd_getfd, SYS_setrlimit, SYS_prlimit64, SYS_unlink, SYS_rename, SYS_bpf,
        SYS_userfaultfd, SYS_perf_event_open, SYS_mount, SYS_unshare, SYS_shmat,
    };
    for (uint32_t i = 0; i < sizeof never / sizeof never[0]; i++) {
        int status = status_of(call_plainly, &never[i]);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS) {
            fail_msg("system call %u: status %x", never[i], status);
        }
    }
}

static bool map_memory(const void *with)
{
    void *memory = mmap(NULL, ARGUMENT_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED && mprotect(memory, ARGUMENT_BYTES, PROT_READ | PROT_WRITE) == 0 &&
           munmap(memory, ARGUMENT_BYTES) == 0;
}

static bool make_code(const void *with)
{
    mmap(NULL, ARGUMENT_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
         0);
    return true;
}

static void test_memory_may_come_and_code_may_not(void **state)
{
    (void)state;
    assert_int_equal(status_of(map_memory, NULL), 0);
    assert_int_equal(WTERMSIG(status_of(make_code, NULL)), SIGSYS);
}

static void *come_and_go(void *argument)
{
    return argument;
}

static bool start_thread(const void *with)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, come_and_go, NULL) == 0 &&
           pthread_join(thread, NULL) == 0;
}

static bool start_process(const void *with)
{
    return fork() < 0;
}

static void test_threads_may_start_and_processes_may_not(void **state)
{
    (void)state;
    assert_int_equal(status_of(start_thread, NULL), 0);
    assert_int_equal(WTERMSIG(status_of(start_process, NULL)), SIGSYS);
}

static bool end_self(const void *with)
{
    abort();
}

static bool end_parent(const void *with)
{
    return syscall(SYS_tgkill, getppid(), getppid(), SIGKILL) == 0;
}

static void test_it_may_end_itself_and_no_other(void **state)
{
    (void)state;
    assert_int_equal(WTERMSIG(status_of(end_self, NULL)), SIGABRT);
    assert_int_equal(WTERMSIG(status_of(end_parent, NULL)), SIGSYS);
}

static bool lack_descriptors(const void *with)
{
    return dup(STDERR_FILENO) < 0 && errno == EMFILE;
}

static void test_no_descriptor_comes(void **state)
{
    (void)state;
    assert_int_equal(status_of(lack_descriptors, NULL), 0);
}

/* Number 57 is fork() here too. */
static bool fork_as_x32(const void *with)
{
    return syscall(SYS_fork | X32_BIT) < 0;
}

static void test_numbers_of_x32_end_the_process(void **state)
{
    (void)state;
    assert_int_equal(WTERMSIG(status_of(fork_as_x32, NULL)), SIGSYS);
}

int main(void)
{
    if (!IS_SEALED) {
        print_message("skipped: a build with sanitizers is not sealed\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_rule_names_ends_the_process),
        cmocka_unit_test(test_what_must_not_be_is_named),
        cmocka_unit_test(test_memory_may_come_and_code_may_not),
        cmocka_unit_test(test_threads_may_start_and_processes_may_not),
        cmocka_unit_test(test_it_may_end_itself_and_no_other),
        cmocka_unit_test(test_no_descriptor_comes),
        cmocka_unit_test(test_numbers_of_x32_end_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
