/* SPDX-License-Identifier: MIT */
/*
 * Goal: the figures under the names of others are what docs/traces.md defines.
 * Method: three calls of two programs, worked out by hand.
 */
#include "selftest/unit/test.h"

#include "tools/trace/serving.h"

#define SECOND 1000000u

static struct serving serving;

static void assert_near(double value, double wanted)
{
    assert_true(value > wanted - 1e-9 && value < wanted + 1e-9);
}

static int start(void **state)
{
    (void)state;
    assert_true(serving_init(&serving, 3, 2));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    serving_free(&serving);
    return 0;
}

static void add_calls(void)
{
    serving_call(&serving, (uint64_t[]){0, 1 * SECOND, 3 * SECOND}, 5);
    serving_call(&serving, (uint64_t[]){5 * SECOND, 5 * SECOND, 5 * SECOND}, 2);
    serving_call(&serving, (uint64_t[]){6 * SECOND, 8 * SECOND, 8 * SECOND}, 1);
    serving_job(&serving, 8 * SECOND);
    serving_job(&serving, 4 * SECOND);
}

static void test_figures_of_calls_and_jobs_are_those_of_the_definitions(void **state)
{
    const struct serving_totals totals = {.duration_us = 10 * SECOND, .prompt_tokens = 100,
                                          .cached_tokens = 40, .engines = 2};
    (void)state;
    add_calls();
    struct serving_figures figures = serving_figures(&serving, &totals);
    assert_near(figures.first_ms.mean, 1000);
    assert_near(figures.first_ms.p50, 1000);
    assert_near(figures.first_ms.p99, 2000);
    assert_near(figures.latency_ms.mean, (3000 + 0 + 2000) / 3.0);
    assert_near(figures.token_ms.mean, (2000 / 4.0 + 0) / 2);   /* one token has no distance */
    assert_near(figures.speed.mean, 2);                         /* and all at once no speed */
    assert_near(figures.job_s.mean, 6);
    assert_near(figures.tokens_per_s, 0.8);
    assert_near(figures.all_tokens_per_s, 10.8);
    assert_near(figures.calls_per_s, 0.3);
    assert_near(figures.jobs_per_hour, 720);
    assert_near(figures.jobs_per_hour_of_user, 600);
    assert_near(figures.hit_ratio, 0.4);
}

static double member(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static void test_json_has_the_names_of_others(void **state)
{
    struct serving_totals totals = {.duration_us = 10 * SECOND, .engines = 2};
    (void)state;
    add_calls();
    struct serving_figures figures = serving_figures(&serving, &totals);
    json_t *object = serving_json(&figures);
    assert_near(member(json_object_get(object, "time_to_first_token_ms"), "p50"), 1000);
    assert_near(member(object, "jobs_per_hour_per_gpu"), 360);
    json_decref(object);
    figures.engines = 0;
    object = serving_json(&figures);
    assert_true(json_is_null(json_object_get(object, "jobs_per_hour_per_gpu")));
    json_decref(object);
}

static void test_run_without_calls_has_zeroes(void **state)
{
    (void)state;
    struct serving_figures figures = serving_figures(&serving, &(struct serving_totals){0});
    assert_near(figures.first_ms.mean + figures.speed.p99 + figures.jobs_per_hour_of_user, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_figures_of_calls_and_jobs_are_those_of_the_definitions, start, stop),
        cmocka_unit_test_setup_teardown(test_json_has_the_names_of_others, start, stop),
        cmocka_unit_test_setup_teardown(test_run_without_calls_has_zeroes, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
