/* SPDX-License-Identifier: MIT */
/*
 * Goal: standbys fill the places of rows that end early, and cost no other call anything: those
 * that did not enter go on waiting as if nothing had been planned, those that did pay for their
 * rounds. Prefetched calls are resident when their turn comes. Tokens are the same with and
 * without.
 * Method: a batch of one or two rows, resident calls after it, the outs read back.
 */
#include "selftest/unit/sched/bench.h"

enum { N = 8 };

/* FCFS; every call is resident with one token to feed after the first step. */
static struct bench *fresh(uint32_t standbys, uint32_t calls, uint32_t max_tokens)
{
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    settings.steps_per_plan = N;
    settings.standby_calls = standbys;
    settings.batch_calls = calls;
    struct bench *bench = bench_start(&settings, 128);
    for (uint32_t i = 0; i < calls; i++) {
        /* The first call has two tokens left after the step in which all read their prompts. */
        bench_call(bench, i, 4, i == 0 ? N + 2 : max_tokens);
    }
    assert_true(bench_step(bench));
    bench->sched.settings.batch_calls = 1;
    return bench;
}

static void test_resident_calls_after_the_batch_stand_by_in_order(void **state)
{
    (void)state;
    struct bench *bench = fresh(2, 4, 40);
    assert_true(bench_launch(bench));
    const struct step_header *header = step_header(&bench->step);
    assert_int_equal(header->rows_active, 1);
    assert_int_equal(header->rows_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(step_row(&bench->step, i)->call, i);
        assert_int_equal(step_row(&bench->step, i)->tokens_count, 1);
    }
    assert_int_equal(step_row(&bench->step, 0)->decode_steps, 2);
    assert_int_equal(step_row(&bench->step, 1)->decode_steps, N - 1);
    assert_true(bench_at(bench, 1)->standby && !bench_at(bench, 0)->standby);
    sched_report(&bench->sched);
    assert_int_equal(bench->stats.calls_running, 1);
    assert_int_equal(bench->stats.calls_waiting, 3);
}

/* The first row ends after two rounds; the first standby has the other six; the second none. */
static void test_standby_pays_for_its_rounds_and_waited_before(void **state)
{
    (void)state;
    struct bench *bench = fresh(2, 3, 40);
    const struct call *entered = bench_at(bench, 1);
    const struct call *stayed = bench_at(bench, 2);
    uint64_t served_us = entered->service_us;
    bench->now_us += 5 * BENCH_UNIT;
    assert_true(bench_launch(bench));
    bench_compute(bench);
    bench_settle(bench, N * BENCH_UNIT);
    assert_int_equal(bench_at(bench, 0)->finish, CALL_FINISH_LENGTH);
    assert_int_equal(entered->generated_tokens, N + 6);
    assert_int_equal(entered->service_us, served_us + 6 * BENCH_UNIT);
    assert_int_equal(entered->wait_us, (5 + 2) * BENCH_UNIT);
    assert_int_equal(stayed->generated_tokens, N);
    assert_int_equal(stayed->service_us, served_us);
    assert_int_equal(stayed->kv_tokens, 4 + N - 1);
    assert_int_equal(bench->stats.standbys_planned, 2);
    assert_int_equal(bench->stats.standbys_entered, 1);
    bench->now_us += BENCH_UNIT;
    bench->sched.settings.batch_calls = 2;
    assert_int_equal(stayed->wait_us, 0);      /* goes on, not yet added up */
    assert_true(bench_launch(bench));
    assert_int_equal(stayed->wait_us, (5 + N + 1) * BENCH_UNIT);
}

static void test_no_standby_where_a_step_has_one_round(void **state)
{
    (void)state;
    struct bench *bench = fresh(4, 3, 40);
    bench->sched.settings.steps_per_plan = 1;
    assert_true(bench_launch(bench));
    assert_int_equal(step_header(&bench->step)->rows_count, 1);
}

