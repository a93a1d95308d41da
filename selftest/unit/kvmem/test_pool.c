/* SPDX-License-Identifier: MIT */
/*
 * Goal: the arithmetic of blocks: what is missing, what is there, what commit and drop do to it;
 * and the step record gets the right ids. Method: small tiers, kvmem_check() after each operation.
 */
#include "selftest/unit/kvmem/rig.h"

static void test_plan_matches_what_init_takes(void **state)
{
    (void)state;
    for (uint32_t host = 0; host < 2 * HOST; host += HOST) {
        struct kvmem_settings settings = rig_settings(DEVICE, host);
        struct memory_plan plan = {0};
        struct arena *arena = test_arena();
        struct kvmem kv;
        kvmem_plan_memory(&plan, &settings);
        kvmem_init(&kv, &settings, arena);
        assert_int_equal(memory_plan_bytes(&plan, MEMORY_CORE), arena->used_bytes);
    }
}

static void test_init_refuses_deadlines_in_disorder(void **state)
{
    (void)state;
    struct kvmem kv;
    struct kvmem_settings settings = rig_settings(DEVICE, HOST);
    settings.retain_host_us = settings.retain_drop_us + 1;
    expect_assert_failure(kvmem_init(&kv, &settings, test_arena()));
}

/* Device blocks that the call lacks to hold `positions`, when nothing of it is cached. */
static uint32_t missing(struct rig *rig, uint32_t call, uint32_t positions)
{
    const uint32_t token = 0;
    struct kvmem_answer answer = rig_ask(rig, call, &token, 1);
    return kvmem_missing(&rig->kv, &answer, positions);
}

static void test_missing_counts_partial_blocks(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    assert_int_equal(missing(rig, 0, 0), 0);
    assert_int_equal(missing(rig, 0, 1), 1);
    assert_int_equal(missing(rig, 0, 4), 1);
    assert_int_equal(missing(rig, 0, 5), 2);
    rig_grow(rig, 0, 5);
    assert_int_equal(missing(rig, 0, 8), 0);
    assert_int_equal(missing(rig, 0, 9), 1);
    assert_int_equal(missing(rig, 0, UINT32_MAX), UINT32_MAX / 4 + 1 - 2);
}

static void test_missing_counts_what_comes_from_the_host(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(6, 4);
    rig_leave(rig, 100, 12, saved(1));
    rig_run(rig, 0, rig_tokens(200), 24);           /* all six: the three go to the host */
    rig_drop(rig, 0);
    struct kvmem_answer answer = rig_ask(rig, 1, rig_tokens(100), 16);
    assert_int_equal(answer.positions, 12);
    assert_int_equal(answer.blocks, 3);
    assert_int_equal(answer.host_blocks, 3);
    assert_int_equal(kvmem_missing(&rig->kv, &answer, 12), 3);
    assert_int_equal(kvmem_missing(&rig->kv, &answer, 16), 4);
    rig_commit(rig, &answer, 16);
    assert_int_equal(kvmem_owned(&rig->kv), 4);
}

static void test_commit_grows_and_drop_returns_all(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig_grow(rig, 1, 3);
    rig_grow(rig, 2, 9);
    rig_grow(rig, 1, 17);
    rig_grow(rig, 1, 2);     /* shrinking is not a thing: keeps what it has */
    assert_int_equal(kvmem_call_blocks(&rig->kv, 1), 5);
    assert_int_equal(kvmem_call_blocks(&rig->kv, 2), 3);
    assert_int_equal(kvmem_free(&rig->kv), 2);
    assert_int_equal(kvmem_available(&rig->kv), 2);
    assert_int_equal(kvmem_owned(&rig->kv), 8);
    rig_drop(rig, 1);
    rig_drop(rig, 1);           /* free when it has none */
    assert_int_equal(kvmem_free(&rig->kv), 7);
    assert_int_equal(kvmem_host_used(&rig->kv), 0);
}

static void test_commit_beyond_the_pool_is_our_bug(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t token = 0;
    rig_grow(rig, 0, BLOCKS_PER_CALL * BLOCK_TOKENS);
    struct kvmem_answer answer = rig_ask(rig, 1, &token, 1);
    assert_false(kvmem_fits(&rig->kv, &answer, 5 * BLOCK_TOKENS));
    expect_assert_failure(kvmem_commit(&rig->kv, &answer, 5 * BLOCK_TOKENS));
    answer = rig_ask(rig, 0, &token, 1);
    expect_assert_failure(kvmem_commit(&rig->kv, &answer,
                                       (BLOCKS_PER_CALL + 1) * BLOCK_TOKENS));
    expect_assert_failure(rig_ask(rig, CALLS, &token, 1));
}

