/* SPDX-License-Identifier: MIT */
/*
 * Goal: no text makes the reader of JSON take more than was foreseen, so that it meets no refusal;
 * it is refused as a whole instead.
 * Method: texts of every shape that takes much, with the allocator of the reader counted.
 */
#include "selftest/unit/test.h"

#include <stdio.h>

#include "tools/door/buffer.h"
#include "tools/door/parse.h"

#define ALLOWANCE  (64u << 20)
#define TEXT_BYTES 60000

static uint64_t most;                   /* that was taken at once */
static char text[TEXT_BYTES + 256];

static void *take_and_note(size_t bytes)
{
    void *piece = memory_take(bytes);
    most = memory_taken_bytes() > most ? memory_taken_bytes() : most;
    return piece;
}

/* `unit` as often as there is room, between two other texts. A number in it counts up. */
static size_t repeat(const char *before, const char *unit, const char *after)
{
    size_t used = (size_t)snprintf(text, sizeof text, "%s", before);
    for (uint32_t i = 0; used < TEXT_BYTES; i++) {
        char piece[64];
        int bytes = snprintf(piece, sizeof piece, unit, i);
        memcpy(text + used, piece, (size_t)bytes);
        used += (size_t)bytes;
    }
    return used + (size_t)snprintf(text + used, sizeof text - used, "%s", after);
}

static void assert_bounded(size_t count, enum parse_result expected)
{
    json_error_t error;
    json_t *json;
    most = 0;
    json_set_alloc_funcs(take_and_note, memory_give);
    assert_int_equal(parse_json(text, count, &json, &error), expected);
    assert_true(most <= parse_bytes_max(text, count));
    json_decref(json);
    assert_int_equal(memory_taken_bytes(), 0);
}

static void test_no_shape_takes_more_than_was_foreseen(void **state)
{
    memory_begin(ALLOWANCE);
    assert_bounded(repeat("[[]", ",[]", "]"), PARSE_OK);
    assert_bounded(repeat("[{}", ",{}", "]"), PARSE_OK);
    assert_bounded(repeat("[{\"a\":{}}", ",{\"a\":{}}", "]"), PARSE_OK);
    assert_bounded(repeat("[\"\"", ",\"\"", "]"), PARSE_OK);
    assert_bounded(repeat("[0", ",%u", "]"), PARSE_OK);
    assert_bounded(repeat("[0", ",1e9", "]"), PARSE_OK);
    assert_bounded(repeat("{\"x\":0", ",\"%u\":0", "}"), PARSE_OK);
    assert_bounded(repeat("{\"x\":0", ",\"%u\":\"\"", "}"), PARSE_OK);
    assert_bounded(repeat("{\"x\":0", ",\"%u\":[{}]", "}"), PARSE_OK);
    assert_bounded(repeat("[\"", "x", "\"]"), PARSE_OK);
    assert_bounded(repeat("[\"", "\\u00e9\\\"", "\"]"), PARSE_OK);
    assert_bounded(repeat("[\"", "\\\\", "\"]"), PARSE_OK);
    assert_bounded(repeat("", " ", "[]"), PARSE_OK);
    assert_bounded(repeat("", "[", ""), PARSE_NOT_JSON);
    assert_bounded(repeat("", "{\"a\":", ""), PARSE_NOT_JSON);
    assert_bounded(repeat("[1", "0", "]"), PARSE_RANGE);
    assert_bounded(repeat("[\"", "x", ""), PARSE_NOT_JSON);
    assert_bounded(repeat("[\"\\", "x\"", ""), PARSE_NOT_JSON);
}

static void test_without_room_nothing_is_begun(void **state)
{
    json_error_t error;
    json_t *json;
    size_t count = repeat("[\"", "x", "\"]");
    memory_begin(parse_bytes_max(text, count) + 100);
    void *others = memory_take(1000);
    assert_int_equal(parse_json(text, count, &json, &error), PARSE_NO_ROOM);
    memory_give(others);
    assert_int_equal(parse_json(text, count, &json, &error), PARSE_OK);
    json_decref(json);
    memory_begin(count);
    assert_int_equal(parse_json(text, count, &json, &error), PARSE_TOO_LARGE);
    assert_int_equal(memory_taken_bytes(), 0);
}

static void assert_refused(const char *given, size_t count)
{
    json_error_t error;
    json_t *json;
    assert_int_equal(parse_json(given, count, &json, &error), PARSE_NOT_JSON);
    assert_null(json);
}

static void test_what_is_no_json_is_refused(void **state)
{
    memory_begin(ALLOWANCE);
    assert_refused("", 0);
    assert_refused("{\"a\":1,\"a\":2}", 13);
    assert_refused("[\"\xff\"]", 5);
    assert_refused("[\"\0\"]", 5);
    assert_refused("[NaN]", 5);
    assert_refused("[] []", 5);
}

static void assert_range(const char *given, bool fits)
{
    json_error_t error;
    json_t *json;
    assert_int_equal(parse_json(given, strlen(given), &json, &error),
                     fits ? PARSE_OK : PARSE_RANGE);
    json_decref(json);
}

static void test_numbers_without_room_are_told_apart(void **state)
{
    memory_begin(ALLOWANCE);
    assert_range("[-9223372036854775808,9223372036854775807,1.7e308]", true);
    assert_range("[9223372036854775808]", false);
    assert_range("{\"a\":[-9223372036854775809]}", false);
    assert_range("[99999999999999999999]", false);
    assert_range("[1e999]", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_shape_takes_more_than_was_foreseen),
        cmocka_unit_test(test_without_room_nothing_is_begun),
        cmocka_unit_test(test_what_is_no_json_is_refused),
        cmocka_unit_test(test_numbers_without_room_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
