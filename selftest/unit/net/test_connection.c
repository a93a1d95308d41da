/* SPDX-License-Identifier: MIT */
/*
 * Goal: a connection that ends, in any way and state, gives everything back; limits of connections,
 * descriptors and buffers hold, and other connections are not affected.
 */
#include "selftest/unit/net/net_client.h"

/* ---- connections that end -------------------------------------------------------------------- */

/* In each state of a call its slot must come back. */
static void test_disconnect_in_each_state_frees_the_slot(void **state)
{
    struct fixture *f = *state;
    for (int how = 0; how < 2; how++) {
        for (int stage = 0; stage < 5; stage++) {
            uint32_t peer = open_client(f);
            struct wire_call call = fixture_wire_call((uint64_t)(5 * how + stage));
            fixture_send_call(f, peer, &call);
            if (stage > 0) {
                fixture_pass(f);
            }
            uint32_t slot = f->last_call;
            if (stage == 2) {
                fixture_generate(f, slot, 50);
            } else if (stage == 3) {
                fixture_generate(f, slot, 50);
                fixture_finish(f, slot, CALL_FINISH_EOS, STATUS_OK);
            } else if (stage == 4) {
                /* Its terminal frame is in the send buffer, and finds no reader. */
                fake_client_window(&f->fake, peer, 0);
                fixture_finish(f, slot, CALL_FINISH_EOS, STATUS_OK);
            }
            if (how == 0) {
                fake_client_finish(&f->fake, peer);
            } else {
                fake_client_reset(&f->fake, peer);
            }
            fixture_passes(f, 3);
            assert_true(fake_client_is_closed(&f->fake, peer));
            expect_slots_free(f, 8);
            fake_client_forget(&f->fake, peer);
        }
    }
    assert_int_equal(f->stats.connections_open, 0);
}

/* A reset that shows only when something is sent comes after intake: the next pass must not wait
 * for another event. */
static void test_reset_found_by_a_send_makes_the_loop_go_on(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    fixture_send_call(f, peer, &call);
    fixture_pass(f);
    assert_true(net_next_us(&f->net, f->fake.now_us) > 0);
    fixture_generate(f, f->last_call, 50);
    fake_client_reset(&f->fake, peer);
    net_emit(&f->net, f->fake.now_us);
    assert_true(fake_client_is_closed(&f->fake, peer));
    assert_int_equal(net_next_us(&f->net, f->fake.now_us), 0);
    fixture_pass(f);
    expect_slots_free(f, 8);
    assert_true(net_next_us(&f->net, f->fake.now_us) > 0);
}

static void test_frames_before_a_fin_still_count(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    for (int i = 0; i < 20; i++) {
        fixture_send_program(f, peer, WIRE_PROGRAM_START, "p");
    }
    fake_client_finish(&f->fake, peer);
    fixture_passes(f, 6);
    assert_int_equal(f->commands[COMMAND_PROGRAM_START], 20);
    assert_true(fake_client_is_closed(&f->fake, peer));
}

static void test_connection_beyond_the_table_is_turned_away(void **state)
{
    struct fixture *f = *state;
    uint32_t peers[4];
    for (int i = 0; i < 4; i++) {
        peers[i] = open_client(f);
    }
    uint64_t bytes_before = f->stats.bytes_sent;
    uint32_t fifth = fixture_connect(f);
    assert_int_equal(f->stats.bytes_sent - bytes_before, f->fake.peers[fifth].to_client.count);
    expect_error(f, fifth, STATUS_BUSY_CONNECTIONS, WIRE_FIELD_CONNECTION, true);
    assert_int_equal(f->stats.connections_refused, 1);
    for (int i = 0; i < 4; i++) {
        expect_alive(f, peers[i]);
    }
    fake_client_finish(&f->fake, peers[2]);
    fixture_pass(f);
    open_client(f);
}

/* Two that never finish their HELLO, one second apart, and one that is open. */
static void test_silent_connections_sleep_until_their_own_deadlines(void **state)
{
    struct fixture *f = *state;
    uint32_t peers[3] = {fixture_connect(f)};
    fixture_sleep(f, 1000000);
    peers[1] = fixture_connect(f);
    peers[2] = open_client(f);
    for (int i = 0; i < 3; i++) {
        fixture_send(f, peers[i], (const uint8_t *)"A", 1);
        fixture_pass(f);
        assert_int_equal(f->net.awake_count, 0);
    }
    assert_int_equal(f->net.open_count, 3);
    fixture_sleep(f, 999999);
    assert_false(fake_client_is_closed(&f->fake, peers[0]));
    fixture_sleep(f, 1);
    assert_true(fake_client_is_closed(&f->fake, peers[0]));
    fixture_sleep(f, 999999);
    assert_false(fake_client_is_closed(&f->fake, peers[1]));
    fixture_sleep(f, 1);
    assert_true(fake_client_is_closed(&f->fake, peers[1]));
    assert_false(fake_client_is_closed(&f->fake, peers[2]));
    fixture_sleep(f, 3000060);      /* its half frame has five seconds, and buys 61 us */
    assert_false(fake_client_is_closed(&f->fake, peers[2]));
    fixture_sleep(f, 1);
    assert_true(fake_client_is_closed(&f->fake, peers[2]));
    assert_int_equal(f->stats.connections_expired, 3);
}

