/* SPDX-License-Identifier: MIT */
/*
 * Goal: no account is kept from its minimum, none is above its bound, and nothing below a minimum
 * is given up for another. Method: random accounts take, give and displace; each step is compared
 * with sums over all.
 */
#include "selftest/unit/folder.h"

#include "config/base/quota.h"

#define ACCOUNTS 5

static uint32_t state = 1;

static uint32_t draw(uint32_t bound)
{
    state = state * 1664525 + 1013904223;
    return (state >> 8) % bound;
}

static struct quotas quotas;
static struct quota quota;

static void bind(void)
{
    uint32_t total = 1 + draw(40), rest = total;
    memset(&quotas, 0, sizeof quotas);
    quotas.totals[QUOTA_CALLS] = total;
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        quotas.of[QUOTA_CALLS][i].max = UINT32_MAX;
    }
    for (uint32_t i = 0; i < ACCOUNTS; i++) {
        struct quota_bounds *of = &quotas.of[QUOTA_CALLS][i];
        of->min = draw(rest / 2 + 1);
        of->max = draw(3) == 0 ? of->min + 1 + draw(10) : UINT32_MAX;
        rest -= of->min;
    }
    quota_bind(&quota, &quotas, QUOTA_CALLS);
}

/* All others take what they can; an account has its minimum still. */
static void test_no_account_is_kept_from_its_minimum(void **s)
{
    for (uint32_t run = 0; run < 2000; run++) {
        quota_init(&quota, 1);
        bind();
        for (uint32_t i = 0; i < 300; i++) {
            uint32_t account = draw(ACCOUNTS);
            uint32_t room = quota_room(&quota, account);
            if (draw(3) > 0 && room > 0) {
                quota_take(&quota, account, 1 + draw(room));
            } else if (quota.used_by[account] > 0) {
                quota_give(&quota, account, 1 + draw(quota.used_by[account]));
            }
            quota_check(&quota);
            assert_true(quota.used <= quota.total);
            for (uint32_t a = 0; a < ACCOUNTS; a++) {
                assert_true(quota.used_by[a] <= quota.bounds[a].max);
                assert_true(quota.used_by[a] + quota_room(&quota, a) >= quota.bounds[a].min);
            }
        }
    }
}

static void test_what_is_given_up_is_beyond_a_minimum_or_its_own(void **s)
{
    uint64_t ages[QUOTA_ACCOUNTS_MAX];
    for (uint32_t run = 0; run < 2000; run++) {
        quota_init(&quota, 1);
        bind();
        for (uint32_t i = 0; i < 200; i++) {
            uint32_t asking = draw(ACCOUNTS);
            for (uint32_t a = 0; a < QUOTA_ACCOUNTS_MAX; a++) {
                ages[a] = quota.used_by[a] > 0 ? draw(100) : QUOTA_AGE_NONE;
            }
            uint32_t room = quota_room(&quota, asking);
            uint32_t victim = quota_victim(&quota, asking, 1, ages);
            if (room > 0) {
                quota_take(&quota, asking, 1);
            } else if (victim != QUOTA_ACCOUNT_NONE) {
                assert_true(victim == asking || quota.used_by[victim] > quota.bounds[victim].min ||
                            !quota.has_minimums);
                quota_give(&quota, victim, 1);
                assert_int_equal(quota_room(&quota, asking), 1);
                quota_take(&quota, asking, 1);
            } else {    /* it has none, and all there is lies within minimums */
                assert_int_equal(quota.used_by[asking], 0);
            }
        }
    }
}

/* One that fills a table ends up giving up its own; of two, they end up even beyond minimums. */
static void test_victim_is_who_has_most_beyond_its_minimum(void **s)
{
    uint64_t ages[QUOTA_ACCOUNTS_MAX];
    memset(ages, 0xff, sizeof ages);
    memset(&quotas, 0, sizeof quotas);
    quotas.totals[QUOTA_CALLS] = 10;
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        quotas.of[QUOTA_CALLS][i] = (struct quota_bounds){.min = i == 1 || i == 2 ? 2 : 0,
                                                          .max = UINT32_MAX};
    }
    quota_init(&quota, 10);
    quota_bind(&quota, &quotas, QUOTA_CALLS);
    quota_take(&quota, 1, 8);
    quota_take(&quota, 2, 2);
    ages[1] = 50;
    ages[2] = 1;                        /* older, and within its minimum */
    assert_int_equal(quota_victim(&quota, 1, 1, ages), 1);
    assert_int_equal(quota_victim(&quota, 2, 1, ages), 1);
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t victim = quota_victim(&quota, 2, 1, ages);
        quota_give(&quota, victim, 1);
        quota_take(&quota, 2, 1);
    }
    assert_int_equal(quota.used_by[1], 5);
    assert_int_equal(quota.used_by[2], 5);
}

static void test_without_minimums_the_oldest_of_all_goes(void **s)
{
    uint64_t ages[QUOTA_ACCOUNTS_MAX];
    memset(ages, 0xff, sizeof ages);
    quota_init(&quota, 10);
    quota_take(&quota, 1, 9);
    quota_take(&quota, 2, 1);
    ages[1] = 50;
    ages[2] = 1;
    assert_int_equal(quota_victim(&quota, 1, 1, ages), 2);
    ages[2] = 51;
    assert_int_equal(quota_victim(&quota, 2, 1, ages), 1);
    ages[1] = ages[2] = QUOTA_AGE_NONE;
    assert_int_equal(quota_victim(&quota, 2, 1, ages), QUOTA_ACCOUNT_NONE);
}

/* What is used stays; no account gets more until there is room for it again. */
static void test_other_bounds_leave_what_is_used(void **s)
{
    for (uint32_t run = 0; run < 500; run++) {
        quota_init(&quota, 40);
        for (uint32_t i = 0; i < 60; i++) {
            uint32_t account = draw(ACCOUNTS);
            if (quota_room(&quota, account) > 0) {
                quota_take(&quota, account, 1);
            }
        }
        bind();
        quota_check(&quota);
        while (quota.used > 0) {
            uint32_t account = draw(ACCOUNTS);
            if (quota.used_by[account] > 0) {
                quota_give(&quota, account, 1);
            }
        }
        for (uint32_t a = 0; a < ACCOUNTS; a++) {
            assert_true(quota_room(&quota, a) >= quota.bounds[a].min);
        }
    }
}

static void test_account_is_the_domain_of_a_key(void **s)
{
    assert_int_equal(quota_account(0), QUOTA_WITHOUT_KEY);
    assert_int_equal(quota_account(DOMAIN_OF_USER | UINT32_MAX), QUOTA_WITHOUT_KEY);
    assert_int_equal(quota_account(DOMAIN_OF_KEY), 1);
    assert_int_equal(quota_account(DOMAIN_OF_KEY | 63), 64);
    assert_int_equal(quota_account(DOMAIN_OF_KEY | 64), QUOTA_WITHOUT_KEY);
    assert_int_equal(quota_account(UINT64_MAX), QUOTA_WITHOUT_KEY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_account_is_kept_from_its_minimum),
        cmocka_unit_test(test_what_is_given_up_is_beyond_a_minimum_or_its_own),
        cmocka_unit_test(test_victim_is_who_has_most_beyond_its_minimum),
        cmocka_unit_test(test_without_minimums_the_oldest_of_all_goes),
        cmocka_unit_test(test_other_bounds_leave_what_is_used),
        cmocka_unit_test(test_account_is_the_domain_of_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
