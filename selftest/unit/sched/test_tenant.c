/* SPDX-License-Identifier: MIT */
/*
 * Goal: tenants share the engine by their weights, whatever programs they name.
 * Method: tenants on the bench with more calls than the batch has rows; each step takes a unit of
 * time. Rows are counted in the plans, accounts read from the table.
 */
#include "sched/engine/share/tenant.h"
#include "selftest/unit/sched/bench.h"

enum { ALICE = 1, BOB = 2, TENANTS = 4 };     /* domains */

static struct bench *b;
static uint32_t programs;

static void start(enum sched_policy policy, uint32_t tenants, uint32_t blocks)
{
    struct sched_settings settings = bench_settings(policy);
    settings.tenants = tenants;
    settings.programs = BENCH_CALLS;
    settings.batch_calls = 4;
    b = bench_start(&settings, blocks);
    programs = 0;
}

/* Each call has a program of its own. */
static uint32_t call_of(uint64_t domain, uint32_t prompt, uint32_t max)
{
    programs++;
    uint32_t call = bench_take(b, programs, prompt, max, programs);
    bench_at(b, call)->domain = domain;
    bench_send(b, call);
    bench_intake(b);
    return call;
}

static void calls_of(uint64_t domain, uint32_t count, uint32_t max)
{
    for (uint32_t i = 0; i < count; i++) {
        call_of(domain, 1, max);
    }
}

/* The rows of the tenant's calls in so many steps. */
static uint32_t rows_of(uint64_t domain, uint32_t steps)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < steps; i++) {
        assert_true(bench_launch(b));
        for (uint32_t row = 0; row < bench_engine(b)->planned_count; row++) {
            rows += bench_at(b, bench_engine(b)->planned[row].call)->domain == domain;
        }
        bench_compute(b);
        bench_settle(b, BENCH_UNIT);
    }
    return rows;
}

