/* SPDX-License-Identifier: MIT */
/*
 * Goal: what an account has cached within its minimum goes after all that others have beyond
 * theirs, and no call fits by taking it; one that must run takes it after all. Method: six blocks,
 * two accounts; what is left is told by what a call still finds.
 */
#include "selftest/unit/kvmem/rig.h"

enum { TAKER = 0, RED = 2, BLUE = 3 };          /* holders; the taker is of red's account */

static struct quotas quotas_of(uint32_t red, uint32_t blue)
{
    struct quotas quotas = {0};
    quotas.of[QUOTA_KV_BLOCKS][1].min = red;
    quotas.of[QUOTA_KV_BLOCKS][2].min = blue;
    return quotas;
}

static void leave(struct rig *rig, uint32_t holder, uint32_t first, uint64_t now_us)
{
    rig_leave(rig, first, 8, (struct kvmem_use){holder, false, now_us});
}

/* Blue has left two blocks, and then red two. */
static struct rig *fresh(uint32_t red, uint32_t blue)
{
    struct rig *rig = rig_fresh(6, 0);
    const struct quotas quotas = quotas_of(red, blue);
    kvmem_account(&rig->kv, TAKER, 1);
    kvmem_account(&rig->kv, RED, 1);
    kvmem_account(&rig->kv, BLUE, 2);
    kvmem_bind_quotas(&rig->kv, &quotas);
    leave(rig, BLUE, 300, 1);
    leave(rig, RED, 200, 2);
    kvmem_check(&rig->kv);
    return rig;
}

static bool fits_beside(struct rig *rig, uint32_t blocks)
{
    const uint32_t token = 0;
    const struct kvmem_answer answer = rig_ask(rig, TAKER, &token, 1);
    return kvmem_fits_beside(&rig->kv, &answer, blocks * BLOCK_TOKENS);
}

static void take(struct rig *rig, uint32_t blocks)
{
    rig_grow(rig, TAKER, blocks * BLOCK_TOKENS);
    rig_step(rig);
}

static void test_without_minimums_the_oldest_goes(void **state)
{
    (void)state;
    struct rig *rig = fresh(0, 0);
    assert_true(fits_beside(rig, 6));
    take(rig, 4);
    assert_int_equal(rig_found(rig, 300, 9), 0);
    assert_int_equal(rig_found(rig, 200, 9), 8);
}

static void test_what_is_within_a_minimum_goes_last(void **state)
{
    (void)state;
    struct rig *rig = fresh(0, 2);
    assert_int_equal(kvmem_withheld(&rig->kv, TAKER), 2);
    assert_int_equal(kvmem_withheld(&rig->kv, BLUE), 0);
    take(rig, 4);
    assert_int_equal(rig_found(rig, 300, 9), 8);
    assert_int_equal(rig_found(rig, 200, 9), 0);
    assert_false(fits_beside(rig, 5));
    take(rig, 6);                               /* it must run */
    assert_int_equal(rig_found(rig, 300, 9), 0);
}

static void test_where_all_is_within_an_account_takes_its_own(void **state)
{
    (void)state;
    struct rig *rig = fresh(3, 3);
    assert_true(fits_beside(rig, 4));
    assert_false(fits_beside(rig, 5));
    take(rig, 4);
    assert_int_equal(rig_found(rig, 300, 9), 8);
    assert_int_equal(rig_found(rig, 200, 9), 0);
}

static void test_beyond_the_minimum_all_goes_by_age(void **state)
{
    (void)state;
    struct rig *rig = fresh(0, 1);
    const struct quotas other = quotas_of(1, 0);
    leave(rig, BLUE, 400, 3);                   /* now four: beyond the part that is passed over */
    assert_int_equal(kvmem_withheld(&rig->kv, TAKER), 0);
    take(rig, 1);
    assert_true(rig_found(rig, 300, 9) < 8);
    kvmem_bind_quotas(&rig->kv, &other);
    kvmem_check(&rig->kv);
    assert_int_equal(kvmem_withheld(&rig->kv, BLUE), 0);
}

/* Nothing is counted before an account has a minimum. */
static void test_what_was_there_before_the_minimums_counts(void **state)
{
    (void)state;
    struct rig *rig = fresh(0, 0);
    const struct quotas quotas = quotas_of(0, 2);
    assert_int_equal(kvmem_withheld(&rig->kv, TAKER), 0);
    kvmem_bind_quotas(&rig->kv, &quotas);
    kvmem_check(&rig->kv);
    assert_int_equal(kvmem_withheld(&rig->kv, TAKER), 2);
}

static void test_what_is_left_counts_for_no_account(void **state)
{
    (void)state;
    struct rig *rig = fresh(0, 2);
    kvmem_abandon(&rig->kv, BLUE, true);
    kvmem_check(&rig->kv);
    assert_int_equal(kvmem_withheld(&rig->kv, TAKER), 0);
    kvmem_account(&rig->kv, BLUE, 1);
    kvmem_lost(&rig->kv);
    kvmem_check(&rig->kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_minimums_the_oldest_goes),
        cmocka_unit_test(test_what_is_within_a_minimum_goes_last),
        cmocka_unit_test(test_where_all_is_within_an_account_takes_its_own),
        cmocka_unit_test(test_beyond_the_minimum_all_goes_by_age),
        cmocka_unit_test(test_what_was_there_before_the_minimums_counts),
        cmocka_unit_test(test_what_is_left_counts_for_no_account),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
