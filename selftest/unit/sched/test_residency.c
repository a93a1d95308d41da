/* SPDX-License-Identifier: MIT */
/*
 * Goal: calls find what is cached of their tokens, and only what is theirs to find: prefixes of
 * other calls by the rule of sharing, their own KV after a preemption, the history of their program
 * after a call has ended. The tokens are the same whatever was found.
 * Method: few calls on the bench; what was found shows in first positions, counters and the work
 * that was not done.
 */
#include "selftest/unit/sched/bench.h"

#include "config/base/fnv.h"

static struct bench *fresh(enum sched_sharing sharing, uint32_t blocks, uint32_t host_blocks)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.sharing = sharing;
    struct kvmem_settings kv = bench_kv(blocks);
    kv.host_blocks = host_blocks;
    return bench_start_kv(&settings, &kv);
}

/* A call whose prompt depends on `seed` alone, whatever its program. */
static uint32_t call_of(struct bench *bench, uint32_t program, uint32_t prompt, uint32_t max,
                        uint32_t seed)
{
    uint32_t call = bench_take(bench, program, prompt, max, seed);
    bench_send(bench, call);
    bench_intake(bench);
    return call;
}

static void run_all(struct bench *bench)
{
    uint32_t steps = 0;
    while (bench_step(bench)) {
        assert_true(++steps < 1000);
    }
}

/* The next call of a program, whose prompt is all that the one before said and heard. */
static uint32_t follow(struct bench *bench, uint32_t before, uint32_t program, uint32_t max)
{
    struct call *last = bench_at(bench, before);
    uint32_t count = last->prompt_tokens + last->generated_tokens;
    uint32_t call = bench_take(bench, program, count, max, 0);
    memcpy(bench_at(bench, call)->tokens, last->tokens, count * sizeof(uint32_t));
    bench_free(bench, before);
    bench_send(bench, call);
    bench_intake(bench);
    return call;
}

static void test_next_call_of_a_program_computes_its_new_tokens_only(void **state)
{
    (void)state;
    struct bench *bench = fresh(SCHED_SHARING_PROGRAM, 64, 0);
    uint32_t first = call_of(bench, 1, 10, 5, 7);
    run_all(bench);
    uint64_t before = bench->stats.tokens_computed;
    uint32_t call = follow(bench, first, 1, 3);
    run_all(bench);
    /* 15 tokens are known, the last of them had not been fed; 14 positions were found. */
    assert_int_equal(bench_at(bench, call)->cached_tokens, 14);
    assert_int_equal(bench->stats.prefix_hit_tokens, 14);
    assert_int_equal(bench->stats.tokens_computed - before, 1 + 2);
    assert_int_equal(bench->stats.recomputed_tokens, 0);
    assert_true(bench_tokens_are_right(bench_at(bench, call)));
}

/* One branch goes on in the history's last block, the other in a copy of it. */
static void test_branches_of_a_history_compute_their_own_tokens_only(void **state)
{
    (void)state;
    struct bench *bench = fresh(SCHED_SHARING_PROGRAM, 64, 0);
    const struct call *history = bench_at(bench, call_of(bench, 1, 10, 5, 7));
    uint32_t branches[2];
    run_all(bench);
    uint64_t before = bench->stats.tokens_computed;
    for (uint32_t i = 0; i < 2; i++) {
        branches[i] = bench_take(bench, 1, 18, 2, 10 + i);
        memcpy(bench_at(bench, branches[i])->tokens, history->tokens, 15 * sizeof(uint32_t));
        bench_send(bench, branches[i]);
    }
    bench_intake(bench);
    run_all(bench);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(bench_at(bench, branches[i])->cached_tokens, 14);
        assert_true(bench_tokens_are_right(bench_at(bench, branches[i])));
    }
    sched_report(&bench->sched);
    assert_int_equal(bench->stats.tokens_computed - before, 2 * (1 + 3 + 1));
    assert_int_equal(bench->stats.kv_copied_blocks, 1);
}

