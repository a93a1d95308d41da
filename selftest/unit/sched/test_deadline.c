/* SPDX-License-Identifier: MIT */
/*
 * Goal: the heap of deadlines always gives the earliest one.
 * Method: random pushes and removals against a scan of all calls.
 */
#include "selftest/unit/sched/bench.h"

#include "sched/deadline.h"

static uint32_t scan_earliest(struct bench *bench, const bool *held)
{
    uint32_t found = CALL_NONE;
    for (uint32_t i = 0; i < BENCH_CALLS; i++) {
        if (held[i] && bench_at(bench, i)->deadline_us != UINT64_MAX &&
            (found == CALL_NONE ||
             bench_at(bench, i)->deadline_us < bench_at(bench, found)->deadline_us)) {
            found = i;
        }
    }
    return found;
}

static void test_random_deadlines_match_a_scan(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    struct bench *bench = bench_start(&settings, 16);
    struct sched *sched = &bench->sched;
    bool held[BENCH_CALLS] = {false};
    uint64_t random = 3;
    sched->open_calls = BENCH_CALLS;        /* what sched_deadline_check() compares with */
    for (uint32_t round = 0; round < 20000; round++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint32_t call = (uint32_t)(random >> 33) % BENCH_CALLS;
        if (held[call]) {
            sched_deadline_remove(sched, bench_at(bench, call));
            sched_deadline_remove(sched, bench_at(bench, call));    /* free when it is not there */
        } else {
            uint64_t due = (random >> 40) % 500;
            bench_at(bench, call)->deadline_us = due < 20 ? UINT64_MAX : due;
            sched_deadline_push(sched, bench_at(bench, call));
        }
        held[call] = !held[call];
        sched_deadline_check(sched);
        uint32_t earliest = scan_earliest(bench, held);
        assert_int_equal(sched_deadline_first(sched) == NULL, earliest == CALL_NONE);
        assert_int_equal(sched_deadline_next_us(sched),
                         earliest == CALL_NONE ? UINT64_MAX
                                               : bench_at(bench, earliest)->deadline_us);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_deadlines_match_a_scan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
