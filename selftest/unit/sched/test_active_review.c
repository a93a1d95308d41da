/* SPDX-License-Identifier: MIT */
/*
 * Goal: no client can keep others out of the active set, and what counts there does not drift.
 * Method: pools for few programs; clients that do what a fair one would not.
 */
#include "selftest/unit/sched/bench.h"

#include "sched/engine/active/exchange.h"
#include "sched/policy.h"

enum { BLOCKS = 24, WAIT_MAX_STEPS = 100, FOR_EVER = 2000 };

static struct bench *start_with_host(enum sched_policy policy, enum sched_sharing sharing,
                                     uint32_t host_blocks)
{
    struct sched_settings settings = bench_settings(policy);
    struct kvmem_settings kv = bench_kv(BLOCKS);
    settings.active_programs = 0;
    settings.exchange_permille = 30;
    settings.small_permille = 60;
    settings.batch_calls = 4;
    settings.programs = 32;
    settings.sharing = sharing;
    kv.host_blocks = host_blocks;
    return bench_start_kv(&settings, &kv);
}

static struct bench *start(enum sched_policy policy, enum sched_sharing sharing)
{
    return start_with_host(policy, sharing, 4 * BLOCKS);
}

static bool is_open(struct bench *bench, uint32_t call)
{
    return bench_at(bench, call)->state != CALL_FINISHED;
}

/* As soon as the call has ended, there is another one, of the same program or of a new one. */
static void renew(struct bench *bench, uint32_t *call, uint32_t program)
{
    if (!is_open(bench, *call)) {
        bench_free(bench, *call);
        *call = bench_call(bench, program, 8, 8);
    }
}

static struct program *program_of(struct bench *bench, uint32_t call)
{
    return &bench->sched.programs[bench_at(bench, call)->program];
}

/* Steps until the call has run, as others come all the time; FOR_EVER at most. */
static uint32_t steps_until_run(struct bench *bench, uint32_t call, bool as_new_programs)
{
    uint32_t others[5], steps = 0, program = 1000;
    for (uint32_t i = 0; i < 5; i++) {
        others[i] = bench_call(bench, as_new_programs ? program++ : i + 10, 8, 8);
    }
    while (bench_at(bench, call)->first_run_us == 0 && steps++ < FOR_EVER) {
        assert_true(bench_step(bench));
        for (uint32_t i = 0; i < 5; i++) {
            bool was_open = is_open(bench, others[i]);
            renew(bench, &others[i], as_new_programs ? program : i + 10);
            program += !was_open;
        }
    }
    return steps;
}

/* A large program waits while small ones come, of old programs or of new ones. */
static void wait_for_a_turn(enum sched_policy policy, bool as_new_programs)
{
    struct bench *bench = start(policy, SCHED_SHARING_PROGRAM);
    bench->sched.settings.wait_max_us = WAIT_MAX_STEPS * BENCH_UNIT;
    bench_call(bench, 1, 8, 8);
    bench_call(bench, 2, 8, 8);
    uint32_t large = bench_call(bench, 3, 70, 20);
    assert_true(bench_job(bench, large)->held);
    assert_in_range(steps_until_run(bench, large, as_new_programs), 1, 3 * WAIT_MAX_STEPS);
}

static void test_new_large_program_has_a_turn_among_small_ones(void **state)
{
    (void)state;
    wait_for_a_turn(SCHED_PLAS, true);
}

static void test_program_has_a_turn_in_a_single_queue(void **state)
{
    (void)state;
    wait_for_a_turn(SCHED_FCFS, false);
}

static void test_programs_all_of_whose_calls_are_paused_yield(void **state)
{
    (void)state;
    struct bench *bench = start(SCHED_PLAS, SCHED_SHARING_PROGRAM);
    uint32_t busy = bench_call(bench, 9, 4, 4), program = 0, steps = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t call = bench_take(bench, 1 + i / 2, 30, 10, i);
        bench_at(bench, call)->paused = true;
        bench_send(bench, call);
        bench_intake(bench);
    }
    uint32_t waits = bench_call(bench, 3, 30, 10);
    assert_true(bench_job(bench, waits)->held);
    while (bench_at(bench, waits)->first_run_us == 0 && steps++ < FOR_EVER) {
        assert_true(bench_step(bench));
        renew(bench, &busy, 9 + program % 2);
    }
    assert_in_range(steps, 1, FOR_EVER / 2);
}