static void test_sharing_decides_who_finds_an_equal_beginning(void **state)
{
    (void)state;
    static const struct { enum sched_sharing sharing; uint32_t program, found; } cases[] = {
        {SCHED_SHARING_OFF, 1, 0}, {SCHED_SHARING_OFF, 2, 0},
        {SCHED_SHARING_PROGRAM, 1, 12}, {SCHED_SHARING_PROGRAM, 2, 0},
        {SCHED_SHARING_DOMAIN, 1, 12}, {SCHED_SHARING_DOMAIN, 2, 12},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench *bench = fresh(cases[i].sharing, 64, 0);
        call_of(bench, 1, 13, 2, 7);
        run_all(bench);
        uint32_t call = call_of(bench, cases[i].program, 13, 2, 7);
        run_all(bench);
        assert_int_equal(bench_at(bench, call)->cached_tokens, cases[i].found);
        assert_true(bench_tokens_are_right(bench_at(bench, call)));
    }
}

/* Whatever may be shared, and whatever ids clients choose, nothing is found of another domain. */
static void test_another_domain_finds_nothing(void **state)
{
    (void)state;
    for (uint32_t sharing = SCHED_SHARING_OFF; sharing <= SCHED_SHARING_DOMAIN; sharing++) {
        struct bench *bench = fresh((enum sched_sharing)sharing, 64, 0);
        call_of(bench, 1, 13, 2, 7);
        run_all(bench);
        uint32_t call = bench_take(bench, 1, 13, 2, 7);
        bench_at(bench, call)->domain = 5;
        bench_send(bench, call);
        bench_intake(bench);
        run_all(bench);
        assert_int_equal(bench_at(bench, call)->cached_tokens, 0);
        assert_true(bench_tokens_are_right(bench_at(bench, call)));
    }
}

/* Program ids are the clients' choice: these two have the same FNV-1a digest. */
static void test_programs_do_not_meet_whatever_their_ids_are(void **state)
{
    (void)state;
    static const char *const ids[] = {
        "alice-secret-id!",
        "\x10\x53\xda\xd1\xea\x69\xd8\x61\xa4\x29\xe0\x35\x5c\xaf\xe0\x0f"};
    assert_true(fnv_add(FNV_START, ids[0], CALL_PROGRAM_ID_BYTES) ==
                fnv_add(FNV_START, ids[1], CALL_PROGRAM_ID_BYTES));
    static const struct { uint32_t program, found; } calls[] = {{0, 0}, {1, 0}, {0, 12}, {1, 12}};
    struct bench *bench = fresh(SCHED_SHARING_PROGRAM, 64, 0);
    for (uint32_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        uint32_t call = bench_take(bench, 0, 13, 2, 7);
        memcpy(bench_at(bench, call)->program_id, ids[calls[i].program], CALL_PROGRAM_ID_BYTES);
        bench_send(bench, call);
        bench_intake(bench);
        run_all(bench);
        assert_int_equal(bench_at(bench, call)->cached_tokens, calls[i].found);
    }
}

/* Who starts under the id of a program that has ended is another program. */
static void test_the_end_of_a_program_ends_its_history(void **state)
{
    (void)state;
    struct bench *bench = fresh(SCHED_SHARING_PROGRAM, 64, 0);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t call = call_of(bench, 1, 13, 2, 7);
        run_all(bench);
        assert_int_equal(bench_at(bench, call)->cached_tokens, 0);
        struct command end = {.kind = COMMAND_PROGRAM_END};
        bench_program_id(1, end.program_id);
        exchange_command(&bench->exchange, &end);
        bench_intake(bench);
        assert_int_equal(bench->stats.programs_ended, i + 1);
    }
}

