/* SPDX-License-Identifier: MIT */
/*
 * Goal: a look-up finds the named cell, in the table of the prompt and nowhere else.
 * Method: one prompt with a table; good and wrong arguments, prompts with broken tables.
 */
#include "selftest/unit/test.h"

#include "tools/agx/agents/table.h"

static const char shop[] = "fish: price 1, stock 2\n"
                           "Table:\n"
                           "rice: price 12, stock 40, weight 5\n"
                           "green tea: price 7, stock 380, weight 2\n"
                           "rice: price 99, stock 98, weight 97\n"
                           "Task: What do 3 bags: of rice cost?\n"
                           "salt: price 3, stock 4\n";

static void check(const char *prompt, const char *argument, const char *value)
{
    char answer[64];
    table_look_up(prompt, argument, answer, sizeof answer);
    if (strcmp(answer, value) != 0) {
        print_error("'%s': got '%s', expected '%s'\n", argument, answer, value);
        fail();
    }
}

static void test_each_cell_is_found(void **state)
{
    (void)state;
    check(shop, "rice price", "12");
    check(shop, "rice stock", "40");
    check(shop, "rice weight", "5");
    check(shop, "green tea weight", "2");
}

static void test_what_is_not_there_is_none(void **state)
{
    static const char *const arguments[] = {
        "", " ", "rice", "rice ", " price", "price rice", "ric price", "rice pric", "rice price ",
        "rice  price", "rice 12", "tea price", "RICE price", "rice: price", "rice price,",
        "rice price 12", "rice price 12, stock", "\xff\xff \xff"};
    (void)state;
    for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++) {
        check(shop, arguments[i], "none");
    }
}

static void test_lines_outside_the_table_are_no_rows(void **state)
{
    (void)state;
    check(shop, "fish price", "none");
    check(shop, "salt price", "none");
    check(shop, "Task What", "none");
    check(shop, "Task: What do 3 bags of", "none");
}

static void test_broken_tables_are_read_as_far_as_they_go(void **state)
{
    (void)state;
    check("", "rice price", "none");
    check("Table:", "rice price", "none");
    check("Table:\nrice: price 12", "rice price", "12");
    check("Table:\nrice: price", "rice price", "none");
    check("Table:\nrice: price ", "rice price", "none");
    check("Table:\nrice:price 12\n", "rice price", "none");
    check("Table:\nrice: price 1,stock 2, weight 3\n", "rice price", "1");
    check("Table:\nrice: price 1,stock 2, weight 3\n", "rice weight", "none");
    check("Table:\nrice: stock 2\nprice 5\n", "rice price", "none");
    check("Table:\n\nrice: , , price 4\n", "rice price", "4");
}

static void test_a_long_value_is_cut_and_ends(void **state)
{
    char answer[4] = "xxx";
    (void)state;
    table_look_up("Table:\nrice: price 123456\n", "rice price", answer, sizeof answer);
    assert_string_equal(answer, "123");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_cell_is_found),
        cmocka_unit_test(test_what_is_not_there_is_none),
        cmocka_unit_test(test_lines_outside_the_table_are_no_rows),
        cmocka_unit_test(test_broken_tables_are_read_as_far_as_they_go),
        cmocka_unit_test(test_a_long_value_is_cut_and_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
