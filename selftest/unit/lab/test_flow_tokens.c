/* SPDX-License-Identifier: MIT */
/*
 * Goal: tokens without words: what is equal in a flow file or a row is equal as tokens, and nothing
 * else is.
 * Method: texts as net hands them to the encoder.
 */
#include "selftest/unit/test.h"

#include <string.h>

#include "tools/lab/lab.h"

#define VOCAB 5000
#define MAX   64

static struct lab_flow flow = {.vocab_tokens = VOCAB, .eos_id = 2};

static uint32_t encode(const struct workflow_text *parts, uint32_t count, uint32_t *tokens,
                       uint32_t max)
{
    const struct workflow_literal literal = {.parts = parts, .parts_count = count};
    return lab_flow_encode(&flow, &literal, tokens, max);
}

static struct workflow_text text(const char *words, bool special)
{
    return (struct workflow_text){words, (uint32_t)strlen(words), special};
}

static void test_encode_of_a_literal_gives_a_token_for_each_byte(void **state)
{
    (void)state;
    uint32_t tokens[MAX];
    const struct workflow_text parts[] = {text("ab", false), text("", false), text("c:3", false)};
    assert_int_equal(encode(parts, 3, tokens, MAX), 5);
    assert_int_equal(tokens[0], 'a');
    assert_int_equal(tokens[4], '3');
}

static void test_encode_of_markers_gives_tokens_by_name_and_position(void **state)
{
    (void)state;
    uint32_t a[MAX], b[MAX];
    const struct workflow_text both = text("role:5;sys:7;", true), one = text("role:9;", true);
    assert_int_equal(encode(&both, 1, a, MAX), 12);
    assert_int_equal(encode(&one, 1, b, MAX), 9);
    assert_memory_equal(a, b, 5 * sizeof *a);
    assert_int_not_equal(a[5], b[5]);
    for (uint32_t i = 0; i < 12; i++) {
        assert_in_range(a[i], 1024, VOCAB - 1);
    }
}

/* Users' texts are never special, so a cell says so with its first byte. */
static void test_encode_of_a_cell_is_the_same_text_as_its_name(void **state)
{
    (void)state;
    uint32_t cell[MAX], marker[MAX];
    const struct workflow_text as_cell = text("\1report:20", false),
                               as_marker = text("report:20;", true);
    assert_int_equal(encode(&as_cell, 1, cell, MAX), 20);
    assert_int_equal(encode(&as_marker, 1, marker, MAX), 20);
    assert_memory_equal(cell, marker, 20 * sizeof *cell);
}

static void test_encode_of_more_than_fits_is_refused(void **state)
{
    (void)state;
    uint32_t tokens[MAX];
    const struct workflow_text parts[] = {text("\1a:60", false), text("12345", false)};
    assert_int_equal(encode(parts, 1, tokens, 59), UINT32_MAX);
    assert_int_equal(encode(parts, 2, tokens, 64), UINT32_MAX);
    assert_int_equal(encode(parts, 1, tokens, 60), 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode_of_a_literal_gives_a_token_for_each_byte),
        cmocka_unit_test(test_encode_of_markers_gives_tokens_by_name_and_position),
        cmocka_unit_test(test_encode_of_a_cell_is_the_same_text_as_its_name),
        cmocka_unit_test(test_encode_of_more_than_fits_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