static void test_calls_that_run_at_once_share_full_blocks(void **state)
{
    (void)state;
    struct bench *bench = fresh(SCHED_SHARING_PROGRAM, 64, 0);
    uint32_t first = call_of(bench, 1, 12, 9, 7);
    assert_true(bench_step(bench));
    uint32_t second = call_of(bench, 1, 16, 9, 7);
    assert_true(bench_step(bench));
    assert_int_equal(bench_at(bench, second)->cached_tokens, 12);
    /* Three blocks are shared, each call has one of its own. */
    assert_int_equal(kvmem_owned(&bench->kv), 3 + 1 + 1);
    run_all(bench);
    assert_true(bench_tokens_are_right(bench_at(bench, first)));
    assert_true(bench_tokens_are_right(bench_at(bench, second)));
}

/* The call has fed 22 tokens, and then its client does not read while another takes its blocks. */
static uint32_t preempted_call(struct bench *bench, uint32_t other_prompt)
{
    uint32_t call = call_of(bench, 1, 20, 12, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(bench_step(bench));
    }
    bench_at(bench, call)->paused = true;
    uint32_t other = call_of(bench, 2, other_prompt, 4, 4);
    run_all(bench);
    assert_true(bench_tokens_are_right(bench_at(bench, other)));
    assert_int_equal(bench_at(bench, call)->preemptions, 1);
    bench_at(bench, call)->paused = false;
    return call;
}

static void test_preempted_call_comes_back_from_the_host_without_recompute(void **state)
{
    (void)state;
    for (uint32_t sharing = SCHED_SHARING_OFF; sharing <= SCHED_SHARING_DOMAIN; sharing++) {
        struct bench *bench = fresh((enum sched_sharing)sharing, 10, 16);
        uint32_t call = preempted_call(bench, 36);
        run_all(bench);
        sched_report(&bench->sched);
        assert_int_equal(bench->stats.recomputed_tokens, 0);
        assert_int_equal(bench->stats.restored_tokens, 22);
        assert_int_equal(bench->stats.swap_in_blocks, 6);
        assert_int_equal(bench_at(bench, call)->cached_tokens, 0);
        assert_true(bench_tokens_are_right(bench_at(bench, call)));
    }
}

static void test_without_a_host_tier_it_is_recomputed(void **state)
{
    (void)state;
    struct bench *bench = fresh(SCHED_SHARING_PROGRAM, 10, 0);
    uint32_t call = preempted_call(bench, 28);      /* eight blocks of ten */
    run_all(bench);
    sched_report(&bench->sched);
    assert_int_equal(bench->stats.restored_tokens, 8);
    assert_int_equal(bench->stats.recomputed_tokens, 22 - 8);
    assert_int_equal(bench->stats.swap_out_blocks, 0);
    assert_true(bench_tokens_are_right(bench_at(bench, call)));
}

static struct bench *without_retention(enum sched_sharing sharing)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.sharing = sharing;
    struct kvmem_settings kv = bench_kv(10);
    kv.host_blocks = 16;
    kv.retain_device_us = kv.retain_host_us = kv.retain_drop_us = 0;
    return bench_start_kv(&settings, &kv);
}

/* Ended calls' contents are not kept, and neither are those of one that ended on the host. */
static void test_without_retention_ended_calls_leave_nothing_on_any_tier(void **state)
{
    (void)state;
    for (uint32_t sharing = SCHED_SHARING_OFF; sharing <= SCHED_SHARING_DOMAIN; sharing++) {
        struct bench *bench = without_retention((enum sched_sharing)sharing);
        uint32_t call = preempted_call(bench, 36);
        assert_int_equal(kvmem_host_used(&bench->kv), 6);
        bench_cancel(bench, call);
        bench_intake(bench);
        assert_true(sched_is_idle(&bench->sched));
        assert_int_equal(kvmem_host_used(&bench->kv), 0);
        assert_int_equal(kvmem_free(&bench->kv), 10);
        sched_check(&bench->sched);
    }
}

