/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the policies differ in: where a call enters, what its end adds to its program, when
 * it is promoted; and the two hazards of the ratio rule.
 * Method: the functions of policy.c on a scheduler with chosen numbers; the hazards on the bench.
 */
#include "selftest/unit/sched/bench.h"

#include "sched/kept.h"
#include "sched/policy.h"
#include "sched/engine/starvation.h"

static struct bench *fresh(enum sched_policy policy)
{
    struct sched_settings settings = bench_settings(policy);
    settings.quantum_us = 100;
    return bench_start(&settings, 256);
}

/* Rows for one call, and a first queue of one unit. */
static struct sched_settings one_row(enum sched_service service)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.service = service;
    settings.batch_calls = 1;
    settings.quantum_us = BENCH_UNIT;
    return settings;
}

/* Where a job of a program with this service begins. */
static uint32_t entry_queue(const struct sched *sched, uint64_t service_us)
{
    sched->programs[0].service_us = service_us;
    return sched_policy_entry_queue(sched, 0);
}

static void test_ranges_are_half_open_and_as_wide_as_the_quantum(void **state)
{
    (void)state;
    const struct sched *sched = &fresh(SCHED_PLAS)->sched;
    assert_int_equal(entry_queue(sched, 0), 0);
    assert_int_equal(entry_queue(sched, 99), 0);
    assert_int_equal(entry_queue(sched, 100), 1);
    assert_int_equal(entry_queue(sched, 299), 1);
    assert_int_equal(entry_queue(sched, 300), 2);
    assert_int_equal(entry_queue(sched, 700), 3);
    assert_int_equal(entry_queue(sched, UINT64_MAX), 3);
    assert_int_equal(sched->levels[2].quantum_us, 400);
}

static void test_huge_quanta_saturate(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.queues = SCHED_QUEUES_MAX;
    settings.quantum_us = UINT64_MAX / 3;
    settings.quantum_growth = 16;
    const struct sched *sched = &bench_start(&settings, 16)->sched;
    assert_int_equal(entry_queue(sched, UINT64_MAX / 3), 1);
    assert_int_equal(sched->levels[5].quantum_us, UINT64_MAX);
}

static void test_baselines_enter_at_the_top(void **state)
{
    (void)state;
    assert_int_equal(entry_queue(&fresh(SCHED_MLFQ)->sched, 5000), 0);
    const struct sched *sched = &fresh(SCHED_FCFS)->sched;
    assert_int_equal(entry_queue(sched, 5000), 0);
    assert_int_equal(sched->settings.queues, 1);
}

static void test_credit_adds_for_plas_and_takes_the_longest_path_for_atlas(void **state)
{
    (void)state;
    struct call call = {.priority_us = 100, .service_us = 30};
    struct program plas = {.service_us = 120};
    struct program atlas = {.service_us = 120};
    sched_policy_credit(&fresh(SCHED_PLAS)->sched, &plas.service_us, &call, 30);
    assert_int_equal(plas.service_us, 150);
    const struct sched *sched = &fresh(SCHED_ATLAS)->sched;
    sched_policy_credit(sched, &atlas.service_us, &call, 30);
    assert_int_equal(atlas.service_us, 130);
    call.service_us = 5;
    sched_policy_credit(sched, &atlas.service_us, &call, 30);
    assert_int_equal(atlas.service_us, 130);    /* never sinks */
}

/* Four parallel calls of two units each: depth 2, width 4. */
static void test_parallel_calls_cost_width_under_plas_and_depth_under_atlas(void **state)
{
    (void)state;
    for (enum sched_policy policy = SCHED_PLAS; policy <= SCHED_ATLAS; policy++) {
        struct sched_settings settings = bench_settings(policy);
        settings.batch_calls = 4;
        struct bench *bench = bench_start(&settings, 256);
        for (uint32_t i = 0; i < 4; i++) {
            bench_call(bench, 1, 1, 2);
        }
        while (bench_step(bench)) {
        }
        uint32_t call = bench_call(bench, 1, 1, 1);
        assert_int_equal(bench_at(bench, call)->priority_us,
                         (policy == SCHED_PLAS ? 8 : 2) * BENCH_UNIT);
    }
}

/* Figure 9 in small: a program fans out to four calls and merges, beside a stream of new programs.
 * Its way to the merge is two units long, however wide: under atlas the merge enters the first
 * queue and waits its turn, under plas it stands below the whole stream. */
