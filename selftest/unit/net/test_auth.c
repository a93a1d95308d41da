/* SPDX-License-Identifier: MIT */
/*
 * Goal: only a client that proves a key, or for which the kernel vouches, is admitted; a client
 * that is refused learns nothing more; domains do not see each other. Method: the stage with two
 * keys in the world in memory; clients that make their proofs with net/wire_auth.c, which has tests
 * of its own.
 */
#include "selftest/unit/net/auth_rig.h"

static void expect_refused(struct fixture *f, const struct talk *talk)
{
    expect_error(f, talk->peer, STATUS_BAD_AUTH, WIRE_FIELD_KEY_ID, true);
    assert_int_equal(got.error.fault.frame_type, WIRE_AUTH);
    assert_true(got.error.fault.found == 0 && got.error.fault.min == 0 &&
                got.error.fault.max == 0);
    assert_int_equal(f->net.preauth_count, 0);
}

/* ---- the proof ------------------------------------------------------------------------------- */

static void test_auth_with_the_right_proof_is_admitted_and_answered_with_one(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < keys.count; i++) {
        open_member(f, i);
    }
    assert_int_equal(f->stats.auth_refused, 0);
    assert_int_equal(f->stats.connections_preauth, 0);
}

static void test_auth_wrong_in_any_part_is_refused_in_the_same_words(void **state)
{
    struct fixture *f = *state;
    static struct wire_error first;
    for (int how = 0; how < 10; how++) {
        struct talk talk = greet(f, &keys.keys[0]);
        wire_proof_mac(&talk.proof, WIRE_CLIENT, talk.secret, talk.auth.mac);
        switch (how) {
        case 0: talk.auth.mac[WIRE_MAC_BYTES - 1] ^= 1; break;
        case 1: memcpy(talk.proof.key_id, "mallory", 8); break;        /* the id is unknown */
        case 2: memcpy(talk.proof.key_id, "bob\0\0", 6); break;        /* another's secret */
        case 3: talk.proof.client_nonce[0] ^= 1; break;
        case 4: memset(talk.auth.mac, 0, sizeof talk.auth.mac); break;
        case 5:                                         /* our own proof, sent back to us */
            wire_proof_mac(&talk.proof, WIRE_SERVER, talk.secret, talk.auth.mac);
            break;
        case 6:                                         /* of another boot */
            talk.proof.boot_id[0] ^= 1;
            wire_proof_mac(&talk.proof, WIRE_CLIENT, talk.secret, talk.auth.mac);
            break;
        case 7:                                         /* of another connection */
            talk.proof.server_nonce[0] ^= 1;
            wire_proof_mac(&talk.proof, WIRE_CLIENT, talk.secret, talk.auth.mac);
            break;
        case 8:                                         /* an id that almost is one */
            talk.proof.key_id[4] = 'f';
            wire_proof_mac(&talk.proof, WIRE_CLIENT, talk.secret, talk.auth.mac);
            break;
        default:
            memset(talk.proof.key_id, 0, sizeof talk.proof.key_id);     /* no id */
            break;
        }
        send_auth(f, &talk);
        expect_refused(f, &talk);
        first = how == 0 ? got.error : first;
        assert_memory_equal(&first, &got.error, sizeof first);
    }
    assert_int_equal(f->stats.auth_refused, 10);
    assert_int_equal(f->stats.connections_open, 0);
}

/* Even a client that knew the secret of unknown ids would not be admitted. */
static void test_unknown_id_is_refused_whatever_it_proves(void **state)
{
    struct fixture *f = *state;
    struct talk talk = greet(f, &keys.keys[0]);
    memcpy(talk.proof.key_id, "mallory", 8);
    memcpy(talk.secret, f->net.decoy_secret, sizeof talk.secret);
    prove(f, &talk);
    expect_refused(f, &talk);
}

static void test_recorded_auth_is_no_use_on_another_connection(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[256];
    struct talk talk = greet(f, &keys.keys[0]);
    prove(f, &talk);
    expect_admitted(f, &talk);
    struct talk replay = greet(f, &keys.keys[0]);
    assert_memory_not_equal(replay.proof.server_nonce, talk.proof.server_nonce, WIRE_NONCE_BYTES);
    fixture_send(f, replay.peer, bytes, wire_auth_encode(&talk.auth, bytes, sizeof bytes));
    fixture_pass(f);
    expect_refused(f, &replay);
}