/* A call that looks at them and does not fit leaves the contents to the one that will be back. */
static void test_question_in_vain_takes_nothing_from_a_preempted_call(void **state)
{
    (void)state;
    struct bench *bench = without_retention(SCHED_SHARING_PROGRAM);
    uint32_t call = call_of(bench, 1, 20, 12, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(bench_step(bench));
    }
    bench_at(bench, call)->paused = true;
    call_of(bench, 2, 28, 4, 4);
    uint32_t vain = call_of(bench, 1, 20, 12, 3);   /* finds 12 positions, and no room */
    assert_true(bench_step(bench));
    assert_int_equal(bench_at(bench, call)->preemptions, 1);
    assert_int_equal(bench_at(bench, vain)->computed_tokens, 0);
    assert_true(bench->kv.counters.found_tokens >= 12);
    bench_cancel(bench, vain);
    bench_at(bench, call)->paused = false;
    run_all(bench);
    assert_int_equal(bench->stats.recomputed_tokens, 0);
    assert_true(bench_tokens_are_right(bench_at(bench, call)));
}

/* Its blocks were kept for it; no call waits for them now. */
static void test_call_that_ends_preempted_leaves_nothing_wanted(void **state)
{
    (void)state;
    for (uint32_t sharing = SCHED_SHARING_OFF; sharing <= SCHED_SHARING_DOMAIN; sharing++) {
        struct bench *bench = fresh((enum sched_sharing)sharing, 10, 16);
        uint32_t call = call_of(bench, 1, 20, 12, 3);
        assert_true(bench_step(bench));
        uint32_t urgent = call_of(bench, 2, 28, 6, 4);
        bench_at(bench, call)->paused = true;
        assert_true(bench_step(bench));
        assert_int_equal(bench_at(bench, call)->preemptions, 1);
        bench_cancel(bench, call);
        bench_cancel(bench, urgent);
        bench_intake(bench);
        assert_true(sched_is_idle(&bench->sched));
        assert_int_equal(bench->kv.device.cached_count[true], 0);
        assert_int_equal(bench->kv.host.cached_count[true], 0);
    }
}

/* Its first step looked well, but who knows; and whatever it is that ends the call. */
static void test_call_that_failed_leaves_nothing_to_find(void **state)
{
    (void)state;
    for (uint32_t is_cancelled = 0; is_cancelled < 2; is_cancelled++) {
        struct bench *bench = fresh(SCHED_SHARING_DOMAIN, 64, 0);
        uint32_t call = call_of(bench, 1, 13, 5, 7);
        assert_true(bench_step(bench));
        assert_true(bench_launch(bench));
        bench_compute(bench);
        step_out(&bench->step, 0)->result = STEP_ROW_NOT_FINITE;
        bench_at(bench, call)->cancel = is_cancelled == 1;
        bench_at(bench, call)->faults = is_cancelled == 1 ? 0 : CALL_FAULTS_MAX - 1;
        assert_int_equal(bench_hear(bench, BENCH_UNIT), SCHED_NOT_FINITE);
        assert_int_equal(bench_at(bench, call)->state, CALL_FINISHED);
        assert_int_equal(kvmem_free(&bench->kv), 64);
        uint32_t next = call_of(bench, 1, 13, 5, 7);
        run_all(bench);
        assert_int_equal(bench_at(bench, next)->cached_tokens, 0);
        assert_true(bench_tokens_are_right(bench_at(bench, next)));
    }
}

static void test_what_no_call_may_share_is_not_kept_after_the_end(void **state)
{
    (void)state;
    struct bench *bench = fresh(SCHED_SHARING_OFF, 64, 0);
    call_of(bench, 1, 13, 5, 7);
    run_all(bench);
    assert_int_equal(kvmem_free(&bench->kv), 64);
}

/* Pool of ten, eight of them taken. A call that comes next finds two blocks and does not fit: they
 * stay cached for it, whether it was preempted or is new. */
