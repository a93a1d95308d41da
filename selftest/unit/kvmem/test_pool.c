/* SPDX-License-Identifier: MIT */
/*
 * Goal: blocks are conserved, each has one owner, and the step record gets the right ids.
 * Method: small pools, every operation followed by kvmem_check(); then random operations against a
 * dumb model that only counts blocks.
 */
#include "selftest/unit/test.h"

#include "kvmem/kvmem.h"

enum { BLOCKS = 10, BLOCK_TOKENS = 4, CALLS = 5, BLOCKS_PER_CALL = 6 };

static struct kvmem *fresh_pool(void)
{
    static struct kvmem kv;
    kvmem_init(&kv, BLOCKS, BLOCK_TOKENS, CALLS, BLOCKS_PER_CALL, test_arena());
    kvmem_check(&kv);
    return &kv;
}

static void test_plan_matches_what_init_takes(void **state)
{
    (void)state;
    struct plan plan = {0};
    struct arena *arena = test_arena();
    struct kvmem kv;
    kvmem_plan(&plan, BLOCKS, CALLS, BLOCKS_PER_CALL);
    kvmem_init(&kv, BLOCKS, BLOCK_TOKENS, CALLS, BLOCKS_PER_CALL, arena);
    assert_int_equal(plan_tier_bytes(&plan, TIER_CORE), arena->used_bytes);
}

static void test_missing_counts_partial_blocks(void **state)
{
    (void)state;
    struct kvmem *kv = fresh_pool();
    assert_int_equal(kvmem_missing(kv, 0, 0), 0);
    assert_int_equal(kvmem_missing(kv, 0, 1), 1);
    assert_int_equal(kvmem_missing(kv, 0, 4), 1);
    assert_int_equal(kvmem_missing(kv, 0, 5), 2);
    kvmem_reserve(kv, 0, 5);
    assert_int_equal(kvmem_missing(kv, 0, 8), 0);
    assert_int_equal(kvmem_missing(kv, 0, 9), 1);
    assert_int_equal(kvmem_missing(kv, 0, UINT32_MAX), UINT32_MAX / 4 + 1 - 2);
}

static void test_reserve_grows_and_release_returns_all(void **state)
{
    (void)state;
    struct kvmem *kv = fresh_pool();
    kvmem_reserve(kv, 1, 3);
    kvmem_reserve(kv, 2, 9);
    kvmem_reserve(kv, 1, 17);
    kvmem_reserve(kv, 1, 2);    /* shrinking is not a thing: keeps what it has */
    kvmem_check(kv);
    assert_int_equal(kvmem_call_blocks(kv, 1), 5);
    assert_int_equal(kvmem_call_blocks(kv, 2), 3);
    assert_int_equal(kvmem_free_blocks(kv), 2);
    kvmem_release(kv, 1);
    kvmem_release(kv, 1);       /* free when it has none */
    kvmem_check(kv);
    assert_int_equal(kvmem_free_blocks(kv), 7);
}

static void test_reserve_beyond_the_pool_is_our_bug(void **state)
{
    (void)state;
    struct kvmem *kv = fresh_pool();
    kvmem_reserve(kv, 0, BLOCKS_PER_CALL * BLOCK_TOKENS);
    expect_assert_failure(kvmem_reserve(kv, 1, 5 * BLOCK_TOKENS));
    expect_assert_failure(kvmem_reserve(kv, 0, (BLOCKS_PER_CALL + 1) * BLOCK_TOKENS));
    expect_assert_failure(kvmem_reserve(kv, CALLS, 1));
}

static void test_check_sees_a_block_with_two_owners(void **state)
{
    (void)state;
    struct kvmem *kv = fresh_pool();
    kvmem_reserve(kv, 0, 8);
    kvmem_reserve(kv, 1, 8);
    kv->table[1 * BLOCKS_PER_CALL] = kv->table[0];
    expect_assert_failure(kvmem_check(kv));
}

static void test_bind_writes_the_ids_a_row_needs(void **state)
{
    (void)state;
    struct kvmem kv;
    struct arena *arena = test_arena();
    struct step step;
    kvmem_init(&kv, BLOCKS, BLOCK_TOKENS, CALLS, BLOCKS_PER_CALL, arena);
    step_layout_init(&step.layout, 2, 4, 16, BLOCKS_PER_CALL);
    step.base = arena_take(arena, 1, step.layout.total_bytes);
    kvmem_reserve(&kv, 3, 24);
    kvmem_reserve(&kv, 0, 4);
    step_header(&step)->rows_count = 2;
    *step_row(&step, 0) = (struct step_row){
        .call = 3, .first_position = 6, .tokens_count = 1, .decode_steps = 3};
    *step_row(&step, 1) = (struct step_row){.call = 0, .tokens_count = 4, .decode_steps = 1};
    kvmem_bind(&kv, &step);
    assert_int_equal(step_row(&step, 0)->blocks_count, 3);  /* positions 0 .. 8 */
    assert_int_equal(step_row(&step, 1)->blocks_count, 1);  /* the sampled token is not fed */
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(step_blocks(&step, 0)[i], kv.table[3 * BLOCKS_PER_CALL + i]);
    }
    assert_int_equal(step_blocks(&step, 1)[0], kv.table[0]);
    step_row(&step, 1)->decode_steps = 2;
    expect_assert_failure(kvmem_bind(&kv, &step));
}

static void test_random_operations_conserve_blocks(void **state)
{
    (void)state;
    struct kvmem *kv = fresh_pool();
    uint32_t owned[CALLS] = {0};
    uint64_t random = 0x9e3779b97f4a7c15u;
    for (uint32_t round = 0; round < 20000; round++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint32_t call = (uint32_t)(random >> 33) % CALLS;
        uint32_t tokens = (uint32_t)(random >> 40) % (BLOCKS_PER_CALL * BLOCK_TOKENS + 1);
        uint32_t needed = (tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
        uint32_t free_blocks = BLOCKS;
        for (uint32_t i = 0; i < CALLS; i++) {
            free_blocks -= owned[i];
        }
        if ((random >> 60) < 5) {
            kvmem_release(kv, call);
            owned[call] = 0;
        } else if (kvmem_missing(kv, call, tokens) <= kvmem_free_blocks(kv)) {
            assert_true(needed <= owned[call] || needed - owned[call] <= free_blocks);
            kvmem_reserve(kv, call, tokens);
            owned[call] = needed > owned[call] ? needed : owned[call];
        }
        kvmem_check(kv);
        assert_int_equal(kvmem_call_blocks(kv, call), owned[call]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_matches_what_init_takes),
        cmocka_unit_test(test_missing_counts_partial_blocks),
        cmocka_unit_test(test_reserve_grows_and_release_returns_all),
        cmocka_unit_test(test_reserve_beyond_the_pool_is_our_bug),
        cmocka_unit_test(test_check_sees_a_block_with_two_owners),
        cmocka_unit_test(test_bind_writes_the_ids_a_row_needs),
        cmocka_unit_test(test_random_operations_conserve_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
