/* SPDX-License-Identifier: MIT */
/*
 * What: other keys, users and groups while clients are connected.
 *
 * A client stays if it could come in again as it is: its key has the same id, secret and domain;
 * its user is on the list, or the group that let it in. A client in whose place another group would
 * do is closed too, and connects again. A connection that has not authenticated goes on: its proof
 * is checked against the new keys.
 *
 * Invariant: a domain keeps its number (config_keys_keep_domains), so that its programs and KV
 * stay its own.
 */
#include "net/auth/auth.h"

#include <string.h>

#include "net/connection.h"
#include "net/workflow/workflow.h"

/* The new key that is the same as this one; NET_KEY_NONE: it was taken away, or changed. */
static uint32_t find_same(const struct config_keys *keys, const struct net_key *key)
{
    for (uint32_t i = 0; i < keys->count; i++) {
        const struct config_key *other = &keys->keys[i];
        if (memcmp(other->id, key->id, sizeof key->id) == 0 &&
            memcmp(other->secret, key->secret, sizeof key->secret) == 0 &&
            net_domain_of_key(other->domain) == key->domain) {
            return i;
        }
    }
    return NET_KEY_NONE;
}

static bool stays(const struct net *net, const struct net_connection *connection,
                  const struct config_keys *keys)
{
    if (connection->peer_kind == WORLD_PEER_LOCAL) {
        return config_access_allows(&net->settings.access, (uint32_t)connection->domain,
                                    &connection->gid, 1);
    }
    return connection->key == NET_KEY_NONE ||
           find_same(keys, &net->keys[connection->key]) != NET_KEY_NONE;
}

/* Those whose end has begun have no calls, and hold no key any more. */
static void close_others(struct net *net, const struct config_keys *keys, uint64_t now_us)
{
    const struct wire_fault fault = {.status = STATUS_BAD_AUTH, .field = WIRE_FIELD_CONNECTION};
    for (uint32_t index = 0; index < net->settings.limits->connections; index++) {
        struct net_connection *connection = &net->connections[index];
        if (net_connection_reads(connection) && !stays(net, connection, keys)) {
            net_connection_fail(net, index, &fault, now_us);
        }
        if (!net_connection_reads(connection)) {
            connection->key = NET_KEY_NONE;
        }
    }
}

/* Calls that a workflow makes end with its client's admission, whether that is there or away. */
static void shut_out(struct net *net, const struct config_keys *keys)
{
    for (uint32_t i = 0; i < net_flows_count(net); i++) {
        struct workflow *flow = net_flow(net, i);
        bool has_key = flow->key != NET_KEY_NONE, is_user = net_domain_is_user(flow->domain);
        uint32_t same = has_key ? find_same(keys, &net->keys[flow->key]) : NET_KEY_NONE;
        bool is_let_in = is_user ? config_access_allows(&net->settings.access,
                                                        (uint32_t)flow->domain, &flow->gid, 1)
                                 : !has_key || same != NET_KEY_NONE;
        if (flow->state != WORKFLOW_FREE && !is_let_in) {
            net_workflow_shut_out(net, i);
        }
        flow->key = same;
    }
}

static void replace_keys(struct net *net, const struct config_keys *keys)
{
    uint32_t calls_open[CONFIG_KEYS_MAX] = {0};
    for (uint32_t i = 0; i < net->settings.limits->connections; i++) {
        struct net_connection *connection = &net->connections[i];
        if (connection->key != NET_KEY_NONE) {
            connection->key = find_same(keys, &net->keys[connection->key]);
            ASSERT(connection->key != NET_KEY_NONE);
            calls_open[connection->key] += connection->calls_count;
        }
    }
    net_auth_fill_keys(net, keys);
    for (uint32_t i = 0; i < net->keys_count; i++) {
        net->keys[i].calls_open = calls_open[i];
    }
}

void net_admit_anew(struct net *net, const struct config_admission *admission, uint64_t now_us)
{
    config_access_admit(&net->settings.access, &admission->access);
    shut_out(net, &admission->keys);
    close_others(net, &admission->keys, now_us);
    if (net->settings.limits->keys > 0) {
        replace_keys(net, &admission->keys);
    }
}
