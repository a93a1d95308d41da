/* SPDX-License-Identifier: MIT */
/*
 * Goal: every call finds what it has in common with a declared prefix, in whole blocks, whatever
 * its salt; nothing takes these blocks away; and after them salts are as far apart as anywhere.
 * Method: each case by itself. That every position holds what it should is test_random.c's.
 */
#include "selftest/unit/kvmem/rig.h"

enum { PREFIX = 2 * BLOCK_TOKENS, ALICE = 1, BOB = 2 };

static struct rig *fresh(uint32_t prefixes)
{
    struct kvmem_settings settings = rig_settings(DEVICE, HOST);
    settings.prefixes = prefixes;
    return rig_start(&settings);
}

/* The tokens of rig_tokens(1) as far as these calls have them in common; then their own. */
static const uint32_t *parting(uint32_t from, uint32_t own)
{
    static uint32_t runs[4][BLOCK_TOKENS * BLOCKS_PER_CALL];
    static uint32_t turn;
    uint32_t *tokens = runs[turn++ % 4];
    memcpy(tokens, rig_tokens(1), sizeof runs[0]);
    for (uint32_t i = from; i < BLOCK_TOKENS * BLOCKS_PER_CALL; i++) {
        tokens[i] = 1000 * own + i;
    }
    return tokens;
}

static uint32_t ask(struct rig *rig, uint32_t call, uint64_t salt, const uint32_t *tokens,
                    uint32_t count)
{
    return rig_ask_under(rig, call, salt, tokens, count).positions;
}

static uint32_t run(struct rig *rig, uint32_t call, uint64_t salt, const uint32_t *tokens,
                    uint32_t count)
{
    const struct kvmem_answer answer = rig_ask_under(rig, call, salt, tokens, count);
    rig_commit(rig, &answer, count);
    assert_int_equal(kvmem_call_declared(&rig->kv, call), answer.declared_blocks);
    rig_step(rig);
    rig_settle(rig, call, tokens, count);
    return answer.positions;
}

/* Returns how many of its tokens were found, in the prefixes before it. */
static uint32_t declare(struct rig *rig, uint32_t prefix, const uint32_t *tokens, uint32_t count)
{
    return run(rig, CALLS + prefix, KVMEM_SALT_DECLARED, tokens, count);
}

static struct rig *fresh_with_prefix(void)
{
    struct rig *rig = fresh(1);
    assert_int_equal(declare(rig, 0, rig_tokens(1), PREFIX), 0);
    return rig;
}

static void test_call_finds_declared_blocks_under_every_salt(void **state)
{
    (void)state;
    struct rig *rig = fresh_with_prefix();
    assert_int_equal(kvmem_declared(&rig->kv), 2);
    assert_int_equal(run(rig, 0, ALICE, parting(PREFIX, 1), 12), PREFIX);
    assert_int_equal(run(rig, 1, BOB, parting(PREFIX, 1), 12), PREFIX);
    assert_int_equal(kvmem_call_declared(&rig->kv, 0), 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(rig_block(rig, 0, i), rig_block(rig, 1, i));
        assert_int_equal(rig_block(rig, 0, i), rig_block(rig, CALLS, i));
    }
    /* The same tokens after them are two contents. */
    assert_int_not_equal(rig_block(rig, 0, 2), rig_block(rig, 1, 2));
    rig_keep(rig, 0, parting(PREFIX, 1), 12, retained(1));
    rig_keep(rig, 1, parting(PREFIX, 1), 12, retained(2));
    assert_int_equal(ask(rig, 2, ALICE, parting(PREFIX, 1), 13), 12);
    assert_int_equal(ask(rig, 3, 3, parting(PREFIX, 1), 13), PREFIX);
    rig_drop(rig, 2);
    rig_drop(rig, 3);
}

static void test_call_finds_only_whole_declared_blocks(void **state)
{
    (void)state;
    struct rig *rig = fresh_with_prefix();
    assert_int_equal(ask(rig, 0, ALICE, parting(PREFIX - 1, 1), 12), BLOCK_TOKENS);
    assert_int_equal(ask(rig, 1, ALICE, parting(BLOCK_TOKENS - 1, 1), 12), 0);
    assert_int_equal(ask(rig, 2, ALICE, rig_tokens(1), BLOCK_TOKENS), 0);
    assert_int_equal(ask(rig, 3, ALICE, rig_tokens(1), BLOCK_TOKENS + 1), BLOCK_TOKENS);
    assert_int_equal(ask(rig, 4, ALICE, rig_tokens(2), 12), 0);
    assert_int_equal(kvmem_owned(&rig->kv), 2);
}

static void test_call_that_is_alone_finds_no_declared_block(void **state)
{
    (void)state;
    struct rig *rig = fresh_with_prefix();
    assert_int_equal(run(rig, 0, KVMEM_SALT_ALONE | ALICE, parting(PREFIX, 1), 12), 0);
    assert_int_equal(kvmem_call_declared(&rig->kv, 0), 0);
    assert_int_not_equal(rig_block(rig, 0, 0), rig_block(rig, CALLS, 0));
}

