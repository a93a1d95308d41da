/* SPDX-License-Identifier: MIT */
/*
 * Goal: the option table, the grammar of values in both directions, and the guess of a mistyped
 * key.
 * Method: every row of the table for what all rows promise; tables of texts for the grammar.
 */
#include "selftest/unit/test.h"

#include <stdio.h>

#include "config/config.h"
#include "config/options.h"
#include "config/value.h"

static struct option_value value;
static const char *problem;

static enum status parse(const char *section, const char *key, const char *text)
{
    const struct option_row *row = config_options_find(section, key);
    assert_non_null(row);
    problem = "";
    return config_value_parse(row, text, &value, &problem);
}

static void test_defaults_every_row_in_range_and_formats_back(void **state)
{
    (void)state;
    static struct options options;
    config_defaults(&options);
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        const struct option_value *fallback = config_value(&options, row);
        char text[CONFIG_TEXT_BYTES + 1];

        text[config_format(row, fallback, text, CONFIG_TEXT_BYTES)] = '\0';
        memset(&value, 0, sizeof value);
        const char *why = "";
        assert_status(STATUS_OK, config_value_parse(row, text, &value, &why));
        assert_int_equal(value.number, fallback->number);
        assert_string_equal(value.text, fallback->text);
        assert_int_equal(fallback->line, 0);
    }
}

static void test_find_every_row_is_unique(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        assert_ptr_equal(config_options_find(row->section, row->key), row);
    }
    assert_null(config_options_find("sched", "nothing"));
    assert_null(config_options_find("", ""));
}

static void test_parse_numbers_bad_texts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "-1", "+1", "0x10", "1e3", "4GiB", "4 GB", "18446744073709551615", "18446744073709551616",
        "99999999999999999999999", "", " 4", "4 ", "4k", "4.0", "\xd9\xa4", "four", "4,000"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        value.number = 7;
        assert_status(STATUS_CONFIG_OPTION, parse("limits", "calls", bad[i]));
        assert_int_equal(value.number, 7);
        assert_true(problem[0] != '\0');
    }
    assert_status(STATUS_OK, parse("limits", "calls", "4"));
    assert_int_equal(value.number, 4);
}

static void test_parse_bytes_units(void **state)
{
    (void)state;
    assert_status(STATUS_OK, parse("net", "send_bytes", "65536"));
    assert_int_equal(value.number, 65536);
    assert_status(STATUS_OK, parse("net", "send_bytes", "64KiB"));
    assert_int_equal(value.number, 65536);
    assert_status(STATUS_OK, parse("limits", "vocabulary_bytes", "1GiB"));
    assert_int_equal(value.number, 1u << 30);
    static const char *const bad[] = {"64 KiB", "64kib", "64KB", "64K", "4GiB", "KiB", "1TiB",
                                      "17179869184GiB", "1KiB1", "0"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_status(STATUS_CONFIG_OPTION, parse("net", "send_bytes", bad[i]));
    }
}

static void test_parse_time_units(void **state)
{
    (void)state;
    static const struct { const char *text; uint64_t us; } good[] = {
        {"0", 0}, {"1us", 1}, {"50ms", 50000}, {"2s", 2000000}, {"3min", 180000000},
        {"1h", UINT64_C(3600000000)}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_status(STATUS_OK, parse("sched", "wait_max", good[i].text));
        assert_int_equal(value.number, good[i].us);
    }
    static const char *const bad[] = {"50", "1.5s", "1 s", "1m", "1S", "-1s", "s", "25h",
                                      "18446744073709551615s", "5124095577h"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_status(STATUS_CONFIG_OPTION, parse("sched", "wait_max", bad[i]));
    }
}

static void test_parse_ratio_decimals(void **state)
{
    (void)state;
    static const struct { const char *text; uint64_t milli; } good[] = {
        {"0", 0}, {"8", 8000}, {"8.5", 8500}, {"0.001", 1}, {"1.25", 1250},
        {"1000000", 1000000000}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_status(STATUS_OK, parse("sched", "beta", good[i].text));
        assert_int_equal(value.number, good[i].milli);
    }
    static const char *const bad[] = {"8.", ".5", "8.1234", "-1", "1e3", "nan", "inf", "8,5",
                                      "18446744073709551", "18446744073709551615", "1.5x", ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_status(STATUS_CONFIG_OPTION, parse("sched", "beta", bad[i]));
    }
}

