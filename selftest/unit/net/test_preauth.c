/* SPDX-License-Identifier: MIT */
/*
 * Goal: connections that have not authenticated hold no more than their places, whatever they do;
 * an honest handshake has its time; admitted clients and local users are not affected. Method: the
 * stage with three such places, two for one address, in a table of four. A connection yields after
 * half a second, a quarter of the handshake's time; on loopback after 10 ms of silence.
 */
#include "selftest/unit/net/net_client.h"

#define YIELDS_US          500000
#define YIELDS_LOOPBACK_US 10000

static uint32_t knock(struct fixture *f, uint64_t address)
{
    uint32_t peer = fake_client_connect(&f->fake, NET_LISTENER_TCP);
    assert_int_not_equal(peer, FAKE_NONE);
    if (address != 0) {
        f->fake.peers[peer].who =
            (struct world_peer){.kind = WORLD_PEER_REMOTE, .address = address};
    }
    fixture_passes(f, 2);
    return peer;
}

static bool is_accepted(const struct fixture *f, uint32_t peer)
{
    return f->fake.peers[peer].accepted;
}

static void admit(struct fixture *f, uint32_t peer)
{
    fixture_hello(f, peer);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_WELCOME);
}

static void test_preauth_beyond_its_places_waits_in_the_kernel(void **state)
{
    struct fixture *f = *state;
    uint32_t peers[4];
    for (int i = 0; i < 4; i++) {
        peers[i] = knock(f, 1 + (uint64_t)i);
    }
    assert_true(is_accepted(f, peers[2]));
    assert_false(is_accepted(f, peers[3]));
    assert_int_equal(f->stats.connections_preauth, 3);
    uint64_t waits = f->fake.waits;
    fixture_sleep(f, YIELDS_US / 2);
    assert_false(is_accepted(f, peers[3]));
    assert_true(f->fake.waits - waits < 10);            /* not spun on */
    admit(f, peers[1]);                                 /* and now there is a place */
    fixture_passes(f, 2);
    assert_true(is_accepted(f, peers[3]));
    assert_false(fake_client_is_closed(&f->fake, peers[0]));
    assert_int_equal(f->stats.connections_displaced, 0);
}

static void test_oldest_preauth_yields_once_it_has_had_its_time(void **state)
{
    struct fixture *f = *state;
    uint32_t peers[5];
    for (int i = 0; i < 3; i++) {
        peers[i] = knock(f, 1 + (uint64_t)i);
        fixture_sleep(f, 1000);
    }
    peers[3] = knock(f, 4);
    peers[4] = knock(f, 5);
    fixture_sleep(f, YIELDS_US - 3001);
    assert_false(fake_client_is_closed(&f->fake, peers[0]));
    fixture_sleep(f, 1);
    fixture_passes(f, 2);
    assert_true(fake_client_is_closed(&f->fake, peers[0]));
    assert_false(fake_client_is_closed(&f->fake, peers[1]));
    assert_true(is_accepted(f, peers[3]));
    assert_false(is_accepted(f, peers[4]));             /* the second has its time still */
    fixture_sleep(f, 1001);
    fixture_passes(f, 2);
    assert_true(fake_client_is_closed(&f->fake, peers[1]));
    assert_true(is_accepted(f, peers[4]));
    assert_int_equal(f->stats.connections_displaced, 2);
}

/* As many as the world has room for: each from another address; from 0: of loopback. */
static void flood_from(struct fixture *f, uint64_t address)
{
    for (uint32_t i = 0; i < FAKE_PEERS_MAX; i++) {
        if (f->fake.peers[i].in_use && f->fake.peers[i].server_closed) {
            fake_client_forget(&f->fake, i);
        }
    }
    for (int i = 0; i < 8; i++) {
        uint32_t peer = fake_client_connect(&f->fake, NET_LISTENER_TCP);
        if (peer != FAKE_NONE && address != 0) {
            f->fake.peers[peer].who =
                (struct world_peer){.kind = WORLD_PEER_REMOTE, .address = address + (uint64_t)i};
        }
    }
}

