/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the kernel's command line says of the network is taken whole, or refused. Method: the
 * kernel's own form, complete, with gaps, and broken.
 */
#include "selftest/unit/test.h"

#include <arpa/inet.h>

#include "appliance/boot/init/network.h"

void heap_seal(void) {}

static struct network_address address;

static void assert_ip(struct in_addr ip, const char *text)
{
    char found[INET_ADDRSTRLEN];
    assert_string_equal(inet_ntop(AF_INET, &ip, found, sizeof found), text);
}

static void test_parse_of_all_fields_takes_four(void **state)
{
    assert_true(network_parse("10.1.2.3:10.9.9.9:10.1.0.1:255.255.0.0:box:ens3:off", &address));
    assert_ip(address.address, "10.1.2.3");
    assert_ip(address.gateway, "10.1.0.1");
    assert_ip(address.netmask, "255.255.0.0");
    assert_string_equal(address.device, "ens3");
}

static void test_parse_of_gaps_takes_what_is_usual(void **state)
{
    const char *const forms[] = {"10.1.2.3", "10.1.2.3:", "10.1.2.3::::::",
                                 "10.1.2.3:::::eth0:none"};
    for (uint32_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        assert_true(network_parse(forms[i], &address));
        assert_ip(address.address, "10.1.2.3");
        assert_int_equal(address.gateway.s_addr, 0);
        assert_ip(address.netmask, "255.255.255.0");
        assert_string_equal(address.device, "eth0");
    }
}

static void test_parse_of_anything_else_is_refused(void **state)
{
    const char *const forms[] = {
        "", ":", "dhcp", "on", "any", ":::::eth0:dhcp", "10.1.2.3:::::eth0:dhcp", "10.1.2",
        "10.1.2.256", "10.1.2.3/24", "10.1.2.3::gateway", "10.1.2.3::10.1.2.1:24", "fd00::1",
        "10.1.2.3:::::a-name-that-is-too-long:off", "10.1.2.3:::::::",
        "10.1.2.3:::::eth0:off:9.9.9.9",
        "10.1.2.3::::a-name-of-a-host-that-is-longer-than-any"};
    for (uint32_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (network_parse(forms[i], &address)) {
            fail_msg("taken: %s", forms[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_of_all_fields_takes_four),
        cmocka_unit_test(test_parse_of_gaps_takes_what_is_usual),
        cmocka_unit_test(test_parse_of_anything_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
