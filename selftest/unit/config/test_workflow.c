/* SPDX-License-Identifier: MIT */
/*
 * Goal: the slots of workflows are divided among accounts: one that takes all it gets leaves the
 * others their minimums. Method: a table of four slots, and two domains with a minimum each.
 */
#include "selftest/unit/folder.h"

#include "config/workflow/workflow.h"

#define RED  (DOMAIN_OF_KEY + 0)
#define BLUE (DOMAIN_OF_KEY + 1)

static struct workflow_table table;

static int setup(void **state)
{
    (void)state;
    const struct workflow_limits limits = {.workflows = 4, .nodes = 4, .pieces = 4, .tokens = 4,
                                           .rows = 1, .value_tokens = 4};
    static struct quotas quotas;
    quotas.totals[QUOTA_WORKFLOWS] = 4;
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        quotas.of[QUOTA_WORKFLOWS][i] = (struct quota_bounds){.max = UINT32_MAX};
    }
    quotas.of[QUOTA_WORKFLOWS][1].min = quotas.of[QUOTA_WORKFLOWS][2].min = 1;
    workflow_table_init(&table, &limits, test_arena(), test_arena());
    quota_bind(&table.quota, &quotas, QUOTA_WORKFLOWS);
    return 0;
}

static void test_take_all_leaves_the_minimum_of_another(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t index = workflow_take(&table, RED);
        assert_int_equal(index, i);
        assert_int_equal(table.workflows[i].domain, RED);
    }
    assert_int_equal(workflow_take(&table, RED), WORKFLOW_NONE);
    assert_int_equal(workflow_take(&table, 0), WORKFLOW_NONE);
    assert_int_equal(workflow_take(&table, BLUE), 3);
    assert_int_equal(workflow_take(&table, BLUE), WORKFLOW_NONE);
    quota_check(&table.quota);
}

static void test_release_gives_back_to_the_account_that_took(void **state)
{
    (void)state;
    uint32_t red = workflow_take(&table, RED), blue = workflow_take(&table, BLUE);
    workflow_release(&table, red);
    assert_int_equal(table.quota.used_by[1], 0);
    assert_int_equal(table.quota.used_by[2], 1);
    workflow_release(&table, blue);
    assert_int_equal(table.quota.used, 0);
    assert_int_equal(table.quota.owed, 2);
    quota_check(&table.quota);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_take_all_leaves_the_minimum_of_another, setup),
        cmocka_unit_test_setup(test_release_gives_back_to_the_account_that_took, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
