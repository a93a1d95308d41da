/* SPDX-License-Identifier: MIT */
/*
 * What: admission: the kernel's word for peers on the unix socket, the proof of a key on TCP
 * (docs/protocol.md, Authentication), and the trust domain that follows from either.
 * A trust domain is an internal number (config/base/quota.h) and never on the wire.
 *
 * Invariants: an unknown key id costs the same proof as a known one, over a secret that no client
 * has, and gets the same answer in the same time (tools/bench/constant_time.c measures it).
 * Bounds: O(keys), two HMACs over 116 bytes.
 */
#include "net/auth/auth.h"

#include <string.h>

#include "net/auth/owner.h"

STATIC_ASSERT(CONFIG_KEY_NAME_BYTES == WIRE_KEY_ID_BYTES, "an id is what AUTH carries");
STATIC_ASSERT(WIRE_KEY_ID_BYTES == WIRE_MAC_BYTES, "wire_is_equal() is for both");
STATIC_ASSERT(CONFIG_SECRET_BYTES == WIRE_SECRET_BYTES, "one size of secrets");

void net_auth_plan_memory(struct memory_plan *plan, const struct limits *limits)
{
    memory_plan_add(plan, MEMORY_CORE, "net keys", limits->keys, sizeof(struct net_key));
}

void net_auth_fill_keys(struct net *net, const struct config_keys *keys)
{
    const struct limits *limits = net->settings.limits;
    memset(net->keys, 0, net->keys_count * sizeof *net->keys);     /* no secret stays behind */
    net->keys_count = limits->keys == 0 ? 0 : keys->count;
    net_owners_fill(net, limits->keys == 0 ? NULL : keys);
    ASSERT(net->keys_count <= limits->keys);
    for (uint32_t i = 0; i < net->keys_count; i++) {
        const struct config_key *key = &keys->keys[i];
        net->keys[i] = (struct net_key){
            .domain = net_domain_of_key(key->domain),
            .calls_max = key->calls_max != 0 ? key->calls_max : limits->calls_per_key,
        };
        memcpy(net->keys[i].id, key->id, sizeof net->keys[i].id);
        memcpy(net->keys[i].secret, key->secret, sizeof net->keys[i].secret);
    }
}

void net_auth_init(struct net *net, const struct config_keys *keys, struct arena *arena)
{
    net->keys = arena_take(arena, net->settings.limits->keys, sizeof(struct net_key));
    net_auth_fill_keys(net, keys);
    net->world->entropy(net->world->self, net->decoy_secret, sizeof net->decoy_secret);
}

bool net_auth_asks(const struct net *net, enum world_peer_kind kind)
{
    return net->settings.access.tcp_needs_key && kind != WORLD_PEER_LOCAL;
}

bool net_auth_allows(const struct net *net, const struct world_peer *peer)
{
    return peer->kind != WORLD_PEER_LOCAL ||
           config_access_allows(&net->settings.access, peer->uid, peer->gids,
                                peer->gids_count);
}

uint64_t net_domain_of_key(uint32_t index)
{
    return DOMAIN_OF_KEY | index;
}

bool net_domain_is_user(uint64_t domain)
{
    return domain >> 32 == DOMAIN_OF_USER >> 32;
}

uint64_t net_auth_domain(const struct world_peer *peer)
{
    return peer->kind == WORLD_PEER_LOCAL ? DOMAIN_OF_USER | peer->uid : 0;
}

/* The key with this id, and its secret; for an unknown id NET_KEY_NONE, and a secret that no client
 * has. The whole table is read; no branch and no address depends on the id. */
static uint32_t find_key(const struct net *net, const uint8_t *id, uint8_t *restrict secret)
{
    uint32_t found = NET_KEY_NONE;
    memcpy(secret, net->decoy_secret, WIRE_SECRET_BYTES);
    for (uint32_t i = 0; i < net->keys_count; i++) {
        const struct net_key *key = &net->keys[i];
        uint32_t is_it = 0 - (uint32_t)wire_is_equal((const uint8_t *)key->id, id);
        uint8_t mask = (uint8_t)is_it;              /* all ones or all zeros, as is_it */
        found = (found & ~is_it) | (i & is_it);
        for (uint32_t k = 0; k < WIRE_SECRET_BYTES; k++) {
            secret[k] = (uint8_t)((secret[k] & ~mask) | (key->secret[k] & mask));
        }
    }
    return found;
}

static void fill_proof(const struct net *net, const struct net_connection *connection,
                       const struct wire_auth *auth, struct wire_proof *proof)
{
    memcpy(proof->key_id, auth->key_id, sizeof proof->key_id);
    memcpy(proof->boot_id, net->settings.boot_id, sizeof proof->boot_id);
    memcpy(proof->server_nonce, connection->nonce, sizeof proof->server_nonce);
    memcpy(proof->client_nonce, auth->nonce, sizeof proof->client_nonce);
}

enum status net_auth_intake(struct net_frame *frame)
{
    struct net *net = frame->net;
    struct net_connection *connection = net_frame_sender(frame);
    struct wire_auth auth;
    struct wire_proof proof;
    struct wire_auth_reply reply;
    TRY(wire_auth_decode(frame->payload, frame->payload_bytes, &auth, &frame->fault));
    memcpy(connection->key_id, auth.key_id, sizeof connection->key_id);
    uint8_t secret[WIRE_SECRET_BYTES];
    uint32_t key = find_key(net, (const uint8_t *)auth.key_id, secret);
    fill_proof(net, connection, &auth, &proof);
    wire_proof_mac(&proof, WIRE_CLIENT, secret, reply.mac);
    if (!wire_is_equal(reply.mac, auth.mac) || key == NET_KEY_NONE) {
        net->stats->auth_refused++;
        frame->fault.field = WIRE_FIELD_KEY_ID;
        return STATUS_BAD_AUTH;
    }
    if (!net_connection_fits(net, net->keys[key].domain, &frame->fault)) {
        return STATUS_BUSY_CONNS_OF_KEY;
    }
    wire_proof_mac(&proof, WIRE_SERVER, secret, reply.mac);
    net_frame_reply(frame, wire_auth_reply_encode(&reply, net_connection_tail(net, connection),
                                                  net_connection_room(net, connection)));
    connection->key = key;
    connection->domain = net->keys[key].domain;
    net_connection_admit(net, frame->connection);
    return STATUS_OK;
}
