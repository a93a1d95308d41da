/* SPDX-License-Identifier: MIT */
/*
 * Goal: the self-test's arguments mean what the help says; other arguments are left alone, bad
 * values are refused.
 * Method: small command lines.
 */
#include "selftest/unit/test.h"

#include <stdio.h>

#include "selftest/post/post.h"

static struct post_settings settings;
static const char *problem;

/* Number of arguments taken. */
static int take(const char *word, const char *value)
{
    char *argv[] = {(char *)(uintptr_t)word, (char *)(uintptr_t)value};
    int at = 0;
    bool taken = post_settings_take(&settings, value == NULL ? 1 : 2, argv, &at, &problem);
    return taken ? at + 1 : 0;
}

static void test_levels_are_words(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        enum post_level level;
    } words[] = {
        {"--selftest", POST_QUICK},     {"--selftest=quick", POST_QUICK},
        {"--selftest=full", POST_FULL}, {"--selftest=soak", POST_SOAK},
        {"--selftest-inject", POST_INJECT},
    };
    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++) {
        post_settings_init(&settings);
        assert_int_equal(settings.level, POST_NONE);
        assert_int_equal(take(words[i].word, "x"), 1);
        assert_null(problem);
        assert_int_equal(settings.level, words[i].level);
        assert_int_equal(settings.flips, 10000);
        assert_int_equal(settings.minutes, 60);
    }
}

static void test_values_follow_or_are_refused(void **state)
{
    (void)state;
    post_settings_init(&settings);
    assert_int_equal(take("--selftest-memory", "3MiB"), 2);
    assert_int_equal(take("--selftest-minutes", "7"), 2);
    assert_int_equal(take("--seed", "18446744073709551615"), 2);
    assert_int_equal(take("--selftest-inject=77", NULL), 1);
    assert_null(problem);
    assert_int_equal(settings.memory_bytes, 3 << 20);
    assert_int_equal(settings.minutes, 7);
    assert_true(settings.seed == UINT64_MAX);
    assert_int_equal(settings.flips, 77);
    assert_int_equal(settings.level, POST_INJECT);
    static const char *const bad[][2] = {
        {"--selftest-memory", "3 MiB"},         {"--selftest-memory", NULL},
        {"--selftest-memory", "4095"},          {"--selftest-inject=0", NULL},
        {"--selftest-memory", "1000000GiB"},
        {"--selftest-minutes", "99999999"},     {"--seed", "-1"},
        {"--selftest-inject=4294967296", NULL}, {"--selftest-inject=", NULL},
    };
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_true(take(bad[i][0], bad[i][1]) > 0);
        assert_non_null(problem);
    }
}

static void test_other_words_are_left_alone(void **state)
{
    (void)state;
    assert_int_equal(take("--check", "x"), 0);
    assert_int_equal(take("--selftest=", "x"), 0);
    assert_int_equal(take("--selftest=fast", "x"), 0);
}

/* Whichever engine serves, the CPU is checked as one that serves. */
static void test_engine_kind_chooses_checks_of_a_gpu(void **state)
{
    (void)state;
    static const char *const kinds[] = {
        [POST_NO_GPU] = "cpu", [POST_GPU_IF_ANY] = "auto", [POST_GPU] = "cuda"};
    for (uint32_t i = 0; i < 3; i++) {
        static struct options options;
        struct config_error error;
        char setting[32];
        config_defaults(&options);
        snprintf(setting, sizeof setting, "engine.kind=%s", kinds[i]);
        assert_status(STATUS_OK, config_set(&options, setting, &error));
        post_choose_engine(&settings, &options);
        assert_int_equal(settings.gpu, i);
        assert_int_equal(option_engine_kind(&options), OPTION_ENGINE_KIND_CPU);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels_are_words),
        cmocka_unit_test(test_values_follow_or_are_refused),
        cmocka_unit_test(test_other_words_are_left_alone),
        cmocka_unit_test(test_engine_kind_chooses_checks_of_a_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