static void flood(struct fixture *f)
{
    static uint64_t address = 1;
    flood_from(f, address);
    address += 8;
}

/* Silent connections without end, from many addresses: a client that speaks in time is admitted. */
static void test_handshake_gets_through_a_flood_of_silent_connections(void **state)
{
    struct fixture *f = *state;
    uint32_t honest = fake_client_connect(&f->fake, NET_LISTENER_TCP);
    f->fake.peers[honest].who = (struct world_peer){.kind = WORLD_PEER_REMOTE, .address = 1u << 31};
    for (int i = 0; i < 20 || !is_accepted(f, honest); i++) {
        assert_true(i < 200);
        flood(f);
        fixture_sleep(f, 1000);
        assert_true(f->net.preauth_count <= 3 && f->net.open_count <= 3);
    }
    for (int i = 0; i < 400; i++) {                     /* a slow line */
        flood(f);
        fixture_sleep(f, 1000);
    }
    admit(f, honest);
    for (int i = 0; i < 5000; i++) {
        flood(f);
        fixture_sleep(f, 1000);
    }
    expect_alive(f, honest);
    assert_true(f->stats.connections_displaced > 10);
}

static void test_one_address_has_its_share_and_is_told_to_come_again(void **state)
{
    struct fixture *f = *state;
    f->limits.preauth = 4;
    uint32_t other = knock(f, 2), first = knock(f, 1), second = knock(f, 1), third = knock(f, 1);
    expect_error(f, third, STATUS_BUSY_PREAUTH, WIRE_FIELD_CONNECTION, true);
    assert_int_equal(got.error.fault.found, 2);
    assert_int_equal(got.error.fault.max, 2);
    assert_int_equal(got.error.retry_ms, 1000);
    assert_true(is_accepted(f, other));
    fixture_sleep(f, YIELDS_US);
    knock(f, 1);                                        /* displaces its own oldest, no other's */
    assert_true(fake_client_is_closed(&f->fake, first));
    assert_false(fake_client_is_closed(&f->fake, second));
    assert_false(fake_client_is_closed(&f->fake, other));
    assert_int_equal(f->stats.connections_preauth, 3);
    fixture_sleep(f, YIELDS_US - 1);
    f->fake.now_us += YIELDS_US;                        /* nothing has woken the appliance since */
    knock(f, 1);
    assert_true(fake_client_is_closed(&f->fake, second));
    assert_int_equal(f->stats.connections_refused, 1);
}

static void test_loopback_is_one_address_for_many(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        uint32_t peer = knock(f, 0);
        assert_false(fake_client_is_closed(&f->fake, peer));
    }
    assert_int_equal(f->stats.connections_refused, 0);
}

/* A hundred silent connects a second, and more of them: an honest handshake is not held up. */
static void test_silence_on_loopback_holds_up_no_handshake_for_long(void **state)
{
    struct fixture *f = *state;
    for (uint32_t round = 0; round < 50; round++) {
        flood_from(f, 0);
        uint32_t honest = fake_client_connect(&f->fake, NET_LISTENER_TCP);
        assert_int_not_equal(honest, FAKE_NONE);
        uint64_t since_us = f->fake.now_us;
        while (!is_accepted(f, honest)) {
            fixture_sleep(f, 1000);
            assert_true(f->fake.now_us - since_us < 6 * YIELDS_LOOPBACK_US);
        }
        admit(f, honest);
        fake_client_finish(&f->fake, honest);
        fixture_passes(f, 2);
    }
    assert_true(f->stats.connections_displaced > 50);
}

