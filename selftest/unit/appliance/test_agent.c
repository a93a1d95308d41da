/* SPDX-License-Identifier: MIT */
/*
 * Goal: a load balancer learns in one line how many new sessions a box should get, and a peer
 * beyond loopback learns that and health alone.
 * Method: the port over sockets in memory; its state is set by hand.
 */
#include "selftest/unit/appliance/textport_rig.h"

static const char *line(void)
{
    struct peer *peer = connect_peer();
    const char *text = ask(peer, "agent-check\n");
    assert_true(peer->closed);
    return text;
}

static void test_agent_share_is_free_calls_in_quarters_of_the_engines_that_serve(void **state)
{
    static const struct { uint32_t calls, open, engines, serving; const char *line; } cases[] = {
        {256, 0, 1, 1, "up 100%\n"},   {256, 63, 1, 1, "up 100%\n"},
        {256, 64, 1, 1, "up 75%\n"},   {256, 128, 1, 1, "up 50%\n"},
        {256, 192, 1, 1, "up 25%\n"},  {256, 255, 1, 1, "up 25%\n"},
        {256, 256, 1, 1, "up 1%\n"},   {256, 300, 1, 1, "up 1%\n"},
        {1, 0, 1, 1, "up 100%\n"},     {1, 1, 1, 1, "up 1%\n"},
        {1048576, 1048575, 1, 1, "up 25%\n"}, {256, 0, 4, 3, "up 75%\n"},
        {256, 192, 8, 1, "up 3%\n"},   {256, 0, 1, 0, "up 1%\n"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        calls.count = cases[i].calls;
        stats.calls_open = cases[i].open;
        health.engines_count = cases[i].engines;
        health.engines_serving = cases[i].serving;
        assert_string_equal(line(), cases[i].line);
    }
}

/* HAProxy 2.6 does not take `down#reason`: a blank comes first. */
static void test_agent_every_state_of_health(void **state)
{
    (void)state;
    health.reason = "thrashing";
    assert_string_equal(line(), "up 100% #thrashing\n");
    health.state = HEALTH_DEGRADED;
    health.reason = "engine silent";
    health.engines_serving = 0;
    assert_string_equal(line(), "up 1% #engine silent\n");
    health.state = HEALTH_DRAINING;
    health.reason = NULL;
    assert_string_equal(line(), "up 0% #draining\n");
    health.state = HEALTH_STARTING;
    health.reason = "loading model";
    assert_string_equal(line(), "down #loading model\n");
    health.state = HEALTH_FAILED;
    health.reason = NULL;
    assert_string_equal(line(), "down #failed\n");
}

static void test_agent_line_comes_in_any_case_and_alone(void **state)
{
    (void)state;
    assert_string_equal(ask(connect_peer(), " AGENT-Check \r\n"), "up 100%\n");
    assert_starts(ask(connect_peer(), "agent-check now\n"), "error ");
    struct peer *peer = connect_peer();
    assert_string_equal(ask(peer, "agent-check\nhealth\n"), "up 100%\n");
    assert_true(peer->closed);
}

static void come_from(struct peer *peer, const char *bytes)
{
    uint8_t ip[16] = {[10] = 0xff, [11] = 0xff};
    memcpy(ip + 12, bytes, 4);
    config_peer_from_ip(&peer->who, ip);
}

static void test_far_peers_are_not_heard_unless_they_are_listed(void **state)
{
    (void)state;
    struct peer *peer = connect_peer();
    come_from(peer, "\x0a\x00\x00\x05");
    assert_string_equal(ask(peer, "health\n"), "");
    assert_true(peer->closed);
    assert_int_equal(stats.text_refused, 1);
    assert_status(STATUS_OK, config_peers_parse("10.0.0.0/24", &askers));
    peer = connect_peer();
    come_from(peer, "\x0a\x00\x00\x05");
    assert_starts(ask(peer, "health\n"), "ready ");
    assert_string_equal(ask(peer, "agent-check\n"), "up 100%\n");
    peer = connect_peer();
    come_from(peer, "\x0a\x00\x01\x05");
    assert_string_equal(ask(peer, "health\n"), "");
    assert_true(peer->closed);
}

static void test_far_peers_learn_nothing_else(void **state)
{
    static const char *const others[] = {"help", "stats", "programs", "classes", "tenants", "calls",
                                         "connections", "workflows", "queues", "kv", "events",
                                         "events 0", "config", "quit", "nonsense"};
    char request[64];
    (void)state;
    assert_status(STATUS_OK, config_peers_parse("10.0.0.5", &askers));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct peer *peer = connect_peer();
        come_from(peer, "\x0a\x00\x00\x05");
        snprintf(request, sizeof request, "%s\n", others[i]);
        assert_string_equal(ask(peer, request),
                            "error from here only agent-check and health\nend\n");
        assert_true(peer->closed);
    }
    struct peer *peer = connect_peer();
    come_from(peer, "\x0a\x00\x00\x05");
    assert_starts(ask(peer, "GET /health\n"), "HTTP/1.0 200 ");
    peer = connect_peer();
    come_from(peer, "\x0a\x00\x00\x05");
    assert_starts(ask(peer, "GET /stats\n"), "HTTP/1.0 404 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(
            test_agent_share_is_free_calls_in_quarters_of_the_engines_that_serve, set_up),
        cmocka_unit_test_setup(test_agent_every_state_of_health, set_up),
        cmocka_unit_test_setup(test_agent_line_comes_in_any_case_and_alone, set_up),
        cmocka_unit_test_setup(test_far_peers_are_not_heard_unless_they_are_listed, set_up),
        cmocka_unit_test_setup(test_far_peers_learn_nothing_else, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
