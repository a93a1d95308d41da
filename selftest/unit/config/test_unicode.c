/* SPDX-License-Identifier: MIT */
/*
 * Goal: exactly the well-formed UTF-8 is decoded, and code points have the classes of Unicode 15.0.
 * Method: every code point there and back; every pair of leading bytes against the standard's
 * table; known members of each class, and how many there are of each.
 */
#include "selftest/unit/test.h"

#include "config/vocab/unicode.h"

static uint32_t write_utf8(uint32_t code, uint8_t *bytes)
{
    if (code < 0x80) {
        bytes[0] = (uint8_t)code;
        return 1;
    }
    uint32_t count = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (uint32_t i = count - 1; i > 0; i--) {
        bytes[i] = (uint8_t)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    bytes[0] = (uint8_t)((0xf00u >> count) | code);
    return count;
}

static void test_decode_every_code_point_comes_back(void **state)
{
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        uint8_t bytes[4];
        uint32_t got = 0, count = write_utf8(code, bytes);
        uint32_t length = unicode_decode(bytes, count, &got);
        bool surrogate = code >= 0xd800 && code <= 0xdfff;
        assert_int_equal(got, surrogate ? UNICODE_INVALID : code);
        assert_int_equal(length, surrogate ? 1 : count);
        assert_int_equal(unicode_is_valid(bytes, count), !surrogate);
        if (count > 1) {            /* cut short */
            assert_int_equal(unicode_decode(bytes, count - 1, &got), 1);
            assert_int_equal(got, UNICODE_INVALID);
        }
    }
}

/* Table 3-7 of the standard: which second bytes a leading byte allows. */
static bool pair_is_well_formed(uint32_t lead, uint32_t second)
{
    uint32_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint32_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    return lead >= 0xc2 && lead <= 0xf4 && second >= low && second <= high;
}

static void test_decode_every_pair_follows_the_standard(void **state)
{
    for (uint32_t lead = 0x80; lead < 0x100; lead++) {
        for (uint32_t second = 0; second < 0x100; second++) {
            const uint8_t bytes[4] = {(uint8_t)lead, (uint8_t)second, 0x80, 0x80};
            uint32_t code = 0, length = unicode_decode(bytes, 4, &code);
            bool good = pair_is_well_formed(lead, second);
            assert_int_equal(code != UNICODE_INVALID, good);
            assert_int_equal(length, !good ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4);
        }
    }
}

static void test_class_of_known_code_points(void **state)
{
    static const struct {
        uint32_t code;
        enum unicode_class class;
    } rows[] = {
        {'a', UNICODE_LETTER},             {'Z', UNICODE_LETTER},
        {'0', UNICODE_NUMBER},             {'9', UNICODE_NUMBER},
        {' ', UNICODE_SPACE},              {'\t', UNICODE_SPACE},
        {'\r', UNICODE_SPACE},             {0x1c, UNICODE_OTHER},
        {'@', UNICODE_PUNCTUATION},        {'[', UNICODE_PUNCTUATION},
        {'`', UNICODE_OTHER},              {'{', UNICODE_PUNCTUATION},
        {'/', UNICODE_PUNCTUATION},        {'$', UNICODE_OTHER},
        {0x85, UNICODE_SPACE},             {0xa0, UNICODE_SPACE},
        {0xaa, UNICODE_LETTER},            {0xbd, UNICODE_NUMBER},
        {0x301, UNICODE_OTHER},            {0x660, UNICODE_NUMBER},
        {0x2028, UNICODE_SPACE},           {0x200b, UNICODE_OTHER},
        {0x2019, UNICODE_PUNCTUATION},     {0x3000, UNICODE_SPACE},
        {0x3007, UNICODE_NUMBER},          {0x4e2d, UNICODE_LETTER},
        {0xd800, UNICODE_OTHER},           {0x1f600, UNICODE_OTHER},
        {0x2ebe0, UNICODE_LETTER},         {0x2ebf0, UNICODE_OTHER},
        {0x10ffff, UNICODE_OTHER},         {UNICODE_INVALID, UNICODE_OTHER},
    };
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(unicode_class(rows[i].code), rows[i].class);
    }
}

static void test_class_counts_are_those_of_unicode_15_0(void **state)
{
    uint32_t counts[UNICODE_SPACE + 1] = {0};
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        counts[unicode_class(code)]++;
    }
    assert_int_equal(counts[UNICODE_LETTER], 136104);
    assert_int_equal(counts[UNICODE_NUMBER], 1831);
    assert_int_equal(counts[UNICODE_PUNCTUATION], 842);
    assert_int_equal(counts[UNICODE_SPACE], 25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_every_code_point_comes_back),
        cmocka_unit_test(test_decode_every_pair_follows_the_standard),
        cmocka_unit_test(test_class_of_known_code_points),
        cmocka_unit_test(test_class_counts_are_those_of_unicode_15_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
