/* SPDX-License-Identifier: MIT */
/*
 * Goal: a log that cannot be written costs lines and nothing else: the next one that can be is a
 * line of its own, and the log says how many are missing.
 * Method: descriptor 2 is a file whose length is limited to the byte, as by a disk that is full.
 */
#include "selftest/unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "appliance/log.h"

static int file, real;
static char got[4096];

static void set_limit(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static int set_up(void **state)
{
    char path[] = "/tmp/agentix-log-XXXXXX";
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    file = mkstemp(path);
    assert_true(file >= 0);
    unlink(path);
    real = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    log_role("keeper");
    log_role("core");                   /* its child: nothing is lost yet */
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    set_limit(RLIM_INFINITY);
    dup2(real, STDERR_FILENO);
    close(real);
    close(file);
    return 0;
}

static const char *all_of_it(void)
{
    ssize_t count = pread(file, got, sizeof got - 1, 0);
    assert_true(count >= 0);
    got[count] = '\0';
    return got;
}

/* The lines, without the times that each begins with. */
static const char *lines(void)
{
    static char text[sizeof got];
    char copy[sizeof got], *rest = copy;
    strcpy(copy, all_of_it());
    text[0] = '\0';
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        const char *words = strstr(line, " core ");
        strcat(text, words != NULL ? words + 6 : line);
        strcat(text, rest != NULL ? "|" : "");
    }
    return text;
}

static void test_lines_that_are_written_are_not_counted(void **state)
{
    (void)state;
    log_event(LOG_INFO, "one");
    log_event(LOG_WARN, "two=%d", 2);
    assert_string_equal(lines(), "info one|warn two=2|");
    assert_int_equal(log_lost(), 0);
}

static void test_full_disk_loses_lines_and_says_how_many(void **state)
{
    (void)state;
    log_event(LOG_INFO, "one");
    set_limit(strlen(all_of_it()));
    for (uint32_t i = 0; i < 3; i++) {
        log_event(LOG_INFO, "not written");
    }
    assert_int_equal(log_lost(), 3);
    assert_string_equal(lines(), "info one|");
    set_limit(RLIM_INFINITY);
    log_event(LOG_INFO, "two");
    log_event(LOG_INFO, "three");
    assert_string_equal(lines(), "info one||warn log lost=3|info two|info three|");
    assert_int_equal(log_lost(), 3);
}

/* At each byte of a line. */
static void test_line_that_was_cut_is_ended_before_the_next(void **state)
{
    log_event(LOG_INFO, "cut");
    const size_t bytes = strlen(all_of_it());
    tear_down(state);
    for (size_t cut = 1; cut < bytes; cut++) {
        set_up(state);
        set_limit(cut);
        log_event(LOG_INFO, "cut");
        log_event(LOG_INFO, "not written");
        assert_int_equal(strlen(all_of_it()), cut);
        set_limit(RLIM_INFINITY);
        log_event(LOG_INFO, "next");
        const char *rest = all_of_it() + cut;
        assert_int_equal(*rest, '\n');
        assert_non_null(strstr(rest, " core warn log lost=2\n"));
        assert_non_null(strstr(rest, " core info next\n"));
        tear_down(state);
    }
    set_up(state);
}

/* The disk has room for the line that says so, and not for the next: both are told later. */
static void test_line_that_says_so_is_cut_as_well(void **state)
{
    (void)state;
    set_limit(0);
    log_event(LOG_INFO, "one");
    set_limit(20);
    log_event(LOG_INFO, "two");
    set_limit(RLIM_INFINITY);
    log_event(LOG_INFO, "three");
    assert_string_equal(lines() + 20, "|warn log lost=2|info three|");
    assert_int_equal(log_lost(), 2);
}

static void test_child_does_not_tell_of_the_keepers_losses(void **state)
{
    (void)state;
    log_role("keeper");
    set_limit(0);
    log_event(LOG_INFO, "one");
    log_role("core");
    set_limit(RLIM_INFINITY);
    log_event(LOG_INFO, "two");
    assert_string_equal(lines(), "info two|");
    assert_int_equal(log_lost(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines_that_are_written_are_not_counted, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_full_disk_loses_lines_and_says_how_many, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_line_that_was_cut_is_ended_before_the_next, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_line_that_says_so_is_cut_as_well, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_child_does_not_tell_of_the_keepers_losses, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
