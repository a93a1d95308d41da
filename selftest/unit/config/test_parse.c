/* SPDX-License-Identifier: MIT */
/*
 * Goal: what an INI file and --set may say, and the exact place that a refusal names.
 * Method: small files in memory and in a temporary directory; each bad one differs from a good one
 * in one thing.
 */
#include "selftest/unit/folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"

static struct options options;
static struct config_error error;

static enum status load_count(const char *bytes, size_t count)
{
    config_defaults(&options);
    error.text[0] = '\0';
    return config_load_bytes(&options, "a.ini", bytes, count, &error);
}

static enum status load(const char *bytes)
{
    return load_count(bytes, strlen(bytes));
}

static void assert_refused(const char *bytes, size_t count, const char *expected)
{
    assert_status(STATUS_CONFIG_OPTION, load_count(bytes, count));
    assert_string_equal(error.text, expected);
}

static void test_load_good_file_takes_values_and_lines(void **state)
{
    (void)state;
    assert_status(STATUS_OK, load("; comment\n# comment\n\n[sched]\n  policy = fcfs ; inline\n"
                                  "\tbeta=2.5\n[limits]\ncalls: 7\n[net]\nunix =\n"));
    assert_int_equal(option_sched_policy(&options), SCHED_FCFS);
    assert_int_equal(options.sched_policy.value.line, 5);
    assert_int_equal(options.sched_beta.number, 2500);
    assert_int_equal(options.sched_beta.line, 6);
    assert_int_equal(options.limits_calls.number, 7);
    assert_string_equal(options.net_unix.text, "");
    assert_int_equal(options.net_unix.line, 10);
    assert_int_equal(options.net_tcp.line, 0);
    assert_string_equal(options.source, "a.ini");
}

static void test_load_crlf_and_missing_newline_are_allowed(void **state)
{
    (void)state;
    assert_status(STATUS_OK, load("[limits]\r\ncalls = 9\r\n\r\nprograms = 5"));
    assert_int_equal(options.limits_calls.number, 9);
    assert_int_equal(options.limits_programs.number, 5);
    assert_int_equal(options.limits_programs.line, 4);
}

static void test_load_indented_line_is_no_continuation(void **state)
{
    (void)state;
    assert_status(STATUS_OK, load("[limits]\ncalls = 9\n   programs = 5\n"));
    assert_int_equal(options.limits_calls.number, 9);
    assert_int_equal(options.limits_programs.number, 5);
    assert_refused("[limits]\ncalls = 9\n   10\n", 25,
                   "a.ini:3: neither `key = value` nor [section] nor comment");
}

static void test_load_bad_bytes_name_line_and_column(void **state)
{
    (void)state;
    assert_refused("", 0, "a.ini: the file is empty");
    assert_refused("[net]\nun\0ix=\n", 13, "a.ini:2:3: a NUL byte");
    assert_refused("\xef\xbb\xbf[net]\n", 9, "a.ini:1:1: a byte order mark");
    assert_refused("[net]\n\xef\xbb\xbf\n", 10, "a.ini:2:1: a byte that is not ASCII");
    assert_refused("[net]\rtcp=\n", 11, "a.ini:1:6: a carriage return without a newline");
    assert_refused("[net]\ntcp=\r", 11, "a.ini:2:5: a carriage return without a newline");
    assert_refused("[net]\nt\x1b=\n", 10, "a.ini:2:2: a control character");
    assert_refused("[net]\nt\x7f=\n", 10, "a.ini:2:2: a control character");
    assert_refused("[limits]\ncalls = \xd9\xa4\n", 20, "a.ini:2:9: a byte that is not ASCII");
    assert_refused("; \xff\xfe junk\n", 10, "a.ini:1:3: a byte that is not ASCII");
}

