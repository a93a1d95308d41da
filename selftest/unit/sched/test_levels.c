/* SPDX-License-Identifier: MIT */
/*
 * Goal: learnt levels are where programs end: the shortest in the first, nearly all before the
 * last, whatever the scale of their service; they follow when it changes; and none ends just before
 * many programs do.
 * Method: levels.c alone is told how the service of made-up programs grows, step by step.
 */
#include "selftest/unit/test.h"

#include "sched/levels.h"

enum { QUEUES = 8, STEPS = 4 };

static struct sched sched;

static void start(uint32_t queues)
{
    memset(&sched, 0, sizeof sched);
    sched.settings = (struct sched_settings){.queues = queues, .quantum_growth = 2,
                                             .steps_per_plan = STEPS};
    sched_levels_init(&sched);
}

/* So many programs become idle after this service, half of them twice: their first note is taken
 * back when they return. */
static void serve(const uint64_t *us, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i % 2 == 0) {
            sched_levels_take_back(&sched, sched_levels_note(&sched, us[i] / 16));
        }
        sched_levels_note(&sched, us[i]);
        sched_levels_note_step(&sched, us[0] / 100, STEPS);
        sched_levels_learn(&sched, true);
    }
}

static void check_ranges(uint32_t queues)
{
    uint64_t low_us = 0;
    for (uint32_t i = 0; i < queues; i++) {
        assert_int_equal(sched.levels[i].service_low_us, low_us);
        assert_true(sched.levels[i].service_high_us > low_us);
        assert_true(sched.levels[i].quantum_us > 0);
        low_us = sched.levels[i].service_high_us;
    }
    assert_true(low_us == UINT64_MAX);
}

/* Evenly spread on a log scale from `first_us` on, over four octaves and a half. */
static void draw(uint64_t *us, uint32_t count, uint64_t first_us)
{
    for (uint32_t i = 0; i < count; i++) {
        us[i] = first_us << (i * 9 / (2 * count));
        us[i] += us[i] * (i % 7) / 10;
    }
}

static void test_levels_follow_the_scale_of_service(void **state)
{
    (void)state;
    static const uint64_t scales_us[] = {UINT64_C(20000), UINT64_C(3000000), UINT64_C(800000000)};
    static uint64_t us[256];
    for (uint32_t i = 0; i < 3; i++) {
        start(QUEUES);
        check_ranges(QUEUES);
        draw(us, 256, scales_us[i]);
        serve(us, 256);
        serve(us, 256);
        check_ranges(QUEUES);
        uint64_t first_us = sched.levels[0].service_high_us;
        uint64_t last_us = sched.levels[QUEUES - 1].service_low_us;
        assert_in_range(first_us, scales_us[i] / 12, scales_us[i] / 4);
        assert_true(last_us > 2 * us[242]);             /* of 256: 95 in 100 end before it */
        for (uint32_t queue = 1; queue < QUEUES - 1; queue++) {
            assert_true(sched.levels[queue].service_high_us >=
                        5 * (sched.levels[queue].service_low_us / 2));
        }
    }
}

/* A hundred times slower machine: the levels come after it within two windows. */
static void test_levels_follow_a_change(void **state)
{
    (void)state;
    static uint64_t us[SCHED_LEVELS_WINDOW];
    start(QUEUES);
    draw(us, SCHED_LEVELS_WINDOW, 50000);
    serve(us, SCHED_LEVELS_WINDOW);
    uint64_t before_us = sched.levels[0].service_high_us;
    for (uint32_t i = 0; i < 4; i++) {
        draw(us, SCHED_LEVELS_WINDOW, 5000000);
        serve(us, SCHED_LEVELS_WINDOW);
    }
    assert_true(sched.levels[0].service_high_us > 50 * before_us);
    check_ranges(QUEUES);
}

/* The first range is not shorter than two steps, which no plan can tell apart. */
static void test_first_level_holds_two_steps(void **state)
{
    (void)state;
    static uint64_t us[64];
    start(QUEUES);
    draw(us, 64, 1000);
    for (uint32_t i = 0; i < 64; i++) {
        sched_levels_note(&sched, us[i]);
        sched_levels_note_step(&sched, 1000000, STEPS);
    }
    sched_levels_learn(&sched, true);
    assert_in_range(sched.levels[0].service_high_us, 2000000, 2100000);
}

/* Half of the programs are spread below a tenth of a second, half end at once just above 8 s. */
static void serve_peak(uint32_t count, bool stands_by_attained)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t us = i % 2 == 0 ? 8100000 + i % 64 * 1000 : 1000 * (1 + i % 100);
        sched_promise_note(&sched.promises, us);
        sched_promise_learn(&sched.promises);
        sched_levels_note(&sched, us);
        sched_levels_learn(&sched, stands_by_attained);
    }
}

static uint32_t ends_between(uint64_t from_us, uint64_t to_us)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i + 1 < QUEUES; i++) {
        uint64_t end_us = sched.levels[i].service_high_us;
        found += end_us >= from_us && end_us < to_us;
    }
    return found;
}

static void test_no_level_ends_before_a_peak(void **state)
{
    (void)state;
    start(QUEUES);
    serve_peak(SCHED_LEVELS_WINDOW / 4, true);                /* of these one cannot be sure */
    assert_true(ends_between(1000000, 8000000) > 0);
    serve_peak(SCHED_LEVELS_WINDOW, true);
    check_ranges(QUEUES);
    assert_int_equal(ends_between(1000000, 8000000), 0);
    assert_int_equal(ends_between(8000000, 10000000), 1);
    serve_peak(SCHED_LEVELS_EVERY, false);              /* its levels are of something else */
    assert_true(ends_between(1000000, 8000000) > 0);
}

static void test_few_queues_and_extreme_service(void **state)
{
    (void)state;
    for (uint32_t queues = 1; queues <= 3; queues++) {
        start(queues);
        for (uint32_t i = 0; i < 100; i++) {
            sched_levels_note(&sched, i % 2 == 0 ? 0 : UINT64_MAX);
            sched_levels_learn(&sched, true);
            check_ranges(queues);
        }
    }
}

/* Nothing is learnt from few programs, nor where levels are fixed. */
static void test_levels_stand_still_until_enough_is_known(void **state)
{
    (void)state;
    start(QUEUES);
    const struct sched_level first = sched.levels[0];
    for (uint32_t i = 0; i < 15; i++) {
        sched_levels_note(&sched, 1000000000);
        sched_levels_learn(&sched, true);
    }
    assert_memory_equal(&sched.levels[0], &first, sizeof first);
    sched.settings.quantum_us = 100;
    sched_levels_init(&sched);
    for (uint32_t i = 0; i < 100; i++) {
        sched_levels_note(&sched, 1000000000);
        sched_levels_learn(&sched, true);
    }
    assert_int_equal(sched.levels[0].service_high_us, 100);
    assert_int_equal(sched_levels_find(&sched, 99), 0);
    assert_int_equal(sched_levels_find(&sched, 100), 1);
    assert_int_equal(sched_levels_find(&sched, UINT64_MAX), QUEUES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels_follow_the_scale_of_service),
        cmocka_unit_test(test_levels_follow_a_change),
        cmocka_unit_test(test_no_level_ends_before_a_peak),
        cmocka_unit_test(test_first_level_holds_two_steps),
        cmocka_unit_test(test_few_queues_and_extreme_service),
        cmocka_unit_test(test_levels_stand_still_until_enough_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