static void test_declared_blocks_stay_whatever_is_wanted(void **state)
{
    (void)state;
    struct rig *rig = fresh_with_prefix();
    assert_int_equal(run(rig, 0, ALICE, parting(PREFIX, 1), 12), PREFIX);
    rig_keep(rig, 0, parting(PREFIX, 1), 12, retained(1));
    assert_int_equal(kvmem_available(&rig->kv), DEVICE - 2);
    for (uint32_t i = 0; i < 2; i++) {
        rig_grow(rig, i, 16);
    }
    assert_int_equal(kvmem_available(&rig->kv), 0);
    rig_step(rig);
    kvmem_expire(&rig->kv, UINT64_MAX / 2, true);
    rig_drop(rig, 0);
    rig_drop(rig, 1);
    kvmem_expire(&rig->kv, UINT64_MAX / 2, true);
    assert_int_equal(kvmem_owned(&rig->kv), 2);
    assert_int_equal(ask(rig, 0, ALICE, parting(PREFIX, 1), 12), PREFIX);
    rig_drop(rig, 0);
}

/* Its last token has to be computed, so it computes the prefix's last block itself; once that is
 * full it is the declared one's equal, and what comes after it is found by longer prompts, too. */
static void test_call_that_computes_a_declared_block_takes_the_declared_one(void **state)
{
    (void)state;
    struct rig *rig = fresh_with_prefix();
    const uint32_t *tokens = parting(PREFIX, 1);
    assert_int_equal(run(rig, 0, ALICE, tokens, PREFIX), BLOCK_TOKENS);
    assert_int_equal(rig_block(rig, 0, 1), rig_block(rig, CALLS, 1));
    rig_grow(rig, 0, 12);
    rig_step(rig);
    rig_settle(rig, 0, tokens, 12);
    rig_keep(rig, 0, tokens, 12, saved(1));
    assert_int_equal(ask(rig, 0, ALICE, tokens, 13), 12);
    rig_drop(rig, 0);
}

static void test_prefixes_keep_what_they_have_in_common_once(void **state)
{
    (void)state;
    struct rig *rig = fresh(3);
    const uint32_t *branch = parting(BLOCK_TOKENS, 7);
    assert_int_equal(declare(rig, 0, rig_tokens(1), PREFIX), 0);
    assert_int_equal(declare(rig, 1, branch, PREFIX), BLOCK_TOKENS);
    assert_int_equal(declare(rig, 2, rig_tokens(1), PREFIX), BLOCK_TOKENS);   /* the same again */
    assert_int_equal(kvmem_declared(&rig->kv), 3);
    assert_int_equal(kvmem_owned(&rig->kv), 3);
    /* Equal tokens after both are still two contents of one salt. */
    uint32_t runs[2][12];
    memcpy(runs[0], rig_tokens(1), sizeof runs[0]);
    memcpy(runs[1], branch, sizeof runs[1]);
    memcpy(runs[1] + PREFIX, runs[0] + PREFIX, BLOCK_TOKENS * sizeof(uint32_t));
    assert_int_equal(run(rig, 0, ALICE, runs[0], 12), PREFIX);
    assert_int_equal(run(rig, 1, ALICE, runs[1], 12), PREFIX);
    assert_int_not_equal(rig_block(rig, 0, 2), rig_block(rig, 1, 2));
    assert_int_equal(ask(rig, 2, ALICE, runs[1], 12), PREFIX);
    assert_int_equal(rig_block(rig, 2, 1), rig_block(rig, CALLS + 1, 1));
    rig_drop(rig, 2);
}

/* Where calls part right after a prefix nothing is copied: it would tell who was there last. */
static void test_others_after_a_prefix_leave_no_trace(void **state)
{
    (void)state;
    struct rig *rig = fresh_with_prefix();
    const uint32_t *tokens = parting(PREFIX, 1);
    uint32_t branch[12];
    memcpy(branch, tokens, sizeof branch);
    branch[PREFIX + 2] = 9;
    assert_int_equal(run(rig, 0, ALICE, tokens, 12), PREFIX);
    assert_int_equal(ask(rig, 1, ALICE, branch, 12), PREFIX);
    rig_drop(rig, 1);
    assert_int_equal(run(rig, 2, BOB, parting(PREFIX, 2), 12), PREFIX);
    assert_int_equal(ask(rig, 1, ALICE, branch, 12), PREFIX);
    rig_drop(rig, 1);
}

static void test_lost_prefixes_are_found_again_once_computed(void **state)
{
    (void)state;
    struct rig *rig = fresh_with_prefix();
    rig_drop(rig, CALLS);
    kvmem_lost(&rig->kv);
    kvmem_check(&rig->kv);
    assert_int_equal(kvmem_declared(&rig->kv), 0);
    assert_int_equal(ask(rig, 0, ALICE, parting(PREFIX, 1), 12), 0);
    assert_int_equal(declare(rig, 0, rig_tokens(1), PREFIX), 0);
    assert_int_equal(kvmem_declared(&rig->kv), 2);
    assert_int_equal(ask(rig, 0, ALICE, parting(PREFIX, 1), 12), PREFIX);
    rig_drop(rig, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call_finds_declared_blocks_under_every_salt),
        cmocka_unit_test(test_call_finds_only_whole_declared_blocks),
        cmocka_unit_test(test_call_that_is_alone_finds_no_declared_block),
        cmocka_unit_test(test_declared_blocks_stay_whatever_is_wanted),
        cmocka_unit_test(test_call_that_computes_a_declared_block_takes_the_declared_one),
        cmocka_unit_test(test_prefixes_keep_what_they_have_in_common_once),
        cmocka_unit_test(test_others_after_a_prefix_leave_no_trace),
        cmocka_unit_test(test_lost_prefixes_are_found_again_once_computed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
