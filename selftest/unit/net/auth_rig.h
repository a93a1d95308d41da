/* SPDX-License-Identifier: MIT */
#pragma once
/* What: clients that prove a key, or come as a user, for the tests of net/auth. */
#include "selftest/unit/net/net_client.h"

static const struct config_keys keys = {
    .count = 3,
    .domains_count = 2,
    .domains = {"red", "blue"},
    .keys = {{.id = "alice", .secret = "secret of alice: thirty-two byte", .domain = 0},
             {.id = "bob", .secret = "secret of bob: thirty-two bytes!", .domain = 1,
              .calls_max = 2},
             {.id = "carol", .secret = "secret of carol: thirty-two byte", .domain = 0}},
};

static inline int setup_keyed(void **state)
{
    struct limits limits = fixture_limits;
    limits.calls_per_key = 3;
    fixture_init_keyed(&fixture, test_arena(), &limits, &keys);
    *state = &fixture;
    return 0;
}

/* What a client knows of its handshake. */
struct talk {
    uint32_t peer;
    struct wire_proof proof;
    struct wire_auth auth;
    uint8_t secret[WIRE_SECRET_BYTES];
};

static inline struct talk greet(struct fixture *f, const struct config_key *key)
{
    struct talk talk = {.peer = fake_client_connect(&f->fake, NET_LISTENER_TCP)};
    fixture_pass(f);
    fixture_hello(f, talk.peer);
    assert_true(fixture_receive(f, talk.peer, &got));
    assert_int_equal(got.type, WIRE_WELCOME);
    assert_int_equal(got.welcome.auth, WIRE_AUTH_KEY);
    memcpy(talk.proof.key_id, key->id, sizeof key->id);
    memcpy(talk.proof.boot_id, got.welcome.boot_id, sizeof got.welcome.boot_id);
    memcpy(talk.proof.server_nonce, got.welcome.nonce, sizeof got.welcome.nonce);
    memset(talk.proof.client_nonce, 0x5a, sizeof talk.proof.client_nonce);
    memcpy(talk.secret, key->secret, sizeof talk.secret);
    return talk;
}

static inline void send_auth(struct fixture *f, struct talk *talk)
{
    uint8_t bytes[256];
    memcpy(talk->auth.key_id, talk->proof.key_id, sizeof talk->auth.key_id);
    memcpy(talk->auth.nonce, talk->proof.client_nonce, sizeof talk->auth.nonce);
    fixture_send(f, talk->peer, bytes, wire_auth_encode(&talk->auth, bytes, sizeof bytes));
    fixture_pass(f);
}

/* Sends AUTH with the right proof. */
static inline void prove(struct fixture *f, struct talk *talk)
{
    wire_proof_mac(&talk->proof, WIRE_CLIENT, talk->secret, talk->auth.mac);
    send_auth(f, talk);
}

static inline void expect_admitted(struct fixture *f, const struct talk *talk)
{
    uint8_t mac[WIRE_MAC_BYTES];
    assert_true(fixture_receive(f, talk->peer, &got));
    assert_int_equal(got.type, WIRE_AUTH_REPLY);
    wire_proof_mac(&talk->proof, WIRE_SERVER, talk->secret, mac);
    assert_memory_equal(got.auth_reply.mac, mac, sizeof mac);
    expect_alive(f, talk->peer);
}

static inline uint32_t open_member(struct fixture *f, uint32_t key)
{
    struct talk talk = greet(f, &keys.keys[key]);
    prove(f, &talk);
    expect_admitted(f, &talk);
    return talk.peer;
}

static inline uint32_t connect_as(struct fixture *f, uint32_t uid, uint32_t gid)
{
    uint32_t peer = fake_client_connect(&f->fake, NET_LISTENER_LOCAL);
    f->fake.peers[peer].who.uid = uid;
    f->fake.peers[peer].who.gids_count = 2;
    f->fake.peers[peer].who.gids[0] = 12345;
    f->fake.peers[peer].who.gids[1] = gid;
    fixture_pass(f);
    return peer;
}
