/* SPDX-License-Identifier: MIT */
/*
 * Goal: the agents' calculator gives the value of every sum of whole numbers, and "error" for any
 * other text. Method: tables of sums; their values are Python's, with //.
 */
#include "selftest/unit/test.h"

#include "tools/agx/agents/calculator.h"

struct row { const char *sum, *value; };

static void check(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char answer[32];
        calculator_answer(rows[i].sum, answer, sizeof answer);
        if (strcmp(answer, rows[i].value) != 0) {
            print_error("%s: got %s, expected %s\n", rows[i].sum, answer, rows[i].value);
            fail();
        }
    }
}

static void test_sums_have_the_usual_precedence(void **state)
{
    static const struct row rows[] = {
        {"5", "5"}, {"1+2", "3"}, {"2+3*4", "14"}, {"2*3+4", "10"}, {"3*12+5*7", "71"},
        {"10-3-2", "5"}, {"100/5/2", "10"}, {"100/5*2", "40"}, {"2-3*4+10/3", "-7"},
        {"007", "7"}, {" 1 + 2 ", "3"}, {"1 -  - 2", "3"}, {"-5", "-5"}, {"--5", "5"},
        {"3*-4", "-12"}, {"0*999", "0"}, {"12-15", "-3"}};
    (void)state;
    check(rows, sizeof rows / sizeof rows[0]);
}

static void test_division_rounds_towards_minus_infinity(void **state)
{
    static const struct row rows[] = {
        {"7/2", "3"}, {"-7/2", "-4"}, {"7/-2", "-4"}, {"-7/-2", "3"}, {"-6/2", "-3"}, {"0/-5", "0"},
        {"1/9223372036854775807", "0"}, {"-1/9223372036854775807", "-1"}};
    (void)state;
    check(rows, sizeof rows / sizeof rows[0]);
}

static void test_the_ends_of_the_range_are_reached_and_not_left(void **state)
{
    static const struct row rows[] = {
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"9223372036854775806+1", "9223372036854775807"},
        {"9223372036854775807+1", "error"}, {"-9223372036854775808-1", "error"},
        {"9223372036854775808", "error"}, {"-9223372036854775809", "error"},
        {"--9223372036854775808", "error"}, {"-9223372036854775808*-1", "error"},
        {"-9223372036854775808/-1", "error"}, {"3037000500*3037000500", "error"},
        {"99999999999999999999999999999999999999999", "error"}};
    (void)state;
    check(rows, sizeof rows / sizeof rows[0]);
}

static void test_what_is_no_sum_is_an_error(void **state)
{
    static const struct row rows[] = {
        {"", "error"}, {" ", "error"}, {"+", "error"}, {"1+", "error"}, {"+1", "error"},
        {"1++2", "error"}, {"1 2", "error"}, {"(1+2)", "error"}, {"1+a", "error"}, {"a", "error"},
        {"1.5", "error"}, {"0x10", "error"}, {"1e3", "error"}, {"1/0", "error"}, {"1/(0)", "error"},
        {"5/0*0", "error"}, {"-", "error"}, {"*2", "error"}, {"2**3", "error"}, {"7//2", "error"},
        {"1\n", "error"}, {"1\t+2", "error"}, {"\xff", "error"}, {"1+\xc3\xa4", "error"},
        {"1,000", "error"}, {"1=1", "error"}};
    (void)state;
    check(rows, sizeof rows / sizeof rows[0]);
}

static void test_a_long_sum_needs_no_stack(void **state)
{
    static char sum[1 << 20];
    char answer[32];
    (void)state;
    memset(sum, '-', sizeof sum - 2);           /* an even number of signs */
    sum[sizeof sum - 2] = '1';
    calculator_answer(sum, answer, sizeof answer);
    assert_string_equal(answer, "1");
    for (size_t i = 0; i < sizeof sum - 2; i += 2) {
        memcpy(sum + i, "1+", 2);
    }
    calculator_answer(sum, answer, sizeof answer);
    assert_string_equal(answer, "524288");
}

static void test_a_short_answer_is_cut_and_ends(void **state)
{
    char answer[4] = "xxx";
    (void)state;
    calculator_answer("123456", answer, sizeof answer);
    assert_string_equal(answer, "123");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_have_the_usual_precedence),
        cmocka_unit_test(test_division_rounds_towards_minus_infinity),
        cmocka_unit_test(test_the_ends_of_the_range_are_reached_and_not_left),
        cmocka_unit_test(test_what_is_no_sum_is_an_error),
        cmocka_unit_test(test_a_long_sum_needs_no_stack),
        cmocka_unit_test(test_a_short_answer_is_cut_and_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
