/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a core gets is one whole admission after the other, each as the file was when it was
 * read; a core that dies leaves none to the next, whose keys are those of the file; a domain keeps
 * its number for as long as there are cores; what cannot be taken up changes nothing.
 * Method: the keeper's side over a real pipe and real files; the test is the core.
 */
#include "selftest/unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "appliance/log.h"
#include "selftest/unit/folder.h"

static char said[512];              /* the last line of the log */
static uint64_t heap_bytes;         /* of the keeper's own heap, which the test does not have */

static void note(enum log_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
}

static uint64_t scripted_used_bytes(void)
{
    return heap_bytes++;            /* as if each reading took some */
}

static void scripted_rewind(uint64_t mark)
{
    heap_bytes = mark;
}

#define heap_used_bytes scripted_used_bytes
#define heap_rewind     scripted_rewind
#define log_event       note
#include "appliance/keeper/reload.c"
#undef heap_used_bytes
#undef heap_rewind
#undef log_event

/* All but the first two digits of a secret: no two keys may have the same. */
#define SECRET "112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static char program[] = "agentix", config_word[] = "--config", config_path[64], keys_path[64];
static char *words[] = {program, config_word, config_path};
static struct boot boot;
static struct config_keys boot_keys;
static struct control control;
static struct reload reload;

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0600), 0);
}

static void write_keys(const char *domain, const char *other)
{
    char text[512];
    snprintf(text, sizeof text, "alice 0a" SECRET " %s\nbob 0b" SECRET " %s\n", domain, other);
    write_file(keys_path, text);
}

static void write_config(const char *more)
{
    char text[512];
    snprintf(text, sizeof text, "[auth]\ntcp = psk\nkeys = %s\n%s", keys_path, more);
    write_file(config_path, text);
}

/* The appliance has booted with domains red and blue; the core has been forked. */
static int begin(void **state)
{
    struct config_error error;
    snprintf(config_path, sizeof config_path, "%s/ini", test_folder());
    snprintf(keys_path, sizeof keys_path, "%s/keys", test_folder());
    write_keys("red", "blue");
    write_config("");
    memset(&control, 0, sizeof control);
    boot = (struct boot){.line = {3, words}, .keys = &boot_keys, .shared.control = &control};
    assert_status(STATUS_OK, line_read_options(&boot.line, &boot.options, &error));
    assert_status(STATUS_OK, config_access_fill(&boot.access, &boot.options, 500, &error));
    assert_status(STATUS_OK, config_keys_load_file(&boot_keys, keys_path, &error));
    boot.limits = (struct limits){.keys = CONFIG_KEYS_MAX, .connections = 100, .calls = 100,
                                  .programs = 100};
    boot.shared.control_bell = eventfd(0, EFD_NONBLOCK);
    assert_int_equal(pipe2(boot.shared.admission_pipe, O_NONBLOCK), 0);
    reload_init(&reload, &boot);
    reload_begin(&reload);
    said[0] = '\0';
    heap_bytes = 0;
    return 0;
}

static int end(void **state)
{
    assert_int_equal(heap_bytes, 0);    /* whatever a reading took, it has given back */
    close(boot.shared.control_bell);
    close(boot.shared.admission_pipe[0]);
    close(boot.shared.admission_pipe[1]);
    return 0;
}

/* ---- the core -------------------------------------------------------------------------------- */

static bool has_bytes(void)
{
    uint8_t byte;
    return read(boot.shared.admission_pipe[0], &byte, 1) == 1;
}

static struct config_admission take(void)
{
    struct config_admission admission;
    assert_int_equal(read(boot.shared.admission_pipe[0], &admission, sizeof admission),
                     sizeof admission);
    return admission;
}

/* As core.c does after its pass. */
static struct config_admission take_order(void)
{
    assert_int_not_equal(control.admissions, control.admissions_taken);
    struct config_admission admission = take();
    atomic_fetch_add(&control.admissions_taken, 1);
    return admission;
}

/* SIGHUP. */
static void ask(void)
{
    reload.is_due = true;
    reload_tick(&reload);
}