static uint64_t fan_out_ends_us(enum sched_policy policy)
{
    struct sched_settings settings = bench_settings(policy);
    settings.quantum_us = 3 * BENCH_UNIT;
    settings.batch_calls = 1;
    struct bench *bench = bench_start(&settings, 256);
    const struct program *wide = &bench->sched.programs[0];
    uint32_t merge = CALL_NONE;
    uint32_t other = CALL_NONE;
    for (uint32_t i = 0; i < 4; i++) {
        bench_call(bench, 1, 1, 2);
    }
    for (uint32_t i = 0; merge == CALL_NONE || bench_at(bench, merge)->finished_us == 0; i++) {
        if (i < 20 && (other == CALL_NONE || bench_at(bench, other)->state == CALL_FINISHED)) {
            other = bench_call(bench, 10 + i, 1, 2);
        }
        assert_true(bench_step(bench));
        if (merge == CALL_NONE && wide->calls_ended == 4) {
            merge = bench_call(bench, 1, 1, 2);
        }
    }
    return bench_at(bench, merge)->finished_us;
}

static void test_fan_out_and_merge_end_sooner_by_depth_than_by_width(void **state)
{
    (void)state;
    assert_true(fan_out_ends_us(SCHED_ATLAS) < fan_out_ends_us(SCHED_PLAS));
}

/* Cancelled, expired, failed or complete: what a call has received counts. */
static void test_aborted_calls_are_credited_like_others(void **state)
{
    (void)state;
    for (enum sched_policy policy = SCHED_PLAS; policy <= SCHED_ATLAS; policy++) {
        struct sched_settings settings = bench_settings(policy);
        struct bench *bench = bench_start(&settings, 256);
        uint32_t call = bench_call(bench, 1, 1, 9);
        for (uint32_t i = 0; i < 3; i++) {
            assert_true(bench_step(bench));
        }
        bench_cancel(bench, call);
        bench_intake(bench);
        assert_int_equal(bench->sched.programs[0].service_us, 3 * BENCH_UNIT);
        call = bench_call(bench, 1, 1, 9);
        assert_int_equal(bench_at(bench, call)->priority_us, 3 * BENCH_UNIT);
        assert_true(bench_launch(bench));
        bench_compute(bench);
        step_out(&bench->step, 0)->result = STEP_ROW_NOT_FINITE;
        bench_at(bench, call)->faults = CALL_FAULTS_MAX - 1;
        assert_int_equal(bench_hear(bench, BENCH_UNIT), SCHED_NOT_FINITE);
        assert_int_equal(bench_at(bench, call)->finish, CALL_FINISH_FAILED);
        assert_int_equal(bench->sched.programs[0].service_us, 4 * BENCH_UNIT);
    }
}

/* One queue, a quantum of two units, room for one: turns of two units each. */
static void test_round_robin_turns_and_gives_a_new_quantum(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_ROUND_ROBIN);
    settings.batch_calls = 1;
    settings.demoted_to_head = true;        /* is for levels: no other call would ever run */
    struct bench *bench = bench_start(&settings, 256);
    for (uint32_t i = 0; i < 3; i++) {
        bench_call(bench, i, 1, 5);
    }
    assert_int_equal(bench->sched.settings.queues, 1);
    static const uint32_t turns[] = {0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0, 1, 2};
    for (uint32_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
        assert_true(bench_launch(bench));
        assert_int_equal(step_row(&bench->step, 0)->call, turns[i]);
        bench_compute(bench);
        bench_settle(bench, BENCH_UNIT);
        const struct call *call = bench_at(bench, turns[i]);
        assert_true(call->state == CALL_FINISHED ||
                    sched_job_of(&bench->sched, call)->quantum_left_us > 0);
    }
    assert_int_equal(bench->stats.calls_completed, 3);
    assert_int_equal(bench->stats.demotions, 0);
    assert_int_equal(bench->stats.promotions, 0);
}