static void test_commit_while_a_step_is_bound_is_our_bug(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t token = 0;
    struct kvmem_answer answer = rig_ask(rig, 0, &token, 1);
    rig_bind(rig);
    expect_assert_failure(kvmem_commit(&rig->kv, &answer, 1));
    expect_assert_failure(kvmem_expire(&rig->kv, 1, true));
    expect_assert_failure(kvmem_bind(&rig->kv, &rig->step, NULL, 0));
    kvmem_moved(&rig->kv);
    rig_commit(rig, &answer, 1);
}

static void test_settle_beyond_the_blocks_of_a_call_is_our_bug(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig_grow(rig, 0, 8);
    expect_assert_failure(kvmem_settle(&rig->kv, 0, rig_tokens(1), 9));
}

static void test_bind_writes_the_ids_a_row_needs(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    struct step *step = &rig->step;
    rig_grow(rig, 3, 24);
    rig_grow(rig, 0, 4);
    struct step_planned rows[] = {
        {.call = 3, .first_position = 6, .tokens_count = 1, .decode_steps = 3},
        {.call = 0, .tokens_count = 4, .decode_steps = 1}};
    memset(step->base, 0xff, step->layout.total_bytes);     /* the worker can write there */
    kvmem_bind(&rig->kv, step, rows, 2);
    kvmem_moved(&rig->kv);
    assert_int_equal(step_row(step, 0)->blocks_count, 3);   /* positions 0 .. 8 */
    assert_int_equal(step_row(step, 1)->blocks_count, 1);   /* the sampled token is not fed */
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(step_blocks(step, 0)[i], rig_block(rig, 3, i));
    }
    assert_int_equal(step_blocks(step, 1)[0], rig_block(rig, 0, 0));
    rows[1].decode_steps = 2;
    expect_assert_failure(kvmem_bind(&rig->kv, step, rows, 2));
}

/* Another user computes in them: no answer and no move ever names one. */
static void test_blocks_set_aside_are_in_no_tier(void **state)
{
    (void)state;
    struct kvmem_settings settings = rig_settings(6, 4);
    settings.aside_blocks = 3;
    struct rig *rig = rig_start(&settings);
    for (uint32_t turn = 0; turn < 8; turn++) {
        const uint32_t *tokens = rig_tokens(turn * 100);
        rig_grow(rig, 0, 24);
        for (uint32_t i = 0; i < 6; i++) {
            assert_true(rig_block(rig, 0, i) < 6);
        }
        rig_bind(rig);
        for (uint32_t i = 0; i < step_header(&rig->step)->moves_count; i++) {
            const struct step_move *move = &step_moves(&rig->step)[i];
            assert_in_range(move->from, 0, 5);
            assert_in_range(move->to, 9, 12);
        }
        kvmem_moved(&rig->kv);
        rig_keep(rig, 0, tokens, 24, retained(turn + 1));
    }
    assert_true(rig->kv.counters.out_blocks > 0);
    assert_int_equal(kvmem_available(&rig->kv), 6);
}

static void test_lost_forgets_everything(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(6, 4);
    rig_leave(rig, 100, 12, saved(1));
    rig_grow(rig, 0, 24);
    rig_bind(rig);
    expect_assert_failure(kvmem_lost(&rig->kv));    /* a call still owns blocks */
    rig_drop(rig, 0);
    kvmem_lost(&rig->kv);
    kvmem_check(&rig->kv);
    assert_int_equal(kvmem_free(&rig->kv), 6);
    assert_int_equal(kvmem_host_used(&rig->kv), 0);
    assert_int_equal(rig_take(rig, 1, rig_tokens(100), 24), 0);
    assert_int_equal(rig_step(rig), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_matches_what_init_takes),
        cmocka_unit_test(test_init_refuses_deadlines_in_disorder),
        cmocka_unit_test(test_missing_counts_partial_blocks),
        cmocka_unit_test(test_missing_counts_what_comes_from_the_host),
        cmocka_unit_test(test_commit_grows_and_drop_returns_all),
        cmocka_unit_test(test_commit_beyond_the_pool_is_our_bug),
        cmocka_unit_test(test_commit_while_a_step_is_bound_is_our_bug),
        cmocka_unit_test(test_settle_beyond_the_blocks_of_a_call_is_our_bug),
        cmocka_unit_test(test_bind_writes_the_ids_a_row_needs),
        cmocka_unit_test(test_blocks_set_aside_are_in_no_tier),
        cmocka_unit_test(test_lost_forgets_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
