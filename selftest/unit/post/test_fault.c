/* SPDX-License-Identifier: MIT */
/*
 * Goal: every word that differs is reported, faults are counted without bound but kept up to one,
 * and the wrong bit is named.
 * Method: small arrays of words.
 */
#include "selftest/unit/test.h"

#include "selftest/post/fault.h"

static void test_differ_finds_each_word(void **state)
{
    (void)state;
    static const uint64_t places[] = {0, 17, 18, 39};
    uint64_t a[40] = {0}, b[40] = {0};
    struct post_pair pair = {.found = a, .expected = b, .count = 40};
    assert_false(post_pair_differs(&pair));
    a[0] = a[17] = 3;
    b[18] = b[39] = 1;
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(post_pair_differs(&pair));
        assert_int_equal(post_pair_at(&pair), places[i]);
        assert_int_equal(pair.read, a[places[i]]);
    }
    assert_false(post_pair_differs(&pair));
}

static void test_faults_beyond_the_kept_are_counted(void **state)
{
    (void)state;
    struct post_faults faults = {.count = 0}, more = {.count = 0};
    uint64_t word = 0, expected = 1;
    for (uint32_t i = 0; i < POST_FAULTS_KEPT + 3; i++) {
        struct post_pair pair = {.found = &word, .expected = &expected, .count = 1};
        word = expected ^ UINT64_C(1) << (i + 40);
        assert_true(post_pair_differs(&pair));
        post_fault_word(&faults, &pair, "place %u", i);
    }
    assert_int_equal(faults.count, POST_FAULTS_KEPT + 3);
    assert_string_equal(faults.kept[POST_FAULTS_KEPT - 1].where, "place 7");
    assert_ptr_equal(faults.kept[2].word, &word);
    assert_true(faults.kept[2].expected == expected);
    assert_true(faults.kept[2].found == (expected ^ UINT64_C(1) << 42));
    assert_int_equal(post_fault_bit(&faults.kept[2]), 42);
    post_fault_say(&more, "a sentence");
    post_faults_add(&more, &faults);
    assert_int_equal(more.count, POST_FAULTS_KEPT + 4);
    assert_null(more.kept[0].word);
    assert_string_equal(more.kept[1].where, "place 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differ_finds_each_word),
        cmocka_unit_test(test_faults_beyond_the_kept_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
