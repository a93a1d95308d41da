/* SPDX-License-Identifier: MIT */
/*
 * Goal: other keys and groups end the connections of those that they do not let in, and of no
 * others. Method: the stage with three keys in the world in memory; clients as in test_auth.c.
 */
#include "selftest/unit/net/auth_rig.h"

/* bob is gone, carol has another secret, and alice stands in another place. */
static void test_other_keys_end_the_connections_of_those_that_are_gone(void **state)
{
    struct fixture *f = *state;
    struct config_admission next = {.keys = keys};
    uint32_t alice = open_member(f, 0), bob = open_member(f, 1), carol = open_member(f, 2);
    struct wire_call call = fixture_wire_call(1);
    fixture_send_call(f, alice, &call);
    fixture_pass(f);
    assert_true(fixture_receive(f, alice, &got));
    assert_int_equal(got.type, WIRE_ACCEPT);
    next.keys.count = 2;
    next.keys.keys[0] = keys.keys[2];
    next.keys.keys[0].secret[5] ^= 1;
    next.keys.keys[1] = keys.keys[0];
    next.keys.keys[1].calls_max = 9;
    net_admit_anew(&f->net, &next, f->fake.now_us);
    fixture_pass(f);
    net_check(&f->net);
    expect_error(f, bob, STATUS_BAD_AUTH, WIRE_FIELD_CONNECTION, true);
    expect_error(f, carol, STATUS_BAD_AUTH, WIRE_FIELD_CONNECTION, true);
    expect_alive(f, alice);
    assert_int_equal(f->net.keys[1].calls_open, 1);
    assert_int_equal(f->net.keys[1].calls_max, 9);
    assert_int_equal(f->net.keys_count, 2);
    static const char *const gone[] = {"bob", "carol"};     /* whatever has their places now */
    struct net_refusal refusal;
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(net_refusal_take(&f->net, &refusal));
        assert_true(refusal.is_proven);
        assert_string_equal(refusal.key_id, gone[i]);
    }
}

/* The proof is checked against what there is when it comes. */
static void test_a_handshake_goes_on_under_other_keys(void **state)
{
    struct fixture *f = *state;
    struct config_admission next = {.keys = keys};
    struct talk alice = greet(f, &keys.keys[0]), bob = greet(f, &keys.keys[1]);
    next.keys.count = 1;
    net_admit_anew(&f->net, &next, f->fake.now_us);
    prove(f, &alice);
    expect_admitted(f, &alice);
    prove(f, &bob);
    expect_error(f, bob.peer, STATUS_BAD_AUTH, WIRE_FIELD_KEY_ID, true);
}

static void test_other_groups_end_the_connections_of_those_that_came_by_them(void **state)
{
    struct fixture *f = *state;
    f->net.settings.access = (struct config_access){
        .own_uid = 500, .uids = {7}, .uids_count = 1, .gids = {70, 71}, .gids_count = 2};
    const struct config_admission next = {.keys = keys, .access = {.gids = {71}, .gids_count = 1}};
    const struct { uint32_t uid, gid; bool stays; } cases[] = {
        {500, 1, true}, {7, 1, false}, {8, 70, false}, {8, 71, true}};
    uint32_t peers[4];
    for (size_t i = 0; i < 4; i++) {
        peers[i] = connect_as(f, cases[i].uid, cases[i].gid);
        fixture_hello(f, peers[i]);
        assert_true(fixture_receive(f, peers[i], &got));
    }
    net_admit_anew(&f->net, &next, f->fake.now_us);
    fixture_pass(f);
    for (size_t i = 0; i < 4; i++) {
        if (cases[i].stays) {
            expect_alive(f, peers[i]);
        } else {
            expect_error(f, peers[i], STATUS_BAD_AUTH, WIRE_FIELD_CONNECTION, true);
        }
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup_keyed)
    const struct CMUnitTest tests[] = {
        T(test_other_keys_end_the_connections_of_those_that_are_gone),
        T(test_a_handshake_goes_on_under_other_keys),
        T(test_other_groups_end_the_connections_of_those_that_came_by_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
