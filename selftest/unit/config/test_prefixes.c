/* SPDX-License-Identifier: MIT */
/*
 * Goal: a file of token ids is taken as it is written, and one that is not one, or does not fit, is
 * refused in words that say what, where and what is allowed.
 * Method: files in a folder of the test's own; the words of the refusal.
 */
#include "selftest/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/prefixes.h"

enum { VOCAB = 500, BLOCK_TOKENS = 8, CONTEXT = 64 };

static char directory[] = "/tmp/agentix-test-XXXXXX";
static struct options options;
static struct limits limits;
static struct config_prefixes prefixes;
static struct config_error error;

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

/* The path of a new file; the next call removes it and makes another, or none of NULL. */
static const char *path_of(const char *text, size_t bytes)
{
    static char path[64];
    unlink(path);
    snprintf(path, sizeof path, "%s/ids", directory);
    if (text != NULL) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(text, 1, bytes, file), bytes);
        fclose(file);
        assert_int_equal(chmod(path, 0644), 0);
    }
    return path;
}

static void set(struct option_value *value, const char *text)
{
    strcpy(value->text, text);
    value->line = 3;
}

static enum status measure_bytes(const char *text, size_t bytes)
{
    config_defaults(&options);
    strcpy(options.source, "a.ini");
    limits = (struct limits){.vocab_tokens = VOCAB, .kv_block_tokens = BLOCK_TOKENS,
                             .context_tokens = CONTEXT, .kv_blocks = 10};
    error.text[0] = '\0';
    set(&options.prefix_2, path_of(text, bytes));
    return config_prefixes_measure(&prefixes, &options, &limits, &error);
}

static enum status measure(const char *text)
{
    return measure_bytes(text, strlen(text));
}

static void assert_refused(const char *text, const char *words)
{
    assert_int_not_equal(measure(text), STATUS_OK);
    if (strstr(error.text, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
    }
    path_of(NULL, 0);
}

/* `count` ids: 0, 1, 2 ... */
static const char *ids(uint32_t count)
{
    static char text[65536];
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        used += (uint32_t)snprintf(text + used, sizeof text - used, "%u ", i % VOCAB);
    }
    return text;
}

static void test_measure_counts_whole_blocks_and_adds_them_to_the_limits(void **state)
{
    (void)state;
    assert_int_equal(measure("0 1 2\n3\t4\r\n  5 006 499 8 9"), STATUS_OK);
    assert_int_equal(prefixes.count, 1);
    assert_int_equal(prefixes.each[0].option, 1);
    assert_int_equal(prefixes.each[0].file_tokens, 10);
    assert_int_equal(prefixes.each[0].tokens_count, 8);
    assert_int_equal(limits.prefixes, 1);
    assert_int_equal(limits.prefix_blocks, 1);
    assert_int_equal(limits.kv_blocks, 11);
    set(&options.prefix_8, options.prefix_2.text);
    assert_int_equal(config_prefixes_measure(&prefixes, &options, &limits, &error), STATUS_OK);
    assert_int_equal(prefixes.count, 2);
    assert_int_equal(prefixes.each[1].option, 7);
    path_of(NULL, 0);
}

static void test_measure_without_prefixes_changes_nothing(void **state)
{
    (void)state;
    config_defaults(&options);
    limits = (struct limits){.kv_block_tokens = BLOCK_TOKENS, .kv_blocks = 10};
    assert_int_equal(config_prefixes_measure(&prefixes, &options, &limits, &error), STATUS_OK);
    assert_int_equal(prefixes.count + limits.prefixes + limits.prefix_blocks, 0);
    assert_int_equal(limits.kv_blocks, 10);
}

static void test_measure_bad_file_names_option_and_byte(void **state)
{
    (void)state;
    assert_refused("1 2 3 4 5 6 7 500 9",
                   "at byte 14: not an id of the model, allowed ids 0 .. 499");
    assert_refused("1 99999999999999999999999", "not an id of the model");
    assert_refused("1 2 x 4", "at byte 4: not a decimal number");
    assert_refused("1 2x", "at byte 2: not a decimal number");
    assert_refused("1,2", "at byte 0: not a decimal number");
    assert_refused("-1", "at byte 0: not a decimal number");
    assert_refused("1 2 \xff", "at byte 4: not a decimal number");
    assert_refused("\xef\xbb\xbf" "1", "at byte 0: not a decimal number");
    assert_refused("x", "a.ini:3: prefix.2 = ");
    assert_int_not_equal(measure_bytes("1 2\0003", 5), STATUS_OK);
    assert_non_null(strstr(error.text, "at byte 2: not a decimal number"));
    path_of(NULL, 0);
}

