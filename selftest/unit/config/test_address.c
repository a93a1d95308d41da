/* SPDX-License-Identifier: MIT */
/*
 * Goal: exactly the two written forms of a numeric address, and what counts as loopback.
 * Method: tables of texts.
 */
#include "selftest/unit/test.h"

#include "config/address.h"

static void test_parse_good_addresses(void **state)
{
    (void)state;
    static const struct { const char *text; uint16_t port; bool loopback; } cases[] = {
        {"127.0.0.1:7411", 7411, true}, {"127.255.0.9:0", 0, true}, {"0.0.0.0:1", 1, false},
        {"192.168.1.2:65535", 65535, false}, {"[::1]:7411", 7411, true}, {"[::]:7411", 7411, false},
        {"[0:0:0:0:0:0:0:1]:5", 5, true}, {"[fe80::1]:5", 5, false},
        {"[::ffff:127.0.0.1]:5", 5, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config_address address = {0};
        assert_status(STATUS_OK, config_address_parse(cases[i].text, &address));
        assert_int_equal(address.port, cases[i].port);
        assert_int_equal(config_address_is_loopback(&address), cases[i].loopback);
        assert_int_equal(address.family, cases[i].text[0] == '[');
    }
}

static void test_parse_bad_addresses_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:1x",
        "127.0.0.1:000001", "127.0.0.1: 1", " 127.0.0.1:1", "127.1:1", "127.0.0.01:1",
        "0x7f.0.0.1:1", "256.0.0.1:1", "127.0.0.1.1:1", "localhost:1", "*:1", "::1:7411",
        "[::1]", "[::1]:",
        "[::1]x:1", "[::1:1", "::1]:1", "[]:1", "[::1%lo]:1", "[127.0.0.1]:1", "127.0.0.1:1:1",
        "[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa]:1", "7411"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct config_address address = {.port = 9};
        assert_status(STATUS_BAD_ADDRESS, config_address_parse(bad[i], &address));
        assert_int_equal(address.port, 9);
    }
}

static void test_equal_by_value(void **state)
{
    (void)state;
    struct config_address a = {0}, b = {0};
    assert_status(STATUS_OK, config_address_parse("[::1]:7", &a));
    assert_status(STATUS_OK, config_address_parse("[0:0::1]:7", &b));
    assert_true(config_address_is_equal(&a, &b));
    assert_status(STATUS_OK, config_address_parse("[::1]:8", &b));
    assert_false(config_address_is_equal(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_good_addresses),
        cmocka_unit_test(test_parse_bad_addresses_are_refused),
        cmocka_unit_test(test_equal_by_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