static void test_load_long_lines_are_refused_at_the_limit(void **state)
{
    (void)state;
    static char bytes[CONFIG_FILE_BYTES_MAX + 2];
    memset(bytes, 'x', sizeof bytes);
    bytes[0] = ';';
    assert_status(STATUS_OK, load_count(bytes, CONFIG_LINE_BYTES_MAX));
    assert_refused(bytes, CONFIG_LINE_BYTES_MAX + 1,
                   "a.ini:1:191: the line is too long, at most 190 bytes");
    assert_refused(bytes, CONFIG_FILE_BYTES_MAX,
                   "a.ini:1:191: the line is too long, at most 190 bytes");
    assert_refused(bytes, CONFIG_FILE_BYTES_MAX + 1,
                   "a.ini: the file is too large, at most 65536 bytes");
    memset(bytes, '\n', sizeof bytes);
    assert_status(STATUS_OK, load_count(bytes, CONFIG_FILE_BYTES_MAX));
    memset(bytes, 'y', CONFIG_LINE_BYTES_MAX);          /* the longest line that holds a value */
    memcpy(bytes, "[model]\npath=", 13);
    bytes[8 + CONFIG_LINE_BYTES_MAX] = '\n';
    memset(bytes + 13, 'y', CONFIG_LINE_BYTES_MAX - 5);
    assert_status(STATUS_OK, load_count(bytes, 9 + CONFIG_LINE_BYTES_MAX));
    assert_int_equal(strlen(options.model_path.text), CONFIG_LINE_BYTES_MAX - 5);
}

static void assert_text_refused(const char *bytes, const char *expected)
{
    assert_refused(bytes, strlen(bytes), expected);
}

static void test_load_unknown_names_suggest_the_nearest(void **state)
{
    (void)state;
    assert_text_refused("[sched]\nqueus = 4\n",
                        "a.ini:2: sched.queus = 4: unknown key, nearest is sched.queues");
    assert_text_refused("[shed]\nqueues = 4\n",
                        "a.ini:1: [shed]: unknown section, nearest is [sched]");
    assert_text_refused("[shed]\n", "a.ini:1: [shed]: unknown section, nearest is [sched]");
    assert_text_refused("[qqqqqqqqqqqqqq]\n", "a.ini:1: [qqqqqqqqqqqqqq]: unknown section");
    assert_text_refused("[]\n", "a.ini:1: []: unknown section");
    assert_text_refused("[ net ]\n", "a.ini:1: [ net ]: unknown section, nearest is [net]");
    assert_text_refused("queues = 4\n",
                        "a.ini:1: queues = 4: a key outside a section, nearest is sched.queues");
    assert_text_refused("[limits]\nzzzzzzzzzzzzzzzzzz = 1\n",
                        "a.ini:2: limits.zzzzzzzzzzzzzzzzzz = 1: unknown key");
    assert_text_refused("[sched]\nQUEUES = 4\n",
                        "a.ini:2: sched.QUEUES = 4: unknown key, nearest is sched.queues");
}

static void test_load_duplicate_names_the_first_line(void **state)
{
    (void)state;
    assert_text_refused("[limits]\ncalls = 4\ncalls = 4\n",
                        "a.ini:3: limits.calls = 4: duplicate key, first set in line 2");
    assert_text_refused("[limits]\ncalls=4\n[net]\n[limits]\ncalls=5\n",
                        "a.ini:5: limits.calls = 5: duplicate key, first set in line 2");
}

static void test_load_bad_values_say_what_is_allowed(void **state)
{
    (void)state;
    assert_text_refused("[sched]\nqueues = 99\n",
                        "a.ini:2: sched.queues = 99: out of range, allowed 1 .. 16");
    assert_text_refused("[sched]\nqueues = -1\n",
                        "a.ini:2: sched.queues = -1: not a number, allowed 1 .. 16");
    assert_text_refused("[sched]\nqueues =\n",
                        "a.ini:2: sched.queues = : the value is empty, allowed 1 .. 16");
    assert_text_refused("[net]\nsend_bytes = 4 GB\n",
                        "a.ini:2: net.send_bytes = 4 GB: the unit must be one of KiB, MiB, GiB, "
                        "without a space, allowed 4KiB .. 16MiB");
    assert_text_refused("[net]\nidle = 50\n",
                        "a.ini:2: net.idle = 50: the unit must be one of us, ms, s, min, h, "
                        "without a space, allowed 1ms .. 24h");
    assert_text_refused("[sched]\nservice = best\n",
                        "a.ini:2: sched.service = best: not one of the words, "
                        "allowed live|snapshot");
    assert_text_refused("[limits]\ncalls = 18446744073709551616\n",
                        "a.ini:2: limits.calls = 18446744073709551616: the number is too large, "
                        "allowed 1 .. 1048576");
}

