/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a call finds is what its own tokens made, under its own salt: full blocks shared, a
 * partial one taken over, never the position that it has to compute. Method: each rule by itself;
 * copies are test_copy.c's, questions and acts test_answer.c's.
 */
#include "selftest/unit/kvmem/rig.h"

static void test_question_with_nothing_cached_finds_nothing(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    assert_int_equal(rig_take(rig, 0, rig_tokens(1), 24), 0);
    assert_int_equal(kvmem_call_blocks(&rig->kv, 0), 0);
    assert_int_equal(rig->kv.counters.asked_tokens, 24);
    assert_int_equal(rig->kv.counters.found_tokens, 0);
}

static void test_commit_shares_full_blocks_of_a_running_call(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig_run(rig, 0, rig_tokens(1), 11);
    assert_int_equal(rig_take(rig, 1, rig_tokens(1), 20), 8);      /* the third is not full */
    assert_int_equal(rig_block(rig, 0, 1), rig_block(rig, 1, 1));
    assert_int_equal(rig->kv.blocks[rig_block(rig, 0, 1)].references, 2);
    assert_int_equal(kvmem_owned(&rig->kv), 3);
    rig_grow(rig, 1, 20);
    assert_int_not_equal(rig_block(rig, 0, 2), rig_block(rig, 1, 2));
    rig_drop(rig, 0);
    assert_int_equal(rig->kv.blocks[rig_block(rig, 1, 1)].references, 1);
    assert_int_equal(kvmem_owned(&rig->kv), 5);
}

static void test_answer_leaves_one_token_to_compute(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig_run(rig, 0, rig_tokens(1), 12);
    struct kvmem_answer answer = rig_ask(rig, 1, rig_tokens(1), 12);
    assert_int_equal(answer.positions, 11);
    assert_int_equal(answer.blocks, 2);
    assert_int_equal(rig_ask(rig, 2, rig_tokens(1), 13).positions, 12);
    assert_int_equal(rig_ask(rig, 3, rig_tokens(1), 1).positions, 0);
}

static void test_answer_ends_where_tokens_differ(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    uint32_t tokens[24];
    rig_run(rig, 0, rig_tokens(1), 16);
    memcpy(tokens, rig_tokens(1), sizeof tokens);
    tokens[6]++;
    struct kvmem_answer answer = rig_ask(rig, 1, tokens, 24);
    assert_int_equal(answer.positions, 6);
    assert_int_equal(answer.blocks, 1);
    /* Equal tokens after an unequal beginning are another content. */
    assert_int_equal(rig_ask(rig, 2, rig_tokens(5), 24).positions, 0);
}

static void test_salts_do_not_meet(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *tokens = rig_tokens(1);
    rig->kv.hash_mask = 0;      /* not even by chance */
    rig_run(rig, 0, tokens, 12);
    uint64_t identity = rig->kv.blocks[rig_block(rig, 0, 0)].identity;
    assert_int_equal(rig_ask_under(rig, 1, 5, tokens, 24).positions, 0);
    /* A salt that happens to be the identity of a content does not pass for its successor. */
    assert_int_equal(rig_ask_under(rig, 2, identity, tokens + 4, 12).positions, 0);
    assert_int_equal(rig_ask_under(rig, 3, 0, tokens, 24).positions, 12);
}

static void test_settle_takes_the_equal_block(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *tokens = rig_tokens(1);
    for (uint32_t call = 0; call < 2; call++) {     /* at the same time: neither finds the other */
        assert_int_equal(rig_take(rig, call, tokens, 10), 0);
        rig_grow(rig, call, 10);
    }
    assert_int_equal(kvmem_owned(&rig->kv), 6);
    rig_step(rig);
    rig_settle(rig, 0, tokens, 10);
    rig_settle(rig, 1, tokens, 10);
    assert_int_equal(kvmem_owned(&rig->kv), 4);
    assert_int_equal(rig_block(rig, 0, 0), rig_block(rig, 1, 0));
    assert_int_equal(rig_block(rig, 0, 1), rig_block(rig, 1, 1));
    assert_int_not_equal(rig_block(rig, 0, 2), rig_block(rig, 1, 2));
}

