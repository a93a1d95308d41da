/* SPDX-License-Identifier: MIT */
/*
 * Goal: Figure 2 of paper 000: four programs, all there at t = 0, a batch of two, and their total
 * waiting of 18 units (FCFS), 18 (MLFQ) and 12 (PLAS).
 * Method: the real scheduler; each decode step takes one unit; a program sends its next call in the
 * instant in which the one before ends. The paper prints no parameters, and no single set gives
 * all three numbers, so each test states its own.
 *
 *   A {4,3,1,1}   B {3,3,4}   C {1,2}   D {4}
 */
#include "selftest/unit/sched/bench.h"

enum { PROGRAMS = 4, CALLS_MAX = 4 };

static const uint32_t steps_of[PROGRAMS][CALLS_MAX] = {{4, 3, 1, 1}, {3, 3, 4}, {1, 2}, {4}};

struct outcome {
    uint64_t wait_units;
    uint64_t end_units;
    uint64_t program_wait_units[PROGRAMS];
};

static struct outcome play(const struct sched_settings *settings)
{
    struct outcome outcome = {0};
    struct bench *bench = bench_start(settings, BENCH_BLOCKS_MAX);
    uint32_t open[PROGRAMS];
    uint32_t calls_done[PROGRAMS] = {0};
    for (uint32_t p = 0; p < PROGRAMS; p++) {
        open[p] = bench_call(bench, p, 1, steps_of[p][0]);
    }
    while (bench_step(bench)) {
        outcome.end_units++;
        for (uint32_t p = 0; p < PROGRAMS; p++) {
            if (open[p] == CALL_NONE || bench_at(bench, open[p])->state != CALL_FINISHED) {
                continue;
            }
            assert_true(bench_tokens_are_right(bench_at(bench, open[p])));
            outcome.program_wait_units[p] +=
                bench_at(bench, open[p])->wait_us / BENCH_UNIT;
            bench_free(bench, open[p]);
            open[p] = CALL_NONE;
            if (++calls_done[p] < CALLS_MAX && steps_of[p][calls_done[p]] > 0) {
                open[p] = bench_call(bench, p, 1, steps_of[p][calls_done[p]]);
            }
        }
    }
    for (uint32_t p = 0; p < PROGRAMS; p++) {
        outcome.wait_units += outcome.program_wait_units[p];
    }
    assert_true(sched_is_idle(&bench->sched));
    return outcome;
}

static void test_figure_2_fcfs_waits_18_units(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    struct outcome outcome = play(&settings);
    assert_int_equal(outcome.wait_units, 18);
    assert_int_equal(outcome.program_wait_units[2], 7);     /* C, two short calls, waits longest */
    assert_int_equal(outcome.end_units, 14);
}

/* K = 2, a first quantum of 4 units: as long as the longest call, so new calls of A and B go on
 * standing before C and D. */
static void test_figure_2_mlfq_waits_18_units(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_MLFQ);
    settings.queues = 2;
    settings.quantum_us = 4 * BENCH_UNIT;
    struct outcome outcome = play(&settings);
    assert_int_equal(outcome.wait_units, 18);
}

/* K = 16, quanta and service ranges of 1 unit, and a running call wins a tie: a demoted call goes
 * to the head of its new queue. */
static void test_figure_2_plas_waits_12_units(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.queues = 16;
    settings.quantum_us = BENCH_UNIT;
    settings.quantum_growth = 1;
    settings.demoted_to_head = true;
    struct outcome outcome = play(&settings);
    assert_int_equal(outcome.wait_units, 12);
    assert_true(outcome.program_wait_units[2] + outcome.program_wait_units[3] < 7 + 4);
    assert_int_equal(outcome.end_units, 14);
}

/* The same PLAS by the letter of Algorithm 1, line 21 (append): better than FCFS, not 12. */
static void test_figure_2_plas_appending_still_beats_fcfs(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.queues = 16;
    settings.quantum_us = BENCH_UNIT;
    settings.quantum_growth = 1;
    struct outcome outcome = play(&settings);
    assert_true(outcome.wait_units < 18);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figure_2_fcfs_waits_18_units),
        cmocka_unit_test(test_figure_2_mlfq_waits_18_units),
        cmocka_unit_test(test_figure_2_plas_waits_12_units),
        cmocka_unit_test(test_figure_2_plas_appending_still_beats_fcfs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