static void test_load_broken_lines_are_refused(void **state)
{
    (void)state;
    assert_text_refused("[net]\njunk\n",
                        "a.ini:2: neither `key = value` nor [section] nor comment");
    assert_text_refused("[net\n", "a.ini:1:4: a section without its ]");
    assert_text_refused("[net] junk\n", "a.ini:1:7: text after a section");
    assert_text_refused("  [net] junk\n", "a.ini:1:9: text after a section");
    /* The first error wins, whichever check finds it. */
    assert_text_refused("[net]\njunk\ntpc = 1\n",
                        "a.ini:2: neither `key = value` nor [section] nor comment");
    assert_text_refused("[net]\ntpc = 1\njunk\n",
                        "a.ini:2: net.tpc = 1: unknown key, nearest is net.tcp");
    assert_text_refused("[net]\n= 1\n", "a.ini:2: net. = 1: unknown key");
    assert_text_refused("[net]\nt\tp = 1\n",          /* a message stays one line, printable */
                        "a.ini:2: net.t?p = 1: unknown key, nearest is net.tcp");
    assert_status(STATUS_OK, load("[net] ; comment\n[sched]   \n[kv]# comment\n"));
}

static void test_load_name_longer_than_inih_keeps_is_unknown(void **state)
{
    (void)state;
    /* inih would cut the names at 49 bytes; neither may turn into a known one. */
    assert_status(STATUS_CONFIG_OPTION,
                  load("[netnetnetnetnetnetnetnetnetnetnetnetnetnetnetnetnetnetnetnet]\ntcp=\n"));
    assert_status(STATUS_CONFIG_OPTION,
                  load("[net]\ntcptcptcptcptcptcptcptcptcptcptcptcptcptcptcptcptcptcptcptcp=\n"));
}

/* ---- files ----------------------------------------------------------------------------------- */

static char path[64];

static void place(const char *name, const char *bytes, mode_t mode)
{
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, strlen(bytes)), strlen(bytes));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static enum status load_path(void)
{
    config_defaults(&options);
    error.text[0] = '\0';
    return config_load_file(&options, path, &error);
}

static void test_file_regular_is_read(void **state)
{
    (void)state;
    place("good.ini", "[limits]\ncalls = 3\n", 0644);
    assert_status(STATUS_OK, load_path());
    assert_int_equal(options.limits_calls.number, 3);
    assert_string_equal(options.source, path);
    unlink(path);
    assert_status(STATUS_CONFIG_OPTION, load_path());
    assert_non_null(strstr(error.text, "No such file"));
    assert_non_null(strstr(error.text, path));
}

static void test_file_kinds_that_are_no_file_are_refused(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s", test_folder());
    assert_status(STATUS_CONFIG_OPTION, load_path());
    assert_non_null(strstr(error.text, "not a regular file"));
    snprintf(path, sizeof path, "/dev/zero");
    assert_status(STATUS_CONFIG_OPTION, load_path());
    assert_non_null(strstr(error.text, "not a regular file"));
    snprintf(path, sizeof path, "%s/fifo", test_folder());
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_status(STATUS_CONFIG_OPTION, load_path());   /* and does not wait for a writer */
    assert_non_null(strstr(error.text, "not a regular file"));
}

static void test_file_symbolic_link_is_refused(void **state)
{
    (void)state;
    char target[64];
    place("target.ini", "[net]\n", 0600);
    memcpy(target, path, sizeof target);
    snprintf(path, sizeof path, "%s/link.ini", test_folder());
    assert_int_equal(symlink(target, path), 0);
    assert_status(STATUS_CONFIG_OPTION, load_path());
    assert_non_null(strstr(error.text, "symbolic link"));
}

static void test_file_empty_large_or_writable_by_all_is_refused(void **state)
{
    (void)state;
    static char big[CONFIG_FILE_BYTES_MAX + 2];
    memset(big, '\n', sizeof big - 1);
    place("empty.ini", "", 0600);
    assert_status(STATUS_CONFIG_OPTION, load_path());
    assert_non_null(strstr(error.text, "empty"));
    place("big.ini", big, 0600);
    assert_status(STATUS_CONFIG_OPTION, load_path());
    assert_non_null(strstr(error.text, "too large"));
    place("open.ini", "[net]\n", 0666);
    assert_status(STATUS_CONFIG_OPTION, load_path());
    assert_non_null(strstr(error.text, "mode 0666"));
}

/* ---- --set ----------------------------------------------------------------------------------- */

static void assert_set_refused(const char *assignment, const char *expected)
{
    assert_status(STATUS_CONFIG_OPTION, config_set(&options, assignment, &error));
    assert_string_equal(error.text, expected);
}