static void test_standby_evicts_no_call(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    settings.steps_per_plan = N;
    settings.standby_calls = 4;
    struct bench *bench = bench_start(&settings, 8);
    bench_call(bench, 1, 4, 12);
    bench_call(bench, 2, 8, 16);
    assert_true(bench_step(bench));     /* 3 blocks and 4 blocks */
    bench->sched.settings.batch_calls = 1;
    assert_true(bench_launch(bench));   /* the standby would need two more, there is one */
    assert_int_equal(step_header(&bench->step)->rows_count, 1);
    assert_int_equal(bench->stats.preemptions, 0);
}

/* Pool of 11: two calls with 3 and 4 blocks, which want 1 and 2 more, and a last one that has 4.
 * When that one has ended, its blocks are there for the standby; when it was preempted, not. */
static void test_standby_takes_what_was_retained_but_nothing_saved(void **state)
{
    (void)state;
    for (uint32_t is_saved = 0; is_saved < 2; is_saved++) {
        struct sched_settings settings = bench_settings(SCHED_FCFS);
        settings.steps_per_plan = N;
        settings.standby_calls = 4;
        settings.sharing = SCHED_SHARING_PROGRAM;
        struct bench *bench = bench_start(&settings, 11);
        uint32_t first = bench_call(bench, 2, 4, 12);
        uint32_t second = bench_call(bench, 3, 8, 16);
        bench_at(bench, first)->paused = bench_at(bench, second)->paused = true;
        uint32_t last = bench_call(bench, 1, 8, is_saved == 1 ? 16 : 8);
        assert_true(bench_step(bench));
        bench_at(bench, first)->paused = bench_at(bench, second)->paused = false;
        assert_true(bench_step(bench));
        bench->sched.settings.batch_calls = 1;
        assert_true(bench_launch(bench));
        assert_int_equal(bench_at(bench, last)->preemptions, is_saved);
        assert_int_equal(bench_at(bench, second)->preemptions, 0);
        assert_int_equal(step_header(&bench->step)->rows_count, is_saved == 1 ? 1 : 2);
        bench_compute(bench);
        bench_settle(bench, BENCH_UNIT);
    }
}

static void test_standby_that_is_cancelled_or_late_ends_with_the_step(void **state)
{
    (void)state;
    struct bench *bench = fresh(3, 4, 40);
    assert_true(bench_launch(bench));
    bench_cancel(bench, 2);
    bench_intake(bench);
    assert_int_equal(bench_at(bench, 2)->state, CALL_RUNNING);
    bench_at(bench, 3)->expired = true;
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    assert_int_equal(bench_at(bench, 2)->finish, CALL_FINISH_CANCELLED);
    assert_int_equal(bench_at(bench, 3)->finish, CALL_FINISH_DEADLINE);
    assert_int_equal(bench_at(bench, 3)->service_us, BENCH_UNIT);
    assert_int_equal(bench_at(bench, 3)->wait_us, BENCH_UNIT);
}

static void test_standby_with_a_bad_out_fails_alone(void **state)
{
    (void)state;
    for (uint32_t fault = 0; fault < 3; fault++) {
        struct bench *bench = fresh(2, 3, 40);
        uint64_t waiting_since_us = bench_at(bench, 1)->waiting_since_us;
        bench_at(bench, 1)->faults = CALL_FAULTS_MAX - 1;
        assert_true(bench_launch(bench));
        bench_compute(bench);
        struct step_out *out = step_out(&bench->step, 1);
        switch (fault) {
        case 0: out->result = STEP_ROW_NOT_FINITE; break;
        case 1: out->produced = UINT32_MAX; break;
        default: *out = (struct step_out){.result = UINT32_MAX}; break;
        }
        assert_int_equal(bench_hear(bench, N * BENCH_UNIT),
                         fault == 0 ? SCHED_NOT_FINITE : SCHED_REFUTED);
        assert_int_equal(bench_at(bench, 1)->finish, CALL_FINISH_FAILED);
        assert_true(bench_at(bench, 1)->service_us < (1 + N) * BENCH_UNIT);
        assert_int_equal(bench_at(bench, 2)->state, fault == 0 ? CALL_QUEUED : CALL_RUNNING);
        if (fault > 0) {            /* the outs of a refuted step do not tell who entered */
            assert_int_equal(bench_at(bench, 1)->wait_us,
                             bench->now_us - waiting_since_us);
            bench_lose(bench);
        }
    }
}