static void test_accepts_of_a_pass_are_limited(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 40; i++) {
        assert_int_not_equal(fake_client_connect(&f->fake, 0), FAKE_NONE);
    }
    uint32_t other = fake_client_connect(&f->fake, 1);
    fixture_pass(f);
    assert_int_equal(f->fake.accepts, NET_ACCEPTS_PER_PASS + 1);
    assert_true(f->fake.peers[other].accepted);         /* a flood holds up its own listener */
    fixture_passes(f, 3);
    assert_int_equal(f->fake.accepts, 41);
    assert_int_equal(f->stats.connections_refused, 37);
}

static void test_no_descriptors_stops_accepting_until_one_is_free(void **state)
{
    struct fixture *f = *state;
    f->fake.descriptors = 2;
    uint32_t one = open_client(f);
    open_client(f);
    uint32_t third = fixture_connect(f);
    uint64_t waits = f->fake.waits;
    fixture_sleep(f, 500000);
    assert_false(f->fake.peers[third].accepted);
    assert_true(f->fake.waits - waits < 10);            /* not spun on */
    fake_client_finish(&f->fake, one);
    fixture_passes(f, 3);
    assert_true(f->fake.peers[third].accepted);
}

static void test_no_descriptors_is_tried_again_after_a_second(void **state)
{
    struct fixture *f = *state;
    f->fake.descriptors = 0;
    uint32_t peer = fixture_connect(f);
    f->fake.descriptors = 8;
    fixture_sleep(f, 1100000);
    fixture_passes(f, 2);
    assert_true(f->fake.peers[peer].accepted);
}

static void test_client_that_reads_nothing_is_not_parsed_beyond_its_buffer(void **state)
{
    struct fixture *f = *state;
    uint32_t stopped = open_client(f), other = open_client(f);
    fake_client_window(&f->fake, stopped, 0);
    for (uint32_t i = 0; i < 1000; i++) {
        fixture_send_ping(f, stopped, i);
    }
    fixture_passes(f, 100);
    /* A PONG has 24 bytes: at most the buffer's worth were answered. */
    assert_true(f->stats.frames_received < 2 + 4096 / 24 + 8);
    expect_alive(f, other);
    assert_int_not_equal(net_next_us(&f->net, f->fake.now_us), 0);
    fake_client_window(&f->fake, stopped, FAKE_QUEUE_BYTES);
    fixture_passes(f, 300);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(fixture_receive(f, stopped, &got));
        assert_true(got.pong.nonce == i);
    }
}

/* After its refusal a client that does not read is closed at the write deadline: one drop. */
static void test_connection_that_fails_is_dropped_once(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    fake_client_window(&f->fake, peer, 0);
    struct wire_accept accept = {0};
    uint8_t bytes[64];
    fixture_send(f, peer, bytes, wire_accept_encode(&accept, bytes, sizeof bytes));
    fixture_pass(f);
    assert_false(fake_client_is_closed(&f->fake, peer));
    fixture_sleep(f, 10000001);
    assert_true(fake_client_is_closed(&f->fake, peer));
    assert_int_equal(f->stats.connections_dropped, 1);
}

/* Every call's one CANCEL has room in the inbox, however many frames came before it. */
static void test_full_inbox_takes_the_cancels_of_lost_clients(void **state)
{
    struct fixture *f = *state;
    struct limits limits = fixture_limits;
    limits.commands = 16;
    fixture_init(f, test_arena(), &limits);
    uint32_t peers[4];
    for (uint32_t p = 0; p < 4; p++) {
        peers[p] = open_client(f);
    }
    for (uint32_t i = 0; i < 6; i++) {
        struct wire_call call = fixture_wire_call(i);
        fixture_send_call(f, peers[i % 2], &call);
    }
    fixture_passes(f, 2);
    expect_slots_free(f, 2);
    for (uint32_t i = 0; i < 16; i++) {
        fixture_send_program(f, peers[2 + i % 2], WIRE_PROGRAM_START, "p");
    }
    fake_client_reset(&f->fake, peers[0]);
    fake_client_reset(&f->fake, peers[1]);
    fixture_pass(f);
    assert_int_equal(f->commands[COMMAND_PROGRAM_START], 8);
    assert_int_equal(f->commands[COMMAND_CANCEL], 6);
    fixture_passes(f, 2);
    assert_int_equal(f->commands[COMMAND_PROGRAM_START], 16);
    expect_slots_free(f, 8);
}

static void test_close_all_frees_everything(void **state)
{
    struct fixture *f = *state;
    for (uint32_t p = 0; p < 4; p++) {
        uint32_t peer = open_client(f);
        for (uint32_t i = 0; i < 2; i++) {
            struct wire_call call = fixture_wire_call(10 * p + i);
            fixture_send_call(f, peer, &call);
        }
    }
    fixture_passes(f, 2);
    expect_slots_free(f, 0);
    net_close_all(&f->net);
    fixture_sched(f);
    net_emit(&f->net, f->fake.now_us);
    net_check(&f->net);
    expect_slots_free(f, 8);
    assert_int_equal(f->stats.connections_open, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        T(test_disconnect_in_each_state_frees_the_slot),
        T(test_reset_found_by_a_send_makes_the_loop_go_on),
        T(test_frames_before_a_fin_still_count),
        T(test_connection_beyond_the_table_is_turned_away),
        T(test_silent_connections_sleep_until_their_own_deadlines),
        T(test_accepts_of_a_pass_are_limited),
        T(test_no_descriptors_stops_accepting_until_one_is_free),
        T(test_no_descriptors_is_tried_again_after_a_second),
        T(test_client_that_reads_nothing_is_not_parsed_beyond_its_buffer),
        T(test_connection_that_fails_is_dropped_once),
        T(test_full_inbox_takes_the_cancels_of_lost_clients),
        T(test_close_all_frees_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