static void test_settle_names_block_by_block(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *tokens = rig_tokens(1);
    rig_grow(rig, 0, 24);
    rig_settle(rig, 0, tokens, 3);
    assert_int_equal(rig_ask(rig, 1, tokens, 24).positions, 0);
    rig_settle(rig, 0, tokens, 4);
    assert_int_equal(rig_ask(rig, 1, tokens, 24).positions, 4);
    rig_settle(rig, 0, tokens, 15);
    assert_int_equal(rig_ask(rig, 1, tokens, 24).positions, 12);
}

static void test_keep_leaves_all_positions_to_be_found(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig_leave(rig, 1, 11, retained(1));
    assert_int_equal(kvmem_owned(&rig->kv), 0);
    assert_int_equal(kvmem_available(&rig->kv), DEVICE);
    assert_int_equal(kvmem_free(&rig->kv), DEVICE - 3);
    assert_int_equal(rig_take(rig, 0, rig_tokens(1), 20), 11);
    assert_int_equal(kvmem_owned(&rig->kv), 3);
    struct kvmem_answer answer = rig_ask(rig, 0, rig_tokens(1), 20);
    assert_int_equal(kvmem_missing(&rig->kv, &answer, 12), 0);      /* goes on in the same block */
}

static void test_keep_returns_blocks_without_settled_positions(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *tokens = rig_tokens(1);
    rig_take(rig, 0, tokens, 20);
    rig_grow(rig, 0, 20);
    rig_keep(rig, 0, tokens, 6, saved(1));
    assert_int_equal(kvmem_free(&rig->kv), DEVICE - 2);
    assert_int_equal(rig_take(rig, 1, tokens, 20), 6);
}

static void test_partial_block_is_taken_by_one_call_only(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig_leave(rig, 1, 7, retained(1));
    assert_int_equal(rig_take(rig, 0, rig_tokens(1), 20), 7);
    assert_int_equal(kvmem_call_blocks(&rig->kv, 0), 2);
    assert_int_equal(rig_ask(rig, 1, rig_tokens(1), 20).blocks, 1);
}

static void test_partial_block_is_found_only_by_a_call_that_continues_it(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    uint32_t tokens[24];
    memcpy(tokens, rig_tokens(1), sizeof tokens);
    rig_leave(rig, 1, 7, retained(1));
    assert_int_equal(rig_ask(rig, 0, tokens, 7).blocks, 1);     /* one token has to be computed */
    assert_int_equal(rig_ask(rig, 0, tokens, 8).blocks, 2);
    tokens[6]++;
    assert_int_equal(rig_ask(rig, 0, tokens, 20).blocks, 1);
}

static void test_answer_has_the_longest_partial_block(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *tokens = rig_tokens(1);
    for (uint32_t call = 0; call < 2; call++) {
        rig_take(rig, call, tokens, 8);
        rig_grow(rig, call, 8);
    }
    rig_step(rig);
    rig_keep(rig, 0, tokens, 5, retained(1));
    rig_keep(rig, 1, tokens, 6, retained(2));
    assert_int_equal(rig_take(rig, 2, tokens, 20), 6);
    assert_int_equal(rig_take(rig, 3, tokens, 20), 5);
}

static void test_keep_of_an_equal_partial_block_keeps_one(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *tokens = rig_tokens(1);
    for (uint32_t call = 0; call < 2; call++) {
        rig_take(rig, call, tokens, 3);
        rig_grow(rig, call, 3);
    }
    rig_step(rig);
    rig_keep(rig, 0, tokens, 3, retained(1));
    rig_keep(rig, 1, tokens, 3, saved(2));
    assert_int_equal(kvmem_free(&rig->kv), DEVICE - 1);
    assert_int_equal(kvmem_held(&rig->kv, HOLDER_WANTED).device, 1);
}

static void test_drop_forgets_what_only_the_call_held(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig_run(rig, 0, rig_tokens(1), 8);
    rig_run(rig, 1, rig_tokens(1), 16);
    rig_drop(rig, 1);
    assert_int_equal(rig_found(rig, 1, 24), 8);
    rig_drop(rig, 0);
    assert_int_equal(kvmem_free(&rig->kv), DEVICE);
    assert_int_equal(rig_found(rig, 1, 24), 0);
}

