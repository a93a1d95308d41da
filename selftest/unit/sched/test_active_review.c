/* SPDX-License-Identifier: MIT */
/*
 * Goal: no client can keep others out of the active set, and what counts there does not drift.
 * Method: pools for few programs; clients that do what a fair one would not.
 */
#include "selftest/unit/sched/bench.h"

enum { BLOCKS = 24, WAIT_MAX_STEPS = 100, FOR_EVER = 2000 };

static struct bench *start(enum sched_policy policy, enum sched_sharing sharing)
{
    struct sched_settings settings = bench_settings(policy);
    struct kvmem_settings kv = bench_kv(BLOCKS);
    settings.active_programs = 0;
    settings.exchange_permille = 30;
    settings.small_permille = 60;
    settings.batch_calls = 4;
    settings.programs = 32;
    settings.sharing = sharing;
    kv.host_blocks = 4 * BLOCKS;
    return bench_start_kv(&settings, &kv);
}

static bool is_open(struct bench *bench, uint32_t call)
{
    return bench_at(bench, call)->state != CALL_FINISHED;
}

static struct program *program_of(struct bench *bench, uint32_t call)
{
    return &bench->sched.programs[bench_at(bench, call)->program];
}

static void test_common_beginning_needs_room_too(void **state)
{
    (void)state;
    struct bench *bench = start(SCHED_PLAS, SCHED_SHARING_DOMAIN);
    uint32_t first = bench_take(bench, 1, 48, 1, 7);
    bench_send(bench, first);
    bench_intake(bench);
    while (is_open(bench, first)) {
        assert_true(bench_step(bench));
    }
    bench_free(bench, first);
    bench_program(bench, COMMAND_PROGRAM_END, 1);
    uint32_t other = bench_take(bench, 2, 32, 16, 5);
    uint32_t like_first = bench_take(bench, 3, 56, 8, 7);
    bench_send(bench, other);
    bench_send(bench, like_first);
    bench_intake(bench);
    while (is_open(bench, other) || is_open(bench, like_first)) {
        assert_true(bench_step(bench));
    }
    assert_int_equal(bench_at(bench, other)->preemptions, 0);
    assert_int_equal(program_of(bench, like_first)->displacements, 0);
}

static void test_what_siblings_share_counts_when_one_ends(void **state)
{
    (void)state;
    struct bench *bench = start(SCHED_PLAS, SCHED_SHARING_PROGRAM);
    uint32_t elder = bench_call(bench, 1, 60, 4);
    uint32_t younger = bench_call(bench, 1, 60, 4);
    uint32_t youngest = bench_call(bench, 1, 60, 4);
    uint32_t blocks = bench_at(bench, elder)->new_blocks;
    bench_cancel(bench, elder);
    bench_intake(bench);
    assert_int_equal(bench_at(bench, younger)->new_blocks, blocks);
    bench_cancel(bench, younger);
    bench_intake(bench);
    assert_int_equal(program_of(bench, youngest)->counted_blocks, blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_common_beginning_needs_room_too),
        cmocka_unit_test(test_what_siblings_share_counts_when_one_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
