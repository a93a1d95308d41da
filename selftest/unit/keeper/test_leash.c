/* SPDX-License-Identifier: MIT */
/*
 * Goal: a pull ends the process that wears the leash, also where that stands still, and no other
 * one; the end of the process that gave it ends none.
 * Method: children that wear it, and one that gives it.
 */
#include "selftest/unit/test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "appliance/keeper/upgrade/leash.h"

static pid_t wear(const int ends[2])
{
    pid_t child = fork();
    if (child == 0) {
        if (!leash_wear(ends) || raise(SIGSTOP) != 0) {
            _exit(1);
        }
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    return child;
}

static int end_of(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_pull_ends_the_last_one_that_wears_it(void **state)
{
    int ends[2];
    assert_true(leash_make(ends));
    pid_t first = wear(ends), last = wear(ends);
    leash_pull(ends);
    assert_int_equal(WTERMSIG(end_of(last)), SIGKILL);
    leash_pull(ends);               /* no process wears it */
    pid_t next = wear(ends);
    leash_pull(ends);
    assert_int_equal(WTERMSIG(end_of(next)), SIGKILL);
    kill(first, SIGCONT);
    assert_int_equal(end_of(first), 0);
    leash_close(ends);
}

static void test_close_where_it_was_given_ends_none(void **state)
{
    int ends[2];
    assert_true(leash_make(ends));
    pid_t child = wear(ends);
    leash_close(ends);              /* the child has both ends still */
    kill(child, SIGCONT);
    assert_int_equal(end_of(child), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pull_ends_the_last_one_that_wears_it),
        cmocka_unit_test(test_close_where_it_was_given_ends_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