/* The first chunk of a prompt has room, and the rest only in blocks of calls that cannot run. */
static void test_paused_calls_keep_no_other_out_of_the_kv(void **state)
{
    (void)state;
    struct bench *bench = start_with_host(SCHED_PLAS, SCHED_SHARING_OFF, 0);
    uint32_t first = bench_call(bench, 1, 40, 8), second = bench_call(bench, 1, 40, 8);
    while (bench_at(bench, second)->generated_tokens == 0) {
        assert_true(bench_step(bench));
    }
    uint32_t call = bench_call(bench, 2, 30, 1);
    assert_false(bench_job(bench, call)->held);
    bench->sched.settings.prefill_tokens = 4;
    bench_at(bench, first)->paused = bench_at(bench, second)->paused = true;
    bench_engine(bench)->active.credit_us = -1000000;
    bench_engine(bench)->active.credited_us = bench->now_us;
    assert_true(bench_step(bench));
    assert_int_not_equal(bench_at(bench, call)->first_run_us, 0);
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
    assert_int_equal(bench_member(bench, youngest)->counted_blocks, blocks);
}

static void test_one_call_in_many_that_can_run_does(void **state)
{
    (void)state;
    struct bench *bench = start(SCHED_PLAS, SCHED_SHARING_PROGRAM);
    bench_engine(bench)->active.token_ns = 1000000;
    uint32_t paused = bench_call(bench, 1, 60, 8), last = CALL_NONE;
    bench_at(bench, paused)->paused = true;
    for (uint32_t i = 0; i < 2 * SCHED_JOB_LOOKS; i++) {
        last = bench_take(bench, 2, 20, 8, i);
        bench_at(bench, last)->paused = i + 1 < 2 * SCHED_JOB_LOOKS;
        bench_send(bench, last);
        bench_intake(bench);
    }
    assert_true(bench_job(bench, last)->held);
    assert_true(bench_step(bench));
}

static void test_debt_is_bounded(void **state)
{
    (void)state;
    struct bench *bench = start(SCHED_PLAS, SCHED_SHARING_PROGRAM);
    struct sched_engine *engine = bench_engine(bench);
    engine->active.token_ns = 1000000;
    for (uint32_t i = 0; i < 1000; i++) {
        sched_exchange_pay_lost(engine, 1000000);
    }
    uint64_t full_us = sched_exchange_break_even_us(engine, 0) * 1000 / 30 + 1000;
    engine->active.credited_us = bench->now_us;
    engine->active.busy_us = full_us;
    sched_exchange_accrue(engine, bench->now_us + full_us);
    assert_true(sched_exchange_may(engine));
}

static void test_short_call_after_a_long_one_has_lost_little(void **state)
{
    (void)state;
    struct bench *bench = start(SCHED_PLAS, SCHED_SHARING_PROGRAM);
    struct sched_engine *engine = bench_engine(bench);
    uint32_t call = bench_call(bench, 1, 60, 4);
    while (is_open(bench, call)) {
        assert_true(bench_step(bench));
    }
    struct sched_member *member = bench_member(bench, call);
    assert_true(member->history_blocks >= 15);
    bench_free(bench, call);
    bench_lose(bench);
    member->is_active = false;         /* as if it had been displaced */
    engine->active.programs--;
    engine->active.blocks -= member->counted_blocks;
    member->counted_blocks = 0;
    heap_remove(&engine->active.idle, (uint32_t)(member - engine->members));
    engine->active.token_ns = 1000000;
    int64_t before_us = engine->active.credit_us;
    bench_call(bench, 1, 4, 4);
    assert_true(before_us - engine->active.credit_us <= 4 * 1000);
}

/* ---- programs that take the place of each other ---------------------------------------------- */

enum { RIVAL_PROMPT = 60, RIVAL_MAX = 20 };     /* each needs nearly all blocks */

static uint32_t silent_calls;           /* of each of them, besides: their client does not read */

static uint32_t rival(struct bench *bench, uint32_t program, uint64_t domain)
{
    uint32_t call = bench_take(bench, program, RIVAL_PROMPT, RIVAL_MAX, program);
    bench_at(bench, call)->domain = domain;
    bench_send(bench, call);
    bench_intake(bench);
    for (uint32_t i = 0; i < silent_calls; i++) {
        uint32_t silent = bench_take(bench, program, 1, 1, program);
        bench_at(bench, silent)->domain = domain;
        bench_at(bench, silent)->paused = true;
        bench_send(bench, silent);
        bench_intake(bench);
    }
    return call;
}

