/* SPDX-License-Identifier: MIT */
/*
 * Goal: nothing is computed again that a step is moving: a call whose history is on its way to the
 * host waits for the next plan, and calls that want the same from the host share one move.
 * Method: a device that one call fills, on the bench; first positions and counters tell.
 */
#include "selftest/unit/sched/bench.h"

static struct bench *fresh(uint32_t blocks)
{
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    settings.sharing = SCHED_SHARING_PROGRAM;
    struct kvmem_settings kv = bench_kv(blocks);
    kv.host_blocks = 32;
    return bench_start_kv(&settings, &kv);
}

static void run_all(struct bench *bench)
{
    uint32_t steps = 0;
    while (bench_step(bench)) {
        assert_true(++steps < 1000);
    }
}

/* A call of the program has ended and left the KV of `positions`, all but one of its tokens.
 * Returns the next one, whose prompt these tokens are; it has not arrived yet. */
static uint32_t history(struct bench *bench, uint32_t program, uint32_t positions)
{
    uint32_t call = bench_call(bench, program, positions, 1);
    run_all(bench);
    uint32_t next = bench_take(bench, program, positions + 1, 4, 0);
    memcpy(bench_at(bench, next)->tokens, bench_at(bench, call)->tokens,
           (positions + 1) * sizeof(uint32_t));
    bench_free(bench, call);
    return next;
}

static void arrive(struct bench *bench, uint32_t call)
{
    bench_send(bench, call);
    bench_intake(bench);
}

static void test_call_waits_while_its_history_moves(void **state)
{
    (void)state;
    struct bench *bench = fresh(10);
    uint32_t call = history(bench, 1, 22);              /* six blocks */
    bench_call(bench, 2, 20, 1);                        /* takes one of them */
    arrive(bench, call);
    uint64_t computed = bench->stats.tokens_computed;
    assert_true(bench_step(bench));
    assert_int_equal(bench->stats.move_waits, 1);
    assert_int_equal(bench->stats.tokens_computed - computed, 20);
    assert_int_equal(bench_at(bench, call)->computed_tokens, 0);
    assert_int_equal(bench_first(bench, 0), call);      /* it has kept its place */
    assert_true(bench_step(bench));
    assert_int_equal(bench_at(bench, call)->cached_tokens, 22);
    assert_int_equal(bench->stats.move_waits, 1);
    run_all(bench);
    assert_int_equal(bench->stats.recomputed_tokens, 0);
    assert_true(bench_tokens_are_right(bench_at(bench, call)));
}

/* Batch of two: two may wait. The walk ends at the third; the one behind it is not looked at. */
static void test_a_bounded_number_of_calls_waits_and_all_come_to_their_end(void **state)
{
    (void)state;
    struct bench *bench = fresh(6);
    uint32_t calls[3];
    for (uint32_t i = 0; i < 3; i++) {
        calls[i] = history(bench, 1 + i, 8);
    }
    bench_call(bench, 6, 23, 1);                        /* the whole device */
    for (uint32_t i = 0; i < 3; i++) {
        arrive(bench, calls[i]);
    }
    uint32_t last = bench_call(bench, 7, 3, 1);
    assert_true(bench_launch(bench));
    assert_int_equal(step_header(&bench->step)->rows_count, 1);
    assert_int_equal(bench->stats.move_waits, 2);
    assert_int_not_equal(bench_at(bench, last)->walk_sequence, bench_engine(bench)->sequence);
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    run_all(bench);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(bench_at(bench, calls[i])->cached_tokens, 8);
        assert_true(bench_tokens_are_right(bench_at(bench, calls[i])));
    }
}

static void test_siblings_share_the_move_from_the_host(void **state)
{
    (void)state;
    struct bench *bench = fresh(12);
    uint32_t calls[2] = {history(bench, 1, 20), CALL_NONE};
    bench_call(bench, 2, 47, 1);                        /* the whole device */
    run_all(bench);
    assert_int_equal(kvmem_host_used(&bench->kv), 5);
    calls[1] = bench_take(bench, 1, 21, 4, 0);
    memcpy(bench_at(bench, calls[1])->tokens, bench_at(bench, calls[0])->tokens,
           21 * sizeof(uint32_t));
    arrive(bench, calls[0]);
    arrive(bench, calls[1]);
    uint64_t computed = bench->stats.tokens_computed;
    assert_true(bench_step(bench));
    assert_int_equal(bench->stats.tokens_computed - computed, 2);
    assert_int_equal(bench->kv.counters.in_blocks, 5);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(bench_at(bench, calls[i])->cached_tokens, 20);
    }
    run_all(bench);
    assert_true(bench_tokens_are_right(bench_at(bench, calls[1])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call_waits_while_its_history_moves),
        cmocka_unit_test(test_a_bounded_number_of_calls_waits_and_all_come_to_their_end),
        cmocka_unit_test(test_siblings_share_the_move_from_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
