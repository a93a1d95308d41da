/* SPDX-License-Identifier: MIT */
/*
 * Goal: a digest differs when any bit of the contents differs.
 * Method: published values; every bit of a short text flipped, alone and with another one.
 */
#include "selftest/unit/test.h"

#include "config/base/fnv.h"

static void test_add_gives_the_published_digests(void **state)
{
    assert_true(fnv_add(FNV_START, "", 0) == FNV_START);
    assert_true(fnv_add(FNV_START, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(fnv_add(FNV_START, "foobar", 6) == UINT64_C(0x85944171f73967e8));
}

static void test_add_words_sees_every_bit_and_every_pair_of_bits(void **state)
{
    uint8_t bytes[27] = "three words, and some more";    /* not a whole number of words */
    uint64_t whole = fnv_add_words(FNV_START, bytes, sizeof bytes);
    for (uint32_t one = 0; one < 8 * sizeof bytes; one++) {
        bytes[one / 8] ^= (uint8_t)(1u << one % 8);
        assert_true(fnv_add_words(FNV_START, bytes, sizeof bytes) != whole);
        for (uint32_t two = one + 1; two < 8 * sizeof bytes; two++) {
            bytes[two / 8] ^= (uint8_t)(1u << two % 8);
            assert_true(fnv_add_words(FNV_START, bytes, sizeof bytes) != whole);
            bytes[two / 8] ^= (uint8_t)(1u << two % 8);
        }
        bytes[one / 8] ^= (uint8_t)(1u << one % 8);
    }
}

static void test_add_words_goes_on_after_a_whole_number_of_words(void **state)
{
    static const uint8_t bytes[27] = "three words, and some more";
    uint64_t parts = fnv_add_words(FNV_START, bytes, 16);
    assert_true(fnv_add_words(parts, bytes + 16, sizeof bytes - 16) ==
                fnv_add_words(FNV_START, bytes, sizeof bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_gives_the_published_digests),
        cmocka_unit_test(test_add_words_sees_every_bit_and_every_pair_of_bits),
        cmocka_unit_test(test_add_words_goes_on_after_a_whole_number_of_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