static void expect_wiped(void)
{
    static const struct config_key none[CONFIG_KEYS_MAX];
    assert_memory_equal(boot_keys.keys, none, sizeof none);
    assert_memory_equal(reload.known.keys, none, sizeof none);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_a_reload_passes_on_what_the_file_says_and_keeps_no_secret(void **state)
{
    expect_wiped();
    write_keys("blue", "green");
    ask();
    const struct config_admission got = take_order();
    assert_false(has_bytes());
    assert_int_equal(got.keys.count, 2);
    assert_string_equal(got.keys.domains[1], "blue");
    assert_int_equal(got.keys.keys[0].domain, 1);
    assert_int_equal(got.keys.keys[1].domain, 2);
    assert_int_equal(got.keys.weights[0], 0);       /* red has no key any more, and its number */
    expect_wiped();
    write_keys("red", "green");
    ask();
    assert_int_equal(take_order().keys.keys[0].domain, 0);
}

/* The pipe has room for one: the second waits, and is read when its turn comes. */
static void test_two_at_once_are_passed_on_one_after_the_other(void **state)
{
    write_keys("red", "green");
    ask();
    write_keys("red", "yellow");
    ask();
    assert_true(reload.is_due);
    assert_string_equal(take_order().keys.domains[2], "green");
    assert_false(has_bytes());
    reload_tick(&reload);
    assert_false(reload.is_due);
    const struct config_admission second = take_order();
    assert_string_equal(second.keys.domains[3], "yellow");
    assert_int_equal(second.keys.keys[1].domain, 3);
    reload_tick(&reload);
    assert_false(has_bytes());
}

static void expect_nothing(const char *why)
{
    uint32_t before = control.admissions;
    ask();
    assert_false(has_bytes());
    assert_int_equal(control.admissions, before);
    assert_non_null(strstr(said, why));
    assert_false(reload.is_due);
    expect_wiped();
}

static void test_what_is_wrong_changes_nothing(void **state)
{
    char text[CONFIG_KEYS_BYTES_MAX];
    int at = 0;
    assert_int_equal(chmod(keys_path, 0644), 0);
    expect_nothing("nothing is taken up");
    assert_int_equal(unlink(keys_path), 0);
    expect_nothing("nothing is taken up");
    write_keys("red", "");
    write_file(keys_path, "alice nonsense\n");
    expect_nothing(":1: ");
    for (uint32_t i = 0; i < CONFIG_KEYS_MAX - 1; i++) {
        at += snprintf(text + at, sizeof text - (size_t)at, "k%u %02x" SECRET "\n", i, i);
    }
    write_file(keys_path, text);
    expect_nothing("more than 64 trust domains");
    write_config("gids = no-such-group\n");
    expect_nothing("no-such-group");
    write_config("");
    write_keys("red", "blue");
    ask();
    assert_int_equal(take_order().keys.domains_count, 2);
}

/* The first core had not taken what was passed on when it died. */
static void test_the_next_core_gets_the_keys_of_the_file_and_nothing_besides(void **state)
{
    write_keys("red", "green");
    ask();
    write_keys("yellow", "green");
    assert_true(reload_renew(&reload));
    assert_false(has_bytes());
    assert_int_equal(boot_keys.keys[0].domain, 3);
    assert_int_equal(boot_keys.keys[1].domain, 2);
    assert_true(reload_hand_over(&reload));
    expect_wiped();
    control_begin_core(&control, false);
    write_keys("yellow", "red");        /* before the next one has taken the first */
    ask();
    assert_int_equal(take().keys.keys[1].domain, 2);
    assert_int_equal(take_order().keys.keys[1].domain, 0);
    assert_false(has_bytes());
}

/* Users and groups are in no file that is read anew: the keeper has what was taken up last. */
static void test_the_next_core_knows_users_that_were_taken_up(void **state)
{
    write_config("uids = 700\n");
    ask();
    (void)take_order();
    write_config("uids = 800\n");       /* no signal has come for that */
    assert_true(reload_renew(&reload));
    assert_true(reload_hand_over(&reload));
    const struct config_admission got = take();
    assert_true(config_access_allows(&got.access, 700, NULL, 0));
    assert_false(config_access_allows(&got.access, 800, NULL, 0));
}

static void test_no_core_begins_without_its_keys(void **state)
{
    assert_int_equal(unlink(keys_path), 0);
    assert_false(reload_renew(&reload));
    assert_non_null(strstr(said, "no other core"));
    expect_wiped();
}

/* One that is forked has the keys in its memory: they are not lost with the pipe. */
static void test_a_pipe_that_is_full_leaves_the_keys_to_a_core_that_is_forked(void **state)
{
    static const uint8_t waste[4096];
    assert_true(reload_renew(&reload));
    while (write(boot.shared.admission_pipe[1], waste, sizeof waste) > 0) {
    }
    assert_false(reload_hand_over(&reload));
    assert_false(has_bytes());
    assert_int_equal(boot_keys.count, 2);
    reload_begin(&reload);
    expect_wiped();
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        T(test_a_reload_passes_on_what_the_file_says_and_keeps_no_secret),
        T(test_two_at_once_are_passed_on_one_after_the_other),
        T(test_what_is_wrong_changes_nothing),
        T(test_the_next_core_gets_the_keys_of_the_file_and_nothing_besides),
        T(test_the_next_core_knows_users_that_were_taken_up),
        T(test_no_core_begins_without_its_keys),
        T(test_a_pipe_that_is_full_leaves_the_keys_to_a_core_that_is_forked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
