/* SPDX-License-Identifier: MIT */
/*
 * Goal: a sealed door dies of what it never does, and lives on with what its libraries do.
 * Method: a child for each act, which seals itself, and then acts.
 */
#include "selftest/unit/test.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "selftest/misbehave/forbidden.h"
#include "tools/door/seal.h"

static struct door door;

/* What a sealed child that does this ends with: its signal, or minus its exit status. */
static int end_of(void (*act)(const char *name), const char *name)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        door.options.door_connections.number = 8;
        if (!seal(&door)) {
            _exit(100);
        }
        act(name);
        syscall(SYS_exit_group, 7);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void test_what_a_door_never_does_ends_it(void **state)
{
#ifdef AGENTIX_NO_TRAP
    print_message("skipped: a build with sanitizers is not sealed\n");
    return;
#endif
    static const char *const names[] = {"code", "mprotect", "open", "openat", "execve", "fork",
                                        "clone", "socket", "dup", "ptrace", "kill", "unlink"};
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int end = end_of(call_that_is_not_allowed, names[i]);
        if (end != SIGSYS) {
            print_error("%s: %d\n", names[i], end);
            fail();
        }
    }
}

/* Ends the child with the number of the first thing that does not work. */
static void do_what_libraries_do(const char *name)
{
    static const size_t sizes[] = {100, 100000, 10000000};
    time_t now = time(NULL);
    struct tm day;
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *memory = malloc(sizes[i]);
        char *more = memory != NULL ? realloc(memory, 3 * sizes[i]) : NULL;
        if (more == NULL) {
            _exit(1);
        }
        memset(more, 1, 3 * sizes[i]);
        free(more);
    }
    json_t *json = json_pack("{ss}", "a", "b");
    if (json == NULL || gmtime_r(&now, &day) == NULL) {
        _exit(2);
    }
    json_decref(json);
    int peer = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const struct sockaddr_in none = {.sin_family = AF_INET};
    if (peer < 0 || (connect(peer, (const struct sockaddr *)&none, sizeof none) == 0)) {
        _exit(3);
    }
    close(peer);
}

static void test_what_its_libraries_do_goes_on(void **state)
{
    assert_int_equal(end_of(do_what_libraries_do, NULL), -7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_door_never_does_ends_it),
        cmocka_unit_test(test_what_its_libraries_do_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
