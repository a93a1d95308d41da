/* SPDX-License-Identifier: MIT */
/*
 * What: every invariant of the stage, for tests and for builds that verify.
 * Bounds: O(connections + calls + replies).
 */
#include <string.h>

#include "net/connection.h"
#include "net/kept/connections.h"
#include "net/kept/progress.h"
#include "net/kept/replies.h"
#include "net/kept/workflows.h"
#include "net/workflow/workflow.h"

static void check_order(const struct net *net)
{
    uint32_t connections = net->settings.limits->connections;
    ASSERT(net->open_count <= connections);
    for (uint32_t i = 0; i < connections; i++) {
        uint32_t index = net->order[i];
        ASSERT(index < connections);
        const struct net_connection *connection = &net->connections[index];
        ASSERT(connection->position == i);
        ASSERT((connection->state != NET_CLOSED) == (i < net->open_count));
    }
}

/* A connection that sleeps has nothing to do, and net looks at it by its deadline. */
static void check_sleepers(const struct net *net)
{
    ASSERT(net->awake_count <= net->open_count);
    for (uint32_t i = net->awake_count; i < net->open_count; i++) {
        const struct net_connection *connection = &net->connections[net->order[i]];
        ASSERT(!connection->readable && !connection->hangup);
        ASSERT(!connection->pending && !connection->backlog);
        ASSERT(connection->unsent_bytes == 0 || connection->stalled);
        ASSERT(net->due_us <= net_connection_deadline_us(net, connection));
    }
}

static void check_buffers(const struct net *net, const struct net_connection *connection)
{
    const struct limits *limits = net->settings.limits;
    ASSERT(connection->received_first + connection->received_bytes <=
           WIRE_HEADER_BYTES + limits->frame_bytes);
    ASSERT(connection->unsent_first + connection->unsent_bytes <= limits->send_bytes);
    ASSERT(!connection->pending || connection->received_bytes >= WIRE_HEADER_BYTES);
    ASSERT(connection->answers_due <= limits->frames_per_pass);
    ASSERT(connection->state != NET_CHALLENGED || net->settings.access.tcp_needs_key);
    ASSERT(!connection->is_preauth || connection->state != NET_OPEN);
    ASSERT(connection->state != NET_PROXIED || (connection->is_preauth && limits->preauth > 0 &&
                                                connection->peer_kind == WORLD_PEER_LOOPBACK));
    ASSERT(connection->state != NET_OPEN ||
           limits->send_bytes - connection->unsent_bytes >=
               WIRE_REPLY_BYTES_MAX * connection->answers_due);
}

static uint32_t check_calls_of(const struct net *net, uint32_t index)
{
    const struct net_connection *connection = &net->connections[index];
    uint32_t at = connection->calls_first;
    ASSERT((connection->calls_count == 0) == (at == CALL_NONE));
    ASSERT(connection->calls_count == 0 || connection->state == NET_OPEN);
    for (uint32_t i = 0; i < connection->calls_count; i++) {
        ASSERT(at < net->calls->count);
        const struct call *call = &net->calls->calls[at];
        ASSERT(call->state != CALL_FREE && call->connection == index);
        ASSERT(call->domain == connection->domain);
        ASSERT(call->emit.sent_tokens <= call->max_tokens);
        ASSERT(call->emit.held_bytes <= CALL_HELD_BYTES);
        ASSERT(net->calls->calls[call->emit.conn_next].emit.conn_prev == at);
        at = call->emit.conn_next;
    }
    ASSERT(at == connection->calls_first);
    return connection->calls_count;
}

/* The list is in the order of arrival, and no connection is in it twice. */
static void check_preauth(const struct net *net)
{
    uint32_t count = 0, previous = NET_CONNECTION_NONE;
    for (uint32_t at = net->preauth_first; at != NET_CONNECTION_NONE;
         at = net->connections[at].preauth_next) {
        const struct net_connection *connection = &net->connections[at];
        ASSERT(connection->is_preauth && connection->state != NET_CLOSED);
        ASSERT(connection->peer_kind != WORLD_PEER_LOCAL);
        ASSERT(connection->preauth_prev == previous && ++count <= net->preauth_count);
        ASSERT(previous == NET_CONNECTION_NONE ||
               net->connections[previous].accepted_us <= connection->accepted_us);
        previous = at;
    }
    ASSERT(previous == net->preauth_last && count == net->preauth_count);
    ASSERT(count <= net->settings.limits->preauth);
}

/* Each connection that has authenticated counts for its account, and no other does. */
static void check_quota(const struct net *net)
{
    uint32_t counted[QUOTA_ACCOUNTS_MAX] = {0};
    for (uint32_t i = 0; i < net->open_count; i++) {
        const struct net_connection *connection = &net->connections[net->order[i]];
        ASSERT((connection->account == QUOTA_ACCOUNT_NONE) == connection->is_preauth ||
               connection->state == NET_CLOSING);
        if (connection->account != QUOTA_ACCOUNT_NONE) {
            ASSERT(connection->account == quota_account(connection->domain));
            counted[connection->account]++;
        }
    }
    quota_check(&net->quota);
    ASSERT(memcmp(counted, net->quota.used_by, sizeof counted) == 0);
}

static void check_keys(const struct net *net)
{
    for (uint32_t i = 0; i < net->keys_count; i++) {
        uint32_t calls = 0;
        for (uint32_t c = 0; c < net->open_count; c++) {
            const struct net_connection *connection = &net->connections[net->order[c]];
            calls += connection->key == i ? connection->calls_count : 0;
        }
        ASSERT(net->keys[i].calls_open == calls);
    }
}

/* Every call with a client is in the table of open calls, once, and nothing else is. */
static void check_open_table(const struct net *net, uint32_t expected)
{
    uint32_t found = 0;
    for (uint32_t head = 0; head <= net->open_mask; head++) {
        for (uint32_t at = net->open_heads[head]; at != CALL_NONE;
             at = net->calls->calls[at].emit.open_next) {
            ASSERT(at < net->calls->count && found < expected);
            ASSERT(net->calls->calls[at].connection != CALL_NONE);
            found++;
        }
    }
    ASSERT(found == expected);
}

void net_check(const struct net *net)
{
    uint32_t calls = 0;
    check_order(net);
    check_sleepers(net);
    for (uint32_t i = 0; i < net->open_count; i++) {
        check_buffers(net, &net->connections[net->order[i]]);
        calls += check_calls_of(net, net->order[i]);
    }
    check_open_table(net, calls);
    check_preauth(net);
    check_keys(net);
    check_quota(net);
    uint32_t with_client = 0;
    for (uint32_t i = 0; i < net->calls->count; i++) {
        const struct call *call = &net->calls->calls[i];
        with_client += call->state != CALL_FREE && call->connection != CALL_NONE ? 1 : 0;
        /* A finished call that is in no ring and has no connection would be lost. */
        ASSERT(call->state != CALL_FINISHED || call->in_emit_ring ||
               call->connection != CALL_NONE);
    }
    ASSERT(with_client == calls);
    ASSERT(net->stats->connections_open == net->open_count);
    net_replies_check(net);
    net_progress_check(net);
    net_kept_check(net);
    net_kept_flows_check(net);
    net_workflow_check(net);
}