static const struct sched_tenant *tenant_of(uint64_t domain)
{
    return &b->sched.tenants.of[sched_tenant_of(&b->sched, domain)];
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void test_tenants_that_want_more_have_rows_by_weight(void **state)
{
    (void)state;
    start(SCHED_PLAS, TENANTS, 400);
    sched_name_tenant(&b->sched, BOB, 3, "bob");
    calls_of(ALICE, 10, 60);
    calls_of(BOB, 10, 60);
    uint32_t rows = rows_of(BOB, 40);
    assert_in_range(rows, 40 * 3 - 4, 40 * 3 + 4);
    assert_int_equal(tenant_of(BOB)->weight, 3);
    uint64_t got = tenant_of(BOB)->got;
    assert_in_range(tenant_of(BOB)->due, got * 9 / 10, got * 11 / 10);
}

static void test_a_tenant_alone_has_all_rows(void **state)
{
    (void)state;
    start(SCHED_PLAS, TENANTS, 400);
    calls_of(ALICE, 10, 60);
    assert_int_equal(rows_of(ALICE, 20), 20 * 4);
}

/* The first prompt of a plan may take all of the budget. */
static void test_a_tenant_that_wants_little_has_the_first_row(void **state)
{
    (void)state;
    start(SCHED_PLAS, TENANTS, 400);
    call_of(ALICE, 90, 4);
    call_of(ALICE, 90, 4);
    rows_of(ALICE, 1);
    uint32_t call = call_of(BOB, 20, 4);
    rows_of(BOB, 1);
    assert_int_equal(bench_at(b, call)->generated_tokens, 1);
}

/* What the other one does not ask for is there for all. */
static void test_a_tenant_that_wants_little_leaves_the_rest(void **state)
{
    (void)state;
    start(SCHED_PLAS, TENANTS, 400);
    calls_of(ALICE, 10, 60);
    calls_of(BOB, 1, 60);
    assert_int_equal(rows_of(BOB, 20), 20);
    assert_int_equal(rows_of(ALICE, 20), 20 * 3);
    assert_false(tenant_of(BOB)->wants);
    assert_true(tenant_of(ALICE)->wants);
}

static void test_fresh_programs_bring_their_tenant_nothing(void **state)
{
    (void)state;
    for (uint32_t policy = 0; policy < SCHED_POLICIES; policy++) {
        start((enum sched_policy)policy, TENANTS, 400);
        calls_of(ALICE, 30, 40);
        rows_of(ALICE, 5);
        uint32_t call = call_of(BOB, 1, 10);
        rows_of(BOB, 12);
        assert_int_equal(bench_at(b, call)->state, CALL_FINISHED);
    }
}

static void test_with_one_account_a_call_waits_for_fresh_programs(void **state)
{
    (void)state;
    start(SCHED_FCFS, 1, 400);
    calls_of(ALICE, 30, 40);
    rows_of(ALICE, 5);
    uint32_t call = call_of(BOB, 1, 10);
    assert_int_equal(rows_of(BOB, 100), 0);
    assert_int_equal(bench_at(b, call)->generated_tokens, 0);
}

/* ---- accounts -------------------------------------------------------------------------------- */

static void test_idleness_saves_nothing_up(void **state)
{
    (void)state;
    start(SCHED_PLAS, TENANTS, 400);
    calls_of(BOB, 1, 1);
    calls_of(ALICE, 10, 60);
    rows_of(ALICE, 30);
    calls_of(BOB, 10, 60);
    assert_in_range(rows_of(BOB, 10), 18, 22);
}

/* A call that always runs asks for no more; it earns its tenant no claim for later. */
static void test_wanting_little_saves_nothing_up(void **state)
{
    (void)state;
    start(SCHED_PLAS, TENANTS, 400);
    calls_of(BOB, 1, 90);
    calls_of(ALICE, 15, 60);
    rows_of(ALICE, 30);
    calls_of(BOB, 10, 60);
    assert_in_range(rows_of(BOB, 10), 18, 22);
}

static void test_a_call_that_cannot_run_saves_nothing_up(void **state)
{
    (void)state;
    start(SCHED_PLAS, TENANTS, 400);
    uint32_t call = call_of(BOB, 1, 60);
    bench_at(b, call)->paused = true;
    calls_of(ALICE, 10, 60);
    rows_of(ALICE, 30);
    calls_of(BOB, 10, 60);
    assert_in_range(rows_of(BOB, 10), 18, 22);
}

static void test_prompts_cost_their_part_of_the_budget(void **state)
{
    (void)state;
    start(SCHED_FCFS, TENANTS, 400);
    call_of(ALICE, 29, 40);
    calls_of(BOB, 1, 40);
    uint64_t alice = tenant_of(ALICE)->got, bob = tenant_of(BOB)->got;
    rows_of(ALICE, 1);
    alice = tenant_of(ALICE)->got - alice;
    bob = tenant_of(BOB)->got - bob;
    assert_int_equal(alice, (uint64_t)BENCH_UNIT * SCHED_COST_PARTS * 28 / BENCH_PREFILL_MAX);
    assert_int_equal(bob, (uint64_t)BENCH_UNIT * SCHED_COST_PARTS / 2);
}

/* Half of all blocks, and one of two rows. */
static void test_blocks_cost_their_part_of_all(void **state)
{
    (void)state;
    start(SCHED_FCFS, TENANTS, 8);
    call_of(ALICE, 20, 4);
    call_of(BOB, 1, 4);
    rows_of(ALICE, 1);
    uint64_t alice = tenant_of(ALICE)->got, bob = tenant_of(BOB)->got;
    rows_of(ALICE, 1);
    uint64_t step = (uint64_t)BENCH_UNIT * SCHED_COST_PARTS;
    assert_int_equal(tenant_of(ALICE)->got - alice, step * 6 / 8);
    assert_int_equal(tenant_of(BOB)->got - bob, step / 2);
}

static void test_a_lag_is_bounded(void **state)
{
    (void)state;
    start(SCHED_FCFS, TENANTS, 8);
    call_of(ALICE, 1, 4);
    call_of(BOB, 1, 4);
    uint32_t alice = sched_tenant_of(&b->sched, ALICE);
    struct sched_tenant *bob = &b->sched.tenants.of[sched_tenant_of(&b->sched, BOB)];
    for (uint32_t i = 0; i < 30; i++) {
        bob->wants = true;
        sched_tenant_use(&b->sched, alice, &(struct sched_use){.rows = 1});
        sched_tenant_settle(bench_engine(b), 1000000);
        sched_check(&b->sched);
    }
    assert_int_equal(tenant_of(ALICE)->virtual_time - bob->virtual_time,
                     sched_tenant_cost(10000000));
}

static void test_domains_without_a_place_share_one(void **state)
{
    (void)state;
    start(SCHED_FCFS, 2, 400);
    sched_name_tenant(&b->sched, ALICE, 2, "alice");
    call_of(ALICE, 1, 4);
    call_of(BOB, 1, 4);
    call_of(BOB + 1, 1, 4);
    assert_int_equal(sched_tenant_of(&b->sched, ALICE), 1);
    assert_int_equal(b->sched.programs[bench_at(b, 1)->program].tenant, 0);
    assert_int_equal(b->sched.programs[bench_at(b, 2)->program].tenant, 0);
    sched_check(&b->sched);
}

static void test_a_domain_without_programs_gives_up_its_place(void **state)
{
    (void)state;
    start(SCHED_FCFS, 2, 400);
    struct answer answer = bench_program_in(b, COMMAND_PROGRAM_START, ALICE, 1);
    assert_status(STATUS_OK, answer.status);
    assert_int_equal(sched_tenant_of(&b->sched, BOB), 0);
    answer = bench_program_in(b, COMMAND_PROGRAM_END, ALICE, 1);
    assert_status(STATUS_OK, answer.status);
    assert_int_equal(sched_tenant_of(&b->sched, BOB), 1);
    assert_int_equal(sched_tenant_of(&b->sched, ALICE), 1);
}

static void test_names_and_weights_change_while_programs_run(void **state)
{
    (void)state;
    start(SCHED_PLAS, TENANTS, 400);
    sched_name_tenant(&b->sched, BOB, 3, "bob");
    calls_of(ALICE, 10, 60);
    calls_of(BOB, 10, 60);
    rows_of(BOB, 10);
    sched_forget_names(&b->sched);
    sched_name_tenant(&b->sched, ALICE, 3, "alice");
    assert_int_equal(tenant_of(BOB)->weight, 1);
    assert_string_equal(tenant_of(BOB)->name, "");
    assert_string_equal(tenant_of(ALICE)->name, "alice");
    uint32_t rows = rows_of(ALICE, 40);
    assert_in_range(rows, 40 * 3 - 8, 40 * 3 + 8);
    sched_check(&b->sched);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Steps take no time, so no tenant is ever behind. */
static void test_calls_that_each_need_all_blocks_end(void **state)
{
    (void)state;
    for (uint32_t policy = 0; policy < SCHED_POLICIES; policy++) {
        start((enum sched_policy)policy, TENANTS, 8);
        b->sched.settings.prefill_tokens = 4;
        uint32_t calls[4];
        for (uint32_t i = 0; i < 4; i++) {
            calls[i] = call_of(i % 2 == 0 ? ALICE : BOB, 16, 16);
        }
        for (uint32_t steps = 0; b->sched.open_calls > 0; steps++) {
            assert_true(steps < 1000 && bench_launch(b));
            bench_compute(b);
            bench_settle(b, steps % 3 == 0 ? BENCH_UNIT : 0);
        }
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(bench_at(b, calls[i])->generated_tokens, 16);
        }
    }
}

static void test_a_tenant_keeps_its_blocks_while_both_want_more(void **state)
{
    (void)state;
    start(SCHED_FCFS, TENANTS, 24);
    bench_engine(b)->active.token_ns = 100 * BENCH_UNIT;
    for (uint32_t i = 0; i < 8; i++) {
        call_of(i % 2 == 0 ? ALICE : BOB, 12, 12);
    }
    rows_of(ALICE, 20);
    assert_in_range(b->stats.preemptions, 0, 2);
}

/* Two tenants without a key, so of one account, and one with a key. What calls of the two leave is
 * within that account's minimum, so the other's call, which needs all blocks, does not fit beside
 * it: it may not take their blocks for that in each plan, for then none of them gets further. */
static void test_calls_end_that_need_what_others_have_within_minimums(void **state)
{
    (void)state;
    struct quotas quotas = {0};
    quotas.of[QUOTA_KV_BLOCKS][QUOTA_WITHOUT_KEY].min = 8;
    for (uint32_t policy = 0; policy < SCHED_POLICIES; policy++) {
        start((enum sched_policy)policy, TENANTS, BENCH_BLOCKS_PER_CALL);
        b->sched.settings.prefill_tokens = 2;
        kvmem_bind_quotas(&b->kv, &quotas);
        for (uint32_t i = 0; i < 6; i++) {
            call_of(i % 3 == 0 ? DOMAIN_OF_KEY : i % 3, BENCH_CONTEXT - 4, 1);
        }
        for (uint32_t steps = 0; b->sched.open_calls > 0; steps++) {
            assert_true(steps < 20000 && bench_launch(b));
            bench_compute(b);
            bench_settle(b, BENCH_UNIT / 10);
        }
    }
}

/* The same call, beside a tenant that always has more: what it took from that tenant's first call
 * was within the minimum, what its later ones have is not. */
static void test_a_call_that_needs_all_blocks_ends_beside_calls_without_end(void **state)
{
    (void)state;
    struct quotas quotas = {0};
    quotas.of[QUOTA_KV_BLOCKS][QUOTA_WITHOUT_KEY].min = 17;
    for (uint32_t policy = 0; policy < SCHED_POLICIES; policy++) {
        start((enum sched_policy)policy, TENANTS, BENCH_BLOCKS_PER_CALL);
        kvmem_bind_quotas(&b->kv, &quotas);
        uint32_t others[4] = {call_of(BOB, 60, 30)};
        rows_of(BOB, 8);
        uint32_t large = call_of(DOMAIN_OF_KEY, BENCH_CONTEXT - 4, 1);
        for (uint32_t i = 1; i < 4; i++) {
            others[i] = call_of(BOB, 24, 8);
        }
        for (uint32_t steps = 0; bench_at(b, large)->state != CALL_FINISHED; steps++) {
            assert_true(steps < 200 && bench_launch(b));
            bench_compute(b);
            bench_settle(b, BENCH_UNIT);
            for (uint32_t i = 0; i < 4; i++) {
                if (bench_at(b, others[i])->state == CALL_FINISHED) {
                    bench_free(b, others[i]);
                    programs = 10 + i;
                    others[i] = call_of(BOB, 24, 8);
                }
            }
        }
    }
}

/* The set holds two programs, both of one tenant: the other one's program takes the place of one
 * when the tenant is behind by more than an exchange costs. */
static void test_a_tenant_that_is_behind_comes_into_the_active_set(void **state)
{
    (void)state;
    for (uint32_t tenants = 1; tenants <= TENANTS; tenants += TENANTS - 1) {
        struct sched_settings settings = bench_settings(SCHED_FCFS);
        settings.tenants = tenants;
        settings.active_programs = 2;
        settings.exchange_permille = 1000;
        b = bench_start(&settings, 64);
        programs = 0;
        bench_engine(b)->active.token_ns = 1000;
        calls_of(ALICE, 2, 80);
        uint32_t call = call_of(BOB, 1, 4);
        assert_int_equal(rows_of(BOB, 1), 0);
        rows_of(BOB, 30);
        assert_int_equal(bench_at(b, call)->state == CALL_FINISHED, tenants > 1);
        assert_int_equal(b->stats.programs_displaced > 0, tenants > 1);
    }
}

/* Sixteen blocks, four of them reserved; each call needs four. */
static void test_a_tenant_that_wants_more_leaves_the_small_share(void **state)
{
    (void)state;
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.tenants = TENANTS;
    settings.active_programs = 0;
    settings.small_permille = 250;
    b = bench_start(&settings, 16);
    programs = 0;
    sched_name_tenant(&b->sched, ALICE, 1, "alice");
    sched_name_tenant(&b->sched, BOB, 1, "bob");
    for (uint32_t i = 0; i < 3; i++) {
        call_of(ALICE, 8, 8);
    }
    rows_of(ALICE, 1);
    uint32_t fourth = call_of(ALICE, 8, 8), call = call_of(BOB, 8, 8);
    assert_false(sched_program_is_active(&b->sched, bench_at(b, fourth)->program));
    assert_true(sched_program_is_active(&b->sched, bench_at(b, call)->program));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tenants_that_want_more_have_rows_by_weight),
        cmocka_unit_test(test_a_tenant_alone_has_all_rows),
        cmocka_unit_test(test_names_and_weights_change_while_programs_run),
        cmocka_unit_test(test_a_tenant_that_wants_little_leaves_the_rest),
        cmocka_unit_test(test_a_tenant_that_wants_little_has_the_first_row),
        cmocka_unit_test(test_fresh_programs_bring_their_tenant_nothing),
        cmocka_unit_test(test_with_one_account_a_call_waits_for_fresh_programs),
        cmocka_unit_test(test_idleness_saves_nothing_up),
        cmocka_unit_test(test_wanting_little_saves_nothing_up),
        cmocka_unit_test(test_a_call_that_cannot_run_saves_nothing_up),
        cmocka_unit_test(test_prompts_cost_their_part_of_the_budget),
        cmocka_unit_test(test_blocks_cost_their_part_of_all),
        cmocka_unit_test(test_a_lag_is_bounded),
        cmocka_unit_test(test_a_tenant_that_is_behind_comes_into_the_active_set),
        cmocka_unit_test(test_a_tenant_that_wants_more_leaves_the_small_share),
        cmocka_unit_test(test_domains_without_a_place_share_one),
        cmocka_unit_test(test_a_domain_without_programs_gives_up_its_place),
        cmocka_unit_test(test_calls_that_each_need_all_blocks_end),
        cmocka_unit_test(test_a_tenant_keeps_its_blocks_while_both_want_more),
        cmocka_unit_test(test_calls_end_that_need_what_others_have_within_minimums),
        cmocka_unit_test(test_a_call_that_needs_all_blocks_ends_beside_calls_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
