/* SPDX-License-Identifier: MIT */
/*
 * Goal: the door takes no more than its allowance, whatever is refused stays as it was, and all
 * that was taken is counted back.
 * Method: allowances of a few bytes; sizes at the edges of numbers.
 */
#include "selftest/unit/test.h"

#include "tools/door/buffer.h"

static void test_add_grows_and_ends_with_zero(void **state)
{
    struct buffer text = {0};
    memory_begin(1 << 20);
    for (uint32_t i = 0; i < 10000; i++) {
        assert_true(buffer_add(&text, "0123456789", 10));
    }
    assert_int_equal(text.count, 100000);
    assert_int_equal(text.at[text.count], 0);
    assert_memory_equal(text.at + 99990, "0123456789", 11);
    buffer_drop(&text, 99995);
    assert_string_equal(text.at, "56789");
    buffer_free(&text);
    assert_int_equal(memory_taken_bytes(), 0);
}

static void test_add_without_room_leaves_what_there_is(void **state)
{
    struct buffer text = {0};
    memory_begin(1000);
    assert_true(buffer_add_text(&text, "first"));
    uint64_t taken = memory_taken_bytes(), refusals = memory_refusals();
    static const char more[2000];
    assert_false(buffer_add(&text, more, sizeof more));
    assert_false(buffer_add(&text, more, SIZE_MAX / 2 + 2));
    assert_string_equal(text.at, "first");
    assert_int_equal(memory_taken_bytes(), taken);
    assert_int_equal(memory_refusals(), refusals + 2);
    buffer_free(&text);
    assert_int_equal(memory_taken_bytes(), 0);
}

static void test_take_refuses_beyond_the_allowance_and_serves_again(void **state)
{
    memory_begin(4096);
    void *most = memory_take(4000);
    assert_non_null(most);
    assert_null(memory_take(200));
    assert_null(memory_take(SIZE_MAX));
    memory_give(most);
    memory_give(NULL);
    most = memory_take(4000);
    assert_non_null(most);
    memory_give(most);
    assert_int_equal(memory_taken_bytes(), 0);
}

static void test_open_memory_refuses_nothing_until_it_is_closed(void **state)
{
    memory_begin(4096);
    assert_false(memory_open(5000));
    assert_null(memory_take(5000));
    assert_true(memory_open(4000));
    void *piece = memory_take(5000);
    assert_non_null(piece);
    memory_close();
    assert_null(memory_take(1));
    memory_give(piece);
    assert_int_equal(memory_taken_bytes(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_grows_and_ends_with_zero),
        cmocka_unit_test(test_add_without_room_leaves_what_there_is),
        cmocka_unit_test(test_take_refuses_beyond_the_allowance_and_serves_again),
        cmocka_unit_test(test_open_memory_refuses_nothing_until_it_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