/* A call computes again what this step moves to the host. Returns the call's tokens. */
static const uint32_t *recompute(struct rig *rig, uint32_t call, uint32_t positions)
{
    const uint32_t *tokens = rig_tokens(1);
    rig_leave(rig, 1, 12, saved(1));
    rig_grow(rig, 0, 24);
    rig_grow(rig, 2, 16);
    rig_drop(rig, 2);
    assert_int_equal(kvmem_host_used(&rig->kv), 3);
    assert_int_equal(rig_take(rig, call, tokens, positions + 1), 0);
    rig_grow(rig, call, positions);
    assert_int_equal(rig_step(rig), 3);
    rig_settle(rig, call, tokens, positions);
    return tokens;
}

static void test_recomputed_content_takes_the_identity_of_its_copy(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *tokens = recompute(rig, 1, 4);
    assert_int_equal(rig_ask(rig, 3, tokens, 24).positions, 12);    /* and leads to the others */
    assert_true(!kvmem_is_host(&rig->kv, rig_block(rig, 3, 0)));
    assert_true(kvmem_is_host(&rig->kv, rig_block(rig, 3, 1)));
}

static void test_recomputed_content_leaves_no_copy_on_the_host(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *tokens = recompute(rig, 1, 12);
    assert_int_equal(kvmem_host_used(&rig->kv), 0);
    rig_keep(rig, 1, tokens, 12, retained(2));
    assert_int_equal(rig_take(rig, 2, tokens, 13), 12);
}

static void test_collisions_are_compared_in_full(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig->kv.hash_mask = 0;                          /* every content in one chain */
    rig_run(rig, 0, rig_tokens(1), 12);
    rig_run(rig, 1, rig_tokens(50), 12);
    assert_int_equal(rig_take(rig, 2, rig_tokens(50), 13), 12);
    assert_int_equal(rig_block(rig, 1, 2), rig_block(rig, 2, 2));
    assert_int_equal(rig_take(rig, 3, rig_tokens(49), 13), 0);
}

/* A question looks first where the last one found what follows: whatever lies there now. */
static void test_what_followed_last_time_is_compared_in_full(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    uint32_t other[24];
    memcpy(other, rig_tokens(1), sizeof other);
    other[5]++;                                     /* the second block differs */
    rig_run(rig, 0, rig_tokens(1), 12);
    for (uint32_t after = 0; after <= DEVICE + HOST; after++) {
        bool is_right = after == rig_block(rig, 0, 1);
        rig->kv.blocks[rig_block(rig, 0, 0)].after = after;
        struct kvmem_answer answer = rig_ask(rig, 1, other, 13);
        assert_int_equal(answer.positions, is_right ? 5 : 4);
        assert_int_equal(answer.blocks, 1);
        assert_int_equal(rig_ask(rig, 2, rig_tokens(1), 13).positions, 12);
        assert_int_equal(rig_block(rig, 2, 1), rig_block(rig, 0, 1));
    }
}

static void test_what_followed_last_time_may_be_on_the_host(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    const uint32_t *tokens = rig_tokens(1);
    rig_run(rig, 0, tokens, 8);
    rig_keep(rig, 0, tokens, 8, saved(1));
    assert_int_equal(rig_take(rig, 1, tokens, 5), 4);   /* the first block stays on the device */
    rig_grow(rig, 2, 24);
    rig_grow(rig, 3, 12);                               /* the second one goes to the host */
    assert_int_equal(rig_step(rig), 1);
    struct kvmem_answer answer = rig_ask(rig, 4, tokens, 13);
    assert_int_equal(answer.positions, 8);
    assert_int_equal(answer.host_blocks, 1);
    rig_drop(rig, 3);
    rig_commit(rig, &answer, 13);
    answer = rig_ask(rig, 0, tokens, 13);               /* and comes back */
    assert_int_equal(answer.positions, 8);
    assert_int_equal(answer.host_blocks, 0);
}