/* The one that has said HELLO has until its next word; those that have said nothing go first. */
static void test_on_loopback_silence_yields_before_a_word(void **state)
{
    struct fixture *f = *state;
    f->net.settings.access.tcp_needs_key = true;
    uint32_t talks = knock(f, 0), silent = knock(f, 0), other = knock(f, 0);
    fixture_sleep(f, YIELDS_LOOPBACK_US / 2);
    fixture_hello(f, talks);
    fixture_sleep(f, YIELDS_LOOPBACK_US / 2);
    uint32_t next = knock(f, 0);
    assert_true(is_accepted(f, next) && fake_client_is_closed(&f->fake, silent));
    fixture_sleep(f, YIELDS_LOOPBACK_US);
    knock(f, 0);
    assert_true(fake_client_is_closed(&f->fake, other));
    assert_false(fake_client_is_closed(&f->fake, talks));
    fixture_sleep(f, 2 * YIELDS_LOOPBACK_US);
    fixture_hello(f, next);
    knock(f, 0);
    assert_false(fake_client_is_closed(&f->fake, talks));
    assert_int_equal(f->net.preauth_count, 3);
}

/* The appliance was away for longer than anybody's time: who spoke meanwhile keeps his place. */
static void test_words_that_are_not_read_yet_keep_their_place(void **state)
{
    struct fixture *f = *state;
    uint32_t peers[3];
    for (int i = 0; i < 3; i++) {
        peers[i] = knock(f, 0);
    }
    f->fake.now_us += 5 * YIELDS_LOOPBACK_US;
    uint32_t next = fake_client_connect(&f->fake, NET_LISTENER_TCP);
    fixture_pass(f);
    assert_false(is_accepted(f, next));
    for (int i = 0; i < 3; i++) {
        admit(f, peers[i]);
    }
    fixture_passes(f, 2);
    assert_true(is_accepted(f, next));
    assert_int_equal(f->stats.connections_displaced, 0);
}

static void test_admitted_and_local_users_do_not_notice_a_full_preauth(void **state)
{
    struct fixture *f = *state;
    uint32_t member = knock(f, 9);
    admit(f, member);
    for (uint64_t address = 1; address <= 5; address++) {
        knock(f, address);
    }
    assert_int_equal(f->stats.connections_preauth, 3);
    expect_alive(f, member);
    fake_client_finish(&f->fake, member);
    fixture_pass(f);
    open_client(f);                                     /* its listener never waits */
}

/* A place before authentication and a place in the table are both needed. */
static void test_table_full_of_admitted_clients_refuses_others(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 4; i++) {
        open_client(f);
    }
    uint32_t peer = knock(f, 1);
    expect_error(f, peer, STATUS_BUSY_CONNECTIONS, WIRE_FIELD_CONNECTION, true);
    assert_int_equal(got.error.retry_ms, 1000);
    assert_int_equal(f->stats.connections_preauth, 0);
}

/* After its refusal it is still not admitted. */
static void test_preauth_that_does_not_read_its_refusal_keeps_its_place_in_the_count(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = knock(f, 1);
    fake_client_window(&f->fake, peer, 0);
    fixture_send_ping(f, peer, 1);
    fixture_pass(f);
    assert_false(fake_client_is_closed(&f->fake, peer));
    assert_int_equal(f->stats.connections_preauth, 1);
    fixture_sleep(f, 10000001);
    assert_true(fake_client_is_closed(&f->fake, peer));
    assert_int_equal(f->stats.connections_preauth, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        T(test_preauth_beyond_its_places_waits_in_the_kernel),
        T(test_oldest_preauth_yields_once_it_has_had_its_time),
        T(test_handshake_gets_through_a_flood_of_silent_connections),
        T(test_one_address_has_its_share_and_is_told_to_come_again),
        T(test_loopback_is_one_address_for_many),
        T(test_silence_on_loopback_holds_up_no_handshake_for_long),
        T(test_on_loopback_silence_yields_before_a_word),
        T(test_words_that_are_not_read_yet_keep_their_place),
        T(test_admitted_and_local_users_do_not_notice_a_full_preauth),
        T(test_table_full_of_admitted_clients_refuses_others),
        T(test_preauth_that_does_not_read_its_refusal_keeps_its_place_in_the_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