/* Room for one, keys 5, 3, 5 and, while the second runs, 1. */
static void test_srpt_runs_the_smallest_key_and_ties_by_arrival(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_SRPT);
    settings.batch_calls = 1;
    struct bench *bench = bench_start(&settings, 256);
    static const uint64_t keys[] = {5, 3, 5, 1};
    for (uint32_t i = 0; i < 3; i++) {
        bench_at(bench, bench_take(bench, i, 1, 2, i))->foretold.work_left = keys[i];
        bench_send(bench, i);
        bench_intake(bench);
    }
    assert_int_equal(bench->sched.settings.queues, 1);
    static const uint32_t turns[] = {1, 3, 3, 1, 0, 0, 2, 2};
    for (uint32_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
        assert_true(bench_launch(bench));
        assert_int_equal(step_row(&bench->step, 0)->call, turns[i]);
        bench_compute(bench);
        bench_settle(bench, BENCH_UNIT);
        if (i == 0) {
            bench_at(bench, bench_take(bench, 3, 1, 2, 3))->foretold.work_left = keys[3];
            bench_send(bench, 3);
            bench_intake(bench);
        }
    }
    assert_int_equal(bench->stats.calls_completed, 4);
}

static struct sched_job *waiting_job(struct bench *bench, uint64_t wait_us, uint64_t service_us)
{
    static struct sched_job job;
    job = (struct sched_job){.queue = 2, .wait_us = wait_us, .service_us = service_us,
                             .waiting_since_us = bench->now_us};
    return &job;
}

static void test_ratio_counts_the_program_and_compares_in_integers(void **state)
{
    (void)state;
    struct bench *bench = fresh(SCHED_PLAS);
    struct sched *sched = &bench->sched;
    sched->settings.service = SCHED_SERVICE_SNAPSHOT;
    sched->settings.beta_milli = 1500;
    sched->programs[0] = (struct program){.service_us = 90, .wait_us = 100};
    assert_false(sched_policy_promotes(sched, waiting_job(bench, 49, 10), bench->now_us));
    assert_true(sched_policy_promotes(sched, waiting_job(bench, 50, 10), bench->now_us));
    assert_true(sched_policy_promotes(sched, waiting_job(bench, 49, 10), bench->now_us + 1));
    sched->settings.beta_milli = UINT64_MAX;
    assert_false(sched_policy_promotes(sched, waiting_job(bench, UINT64_MAX / 100, 10), 1));
    sched->settings.policy = SCHED_MLFQ;        /* knows no programs: 50 / 10 */
    sched->settings.beta_milli = 5000;
    assert_true(sched_policy_promotes(sched, waiting_job(bench, 50, 10), bench->now_us));
    assert_false(sched_policy_promotes(sched, waiting_job(bench, 49, 10), bench->now_us));
}

static void test_zero_service_promotes_by_the_absolute_bound_only(void **state)
{
    (void)state;
    struct bench *bench = fresh(SCHED_PLAS);
    struct sched *sched = &bench->sched;
    sched->settings.beta_milli = 1;
    assert_false(sched_policy_promotes(sched, waiting_job(bench, 1000000, 0), bench->now_us));
    sched->settings.wait_max_us = 500;
    assert_false(sched_policy_promotes(sched, waiting_job(bench, 0, 0), bench->now_us + 499));
    assert_true(sched_policy_promotes(sched, waiting_job(bench, 0, 0), bench->now_us + 500));
}

/* A program with a terrible past and a long call, against short calls that never end. Its past
 * promotes the call once; after that each promotion is paid for by waiting of its own. */
static void test_promotions_are_bounded_by_service_received(void **state)
{
    (void)state;
    for (uint32_t service = 0; service < 2; service++) {
        struct sched_settings settings = one_row((enum sched_service)service);
        settings.beta_milli = 3000;
        struct bench *bench = bench_start(&settings, 256);
        uint32_t call = bench_call(bench, 1, 1, 40);
        struct program *program = &bench->sched.programs[bench_at(bench, call)->program];
        program->wait_us = 1000000 * BENCH_UNIT;
        program->service_us = program->attained_us = BENCH_UNIT;
        sched_kept_note(&bench->sched, bench_at(bench, call)->program);
        uint32_t other = CALL_NONE, promotions = 0;
        for (uint32_t steps = 0; bench_at(bench, call)->state != CALL_FINISHED; steps++) {
            if (other == CALL_NONE) {
                other = bench_call(bench, 100 + steps, 1, 1);
            }
            assert_true(bench_step(bench));
            assert_true(steps < 1000);
            if (bench_at(bench, other)->state == CALL_FINISHED) {
                bench_free(bench, other);
                other = CALL_NONE;
            }
            const struct call *long_call = bench_at(bench, call);
            promotions = long_call->state == CALL_FINISHED ? promotions
                                                           : bench_job(bench, call)->promotions;
            assert_true((uint64_t)promotions * BENCH_UNIT <= long_call->service_us + BENCH_UNIT);
            /* beta = 3: three units of waiting for each promoted unit, but for the first one. */
            uint64_t wait_us = long_call->wait_us + bench->now_us - long_call->waiting_since_us;
            assert_true(promotions <= 1 + wait_us / (3 * BENCH_UNIT));
        }
        assert_true(promotions > 1);
    }
}