static void test_lost_step_and_shutdown_charge_no_standby(void **state)
{
    (void)state;
    for (uint32_t is_lost = 0; is_lost < 2; is_lost++) {
        struct bench *bench = fresh(2, 3, 40);
        uint64_t waiting_since_us = bench_at(bench, 1)->waiting_since_us;
        assert_true(bench_launch(bench));
        bench->now_us += 700;
        if (is_lost == 1) {
            bench_lose(bench);
            assert_int_equal(bench_at(bench, 1)->waiting_since_us, waiting_since_us);
        } else {
            sched_fail_all(&bench->sched, STATUS_GONE_SHUTDOWN, bench->now_us);
            assert_int_equal(bench_at(bench, 1)->wait_us, 700);
        }
        assert_int_equal(bench_at(bench, 1)->service_us, BENCH_UNIT);
        assert_false(bench_at(bench, 1)->standby);
    }
}

/* The same load with and without: the same tokens in fewer steps. */
static void test_standbys_save_steps_and_change_no_token(void **state)
{
    (void)state;
    uint64_t steps[2];
    for (uint32_t standbys = 0; standbys < 2; standbys++) {
        struct sched_settings settings = bench_settings(SCHED_PLAS);
        settings.steps_per_plan = N;
        settings.batch_calls = 4;
        settings.standby_calls = standbys * 4;
        struct bench *bench = bench_start(&settings, 512);
        for (uint32_t i = 0; i < 12; i++) {
            bench_call(bench, i % 8, 5 + i, 9 + 3 * i);
        }
        while (bench_step(bench)) {
        }
        steps[standbys] = bench->stats.steps;
        for (uint32_t i = 0; i < 12; i++) {
            assert_true(bench_tokens_are_right(bench_at(bench, i)));
        }
    }
    assert_true(steps[1] < steps[0]);
}

/* Two calls: one that will fill a batch of one, and one that has been swapped out by a third one,
 * whose history fills the device where it is retained. */
static struct bench *with_swapped_call(bool prefetch, bool retains, uint32_t *first,
                                       uint32_t *swapped)
{
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    settings.prefetch = prefetch;
    settings.sharing = SCHED_SHARING_PROGRAM;
    settings.batch_calls = 1;
    struct kvmem_settings kv = bench_kv(12);
    kv.host_blocks = 16;
    kv.retain_device_us = kv.retain_host_us = kv.retain_drop_us = retains ? 100 * BENCH_UNIT : 0;
    struct bench *bench = bench_start_kv(&settings, &kv);
    *first = bench_call(bench, 1, 4, 20);
    bench_at(bench, *first)->paused = true;
    *swapped = bench_call(bench, 2, 12, 20);
    assert_true(bench_step(bench));
    bench_at(bench, *swapped)->paused = true;
    bench_call(bench, 3, 30, 18);               /* takes the whole pool */
    while (bench_step(bench)) {
    }
    assert_int_equal(bench_at(bench, *swapped)->preemptions, 1);
    bench_at(bench, *first)->paused = bench_at(bench, *swapped)->paused = false;
    return bench;
}