static void test_set_overrides_file_and_earlier_set(void **state)
{
    (void)state;
    assert_status(STATUS_OK, load("[limits]\ncalls = 3\n"));
    assert_status(STATUS_OK, config_set(&options, "limits.calls=4", &error));
    assert_status(STATUS_OK, config_set(&options, "limits.calls=5", &error));
    assert_int_equal(options.limits_calls.number, 5);
    assert_int_equal(options.limits_calls.line, CONFIG_LINE_SET);
    assert_status(STATUS_OK, config_set(&options, "model.path=/a=b.c ; d", &error));
    assert_string_equal(options.model_path.text, "/a=b.c ; d");
}

static void test_set_takes_blanks_as_the_file_does(void **state)
{
    (void)state;
    config_defaults(&options);
    assert_status(STATUS_OK, config_set(&options, " limits.calls = 6 ", &error));
    assert_int_equal(options.limits_calls.number, 6);
    assert_status(STATUS_OK, config_set(&options, "model.path =  /a b ", &error));
    assert_string_equal(options.model_path.text, "/a b");
    assert_status(STATUS_OK, config_set(&options, "model.path = ", &error));
    assert_string_equal(options.model_path.text, "");
}

static void test_set_bad_assignments_are_refused(void **state)
{
    (void)state;
    config_defaults(&options);
    assert_set_refused("limits.calls", "--set: limits.calls: must be section.key=value");
    assert_set_refused("calls=4", "--set: calls=4: must be section.key=value");
    assert_set_refused("calls=4.5", "--set: calls=4.5: must be section.key=value");
    assert_set_refused("", "--set: : must be section.key=value");
    assert_set_refused("limits.cals=4",
                       "--set: limits.cals = 4: unknown key, nearest is limits.calls");
    assert_set_refused("limit.calls=4",
                       "--set: limit.calls = 4: unknown section, nearest is limits.calls");
    assert_set_refused("limits.calls=0",
                       "--set: limits.calls = 0: out of range, allowed 1 .. 1048576");
    assert_set_refused("limits.calls=4 5",
                       "--set: limits.calls = 4 5: not a plain number, allowed 1 .. 1048576");
    assert_set_refused("model.path=\n", "--set: byte 12 is not printable ASCII");
    assert_set_refused("model.path=\xc3\xa4", "--set: byte 12 is not printable ASCII");
    char longest[500];
    memset(longest, 'a', sizeof longest);
    longest[499] = '\0';
    assert_status(STATUS_CONFIG_OPTION, config_set(&options, longest, &error));
    longest[100] = '.';
    longest[200] = '=';
    assert_status(STATUS_CONFIG_OPTION, config_set(&options, longest, &error));
    memcpy(longest, "model.path=", 11);
    assert_status(STATUS_CONFIG_OPTION, config_set(&options, longest, &error));
    assert_int_equal(options.limits_calls.line, 0);
}

/* ---- relations ------------------------------------------------------------------------------- */

static void assert_contradiction(const char *bytes, const char *expected)
{
    assert_status(STATUS_OK, load(bytes));
    assert_status(STATUS_CONFIG_OPTION, config_check(&options, &error));
    if (strstr(error.text, expected) == NULL) {
        print_error("got: %s\n", error.text);
        fail();
    }
}

static void test_check_defaults_agree(void **state)
{
    (void)state;
    config_defaults(&options);
    assert_status(STATUS_OK, config_check(&options, &error));
    assert_status(STATUS_OK, load("[limits]\ncalls = 4\n[net]\ntcp =\n[text]\nlisten =\n"));
    assert_status(STATUS_OK, config_check(&options, &error));
    assert_status(STATUS_OK, load("[net]\ntcp = 0.0.0.0:7411\n[auth]\ntcp = psk\nkeys = /k\n"));
    assert_status(STATUS_OK, config_check(&options, &error));
    assert_status(STATUS_OK, load("[net]\ntcp = 127.0.0.1:0\n[text]\nlisten = 127.0.0.1:0\n"));
    assert_status(STATUS_OK, config_check(&options, &error));
    assert_status(STATUS_OK, load("[text]\nlisten = 10.0.0.1:7412\npeers = 10.0.0.9\n"));
    assert_status(STATUS_OK, config_check(&options, &error));
}