static void test_promotion_is_a_turn_and_resets_the_ratio_but_no_lifetime(void **state)
{
    (void)state;
    for (uint32_t service = 0; service < 2; service++) {
        struct sched_settings settings = one_row((enum sched_service)service);
        settings.wait_max_us = 5 * BENCH_UNIT;
        struct bench *bench = bench_start(&settings, 256);
        uint32_t call = bench_call(bench, 1, 1, 9);
        const struct sched_job *job = bench_job(bench, call);
        assert_true(bench_step(bench));
        assert_int_equal(job->queue, 1);
        bench->now_us += 7 * BENCH_UNIT;
        sched_starvation_pass(bench_engine(bench), bench->now_us);
        sched_check(&bench->sched);
        assert_int_equal(job->queue, 0);
        assert_int_equal(job->quantum_left_us, 2 * BENCH_UNIT);
        assert_int_equal(job->wait_us, 0);
        assert_int_equal(job->service_us, 0);
        assert_int_equal(bench_at(bench, call)->service_us, BENCH_UNIT);
        assert_int_equal(bench->stats.promotions, 1);
        assert_true(bench_step(bench));
        assert_int_equal(job->queue, 0);
        assert_true(bench_step(bench));     /* the turn is over: back to where it came from */
        assert_int_equal(job->queue, 1);
        assert_int_equal(job->quantum_left_us, 2 * BENCH_UNIT);
        assert_int_equal(bench_at(bench, call)->wait_us, 7 * BENCH_UNIT);
    }
}

/* All jobs have waited too long at once. With a batch of 2 one has its turn, then the next. */
static void test_few_jobs_have_their_turn_at_once(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.quantum_us = BENCH_UNIT;
    settings.wait_max_us = 20 * BENCH_UNIT;
    struct bench *bench = bench_start(&settings, 256);
    for (uint32_t i = 0; i < 6; i++) {
        bench_call(bench, i, 1, 9);
    }
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(bench_step(bench));
    }
    bench->now_us += 30 * BENCH_UNIT;
    for (uint32_t steps = 0; steps < 4; steps++) {
        assert_true(bench_launch(bench));
        sched_check(&bench->sched);
        assert_int_equal(bench_engine(bench)->turns_count, 1);
        assert_int_equal(bench->stats.promotions, 1 + steps / 2);
        bench_compute(bench);
        bench_settle(bench, BENCH_UNIT);
    }
}

/* A starved job of two calls has its turn on two rows. It is worth one: a call of another program,
 * in a queue between, has a row in every other step. */
static void test_turn_of_a_wide_job_takes_a_row(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.service = SCHED_SERVICE_LIVE;
    settings.quantum_us = BENCH_UNIT;
    settings.wait_max_us = 20 * BENCH_UNIT;
    struct bench *bench = bench_start(&settings, 256);
    uint32_t wide = bench_call(bench, 0, 1, 60);
    bench_call(bench, 0, 1, 60);
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(bench_step(bench));
    }
    assert_int_equal(bench_job(bench, wide)->queue, 3);
    bench->now_us += 30 * BENCH_UNIT;
    uint32_t other = bench_call(bench, 1, 1, 60);
    for (uint32_t i = 1; i <= 6; i++) {     /* the turn: 8 units */
        assert_true(bench_step(bench));
        sched_check(&bench->sched);
        assert_int_equal(bench_engine(bench)->turns_count, i < 6 ? 1 : 0);
        assert_int_equal(bench_at(bench, other)->generated_tokens, (i + 1) / 2);
    }
    assert_int_equal(bench->stats.promotions, 1);
}

