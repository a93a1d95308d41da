/* SPDX-License-Identifier: MIT */
/*
 * Goal: a list of networks holds the addresses that it says, and no others; any other text is
 * refused.
 */
#include "selftest/unit/test.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "config/address.h"

static struct config_peers peers;

static bool holds(const char *host)
{
    uint8_t ip[16] = {[10] = 0xff, [11] = 0xff};
    bool is_ipv6 = strchr(host, ':') != NULL;
    assert_int_equal(inet_pton(is_ipv6 ? AF_INET6 : AF_INET, host, is_ipv6 ? ip : ip + 12), 1);
    return config_peers_hold(&peers, ip);
}

static void test_an_empty_list_holds_no_address(void **state)
{
    assert_status(STATUS_OK, config_peers_parse("", &peers));
    assert_false(holds("127.0.0.1"));
    assert_false(holds("::"));
}

static void test_addresses_and_networks_hold_their_own(void **state)
{
    assert_status(STATUS_OK, config_peers_parse("10.0.0.5,10.1.0.0/16,  fd00::/9, ::1", &peers));
    assert_int_equal(peers.count, 4);
    static const char *const in[] = {"10.0.0.5", "10.1.0.0", "10.1.255.255", "fd00::",
                                     "fd7f:ffff::1", "::1", "::ffff:10.0.0.5"};
    static const char *const out[] = {"10.0.0.4", "10.0.0.6", "10.2.0.0", "10.0.255.255",
                                      "fd80::", "fc80::", "::2", "::10.0.0.5"};
    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++) {
        assert_true(holds(in[i]));
    }
    for (size_t i = 0; i < sizeof out / sizeof out[0]; i++) {
        assert_false(holds(out[i]));
    }
}

static void test_every_length_of_a_network(void **state)
{
    for (uint32_t bits = 0; bits <= 32; bits++) {
        uint32_t base = bits == 0 ? 0 : 0xc0a85a3cu & (0xffffffffu << (32 - bits));
        char text[32];
        snprintf(text, sizeof text, "%u.%u.%u.%u/%u", base >> 24, base >> 16 & 255,
                 base >> 8 & 255, base & 255, bits);
        assert_status(STATUS_OK, config_peers_parse(text, &peers));
        assert_true(holds("192.168.90.60"));
        uint32_t other = bits == 0 ? 0 : 0xc0a85a3cu ^ 1u << (32 - bits);
        snprintf(text, sizeof text, "%u.%u.%u.%u", other >> 24, other >> 16 & 255,
                 other >> 8 & 255, other & 255);
        assert_int_equal(holds(text), bits == 0);
    }
    assert_false(holds("::"));
}

static void test_anything_else_is_refused(void **state)
{
    static const char *const bad[] = {
        " ", ",", "10.0.0.5,", ",10.0.0.5", "10.0.0.5;10.0.0.6", "10.0.0", "10.0.0.256", "host",
        "10.0.0.5:80", "[::1]", "10.0.0.5/", "10.0.0.0/33", "::/129", "10.0.0.0/a", "10.0.0.0/-1",
        "10.0.0.0/0008", "10.0.0.1/24", "fd00::1/64", "10.0.0.5 ", "10.0.0.5 10.0.0.6", "/8",
        "1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,"
        "1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1",
        "0000:0000:0000:0000:0000:0000:0000:0000:0000:0001"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_status(STATUS_BAD_ADDRESS, config_peers_parse(bad[i], &peers));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_list_holds_no_address),
        cmocka_unit_test(test_addresses_and_networks_hold_their_own),
        cmocka_unit_test(test_every_length_of_a_network),
        cmocka_unit_test(test_anything_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
