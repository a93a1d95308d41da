/* SPDX-License-Identifier: MIT */
/*
 * Goal: under the seal of the GPU's worker a call that its rules name is refused or ends the
 * process, and the log says which one it was; what a driver may need is left to it: memory without
 * code, threads, its own end. A thread that blocks all signals is refused, and does not die.
 * Method: the seal is put on in a child, which makes one call; its log is read from a pipe.
 */
#include "selftest/unit/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "appliance/seal/filter.c"
#include "appliance/gpu/seal.c"
#include "appliance/gpu/trap.c"

#define ARGUMENT_BYTES 4096

static char said[4096];             /* what the last child has logged */

/* How a child ended that was sealed and then did this; it exits with 0 if `work` was right. */
static int status_of(bool (*work)(const void *with), const void *with)
{
    int status = 0, pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);              /* which seal_gpu() copies */
        close(pipes[0]);
        close(pipes[1]);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        bool is_right = seal_gpu() && work(with);
        _exit(is_right ? 0 : 1);
    }
    assert_true(child > 0);
    close(pipes[1]);
    size_t count = 0;
    for (ssize_t got = 1; got > 0 && count < sizeof said - 1; count += got > 0 ? (size_t)got : 0) {
        got = read(pipes[0], said + count, sizeof said - 1 - count);
    }
    said[count] = '\0';
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static bool has_ended(int status, int by)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == by;
}

/* False, and the log says what it is, if the last child does not say this. */
static bool has_said(const char *words)
{
    if (strstr(said, words) == NULL) {
        print_message("no \"%s\" in: %s\n", words, said);
        return false;
    }
    return true;
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

static void test_what_a_rule_traps_ends_the_process(void **state)
{
    (void)state;
    uint32_t ended = 0;
    for (uint32_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].verdict == FILTER_TRAP) {
            char number[32];
            int status = status_of(make_call, &rules[i]);
            snprintf(number, sizeof number, " number=%u", rules[i].call);
            if (!has_ended(status, SIGSYS) || !has_said(number)) {
                fail_msg("rule %u, system call %u: status %x", i, rules[i].call, status);
            }
            ended++;
        }
    }
    assert_true(ended > 40);
}

static bool is_refused(const void *with)
{
    const int *call = with;
    return syscall(*call, "/of/a/driver", "/of/a/driver", 0, 0, 0, 0) == -1 && errno == EACCES;
}

static void test_what_a_driver_may_try_is_refused_and_told(void **state)
{
    (void)state;
    uint32_t refused = 0;
    for (uint32_t i = 0; i < sizeof stopped / sizeof stopped[0]; i++) {
        if (stopped[i].path != IS_FATAL) {
            char line[96];
            assert_int_equal(status_of(is_refused, &stopped[i].call), 0);
            snprintf(line, sizeof line, "call=%s path=%s\n", stopped[i].name,
                     stopped[i].path == NO_PATH ? "-" : "/of/a/driver");
            assert_true(has_said(line));
            refused++;
        }
    }
    assert_true(refused > 20);
}

static bool try_often(const void *with)
{
    for (uint32_t i = 0; i < 10 * TOLD_MAX; i++) {
        open("/of/a/driver", O_RDONLY);
    }
    return true;
}

static void test_a_driver_that_tries_for_ever_does_not_fill_the_log(void **state)
{
    (void)state;
    assert_int_equal(status_of(try_often, NULL), 0);
    uint32_t lines = 0;
    for (const char *at = said; (at = strstr(at, "call=openat ")) != NULL; at++) {
        lines++;
    }
    assert_int_equal(lines, TOLD_MAX);
    assert_true(has_said("(the last that is told)"));
}

static struct {
    pthread_barrier_t barrier;
    int error;
} deaf;

static void *try_with_all_blocked(void *argument)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_barrier_wait(&deaf.barrier);
    pthread_barrier_wait(&deaf.barrier);            /* sealed */
    deaf.error = open("/of/a/driver", O_RDONLY) < 0 ? errno : 0;
    return NULL;
}

/* A driver's own thread. It stands before the seal, so the child is made here. */
static void test_a_thread_that_blocks_all_signals_is_refused(void **state)
{
    (void)state;
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        pthread_barrier_init(&deaf.barrier, NULL, 2);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (pthread_create(&thread, NULL, try_with_all_blocked, NULL) != 0) {
            _exit(2);
        }
        pthread_barrier_wait(&deaf.barrier);
        bool is_sealed = seal_gpu();
        pthread_barrier_wait(&deaf.barrier);
        pthread_join(thread, NULL);
        _exit(is_sealed && deaf.error == EACCES ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static bool call_plainly(const void *with)
{
    return syscall(*(const uint32_t *)with, 0, 0, 0, 0, 0, 0) != -1 || errno != EACCES;
}

/* The rules are not asked here. */
static void test_what_must_not_be_is_named(void **state)
{
    (void)state;
    static const uint32_t never[] = {
        SYS_open, SYS_openat, SYS_openat2, SYS_creat, SYS_memfd_create, SYS_io_uring_setup,
        SYS_execve, SYS_execveat, SYS_fork, SYS_vfork, SYS_clone, SYS_socket, SYS_socketpair,
        SYS_connect, SYS_bind, SYS_kill, SYS_tkill, SYS_tgkill, SYS_ptrace, SYS_process_vm_writev,
        SYS_pidfd_getfd, SYS_setrlimit, SYS_unlink, SYS_rename, SYS_bpf,
        SYS_userfaultfd, SYS_perf_event_open, SYS_mount, SYS_unshare, SYS_shmat,
    };
    for (uint32_t i = 0; i < sizeof never / sizeof never[0]; i++) {
        int status = status_of(call_plainly, &never[i]);
        if (!has_ended(status, SIGSYS) && status != 1 << 8) {
            fail_msg("system call %u: status %x", never[i], status);
        }
    }
}

static bool ask_and_set_limits(const void *with)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) == 0 && setrlimit(RLIMIT_STACK, &limit) != 0;
}

static void test_limits_may_be_asked_and_not_set(void **state)
{
    (void)state;
    assert_int_equal(status_of(ask_and_set_limits, NULL), 0);
}

static bool take_the_handler(const void *with)
{
    return signal(SIGSYS, SIG_IGN) != SIG_ERR;
}

static void test_no_other_handler_takes_its_place(void **state)
{
    (void)state;
    assert_true(has_ended(status_of(take_the_handler, NULL), SIGSYS));
    assert_true(has_said("call=rt_sigaction of SIGSYS"));
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
        cmocka_unit_test(test_what_a_rule_traps_ends_the_process),
        cmocka_unit_test(test_what_a_driver_may_try_is_refused_and_told),
        cmocka_unit_test(test_a_driver_that_tries_for_ever_does_not_fill_the_log),
        cmocka_unit_test(test_a_thread_that_blocks_all_signals_is_refused),
        cmocka_unit_test(test_limits_may_be_asked_and_not_set),
        cmocka_unit_test(test_no_other_handler_takes_its_place),
        cmocka_unit_test(test_what_must_not_be_is_named),
        cmocka_unit_test(test_memory_may_come_and_code_may_not),
        cmocka_unit_test(test_threads_may_start_and_processes_may_not),
        cmocka_unit_test(test_it_may_end_itself_and_no_other),
        cmocka_unit_test(test_no_descriptor_comes),
        cmocka_unit_test(test_numbers_of_x32_end_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
