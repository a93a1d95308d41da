/* SPDX-License-Identifier: MIT */
/*
 * Goal: each client has a line, with its address and the affinity key that it named, and whatever
 * bytes the key has do no harm to the operator's terminal.
 * Method: the port over sockets in memory; the connections are set by hand.
 */
#include "selftest/unit/appliance/textport_rig.h"

static void connect_client(uint32_t slot, const char *name)
{
    struct net_connection *connection = &connections[slot];
    connection->state = NET_OPEN;
    connection->peer_kind = WORLD_PEER_REMOTE;
    connection->active_us = now;
    connection->key = NET_KEY_NONE;
    connection->ip[10] = connection->ip[11] = 0xff;
    memcpy(connection->ip + 12, "\x0a\x00\x00\xfe", 4);
    memcpy(connection->name, name, strlen(name));
}

static void test_connections_show_state_address_and_key(void **state)
{
    (void)state;
    connect_client(0, "session-17");
    connections[0].calls_count = 3;
    connect_client(2, "");
    connections[2].state = NET_GREETING;
    connections[2].peer_kind = WORLD_PEER_LOCAL;
    connections[2].domain = (UINT64_C(1) << 32) | 1000;
    now += 5000000;
    const char *text = ask(connect_peer(), "connections\n");
    assert_starts(text, "   slot state      calls flows    idle_s address        ");
    assert_contains(text, "  client           affinity\n      0 open           3     0         5 "
                          "10.0.0.254                              -                session-17\n"
                          "      2 greeting       0     0         5 unix          ");
    assert_ends(text, " user:1000        -\nend\n");
}

static void test_connections_from_ipv6_addresses(void **state)
{
    (void)state;
    connect_client(0, "k");
    memcpy(connections[0].ip, "\xfd\x00\0\0\0\x1a\0\0\0\0\0\0\xff\xff\0\x01", 16);
    assert_contains(ask(connect_peer(), "connections\n"), " fd00:0:1a:0:0:0:ffff:1 ");
    memset(connections[0].ip, 0xff, 16);
    assert_contains(ask(connect_peer(), "connections\n"),
                    " ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff -                k\n");
}

static void test_connections_with_hostile_keys_are_lines_of_plain_text(void **state)
{
    char all[WIRE_NAME_BYTES];
    (void)state;
    for (uint32_t first = 1; first < 256; first++) {
        for (uint32_t i = 0; i < WIRE_NAME_BYTES; i++) {
            all[i] = (char)(1 + (first + i) % 255);
        }
        connect_client(1, "");
        memcpy(connections[1].name, all, sizeof all);      /* not even terminated */
        const char *text = ask(connect_peer(), "connections\n");
        const char *second = strchr(text, '\n') + 1;
        assert_true(strchr(second, '\n') - second <= 184);
        assert_string_equal(strchr(second, '\n'), "\nend\n");
        for (const char *at = text; *at != '\0'; at++) {
            assert_true(*at == '\n' || (*at >= ' ' && *at <= '~'));
        }
        set_up(state);
    }
    connect_client(0, "a b\x1b[2J\nend\n\xe2\x80\xae.");
    assert_contains(ask(connect_peer(), "connections\n"), " a.b.[2J.end.....\nend\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_connections_show_state_address_and_key, set_up),
        cmocka_unit_test_setup(test_connections_from_ipv6_addresses, set_up),
        cmocka_unit_test_setup(test_connections_with_hostile_keys_are_lines_of_plain_text, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