static void test_measure_length_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    assert_refused("", ": 0 token ids, allowed kv.block_tokens = 8 .. 63, with one token of output "
                       "in limits.context_tokens");
    assert_refused(" \n", ": 0 token ids");
    assert_refused(ids(7), ": 7 token ids");
    assert_int_equal(measure(ids(8)), STATUS_OK);
    assert_int_equal(measure(ids(63)), STATUS_OK);
    assert_int_equal(prefixes.each[0].tokens_count, 56);
    assert_refused(ids(64), ": more than 63 token ids");
    assert_refused(ids(10000), ": more than 63 token ids");
}

static void test_measure_file_of_another_kind_is_refused(void **state)
{
    (void)state;
    assert_int_not_equal(measure(ids(8)), STATUS_CONFIG_OPTION);
    assert_int_equal(chmod(options.prefix_2.text, 0646), 0);
    assert_int_equal(config_prefixes_measure(&prefixes, &options, &limits, &error),
                     STATUS_CONFIG_OPTION);
    assert_non_null(strstr(error.text, "all users may write it"));
    path_of(NULL, 0);
    assert_int_equal(config_prefixes_measure(&prefixes, &options, &limits, &error),
                     STATUS_CONFIG_OPTION);
    assert_non_null(strstr(error.text, "cannot be opened"));
    set(&options.prefix_2, directory);
    assert_int_equal(config_prefixes_measure(&prefixes, &options, &limits, &error),
                     STATUS_CONFIG_OPTION);
    assert_non_null(strstr(error.text, "not a regular file"));
}

/* More than the reader's buffer holds. */
static void test_load_keeps_what_was_measured(void **state)
{
    (void)state;
    struct memory_plan plan = {0};
    struct arena *arena = test_arena();
    assert_int_equal(measure(ids(8)), STATUS_OK);
    limits.context_tokens = 4096;
    path_of(ids(3000), strlen(ids(3000)));
    assert_int_equal(config_prefixes_measure(&prefixes, &options, &limits, &error), STATUS_OK);
    assert_int_equal(prefixes.each[0].tokens_count, 3000);
    config_prefixes_plan_memory(&plan, &prefixes);
    uint64_t before = arena->used_bytes;
    assert_int_equal(config_prefixes_load(&prefixes, &options, &limits, arena, &error), STATUS_OK);
    assert_int_equal(arena->used_bytes - before, memory_plan_bytes(&plan, MEMORY_MODEL));
    for (uint32_t i = 0; i < 3000; i++) {
        assert_int_equal(prefixes.each[0].tokens[i], i % VOCAB);
    }
    path_of(NULL, 0);
}

static void test_load_file_that_has_changed_is_refused(void **state)
{
    (void)state;
    assert_int_equal(measure(ids(20)), STATUS_OK);
    path_of(ids(15), strlen(ids(15)));
    assert_int_not_equal(config_prefixes_load(&prefixes, &options, &limits, test_arena(), &error),
                         STATUS_OK);
    assert_non_null(strstr(error.text, "prefix.2 = "));
    assert_non_null(strstr(error.text, "shorter"));
    assert_int_equal(measure(ids(20)), STATUS_OK);
    path_of("1 2 3 x", 7);
    assert_int_not_equal(config_prefixes_load(&prefixes, &options, &limits, test_arena(), &error),
                         STATUS_OK);
    assert_non_null(strstr(error.text, "at byte 6"));
    path_of(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measure_counts_whole_blocks_and_adds_them_to_the_limits),
        cmocka_unit_test(test_measure_without_prefixes_changes_nothing),
        cmocka_unit_test(test_measure_bad_file_names_option_and_byte),
        cmocka_unit_test(test_measure_length_that_does_not_fit_is_refused),
        cmocka_unit_test(test_measure_file_of_another_kind_is_refused),
        cmocka_unit_test(test_load_keeps_what_was_measured),
        cmocka_unit_test(test_load_file_that_has_changed_is_refused),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
