/* SPDX-License-Identifier: MIT */
/*
 * Goal: runs of the lab with several engines, and with engines that die: the figures of the engines
 * add up to those of the whole, and a death costs what it lost and no token.
 * Method: small traces; with the preset `unit` every decoding round is a second, so every figure
 * can be counted by hand. That tokens stay the same is asserted in each run (clients.c).
 */
#include "selftest/unit/lab/traces.h"

#include <math.h>

static const char one_call[] =
    "agentix-trace 1\n"
    "program a 0 x\ncall 0 after=- gap=0 in=u:1 out=4\n";

/* Two at once, then one more by the first. */
static const char three_calls[] =
    "agentix-trace 1\n"
    "program a 0 x\ncall 0 after=- gap=0 in=u:40 out=4\n"
    "call 1 after=0 gap=0 in=p:0+o:0+u:3 out=2\n"
    "program b 0 x\ncall 0 after=- gap=0 in=u:40 out=4\n";

static void kill_engine(struct lab_settings *settings, uint32_t engine, uint64_t at_us,
                        uint64_t for_us)
{
    settings->deaths[settings->deaths_count++] = (struct lab_death){engine, at_us, for_us};
}

static void test_engines_add_up_to_the_whole(void **state)
{
    (void)state;
    for (uint32_t engines = 1; engines <= WORLD_ENGINES_MAX; engines++) {
        struct lab_settings settings = traces_settings("plas", "a100-llama-3.1-8b");
        settings.engines = engines;
        settings.programs = 64;
        struct lab_result result = traces_play(&settings, three_calls);
        uint64_t calls = 0, prompt_tokens = 0, cached_tokens = 0, busy_us = 0;
        assert_int_equal(result.engines_count, engines);
        for (uint32_t i = 0; i < engines; i++) {
            calls += result.engines[i].calls;
            prompt_tokens += result.engines[i].prompt_tokens;
            cached_tokens += result.engines[i].cached_tokens;
            busy_us += result.engines[i].busy_us;
        }
        assert_int_equal(calls, result.calls);
        assert_int_equal(prompt_tokens, result.prompt_tokens);
        assert_int_equal(cached_tokens, result.cached_tokens);
        assert_true(fabs((double)busy_us / 1e6 - result.busy_s) < 1e-9);
    }
}

/* Known are two tokens, and the third is lost half done: 2.5 s, 5 s, and two rounds. */
static void test_death_costs_the_step_in_flight(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("plas", "unit");
    kill_engine(&settings, 0, 2500000, 5000000);
    struct lab_result result = traces_play(&settings, one_call);
    assert_true(result.makespan_s == 9.5);
    assert_true(result.busy_s == 4.5);
    assert_int_equal(result.engines[0].busy_us, 4500000);
    assert_int_equal(result.engines[0].deaths, 1);
}

/* A step that is done in the very moment is lost, too. */
static void test_death_at_the_end_of_a_step_comes_first(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("plas", "unit");
    kill_engine(&settings, 0, 2000000, 5000000);
    assert_true(traces_play(&settings, one_call).makespan_s == 10);
}

/* Before the first call, twice, and again while it is down: back at 8 s. */
static void test_engine_is_back_after_its_last_death(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("plas", "unit");
    kill_engine(&settings, 0, 0, 1000000);
    kill_engine(&settings, 0, 500000, 7500000);
    kill_engine(&settings, 0, 3000000, 1000000);
    struct lab_result result = traces_play(&settings, one_call);
    assert_true(result.makespan_s == 12);
    assert_int_equal(result.engines[0].deaths, 3);
}

static void test_deaths_lose_no_call(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("plas", "a100-llama-3.1-8b");
    settings.engines = 3;
    settings.programs = 200;
    settings.rate = 100;
    for (uint32_t i = 0; i < LAB_DEATHS_MAX; i++) {
        kill_engine(&settings, i % 3, 100000 + 70000 * i, 50000);
    }
    struct lab_result result = traces_play(&settings, three_calls);
    assert_int_equal(result.calls, 300);
    assert_int_equal(result.engines[0].calls + result.engines[1].calls + result.engines[2].calls,
                     300);
    assert_int_equal(result.engines[0].deaths, 6);
    assert_int_equal(result.engines[1].deaths, 5);
    assert_int_equal(result.engines[2].deaths, 5);
    assert_int_equal(result.refused_calls, 0);
}

/* A death that has not come when the run is over. */
static void test_death_after_the_end_does_not_count(void **state)
{
    (void)state;
    struct lab_settings settings = traces_settings("plas", "unit");
    kill_engine(&settings, 0, 60000000, 5000000);
    struct lab_result result = traces_play(&settings, one_call);
    assert_true(result.makespan_s == 4);
    assert_int_equal(result.engines[0].deaths, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engines_add_up_to_the_whole),
        cmocka_unit_test(test_death_costs_the_step_in_flight),
        cmocka_unit_test(test_death_at_the_end_of_a_step_comes_first),
        cmocka_unit_test(test_engine_is_back_after_its_last_death),
        cmocka_unit_test(test_deaths_lose_no_call),
        cmocka_unit_test(test_death_after_the_end_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