/* ---- order and size -------------------------------------------------------------------------- */

static void test_auth_before_hello_is_refused_and_ends(void **state)
{
    struct fixture *f = *state;
    struct talk talk = {.peer = fake_client_connect(&f->fake, NET_LISTENER_TCP)};
    fixture_pass(f);
    send_auth(f, &talk);
    expect_error(f, talk.peer, STATUS_BAD_FRAME_ORDER, WIRE_FIELD_TYPE, true);
}

static void test_auth_twice_is_refused_and_lives(void **state)
{
    struct fixture *f = *state;
    struct talk talk = greet(f, &keys.keys[0]);
    prove(f, &talk);
    expect_admitted(f, &talk);
    prove(f, &talk);
    expect_error(f, talk.peer, STATUS_BAD_FRAME_ORDER, WIRE_FIELD_TYPE, false);
    expect_alive(f, talk.peer);
}

static void test_auth_where_none_is_asked_for_is_refused_and_lives(void **state)
{
    struct fixture *f = *state;
    struct talk talk = {.peer = open_client(f)};        /* on the unix socket */
    assert_int_equal(got.welcome.auth, WIRE_AUTH_NONE);
    for (uint32_t i = 0; i < WIRE_NONCE_BYTES; i++) {
        assert_int_equal(got.welcome.nonce[i], 0);
    }
    send_auth(f, &talk);
    expect_error(f, talk.peer, STATUS_BAD_FRAME_ORDER, WIRE_FIELD_TYPE, false);
    expect_alive(f, talk.peer);
}

static void test_any_other_frame_before_auth_is_refused_and_ends(void **state)
{
    struct fixture *f = *state;
    for (uint8_t type = WIRE_HELLO; type <= WIRE_PING; type++) {
        struct talk talk = greet(f, &keys.keys[0]);
        struct wire_call call = fixture_wire_call(1);
        switch (type) {
        case WIRE_HELLO: fixture_hello(f, talk.peer); break;
        case WIRE_PROGRAM_START:
        case WIRE_PROGRAM_END: fixture_send_program(f, talk.peer, type, "p"); break;
        case WIRE_CALL: fixture_send_call(f, talk.peer, &call); break;
        case WIRE_CANCEL: fixture_send_cancel(f, talk.peer, 1, "p"); break;
        case WIRE_PING: fixture_send_ping(f, talk.peer, 1); break;
        default: continue;
        }
        fixture_pass(f);
        expect_error(f, talk.peer, STATUS_BAD_FRAME_ORDER, WIRE_FIELD_TYPE, true);
        assert_int_equal(got.error.fault.frame_type, type);
    }
    expect_slots_free(f, 8);
    assert_int_equal(f->commands[COMMAND_PROGRAM_START] + f->commands[COMMAND_CALL], 0);
}

/* Before authentication, bytes beyond the frame that is due stay in the kernel. */
static void test_nothing_beyond_hello_and_auth_is_received_before_admission(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[256];
    uint32_t peer = fake_client_connect(&f->fake, NET_LISTENER_TCP);
    fixture_pass(f);
    struct wire_hello hello = {.version_min = 1, .version_max = 1};
    fixture_send(f, peer, bytes, wire_hello_encode(&hello, bytes, sizeof bytes));
    fixture_send(f, peer, (const uint8_t *)"AGX1", 4);
    fixture_pass(f);
    assert_int_equal(f->stats.bytes_received, WIRE_HEADER_BYTES + WIRE_HELLO_BYTES);
    struct wire_auth auth = {.key_id = "no-key"};
    uint32_t count = wire_auth_encode(&auth, bytes, sizeof bytes);
    fixture_send(f, peer, bytes + 4, count - 5);        /* half an AUTH */
    fixture_passes(f, 4);
    assert_int_equal(f->stats.bytes_received,
                     WIRE_HEADER_BYTES + WIRE_HELLO_BYTES + count - 1);
    fixture_send(f, peer, bytes + count - 1, 1);
    static const uint8_t junk[5000];
    fixture_send(f, peer, junk, sizeof junk);
    fixture_passes(f, 4);
    assert_int_equal(f->stats.bytes_received,
                     2 * WIRE_HEADER_BYTES + WIRE_HELLO_BYTES + WIRE_AUTH_BYTES);
    assert_true(fake_client_is_closed(&f->fake, peer));
}