static void test_check_sees_what_is_wrong(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(DEVICE, HOST);
    rig_run(rig, 0, rig_tokens(1), 10);
    rig_run(rig, 1, rig_tokens(50), 10);
    uint32_t *table = kvmem_table_of(&rig->kv, 1);
    uint32_t block = table[2];
    table[2] = table[1];                            /* twice in a table */
    expect_assert_failure(kvmem_check(&rig->kv));
    table[2] = rig_block(rig, 0, 2);                /* of two calls, and PRIVATE */
    expect_assert_failure(kvmem_check(&rig->kv));
    table[2] = block;
    kvmem_check(&rig->kv);
    rig->kv.blocks[table[1]].before++;              /* does not follow its predecessor */
    expect_assert_failure(kvmem_check(&rig->kv));
}

/* How many blocks the longest chain has when calls have left one block each, of these tokens. */
static uint32_t longest_chain(uint64_t hash_key, uint32_t (*tokens)[BLOCK_TOKENS],
                              uint32_t count)
{
    struct kvmem_settings settings = rig_settings(64, 0);
    settings.hash_key = hash_key;
    struct rig *rig = rig_start(&settings);
    uint32_t longest = 0;
    for (uint32_t i = 0; i < count; i++) {
        rig_run(rig, 0, tokens[i], BLOCK_TOKENS);
        rig_keep(rig, 0, tokens[i], BLOCK_TOKENS, retained(1));
    }
    for (uint32_t i = 0; i <= rig->kv.hash_mask; i++) {
        uint32_t length = 0;
        uint32_t block = rig->kv.hash[i];
        for (; block != KVMEM_BLOCK_NONE; block = rig->kv.blocks[block].chain_next) {
            length++;
        }
        longest = length > longest ? length : longest;
    }
    return longest;
}

/* A client that knew the key could fill one chain, and each look-up in it would cost as much as the
 * pool is large. */
static void test_tokens_that_meet_under_one_key_part_under_another(void **state)
{
    (void)state;
    struct rig *rig = rig_fresh(64, 0);
    uint32_t tokens[16][BLOCK_TOKENS] = {{0}};
    uint32_t candidate = 0;
    for (uint32_t i = 0; i < 16; candidate++) {
        for (uint32_t j = 0; j < BLOCK_TOKENS; j++) {
            tokens[i][j] = candidate + j;
        }
        struct kvmem_name name = kvmem_name_begin(&rig->kv, 0, KVMEM_BLOCK_NONE);
        kvmem_name_extend(&name, tokens[i], BLOCK_TOKENS);
        i += (kvmem_name_hash(&rig->kv, &name) & rig->kv.hash_mask) == 7;
    }
    assert_int_equal(longest_chain(0, tokens, 16), 16);
    assert_true(longest_chain(UINT64_C(0x5eed5eed5eed5eed), tokens, 16) <= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_question_with_nothing_cached_finds_nothing),
        cmocka_unit_test(test_commit_shares_full_blocks_of_a_running_call),
        cmocka_unit_test(test_answer_leaves_one_token_to_compute),
        cmocka_unit_test(test_answer_ends_where_tokens_differ),
        cmocka_unit_test(test_salts_do_not_meet),
        cmocka_unit_test(test_settle_takes_the_equal_block),
        cmocka_unit_test(test_settle_names_block_by_block),
        cmocka_unit_test(test_keep_leaves_all_positions_to_be_found),
        cmocka_unit_test(test_keep_returns_blocks_without_settled_positions),
        cmocka_unit_test(test_partial_block_is_taken_by_one_call_only),
        cmocka_unit_test(test_partial_block_is_found_only_by_a_call_that_continues_it),
        cmocka_unit_test(test_answer_has_the_longest_partial_block),
        cmocka_unit_test(test_keep_of_an_equal_partial_block_keeps_one),
        cmocka_unit_test(test_drop_forgets_what_only_the_call_held),
        cmocka_unit_test(test_recomputed_content_takes_the_identity_of_its_copy),
        cmocka_unit_test(test_recomputed_content_leaves_no_copy_on_the_host),
        cmocka_unit_test(test_collisions_are_compared_in_full),
        cmocka_unit_test(test_tokens_that_meet_under_one_key_part_under_another),
        cmocka_unit_test(test_what_followed_last_time_is_compared_in_full),
        cmocka_unit_test(test_what_followed_last_time_may_be_on_the_host),
        cmocka_unit_test(test_check_sees_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