static void test_parse_choice_only_listed_words(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        enum sched_policy policy;
    } good[] = {{"plas", SCHED_PLAS}, {"rr", SCHED_ROUND_ROBIN}, {"justitia", SCHED_JUSTITIA}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_status(STATUS_OK, parse("sched", "policy", good[i].word));
        assert_int_equal(value.number, good[i].policy);
    }
    static const char *const bad[] = {"", "pla", "plas|atlas", "PLAS", "plas ", "|", "plass",
                                      "srpt"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_status(STATUS_CONFIG_OPTION, parse("sched", "policy", bad[i]));
    }
}

static void test_parse_text_length_and_bytes(void **state)
{
    (void)state;
    char longest[257];
    memset(longest, 'a', sizeof longest);
    longest[256] = '\0';
    assert_status(STATUS_CONFIG_OPTION, parse("model", "path", longest));
    longest[255] = '\0';
    assert_status(STATUS_OK, parse("model", "path", longest));
    assert_string_equal(value.text, longest);
    assert_status(STATUS_OK, parse("model", "path", ""));
    assert_string_equal(value.text, "");
    assert_status(STATUS_CONFIG_OPTION, parse("model", "path", "a\x01"));
    assert_status(STATUS_CONFIG_OPTION, parse("model", "path", "\xc3\xa4"));
}

static void test_format_largest_unit_and_no_room(void **state)
{
    (void)state;
    static const struct {
        const char *section, *key;
        uint64_t number;
        const char *text;
    } cases[] = {
        {"sched", "quantum", 50000, "50ms"}, {"sched", "quantum", 1500, "1500us"},
        {"sched", "quantum", 0, "auto"},
        {"sched", "wait_max", 60000000, "1min"}, {"sched", "wait_max", 0, "0"},
        {"net", "send_bytes", 65536, "64KiB"}, {"net", "send_bytes", 4097, "4097"},
        {"sched", "beta", 32000, "32.000"}, {"sched", "queues", 6, "6"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[32];
        const struct option_row *row = config_options_find(cases[i].section, cases[i].key);
        value.number = cases[i].number;
        text[config_format(row, &value, text, sizeof text - 1)] = '\0';
        assert_string_equal(text, cases[i].text);
        assert_true(config_format(row, &value, text, 1) <= 1);
    }
}

static void test_nearest_names_what_was_meant(void **state)
{
    (void)state;
    static const struct { const char *section, *key, *expected; } cases[] = {
        {"sched", "queus", "sched.queues"}, {"shed", "queues", "sched.queues"},
        {"kv", "blok_tokens", "kv.block_tokens"}, {"limits", "block_tokens", "kv.block_tokens"},
        {"net", "tpc", "net.tcp"}, {"", "policy", "sched.policy"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct option_row *row = config_options_nearest(cases[i].section, cases[i].key);
        char name[64];
        assert_non_null(row);
        snprintf(name, sizeof name, "%s.%s", row->section, row->key);
        assert_string_equal(name, cases[i].expected);
    }
    assert_null(config_options_nearest("wholly", "different_thing_altogether"));
    assert_string_equal(config_options_nearest("limit", NULL)->section, "limits");
    char longest[400];
    memset(longest, 'x', sizeof longest);
    longest[399] = '\0';
    assert_null(config_options_nearest(longest, longest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_every_row_in_range_and_formats_back),
        cmocka_unit_test(test_find_every_row_is_unique),
        cmocka_unit_test(test_parse_numbers_bad_texts_are_refused),
        cmocka_unit_test(test_parse_bytes_units),
        cmocka_unit_test(test_parse_time_units),
        cmocka_unit_test(test_parse_ratio_decimals),
        cmocka_unit_test(test_parse_choice_only_listed_words),
        cmocka_unit_test(test_parse_text_length_and_bytes),
        cmocka_unit_test(test_format_largest_unit_and_no_room),
        cmocka_unit_test(test_nearest_names_what_was_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