/* AUTH may follow HELLO at once, and calls AUTH: they wait their turn. */
static void test_frames_behind_auth_are_acted_upon_after_it(void **state)
{
    struct fixture *f = *state;
    struct talk talk = greet(f, &keys.keys[0]);
    uint8_t bytes[256];
    wire_proof_mac(&talk.proof, WIRE_CLIENT, talk.secret, talk.auth.mac);
    memcpy(talk.auth.key_id, talk.proof.key_id, sizeof talk.auth.key_id);
    memcpy(talk.auth.nonce, talk.proof.client_nonce, sizeof talk.auth.nonce);
    fixture_send(f, talk.peer, bytes, wire_auth_encode(&talk.auth, bytes, sizeof bytes));
    fixture_send_ping(f, talk.peer, 7);
    fixture_passes(f, 2);
    assert_true(fixture_receive(f, talk.peer, &got));
    assert_int_equal(got.type, WIRE_AUTH_REPLY);
    assert_true(fixture_receive(f, talk.peer, &got));
    assert_int_equal(got.type, WIRE_PONG);
}

/* HELLO in time does not give AUTH more time. */
static void test_one_time_covers_hello_and_auth(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = fake_client_connect(&f->fake, NET_LISTENER_TCP);
    fixture_pass(f);
    fixture_sleep(f, 1500000);
    fixture_hello(f, peer);
    assert_true(fixture_receive(f, peer, &got));
    fixture_sleep(f, 499999);
    assert_false(fake_client_is_closed(&f->fake, peer));
    fixture_sleep(f, 1);
    assert_true(fake_client_is_closed(&f->fake, peer));
}

/* ---- the kernel's word ----------------------------------------------------------------------- */

static void test_local_users_are_let_in_by_number(void **state)
{
    struct fixture *f = *state;
    f->net.settings.access = (struct config_access){
        .own_uid = 500, .uids = {7, 9}, .uids_count = 2, .gids = {70}, .gids_count = 1};
    const struct { uint32_t uid, gid; bool allowed; } cases[] = {
        {0, 1, true}, {500, 1, true}, {7, 1, true}, {9, 1, true}, {8, 70, true},
        {8, 1, false}, {70, 7, false}, {UINT32_MAX, UINT32_MAX, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t peer = connect_as(f, cases[i].uid, cases[i].gid);
        if (cases[i].allowed) {
            fixture_hello(f, peer);
            assert_true(fixture_receive(f, peer, &got));
            assert_int_equal(got.type, WIRE_WELCOME);
            fake_client_finish(&f->fake, peer);
            fixture_pass(f);
        } else {
            expect_error(f, peer, STATUS_BAD_AUTH, WIRE_FIELD_CONNECTION, true);
        }
    }
    assert_int_equal(f->stats.auth_refused, 3);
}

/* ---- domains --------------------------------------------------------------------------------- */

static uint64_t domain_of_call(struct fixture *f, uint32_t peer, uint64_t call_id)
{
    struct wire_call call = fixture_wire_call(call_id);
    uint32_t slot = start_call(f, peer, &call);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_ACCEPT);
    return fixture_call(f, slot)->domain;
}

static void test_domain_is_that_of_the_key_or_the_user(void **state)
{
    struct fixture *f = *state;
    f->net.settings.access.uids_count = 1;
    f->net.settings.access.uids[0] = 7;
    uint64_t alice = domain_of_call(f, open_member(f, 0), 1);
    uint64_t bob = domain_of_call(f, open_member(f, 1), 1);
    uint32_t root = open_client(f), seven = connect_as(f, 7, 7);
    fixture_hello(f, seven);
    assert_true(fixture_receive(f, seven, &got));
    uint64_t user_0 = domain_of_call(f, root, 1), user_7 = domain_of_call(f, seven, 1);
    assert_true(alice != bob && alice != user_0 && bob != user_0);
    assert_true(user_7 != user_0 && user_7 != alice && user_7 != bob);
    assert_true(alice != 0 && bob != 0 && user_0 != 0);     /* of TCP without keys */
    fake_client_reset(&f->fake, root);
    fixture_passes(f, 2);
    assert_true(domain_of_call(f, open_member(f, 2), 2) == alice);      /* carol is red too */
}

