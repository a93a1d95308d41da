/* SPDX-License-Identifier: MIT */
/*
 * Goal: wire codes are unique, and each gives back the status that it came from.
 * Method: every status.
 */
#include "selftest/unit/test.h"

static void test_wire_codes_are_unique_and_reversible(void **state)
{
    for (uint32_t i = 1; i < STATUS_COUNT; i++) {
        uint16_t code = status_wire((enum status)i);
        assert_true(strlen(status_text((enum status)i)) > 0);
        assert_true(strlen(status_text((enum status)i)) < 96);
        if (code != 0) {
            assert_int_equal(status_from_wire(code), i);
        }
    }
    assert_int_equal(status_from_wire(0), STATUS_OK);
    assert_int_equal(status_from_wire(60000), STATUS_DEVICE_FAILED);
    assert_int_equal(status_class(STATUS_BAD_TOKEN), STATUS_CLASS_BAD);
    expect_assert_failure(status_text(STATUS_COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire_codes_are_unique_and_reversible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
