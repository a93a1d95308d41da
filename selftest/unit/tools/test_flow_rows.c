/* SPDX-License-Identifier: MIT */
/*
 * Goal: rows of `agx flow --inputs` come in the order of the inputs, whatever that of the columns;
 * a file that does not fit the inputs is refused with its line, what was found and what was
 * expected.
 * Method: small texts for the inputs `doc[1]` and `question`.
 */
#include "selftest/unit/test.h"

#include "tools/agx/flow/rows.h"

static const char *const words[] = {"doc[1]", "question"};
static const struct rows_names inputs = {words, 2};
static char fault[ROWS_FAULT_BYTES];

static bool parse(struct rows *rows, const char *from, size_t bytes)
{
    char *text = malloc(bytes + 1);
    assert_non_null(text);
    memcpy(text, from, bytes);
    memset(fault, 0, sizeof fault);
    return rows_parse(rows, &inputs, text, bytes, fault);
}

static void assert_cell(const struct rows *rows, uint32_t row, uint32_t input, const char *expected)
{
    const struct rows_cell *cell = &rows_cells(rows, row)[input];
    assert_int_equal(strlen(expected), cell->bytes);
    assert_memory_equal(expected, cell->text, cell->bytes);
}

static void assert_refused(const char *text, const char *expected)
{
    struct rows rows;
    assert_false(parse(&rows, text, strlen(text)));
    assert_string_equal(expected, fault);
}

static void test_parse_columns_in_any_order(void **state)
{
    const char *text = "question\tdoc[1]\r\nwhy\\n\tbees\r\n\t\n";
    struct rows rows;
    assert_true(parse(&rows, text, strlen(text)));
    assert_int_equal(2, rows.count);
    assert_cell(&rows, 0, 0, "bees");
    assert_cell(&rows, 0, 1, "why\n");
    assert_cell(&rows, 1, 0, "");
    assert_cell(&rows, 1, 1, "");
    rows_free(&rows);
}

static void test_parse_refuses_a_first_line_that_says_nothing(void **state)
{
    assert_refused("", "line 1: found an empty file, expected a line that names the inputs");
    assert_refused("\n", "line 1: found an empty line, expected a line that names the inputs");
    assert_refused("\r\nwhy\tbees\n",
                   "line 1: found an empty line, expected a line that names the inputs");
    assert_refused("\tdoc[1]\n", "line 1: found the column '', expected the name of an input");
}

static void test_parse_refuses_columns_that_are_not_the_inputs(void **state)
{
    static const char zero[] = "doc[1]\0x\tquestion\n";
    struct rows rows;
    assert_refused("question\tdoc[2]\tdoc[1]\n",
                   "line 1: found the column 'doc[2]', expected the name of an input");
    assert_refused("question\tdoc[1]\tdoc[1]\n",
                   "line 1: found the column 'doc[1]', expected each input once");
    assert_refused("question\n", "line 1: found no column of this name, expected doc[1]");
    assert_refused("a-name-that-is-longer-than-forty-bytes-in-all\n",
                   "line 1: found the column 'a-name-that-is-longer-than-forty-bytes-i'..., "
                   "expected the name of an input");
    assert_false(parse(&rows, zero, sizeof zero - 1));
    assert_string_equal("line 1: found the column 'doc[1]?x', expected the name of an input",
                        fault);
}

static void test_parse_refuses_rows_of_another_width(void **state)
{
    assert_refused("question\tdoc[1]\nwhy\n",
                   "line 2: found fewer cells, expected one for each column");
    assert_refused("question\tdoc[1]\nwhy\tbees\tand\n",
                   "line 2: found more cells, expected one for each column");
    assert_refused("question\tdoc[1]\nwhy\\x\tbees\n",
                   "line 2: found a backslash, expected \\t, \\n, \\r or \\\\");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_columns_in_any_order),
        cmocka_unit_test(test_parse_refuses_a_first_line_that_says_nothing),
        cmocka_unit_test(test_parse_refuses_columns_that_are_not_the_inputs),
        cmocka_unit_test(test_parse_refuses_rows_of_another_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