/* The same program and call id in another domain is another call; in the same domain the call is
 * refused. */
static void test_ids_are_those_of_a_domain(void **state)
{
    struct fixture *f = *state;
    uint32_t alice = open_member(f, 0), bob = open_member(f, 1), carol = open_member(f, 2);
    domain_of_call(f, alice, 1);
    domain_of_call(f, bob, 1);
    struct wire_call call = fixture_wire_call(1);
    fixture_send_call(f, carol, &call);
    fixture_pass(f);
    expect_error(f, carol, STATUS_BUSY_CALL_OPEN, WIRE_FIELD_CALL_ID, false);
    fixture_send_cancel(f, bob, 1, "program");
    fixture_passes(f, 2);
    assert_true(fixture_receive(f, bob, &got));
    assert_int_equal(got.type, WIRE_DONE);
    assert_int_equal(f->calls.free_count, 7);           /* alice's goes on */
}

static void test_what_has_ended_is_on_record_in_its_domain_only(void **state)
{
    struct fixture *f = *state;
    uint32_t alice = open_member(f, 0), bob = open_member(f, 1), carol = open_member(f, 2);
    struct wire_call call = fixture_wire_call(1);
    domain_of_call(f, alice, 1);
    fixture_finish(f, f->last_call, CALL_FINISH_EOS, STATUS_OK);
    fixture_passes(f, 2);
    uint64_t executed = f->commands[COMMAND_CALL];
    fixture_send_call(f, carol, &call);
    fixture_passes(f, 2);
    assert_int_equal(f->commands[COMMAND_CALL], executed);
    assert_int_equal(f->stats.calls_replayed, 1);
    fixture_send_call(f, bob, &call);
    fixture_passes(f, 2);
    assert_int_equal(f->commands[COMMAND_CALL], executed + 1);
    assert_int_equal(f->stats.calls_replayed, 1);
}

static void test_calls_of_a_key_are_limited_over_its_connections(void **state)
{
    struct fixture *f = *state;
    uint32_t one = open_member(f, 1), two = open_member(f, 1), alice = open_member(f, 0);
    domain_of_call(f, one, 1);
    domain_of_call(f, two, 2);
    struct wire_call call = fixture_wire_call(3);
    fixture_send_call(f, one, &call);
    fixture_pass(f);
    expect_error(f, one, STATUS_BUSY_CALLS_OF_KEY, WIRE_FIELD_KEY_ID, false);
    assert_int_equal(got.error.fault.found, 2);
    assert_int_equal(got.error.fault.max, 2);
    assert_int_equal(got.error.retry_ms, 100);
    domain_of_call(f, alice, 3);                        /* others have their own number */
    fake_client_reset(&f->fake, two);
    fixture_passes(f, 2);
    domain_of_call(f, one, 4);
    fixture_send_call(f, one, &call);
    fixture_pass(f);
    expect_error(f, one, STATUS_BUSY_CALLS_OF_KEY, WIRE_FIELD_KEY_ID, false);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup_keyed)
    const struct CMUnitTest tests[] = {
        T(test_auth_with_the_right_proof_is_admitted_and_answered_with_one),
        T(test_auth_wrong_in_any_part_is_refused_in_the_same_words),
        T(test_unknown_id_is_refused_whatever_it_proves),
        T(test_recorded_auth_is_no_use_on_another_connection),
        T(test_auth_before_hello_is_refused_and_ends),
        T(test_auth_twice_is_refused_and_lives),
        T(test_auth_where_none_is_asked_for_is_refused_and_lives),
        T(test_any_other_frame_before_auth_is_refused_and_ends),
        T(test_nothing_beyond_hello_and_auth_is_received_before_admission),
        T(test_frames_behind_auth_are_acted_upon_after_it),
        T(test_one_time_covers_hello_and_auth),
        T(test_local_users_are_let_in_by_number),
        T(test_domain_is_that_of_the_key_or_the_user),
        T(test_ids_are_those_of_a_domain),
        T(test_what_has_ended_is_on_record_in_its_domain_only),
        T(test_calls_of_a_key_are_limited_over_its_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