static void test_question_that_came_to_nothing_keeps_what_it_found(void **state)
{
    (void)state;
    for (uint32_t is_new = 0; is_new < 2; is_new++) {
        struct sched_settings settings = bench_settings(SCHED_FCFS);
        settings.sharing = SCHED_SHARING_PROGRAM;
        struct bench *bench = bench_start(&settings, 10);
        uint32_t large = call_of(bench, 1, 30, 5, 1);
        bench_at(bench, large)->paused = true;
        uint32_t call = call_of(bench, 2, 20, is_new == 1 ? 1 : 9, 2);
        assert_true(bench_step(bench));
        bench_at(bench, call)->paused = true;
        bench_at(bench, large)->paused = false;
        assert_true(bench_step(bench));
        bench_at(bench, call)->paused = false;
        call = is_new == 1 ? call_of(bench, 2, 20, 9, 2) : call;
        uint64_t asked = bench->kv.counters.asked_tokens;
        assert_true(bench_launch(bench));
        assert_int_equal(step_header(&bench->step)->rows_count, 1);
        assert_true(bench->kv.counters.asked_tokens > asked);
        assert_int_equal(bench_at(bench, call)->kv_tokens, 0);
        assert_int_equal(bench->kv.device.cached_count[true], 2);
        bench_compute(bench);
        bench_settle(bench, BENCH_UNIT);
        run_all(bench);
        assert_true(bench_tokens_are_right(bench_at(bench, call)));
    }
}

static void test_lost_worker_takes_the_cache_along(void **state)
{
    (void)state;
    struct bench *bench = fresh(SCHED_SHARING_DOMAIN, 64, 16);
    call_of(bench, 1, 13, 5, 7);
    run_all(bench);
    uint32_t running = call_of(bench, 1, 13, 5, 7);
    assert_true(bench_launch(bench));
    assert_int_equal(bench_at(bench, running)->cached_tokens, 12);
    bench_lose(bench);
    assert_int_equal(kvmem_free(&bench->kv), 64);
    run_all(bench);
    assert_int_equal(bench_at(bench, running)->cached_tokens, 0);
    assert_true(bench_tokens_are_right(bench_at(bench, running)));
}

/* Retained contents make room: a call as large as the pool is admitted and runs. */
static void test_retention_yields_to_a_call_that_needs_the_whole_pool(void **state)
{
    (void)state;
    struct bench *bench = fresh(SCHED_SHARING_PROGRAM, 10, 4);
    for (uint32_t i = 0; i < 4; i++) {
        call_of(bench, i, 16, 4, i);
        run_all(bench);
    }
    assert_true(kvmem_free(&bench->kv) < 5);
    uint32_t call = call_of(bench, 9, 36, 4, 9);
    run_all(bench);
    assert_int_equal(bench_at(bench, call)->finish, CALL_FINISH_LENGTH);
    assert_int_equal(bench->stats.preemptions, 0);
}

static void test_idle_scheduler_forgets_in_time_and_moves_nothing(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.sharing = SCHED_SHARING_PROGRAM;
    struct kvmem_settings kv = bench_kv(16);
    kv.host_blocks = 16;
    kv.retain_device_us = 10 * BENCH_UNIT;
    kv.retain_host_us = kv.retain_drop_us = 50 * BENCH_UNIT;
    struct bench *bench = bench_start_kv(&settings, &kv);
    call_of(bench, 1, 13, 5, 7);
    run_all(bench);
    uint64_t ended_us = bench->now_us;
    assert_int_equal(sched_next_us(&bench->sched, bench->now_us), ended_us + 50 * BENCH_UNIT);
    bench->now_us = ended_us + 20 * BENCH_UNIT;     /* due on the host, and no step to go with */
    bench_intake(bench);
    assert_int_equal(kvmem_host_used(&bench->kv), 0);
    assert_int_equal(kvmem_available(&bench->kv) - kvmem_free(&bench->kv), 5);
    call_of(bench, 2, 5, 1, 8);                     /* here is one */
    assert_true(bench_step(bench));
    assert_int_equal(kvmem_host_used(&bench->kv), 5);
    bench->now_us = ended_us + 50 * BENCH_UNIT;
    bench_intake(bench);
    assert_int_equal(kvmem_host_used(&bench->kv), 0);
}

/* The first call, of 44 tokens, will spend the budget of the next plan; the second had computed all
 * but its last token when a third took its blocks. */