static void test_check_contradictions_are_refused(void **state)
{
    (void)state;
    assert_contradiction("[net]\ntcp = 0.0.0.0:7411\n",
                         "a.ini:2: net.tcp = 0.0.0.0:7411: not a loopback address: others need "
                         "auth.tcp = psk");
    assert_contradiction("[auth]\ntcp = psk\n",
                         "a.ini:2: auth.tcp = psk: there is no file of keys");
    assert_contradiction("[auth]\ntcp = psk\nkeys = /k\n[text]\nlisten = 10.0.0.1:1\n",
                         "not a loopback address: others need text.peers");
    assert_contradiction("[net]\nsend_bytes = 4KiB\nframes_per_pass = 9\n",
                         "a.ini:2: net.send_bytes = 4KiB: net.frames_per_pass = 9 needs "
                         "2048 + 9 x 256 = 4352 bytes");
    assert_contradiction("[text]\nlisten = [::]:7411\n",
                         "a.ini:2: text.listen = [::]:7411: not a loopback address");
    assert_contradiction("[net]\ntcp = localhost:7411\n", "not a numeric address");
    assert_contradiction("[text]\nlisten = 127.0.0.1:7411\n", "the same address as net.tcp");
    assert_contradiction("[kv]\nblock_tokens = 12\n",
                         "a.ini:2: kv.block_tokens = 12: not a multiple of 8, allowed 8");
    assert_contradiction("[limits]\ncalls = 4\ncalls_per_connection = 5\n",
                         "a.ini:3: limits.calls_per_connection = 5: more than all open calls");
    assert_contradiction("[sched]\nqueues = 16\nquantum = 50ms\nquantum_growth = 16\n", "64 bits");
    assert_status(STATUS_OK, load("[net]\n"));
    assert_status(STATUS_OK, config_set(&options, "net.tcp=10.0.0.1:1", &error));
    assert_status(STATUS_CONFIG_OPTION, config_check(&options, &error));
    assert_int_equal(strncmp(error.text, "--set: net.tcp = 10.0.0.1:1: ", 29), 0);
}

/* ---- the sample ------------------------------------------------------------------------------ */

static void test_sample_loads_as_it_is_and_uncommented(void **state)
{
    (void)state;
    static char sample[CONFIG_FILE_BYTES_MAX];
    FILE *out = fmemopen(sample, sizeof sample, "w");
    assert_non_null(out);
    config_write_sample(out);
    assert_int_equal(fclose(out), 0);
    assert_status(STATUS_OK, load(sample));
    for (char *at = sample; *at != '\0'; at++) {
        if (at[0] == '\n' && at[1] == ';' && at[2] != ' ') {
            at[1] = ' ';
        }
    }
    assert_status(STATUS_OK, load(sample));
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        const struct option_value *value = config_value(&options, row);
        assert_true(value->line > 0);
        assert_string_equal(value->text, row->default_text != NULL ? row->default_text : "");
        assert_int_equal(value->number, row->default_number);
    }
    assert_status(STATUS_OK, config_check(&options, &error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_good_file_takes_values_and_lines),
        cmocka_unit_test(test_load_crlf_and_missing_newline_are_allowed),
        cmocka_unit_test(test_load_indented_line_is_no_continuation),
        cmocka_unit_test(test_load_bad_bytes_name_line_and_column),
        cmocka_unit_test(test_load_long_lines_are_refused_at_the_limit),
        cmocka_unit_test(test_load_unknown_names_suggest_the_nearest),
        cmocka_unit_test(test_load_duplicate_names_the_first_line),
        cmocka_unit_test(test_load_bad_values_say_what_is_allowed),
        cmocka_unit_test(test_load_broken_lines_are_refused),
        cmocka_unit_test(test_load_name_longer_than_inih_keeps_is_unknown),
        cmocka_unit_test(test_file_regular_is_read),
        cmocka_unit_test(test_file_kinds_that_are_no_file_are_refused),
        cmocka_unit_test(test_file_symbolic_link_is_refused),
        cmocka_unit_test(test_file_empty_large_or_writable_by_all_is_refused),
        cmocka_unit_test(test_set_overrides_file_and_earlier_set),
        cmocka_unit_test(test_set_takes_blanks_as_the_file_does),
        cmocka_unit_test(test_set_bad_assignments_are_refused),
        cmocka_unit_test(test_check_defaults_agree),
        cmocka_unit_test(test_check_contradictions_are_refused),
        cmocka_unit_test(test_sample_loads_as_it_is_and_uncommented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