static void test_prefetched_call_is_resident_when_its_turn_comes(void **state)
{
    (void)state;
    for (uint32_t prefetch = 0; prefetch < 2; prefetch++) {
        uint32_t first = CALL_NONE;
        uint32_t swapped = CALL_NONE;
        struct bench *bench = with_swapped_call(prefetch == 1, false, &first, &swapped);
        assert_true(bench_launch(bench));
        assert_int_equal(step_header(&bench->step)->rows_count, 1);
        assert_int_equal(step_header(&bench->step)->moves_count, prefetch == 1 ? 3 : 0);
        assert_int_equal(bench->stats.prefetched_calls, prefetch);
        assert_int_equal(bench_at(bench, swapped)->kv_tokens, prefetch == 1 ? 12 : 0);
        assert_int_equal(bench_at(bench, swapped)->state, CALL_QUEUED);
        bench_compute(bench);
        bench_settle(bench, BENCH_UNIT);
        bench_cancel(bench, first);
        bench_intake(bench);
        assert_true(bench_launch(bench));
        assert_int_equal(step_row(&bench->step, 0)->call, swapped);
        assert_int_equal(step_row(&bench->step, 0)->first_position, 12);
        assert_int_equal(step_header(&bench->step)->moves_count, prefetch == 1 ? 0 : 3);
        bench_compute(bench);
        bench_settle(bench, BENCH_UNIT);
        while (bench_step(bench)) {
        }
        assert_int_equal(bench->stats.recomputed_tokens, 0);
        assert_true(bench_tokens_are_right(bench_at(bench, swapped)));
    }
}

static void test_prefetch_takes_free_blocks_only(void **state)
{
    (void)state;
    uint32_t first = CALL_NONE;
    uint32_t swapped = CALL_NONE;
    struct bench *bench = with_swapped_call(true, true, &first, &swapped);
    assert_true(kvmem_free(&bench->kv) < 3);
    assert_true(bench_launch(bench));
    assert_int_equal(bench->stats.prefetched_calls, 0);
    assert_int_equal(bench_at(bench, swapped)->kv_tokens, 0);
}

/* Its blocks are still being moved in when it ends, or the worker dies. */
static void test_prefetched_call_may_end_before_its_turn(void **state)
{
    (void)state;
    for (uint32_t is_lost = 0; is_lost < 2; is_lost++) {
        uint32_t first = CALL_NONE;
        uint32_t swapped = CALL_NONE;
        struct bench *bench = with_swapped_call(true, false, &first, &swapped);
        assert_true(bench_launch(bench));
        if (is_lost == 1) {
            bench_lose(bench);
            assert_int_equal(bench_at(bench, swapped)->kv_tokens, 0);
        } else {
            bench_cancel(bench, swapped);
            bench_intake(bench);
            assert_int_equal(bench_at(bench, swapped)->finish, CALL_FINISH_CANCELLED);
            bench_compute(bench);
            bench_settle(bench, BENCH_UNIT);
        }
        while (bench_step(bench)) {
        }
        assert_true(bench_tokens_are_right(bench_at(bench, first)));
        assert_true(bench_tokens_are_right(bench_at(bench, swapped)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resident_calls_after_the_batch_stand_by_in_order),
        cmocka_unit_test(test_standby_pays_for_its_rounds_and_waited_before),
        cmocka_unit_test(test_no_standby_where_a_step_has_one_round),
        cmocka_unit_test(test_standby_evicts_no_call),
        cmocka_unit_test(test_standby_takes_what_was_retained_but_nothing_saved),
        cmocka_unit_test(test_standby_that_is_cancelled_or_late_ends_with_the_step),
        cmocka_unit_test(test_standby_with_a_bad_out_fails_alone),
        cmocka_unit_test(test_lost_step_and_shutdown_charge_no_standby),
        cmocka_unit_test(test_standbys_save_steps_and_change_no_token),
        cmocka_unit_test(test_prefetched_call_is_resident_when_its_turn_comes),
        cmocka_unit_test(test_prefetch_takes_free_blocks_only),
        cmocka_unit_test(test_prefetched_call_may_end_before_its_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