/* Steps until two such programs, of domain 0 and of this one, have ended; FOR_EVER at most. What an
 * exchange costs is unknown. */
static uint32_t steps_of_rivals(const struct sched_settings *settings, uint64_t domain)
{
    struct kvmem_settings kv = bench_kv(BLOCKS);        /* what leaves them is computed again */
    struct bench *bench = bench_start_kv(settings, &kv);
    uint32_t first = rival(bench, 0, 0), second = rival(bench, 1, domain), steps = 0;
    while ((is_open(bench, first) || is_open(bench, second)) && steps++ < FOR_EVER) {
        assert_true(bench_step(bench));
        bench_engine(bench)->active.token_ns = 0;
    }
    assert_true(bench->stats.programs_displaced > 2);
    return steps;
}

/* Each keeps its place until it is further than it was, for as long as it had to compute again: so
 * at least half of the steps are of use. */
static void rivals_end(struct sched_settings settings, uint64_t domain)
{
    for (uint32_t prefill = 1; prefill <= 4; prefill++) {
        uint32_t alone = RIVAL_PROMPT / prefill + RIVAL_MAX;
        settings.prefill_tokens = prefill;
        assert_in_range(steps_of_rivals(&settings, domain), 1, 5 * alone);
    }
}

static void starving_rivals_end(enum sched_policy policy, uint32_t silent)
{
    struct sched_settings settings = bench_settings(policy);
    settings.active_programs = policy % 2 == 0 && silent == 0 ? 0 : 1;
    settings.exchange_permille = 500;
    silent_calls = silent;
    for (uint64_t us = 1; !sched_policy_has_stages(policy) && us < 10000; us *= 20) {
        settings.wait_max_us = us;
        rivals_end(settings, 0);
    }
}

static void test_starving_programs_all_get_further(void **state)
{
    (void)state;
    for (uint32_t policy = 0; policy < SCHED_POLICIES; policy++) {
        starving_rivals_end((enum sched_policy)policy, 0);
        starving_rivals_end((enum sched_policy)policy, SCHED_JOB_LOOKS + 1);
    }
}

static void test_tenants_that_are_behind_all_get_further(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.tenants = 4;
    settings.active_programs = 1;
    settings.exchange_permille = 500;
    silent_calls = 0;
    rivals_end(settings, 1);
}

/* All rows are the first one's, so no plan has seen yet that the second one cannot run. */
static void test_program_that_cannot_run_does_not_keep_its_place(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    settings.active_programs = 2;
    settings.batch_calls = 1;
    settings.wait_max_us = 4 * BENCH_UNIT;
    struct bench *bench = bench_start(&settings, 4 * BLOCKS);
    uint32_t first = bench_call(bench, 1, 8, 40), silent = bench_call(bench, 2, 8, 40);
    uint32_t starves = bench_call(bench, 3, 8, 40);
    bench_at(bench, silent)->paused = true;
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(bench_step(bench));
    }
    assert_int_equal(program_of(bench, silent)->displacements, 1);
    assert_int_equal(program_of(bench, first)->displacements, 0);
    assert_false(bench_job(bench, starves)->held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_large_program_has_a_turn_among_small_ones),
        cmocka_unit_test(test_program_has_a_turn_in_a_single_queue),
        cmocka_unit_test(test_programs_all_of_whose_calls_are_paused_yield),
        cmocka_unit_test(test_paused_calls_keep_no_other_out_of_the_kv),
        cmocka_unit_test(test_common_beginning_needs_room_too),
        cmocka_unit_test(test_what_siblings_share_counts_when_one_ends),
        cmocka_unit_test(test_one_call_in_many_that_can_run_does),
        cmocka_unit_test(test_debt_is_bounded),
        cmocka_unit_test(test_short_call_after_a_long_one_has_lost_little),
        cmocka_unit_test(test_starving_programs_all_get_further),
        cmocka_unit_test(test_tenants_that_are_behind_all_get_further),
        cmocka_unit_test(test_program_that_cannot_run_does_not_keep_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
