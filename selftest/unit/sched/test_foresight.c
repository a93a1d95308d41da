/* SPDX-License-Identifier: MIT */
/*
 * Goal: foresight (policy.c): a program stands at the level of what it needs to its end, as its
 * class knows.
 * Method: a class whose programs have all had the same service, and one program more.
 */
#include "selftest/unit/sched/bench.h"

enum { TAUGHT = 40, LATE = TAUGHT };

static struct bench *bench;

static void step(void)
{
    assert_true(bench_launch(bench));
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
}

static uint32_t begin(uint32_t program, const char *name, uint32_t max)
{
    bench_class(bench, 0, program, name);
    return bench_call(bench, program, 4, max);
}

/* There is room for one class, whose programs have all taken twenty units of time. */
static void start(void)
{
    struct sched_settings settings = bench_settings(SCHED_FORESIGHT);
    settings.classes = 1;
    bench = bench_start(&settings, 64);
    for (uint32_t i = 0; i < TAUGHT; i++) {
        uint32_t call = begin(i, "twenty", 20);
        while (bench_at(bench, call)->state != CALL_FINISHED) {
            step();
        }
        bench_free(bench, call);
        assert_status(STATUS_OK, bench_program(bench, COMMAND_PROGRAM_END, i).status);
    }
}

static void test_a_program_rises_as_its_end_comes_near(void **state)
{
    (void)state;
    start();
    uint32_t call = begin(LATE, "twenty", 60);
    assert_int_equal(bench_job(bench, call)->queue, 3);
    while (bench_job(bench, call)->queue == 3) {
        step();
    }
    assert_int_equal(bench_job(bench, call)->queue, 2);
    assert_true(bench_at(bench, call)->generated_tokens < 20);
}

/* What its class had learnt is gone: it stands lower, but moves with its next step only. */
static void test_a_class_that_is_forgotten_moves_no_job(void **state)
{
    (void)state;
    start();
    uint32_t call = begin(LATE, "twenty", 60);
    while (bench_job(bench, call)->quantum_left_us > 0) {
        step();
    }
    uint32_t queue = bench_job(bench, call)->queue;
    const struct program *program = &bench->sched.programs[bench_at(bench, call)->program];
    bench_class(bench, 0, LATE + 1, "another");
    assert_null(sched_class_of(&bench->sched, program));
    assert_int_equal(bench_job(bench, call)->queue, queue);
    step();
    assert_int_equal(bench_job(bench, call)->queue, queue + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_rises_as_its_end_comes_near),
        cmocka_unit_test(test_a_class_that_is_forgotten_moves_no_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
