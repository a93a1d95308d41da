/* SPDX-License-Identifier: MIT */
/*
 * Goal: numbers are formatted as by hand, and nothing is written beyond the buffer.
 * Method: small buffers with a guard byte after them.
 */
#include "selftest/unit/test.h"

#include "config/base/text.h"

static char bytes[64];
static struct text text;

static void begin(uint32_t max)
{
    assert_true(max < sizeof bytes);
    memset(bytes, '#', sizeof bytes);
    text_init(&text, bytes, max);
}

static void assert_is(const char *expected)
{
    assert_int_equal(text.length, strlen(expected));
    assert_memory_equal(bytes, expected, text.length);
    assert_int_equal(bytes[text.max], '#');
}

static void test_add_numbers(void **state)
{
    (void)state;
    begin(60);
    text_add_u64(&text, 0);
    text_add(&text, " ");
    text_add_u64(&text, UINT64_MAX);
    text_add(&text, " ");
    text_add_u64_padded(&text, 42, 5, ' ');
    text_add_u64_padded(&text, 12345, 3, '0');
    assert_is("0 18446744073709551615    4212345");
}

static void test_add_wall_clock(void **state)
{
    static const struct { uint64_t seconds; const char *text; } cases[] = {
        {0, "1970-01-01T00:00:00.999Z"}, {951782400, "2000-02-29T00:00:00.999Z"},
        {951868799, "2000-02-29T23:59:59.999Z"}, {951868800, "2000-03-01T00:00:00.999Z"},
        {1735689599, "2024-12-31T23:59:59.999Z"}, {1795521787, "2026-11-24T12:03:07.999Z"},
        {4107542400, "2100-03-01T00:00:00.999Z"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(60);
        text_add_wall(&text, cases[i].seconds * 1000000 + 999999);
        assert_is(cases[i].text);
    }
}

static void test_add_fixed(void **state)
{
    (void)state;
    begin(60);
    text_add_fixed(&text, 12345, 3);
    text_add(&text, " ");
    text_add_fixed(&text, 7, 3);
    text_add(&text, " ");
    text_add_fixed(&text, 7, 0);
    assert_is("12.345 0.007 7");
    expect_assert_failure(text_add_fixed(&text, 7, 10));
}

static void test_add_hex_and_padding(void **state)
{
    (void)state;
    begin(60);
    text_add_hex(&text, (const uint8_t[]){0x00, 0xab, 0xf1}, 3);
    text_pad_to(&text, 0, 8);
    text_add(&text, "|");
    text_pad_to(&text, 0, 4);
    assert_is("00abf1  |");
}

static void test_add_without_room_leaves_the_piece_out(void **state)
{
    (void)state;
    begin(5);
    text_add(&text, "abc");
    text_add(&text, "def");
    assert_true(text.cut);
    assert_is("abc");
    text_add(&text, "de");
    text_add(&text, "");
    assert_is("abcde");
    text_pad_to(&text, 0, 60);
    assert_is("abcde");
    begin(0);
    text_add(&text, "a");
    assert_is("");
}

static void test_terminate_stays_inside(void **state)
{
    (void)state;
    begin(3);
    text_add(&text, "ab");
    text_terminate(&text);
    assert_string_equal(bytes, "ab");
    text_add(&text, "c");
    text_terminate(&text);
    assert_string_equal(bytes, "ab");
    assert_int_equal(bytes[3], '#');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_numbers),
        cmocka_unit_test(test_add_wall_clock),
        cmocka_unit_test(test_add_fixed),
        cmocka_unit_test(test_add_hex_and_padding),
        cmocka_unit_test(test_add_without_room_leaves_the_piece_out),
        cmocka_unit_test(test_terminate_stays_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