/* The first of two starved jobs is promoted; then its client reads no more. */
static void test_job_that_cannot_run_gives_up_its_turn(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.quantum_us = BENCH_UNIT;
    settings.wait_max_us = 20 * BENCH_UNIT;
    struct bench *bench = bench_start(&settings, 256);
    uint32_t silent = bench_call(bench, 0, 1, 9), other = bench_call(bench, 1, 1, 9);
    assert_true(bench_step(bench));
    bench->now_us += 30 * BENCH_UNIT;
    sched_starvation_pass(bench_engine(bench), bench->now_us);
    assert_int_equal(bench_job(bench, silent)->queue, 0);
    assert_int_equal(bench_job(bench, other)->queue, 1);
    bench_at(bench, silent)->paused = true;
    sched_starvation_pass(bench_engine(bench), bench->now_us);
    sched_check(&bench->sched);
    assert_int_equal(bench_job(bench, silent)->queue, 1);
    assert_int_equal(bench_job(bench, other)->queue, 0);
}

/* One turn at a time. Jobs of the second queue, whose turns are short, starve again and again; one
 * of the third gets its turn all the same. */
static void test_turns_go_round_the_queues(void **state)
{
    (void)state;
    struct sched_settings settings = one_row(SCHED_SERVICE_LIVE);
    settings.programs = 48;
    struct bench *bench = bench_start(&settings, 512);
    uint32_t lowest = bench_call(bench, 0, 1, 40);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(bench_step(bench));
    }
    for (uint32_t i = 1; i < 40; i++) {
        bench_call(bench, i, 1, 30);
        assert_true(bench_step(bench));
    }
    bench->sched.settings.wait_max_us = 20 * BENCH_UNIT;
    assert_int_equal(bench_job(bench, lowest)->queue, 2);
    uint32_t generated = bench_at(bench, lowest)->generated_tokens;
    bench->now_us += 30 * BENCH_UNIT;
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(bench_step(bench));
    }
    assert_true(bench_at(bench, lowest)->generated_tokens > generated);
}

/* In the last queue, one program always has a call open; another has one long call. */
static void test_program_that_always_has_a_call_open_gives_way(void **state)
{
    (void)state;
    struct sched_settings settings = one_row(SCHED_SERVICE_LIVE);
    settings.queues = 2;
    struct bench *bench = bench_start(&settings, 256);
    uint32_t calls[2] = {bench_call(bench, 1, 1, 10), bench_call(bench, 1, 1, 10)};
    uint32_t other = bench_call(bench, 2, 1, 20);
    for (uint32_t steps = 0; bench_at(bench, other)->state != CALL_FINISHED; steps++) {
        assert_true(steps < 200);
        assert_true(bench_step(bench));
        for (uint32_t i = 0; i < 2; i++) {
            if (bench_at(bench, calls[i])->state == CALL_FINISHED) {
                bench_free(bench, calls[i]);
                calls[i] = bench_call(bench, 1, 1, 10);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_are_half_open_and_as_wide_as_the_quantum),
        cmocka_unit_test(test_huge_quanta_saturate),
        cmocka_unit_test(test_baselines_enter_at_the_top),
        cmocka_unit_test(test_credit_adds_for_plas_and_takes_the_longest_path_for_atlas),
        cmocka_unit_test(test_parallel_calls_cost_width_under_plas_and_depth_under_atlas),
        cmocka_unit_test(test_fan_out_and_merge_end_sooner_by_depth_than_by_width),
        cmocka_unit_test(test_aborted_calls_are_credited_like_others),
        cmocka_unit_test(test_round_robin_turns_and_gives_a_new_quantum),
        cmocka_unit_test(test_srpt_runs_the_smallest_key_and_ties_by_arrival),
        cmocka_unit_test(test_ratio_counts_the_program_and_compares_in_integers),
        cmocka_unit_test(test_zero_service_promotes_by_the_absolute_bound_only),
        cmocka_unit_test(test_promotions_are_bounded_by_service_received),
        cmocka_unit_test(test_promotion_is_a_turn_and_resets_the_ratio_but_no_lifetime),
        cmocka_unit_test(test_few_jobs_have_their_turn_at_once),
        cmocka_unit_test(test_turn_of_a_wide_job_takes_a_row),
        cmocka_unit_test(test_job_that_cannot_run_gives_up_its_turn),
        cmocka_unit_test(test_turns_go_round_the_queues),
        cmocka_unit_test(test_program_that_always_has_a_call_open_gives_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