static struct bench *about_to_spend_the_budget(uint32_t host_blocks, uint32_t *second)
{
    struct sched_settings settings = bench_settings(SCHED_FCFS);
    settings.prefill_tokens = 20;
    struct kvmem_settings kv = bench_kv(14);
    kv.host_blocks = host_blocks;
    struct bench *bench = bench_start_kv(&settings, &kv);
    uint32_t first = call_of(bench, 1, 44, 9, 1);
    *second = call_of(bench, 2, 8, 9, 2);
    bench_at(bench, first)->paused = true;
    assert_true(bench_step(bench));
    bench_at(bench, *second)->paused = true;
    call_of(bench, 3, 45, 9, 3);
    run_all(bench);
    assert_int_equal(bench_at(bench, *second)->preemptions, 1);
    bench_at(bench, first)->paused = bench_at(bench, *second)->paused = false;
    return bench;
}

static void test_swapped_call_that_only_decodes_needs_no_budget(void **state)
{
    (void)state;
    uint32_t second = CALL_NONE;
    struct bench *bench = about_to_spend_the_budget(16, &second);
    assert_true(bench_launch(bench));
    assert_int_equal(step_header(&bench->step)->rows_count, 2);
    assert_int_equal(step_row(&bench->step, 0)->tokens_count, 20);
    assert_int_equal(step_row(&bench->step, 1)->call, second);
    assert_int_equal(step_row(&bench->step, 1)->tokens_count, 1);
    assert_true(step_header(&bench->step)->moves_count > 0);
}

static void test_call_that_has_lost_its_end_asks_nothing_without_budget(void **state)
{
    (void)state;
    uint32_t second = CALL_NONE;
    struct bench *bench = about_to_spend_the_budget(0, &second);
    uint64_t asked_tokens = bench->kv.counters.asked_tokens;
    assert_true(bench_launch(bench));
    assert_int_equal(step_header(&bench->step)->rows_count, 1);
    assert_int_equal(bench_at(bench, second)->walk_sequence, bench_engine(bench)->sequence);
    assert_int_equal(bench->kv.counters.asked_tokens - asked_tokens, 44);   /* the first call's */
    bench_compute(bench);
    bench_settle(bench, BENCH_UNIT);
    run_all(bench);
    assert_true(bench_tokens_are_right(bench_at(bench, second)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_call_of_a_program_computes_its_new_tokens_only),
        cmocka_unit_test(test_branches_of_a_history_compute_their_own_tokens_only),
        cmocka_unit_test(test_sharing_decides_who_finds_an_equal_beginning),
        cmocka_unit_test(test_another_domain_finds_nothing),
        cmocka_unit_test(test_programs_do_not_meet_whatever_their_ids_are),
        cmocka_unit_test(test_the_end_of_a_program_ends_its_history),
        cmocka_unit_test(test_calls_that_run_at_once_share_full_blocks),
        cmocka_unit_test(test_preempted_call_comes_back_from_the_host_without_recompute),
        cmocka_unit_test(test_without_a_host_tier_it_is_recomputed),
        cmocka_unit_test(test_without_retention_ended_calls_leave_nothing_on_any_tier),
        cmocka_unit_test(test_question_in_vain_takes_nothing_from_a_preempted_call),
        cmocka_unit_test(test_call_that_ends_preempted_leaves_nothing_wanted),
        cmocka_unit_test(test_call_that_failed_leaves_nothing_to_find),
        cmocka_unit_test(test_what_no_call_may_share_is_not_kept_after_the_end),
        cmocka_unit_test(test_question_that_came_to_nothing_keeps_what_it_found),
        cmocka_unit_test(test_lost_worker_takes_the_cache_along),
        cmocka_unit_test(test_retention_yields_to_a_call_that_needs_the_whole_pool),
        cmocka_unit_test(test_idle_scheduler_forgets_in_time_and_moves_nothing),
        cmocka_unit_test(test_swapped_call_that_only_decodes_needs_no_budget),
        cmocka_unit_test(test_call_that_has_lost_its_end_asks_nothing_without_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
