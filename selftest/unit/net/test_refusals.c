/* SPDX-License-Identifier: MIT */
/*
 * Goal: each refusal is noted with who and why; a flood is counted, and costs nothing else.
 * Method: notes made by hand; that they are made is tested by selftest/e2e/test_log.py.
 */
#include "selftest/unit/test.h"

#include "net/net.h"

static struct net net;
static struct net_refusal got;

static int set_up(void **state)
{
    (void)state;
    memset(&net, 0, sizeof net);
    return 0;
}

static void test_what_is_refused_follows_the_state(void **state)
{
    struct net_connection connection = {.state = NET_CHALLENGED, .key = NET_KEY_NONE,
                                        .name = "bot-7", .key_id = "mallory",
                                        .peer_kind = WORLD_PEER_REMOTE, .ip = {1, 2}};
    const struct wire_fault auth = {.status = STATUS_BAD_AUTH, .frame_type = WIRE_AUTH};
    const struct wire_fault call = {.status = STATUS_BUSY_CALLS, .frame_type = WIRE_CALL,
                                    .call_id = 17};
    const struct wire_fault idle = {.status = STATUS_GONE_DEADLINE};
    (void)state;
    net_refusal_note(&net, &connection, &auth, 5);
    connection.state = NET_OPEN;
    net_refusal_note(&net, &connection, &call, 6);
    net_refusal_note(&net, &connection, &idle, 7);      /* no refusal */
    assert_true(net_refusal_take(&net, &got));
    assert_string_equal(got.what, "handshake");
    assert_string_equal(got.why, status_text(STATUS_BAD_AUTH));
    assert_string_equal(got.name, "bot-7");
    assert_string_equal(got.key_id, "mallory");
    assert_false(got.is_proven);
    assert_int_equal(got.ip[1], 2);
    assert_int_equal(got.at_us, 5);
    assert_true(net_refusal_take(&net, &got));
    assert_string_equal(got.what, "call");
    assert_int_equal(got.call_id, 17);
    assert_false(net_refusal_take(&net, &got));
}

static void test_a_flood_is_counted_and_told_once_a_second(void **state)
{
    const struct world_peer peer = {.kind = WORLD_PEER_LOCAL, .uid = 1000};
    uint32_t told = 0;
    (void)state;
    for (uint64_t now_us = 10000000; now_us < 12000000; now_us += 1000) {
        net_refusal_note_peer(&net, &peer, STATUS_BAD_AUTH, now_us);
        while (net_refusal_take(&net, &got)) {
            assert_int_equal(got.uid, 1000);
            told++;
        }
        assert_true(net_refusal_take_left_out(&net, now_us) == 0);
    }
    assert_int_equal(told, 2 * NET_REFUSALS_PER_SECOND);
    assert_int_equal(net_refusal_take_left_out(&net, 12000000),
                     2000 - 2 * NET_REFUSALS_PER_SECOND);
    assert_int_equal(net_refusal_take_left_out(&net, 13000000), 0);
}

static void test_without_a_reader_nothing_overflows(void **state)
{
    const struct world_peer peer = {.kind = WORLD_PEER_LOOPBACK};
    (void)state;
    for (uint64_t second = 1; second < 100; second++) {
        net_refusal_note_peer(&net, &peer, STATUS_BUSY_CONNECTIONS, second * 1000000);
    }
    assert_int_equal(net.refusals.count, NET_REFUSALS_PER_SECOND);
    assert_true(net_refusal_take(&net, &got));
    assert_int_equal(got.at_us, 1000000);
    assert_int_equal(net.refusals.left_out, 99 - NET_REFUSALS_PER_SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_what_is_refused_follows_the_state, set_up),
        cmocka_unit_test_setup(test_a_flood_is_counted_and_told_once_a_second, set_up),
        cmocka_unit_test_setup(test_without_a_reader_nothing_overflows, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
