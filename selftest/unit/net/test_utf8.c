/* SPDX-License-Identifier: MIT */
/*
 * Goal: net/utf8.h follows table 3-7 of the Unicode standard.
 * Method: all pairs of bytes against the table written a second time; longer forms by example.
 */
#include "selftest/unit/test.h"

#include "net/utf8.h"

static void test_utf8_sequence_every_pair_follows_the_table(void **state)
{
    for (uint32_t a = 0; a < 256; a++) {
        for (uint32_t b = 0; b < 256; b++) {
            const char text[2] = {(char)a, (char)b};
            bool tail = b >= 0x80 && b < 0xC0;
            int32_t expected = a < 0x80 ? 1 : -1;
            if (a >= 0xC2 && a < 0xE0) {
                expected = tail ? 2 : -1;
            } else if (a >= 0xE0 && a < 0xF5) {
                bool good = tail && !(a == 0xE0 && b < 0xA0) && !(a == 0xED && b > 0x9F) &&
                            !(a == 0xF0 && b < 0x90) && !(a == 0xF4 && b > 0x8F);
                expected = good ? 0 : -1;
            }
            assert_int_equal(utf8_sequence(text, 2), expected);
        }
    }
    assert_int_equal(utf8_sequence("\xF0\x9F\x98\x80", 4), 4);
    assert_int_equal(utf8_sequence("\xF0\x9F\x98", 3), 0);
    assert_int_equal(utf8_sequence("\xF0\x9F\x98x", 4), -3);
    assert_int_equal(utf8_sequence("\xE2\x82x", 3), -2);
}

static void test_valid_text_is_whole_characters_only(void **state)
{
    assert_true(utf8_is_valid("", 0));
    assert_true(utf8_is_valid("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 10));
    assert_false(utf8_is_valid("a\xC3", 2));
    assert_false(utf8_is_valid("\xED\xA0\x80", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_sequence_every_pair_follows_the_table),
        cmocka_unit_test(test_valid_text_is_whole_characters_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
