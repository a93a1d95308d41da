/* SPDX-License-Identifier: MIT */
/*
 * What: one connection: its slot, its send buffer, its deadlines and its end.
 *
 * Send buffer: one stretch of bytes in a fixed buffer, moved to the front before more is appended.
 * WIRE_REPLY_BYTES_MAX * frames_per_pass bytes of it are kept free for replies; frames of calls
 * (ACCEPT, TOKENS, DONE) use the rest. A frame is parsed only while its reply is sure to fit, so a
 * reply never has to be refused. An answer that is due from the scheduler counts as a reply.
 *
 * Invariants: room >= WIRE_REPLY_BYTES_MAX * answers_due while OPEN. order[0 .. open_count) are the
 * slots in use, order[0 .. awake_count) those that a pass visits, and
 * connections[order[i]].position == i. A call of a closed connection has connection == CALL_NONE,
 * is cancelled, and is no longer in the table of open calls.
 *
 * Awake: a connection that has an event, or bytes to send that were not tried, or that waits for
 * the appliance rather than for its client (net_connection_rest). Silent peers cost a pass nothing.
 *
 * Deadlines of reading are totals: a byte now and then does not keep a connection alive, because a
 * frame gets only the time that its bytes need at net.frame_rate. The deadline of writing counts
 * from the last progress: a reader that is slow but moves is not dropped.
 */
#include "net/connection.h"

#include <string.h>

#include "config/base/bounds.h"
#include "net/cancel.h"
#include "net/kept/connections.h"
#include "net/kept/progress.h"
#include "net/open_calls.h"
#include "net/workflow/workflow.h"
#include "net/auth/preauth.h"
#include "net/auth/proxy.h"
#include "net/auth/refusals.h"

/* When a refused client may try again: soon where a call must end, later where a program or a
 * connection must, or where the appliance has to come back. Guesses, so that refused clients
 * neither spin nor sleep. */
#define RETRY_CALL_MS   100
#define RETRY_PLACE_MS  1000

static struct net_connection *connection_at(struct net *net, uint32_t index)
{
    ASSERT(index < net->settings.limits->connections);
    return &net->connections[index];
}

/* Swaps the connection with the one at `position` of the order. */
static void place(struct net *net, struct net_connection *connection, uint32_t position)
{
    uint32_t index = net->order[connection->position], other = net->order[position];
    net->order[connection->position] = other;
    net->connections[other].position = connection->position;
    net->order[position] = index;
    connection->position = position;
}

void net_connection_wake(struct net *net, struct net_connection *connection)
{
    ASSERT(connection->state != NET_CLOSED);
    if (connection->position >= net->awake_count) {
        place(net, connection, net->awake_count++);
    }
}

static void put_to_sleep(struct net *net, struct net_connection *connection)
{
    if (connection->position < net->awake_count) {
        place(net, connection, --net->awake_count);
    }
}

/* The group that lets the peer in; UINT32_MAX: none does, its user may. */
static uint32_t group_of(const struct net *net, const struct world_peer *peer)
{
    for (uint32_t i = 0; i < peer->gids_count; i++) {
        /* The largest number is no user: the group alone decides. */
        if (config_access_allows(&net->settings.access, UINT32_MAX, &peer->gids[i], 1)) {
            return peer->gids[i];
        }
    }
    return UINT32_MAX;
}

/* From here on it counts, until it is closed. */
static void count(struct net *net, struct net_connection *connection)
{
    if (connection->account == QUOTA_ACCOUNT_NONE) {
        connection->account = quota_account(connection->domain);
        quota_take(&net->quota, connection->account, 1);
    }
}

bool net_connection_fits(const struct net *net, uint64_t domain, struct wire_fault *fault)
{
    uint32_t account = quota_account(domain), used = net->quota.used_by[account];
    *fault = (struct wire_fault){.status = STATUS_BUSY_CONNS_OF_KEY,
                                 .field = WIRE_FIELD_CONNECTION, .found = used, .max = used};
    return quota_room(&net->quota, account) > 0;
}

/* A slot that was free, for this handle. */
static struct net_connection *occupy(struct net *net, uint32_t index, int32_t handle,
                                     uint64_t now_us)
{
    struct net_connection *connection = connection_at(net, index);
    ASSERT(connection->state == NET_CLOSED && connection->position >= net->open_count);
    place(net, connection, net->open_count);
    *connection = (struct net_connection){
        .state = NET_GREETING,
        .generation = connection->generation,
        .handle = handle,
        .account = QUOTA_ACCOUNT_NONE,
        .key = NET_KEY_NONE,
        .position = net->open_count++,
        .received = connection->received,
        .unsent = connection->unsent,
        .calls_first = CALL_NONE,
        .flows_first = WORKFLOW_NONE,
        .accepted_us = now_us,
        .progress_us = now_us,
        .active_us = now_us,
    };
    net->stats->connections_open = net->open_count;
    return connection;
}

void net_connection_open(struct net *net, int32_t handle, const struct world_peer *peer,
                         uint64_t domain, uint64_t now_us)
{
    ASSERT(net->open_count < net->settings.limits->connections);
    uint32_t index = net->order[net->open_count];
    struct net_connection *connection = occupy(net, index, handle, now_us);
    connection->state = net_proxy_is_due(net, peer) ? NET_PROXIED : NET_GREETING;
    connection->peer_kind = peer->kind;
    connection->address = peer->address;
    connection->domain = domain;
    connection->gid = group_of(net, peer);
    memcpy(connection->ip, peer->ip, sizeof connection->ip);
    net_kept_begin(net, index);
    net->stats->connections_accepted++;
    if (peer->kind != WORLD_PEER_LOCAL) {
        net_preauth_enter(net, index);
    } else {
        count(net, connection);         /* the kernel has said who it is */
    }
    net_connection_wake(net, connection);
}

void net_connection_open_again(struct net *net, uint32_t index, const struct net_kept_peer *peer,
                               int32_t handle)
{
    uint64_t now_us = net->world->now_us(net->world->self);
    struct net_connection *connection = occupy(net, index, handle, now_us);
    connection->state = NET_OPEN;
    connection->peer_kind = (enum world_peer_kind)peer->peer_kind;
    connection->address = peer->address;
    connection->domain = peer->domain;
    connection->gid = peer->gid;
    memcpy(connection->ip, peer->ip, sizeof connection->ip);
    memcpy(connection->name, peer->name, sizeof connection->name);
    memcpy(connection->key_id, peer->key_id, sizeof connection->key_id);
    connection->readable = true;        /* what came while there was no core */
    count(net, connection);
    net_connection_wake(net, connection);
}

void net_connection_admit(struct net *net, uint32_t index)
{
    struct net_connection *connection = connection_at(net, index);
    ASSERT(connection->state == NET_GREETING || connection->state == NET_CHALLENGED);
    connection->state = NET_OPEN;
    count(net, connection);
    if (connection->is_preauth) {
        net_preauth_leave(net, index);
    }
    net_kept_open(net, index);
}

void net_connection_attach(struct net *net, uint32_t index, uint32_t call_index)
{
    struct net_connection *connection = connection_at(net, index);
    struct call *calls = net->calls->calls, *call = &calls[call_index];
    ASSERT(call->emit.conn_next == CALL_NONE && call->connection == CALL_NONE);
    if (connection->calls_count++ == 0) {
        connection->calls_first = call->emit.conn_next = call->emit.conn_prev = call_index;
    } else {
        uint32_t first = connection->calls_first, last = calls[first].emit.conn_prev;
        call->emit.conn_next = first;
        call->emit.conn_prev = last;
        calls[first].emit.conn_prev = calls[last].emit.conn_next = call_index;
    }
    call->connection = index;
    if (connection->key != NET_KEY_NONE) {
        net->keys[connection->key].calls_open++;
    }
}

void net_connection_detach(struct net *net, uint32_t call_index)
{
    struct call *calls = net->calls->calls, *call = &calls[call_index];
    struct net_connection *connection = connection_at(net, call->connection);
    ASSERT(connection->calls_count > 0 && call->emit.conn_next != CALL_NONE);
    uint32_t next = call->emit.conn_next, previous = call->emit.conn_prev;
    calls[previous].emit.conn_next = next;
    calls[next].emit.conn_prev = previous;
    connection->calls_first = next;
    if (--connection->calls_count == 0) {
        connection->calls_first = CALL_NONE;
    }
    call->emit.conn_next = call->emit.conn_prev = CALL_NONE;
    call->connection = CALL_NONE;
    if (connection->key != NET_KEY_NONE) {
        ASSERT(net->keys[connection->key].calls_open > 0);
        net->keys[connection->key].calls_open--;
    }
}

/* The calls have no client any more: they are cancelled, and their ids may be used again at once. A
 * slot is freed after the scheduler has finished the call: now, if that has happened and the call
 * is not in the emit ring. */
static void abandon_calls(struct net *net, uint32_t index)
{
    const struct net_connection *connection = connection_at(net, index);
    while (connection->calls_count > 0) {
        uint32_t call_index = connection->calls_first;
        struct call *call = &net->calls->calls[call_index];
        net_progress_end(net, call_index);
        net_open_remove(net, call_index);
        net_connection_detach(net, call_index);
        net_cancel(net, call_index);
        if (call->state == CALL_FINISHED && !call->in_emit_ring) {
            call_release(net->calls, call_index);
        }
    }
}

void net_connection_close(struct net *net, uint32_t index)
{
    struct net_connection *connection = connection_at(net, index);
    ASSERT(connection->state != NET_CLOSED && net->open_count > 0);
    abandon_calls(net, index);
    net_workflow_abandon(net, index);
    if (connection->is_preauth) {
        net_preauth_leave(net, index);
    }
    if (connection->account != QUOTA_ACCOUNT_NONE) {
        quota_give(&net->quota, connection->account, 1);
        connection->account = QUOTA_ACCOUNT_NONE;
    }
    net_kept_end(net, index);
    net->world->close(net->world->self, connection->handle);
    connection->state = NET_CLOSED;
    connection->handle = -1;
    connection->generation++;
    put_to_sleep(net, connection);
    place(net, connection, --net->open_count);
    net->stats->connections_open = net->open_count;
    for (uint32_t i = 0; i < NET_LISTENERS_MAX; i++) {
        net->listeners[i].again_us = 0;     /* a descriptor is free */
    }
}

uint32_t net_connection_room(const struct net *net, const struct net_connection *connection)
{
    ASSERT(connection->unsent_bytes <= net->settings.limits->send_bytes);
    return net->settings.limits->send_bytes - connection->unsent_bytes;
}

uint32_t net_connection_room_of_calls(const struct net *net,
                                      const struct net_connection *connection)
{
    uint32_t kept = WIRE_REPLY_BYTES_MAX * net->settings.limits->frames_per_pass;
    uint32_t room = net_connection_room(net, connection);
    return room > kept ? room - kept : 0;
}

bool net_connection_may_reply(const struct net *net, const struct net_connection *connection)
{
    return connection->answers_due < net->settings.limits->frames_per_pass &&
           net_connection_room(net, connection) >=
               WIRE_REPLY_BYTES_MAX * (connection->answers_due + 1);
}

uint8_t *net_connection_tail(struct net *net, struct net_connection *connection)
{
    struct net_span *span = &net->kept.of[connection - net->connections].unsent;
    ASSERT(connection->unsent_first + connection->unsent_bytes <= net->settings.limits->send_bytes);
    net_span_to_front(span, connection->unsent, &connection->unsent_first,
                      connection->unsent_bytes);
    return connection->unsent + connection->unsent_bytes;
}

void net_connection_push(struct net *net, struct net_connection *connection, uint32_t count,
                         uint64_t now_us)
{
    ASSERT(count > 0 && count <= net_connection_room(net, connection));
    if (connection->unsent_bytes == 0) {
        connection->progress_us = now_us;
    }
    connection->unsent_bytes += count;
    net_connection_wake(net, connection);
}

static uint16_t retry_ms(enum status status)
{
    switch (status) {
    case STATUS_BUSY_CALLS:
    case STATUS_BUSY_CALLS_OF_CONN:
    case STATUS_BUSY_CALLS_OF_PROG:
    case STATUS_BUSY_CALLS_OF_KEY:
    case STATUS_BUSY_ROWS:
        return RETRY_CALL_MS;
    default:
        return status_class(status) == STATUS_CLASS_BUSY ? RETRY_PLACE_MS : 0;
    }
}

uint32_t net_connection_refusal(const struct wire_fault *fault, bool closes, uint8_t *bytes,
                                uint32_t max)
{
    struct wire_error error = {
        .fault = *fault, .closes = closes, .retry_ms = retry_ms(fault->status)};
    const char *text = status_text(fault->status);
    ASSERT(status_wire(fault->status) != 0);
    memcpy(error.text, text, strnlen(text, sizeof error.text - 1));
    uint32_t count = wire_error_encode(&error, bytes, max);
    ASSERT(count > 0 && count <= WIRE_REPLY_BYTES_MAX);
    return count;
}

void net_connection_error(struct net *net, struct net_connection *connection,
                          const struct wire_fault *fault, bool closes, uint64_t now_us)
{
    uint32_t count = net_connection_refusal(fault, closes, net_connection_tail(net, connection),
                                        net_connection_room(net, connection));
    net_connection_push(net, connection, count, now_us);
    net_refusal_note(net, connection, fault, now_us);
    /* A deadline is not the fault of a frame. */
    net->stats->frames_bad += fault->status != STATUS_GONE_DEADLINE ? 1 : 0;
}

void net_connection_fail(struct net *net, uint32_t index, const struct wire_fault *fault,
                         uint64_t now_us)
{
    struct net_connection *connection = connection_at(net, index);
    ASSERT(net_connection_reads(connection));
    net->stats->connections_dropped++;
    if (net_connection_room(net, connection) < WIRE_REPLY_BYTES_MAX) {
        net_connection_close(net, index);
        return;
    }
    net_connection_error(net, connection, fault, true, now_us);
    abandon_calls(net, index);
    net_workflow_abandon(net, index);
    connection->state = NET_CLOSING;
}

void net_connection_flush(struct net *net, uint32_t index, uint64_t now_us)
{
    struct net_connection *connection = connection_at(net, index);
    struct net_transfer *transfer = &net->kept.of[index].sent;
    while (connection->unsent_bytes > 0 && !connection->stalled) {
        net_transfer_ask(transfer);
        int64_t sent = net->world->send(net->world->self, connection->handle,
                                        connection->unsent + connection->unsent_first,
                                        connection->unsent_bytes);
        net_transfer_count(transfer, sent);
        if (sent == WORLD_EAGAIN || sent == 0) {
            connection->stalled = true;
            return;
        }
        if (sent < 0) {
            net_connection_close(net, index);
            return;
        }
        ASSERT(sent <= (int64_t)connection->unsent_bytes);
        connection->unsent_first += (uint32_t)sent;
        connection->unsent_bytes -= (uint32_t)sent;
        connection->progress_us = now_us;
        net->stats->bytes_sent += (uint64_t)sent;
    }
    if (connection->state == NET_CLOSING && connection->unsent_bytes == 0) {
        net_connection_close(net, index);
    }
}

void net_connection_watch(struct net *net, uint32_t index)
{
    struct net_connection *connection = connection_at(net, index);
    bool reads = net_connection_reads(connection) && !connection->pending &&
                 net_connection_may_reply(net, connection);
    uint32_t interest = (reads ? WORLD_READABLE : 0u) |
                        (connection->unsent_bytes > 0 ? WORLD_WRITABLE : 0u);
    if (interest != connection->interest) {
        connection->interest = interest;
        net->world->watch(net->world->self, connection->handle, WORLD_SOURCE_CONNECTION, index,
                          interest);
    }
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static uint64_t write_deadline_us(const struct net *net, const struct net_connection *connection)
{
    return connection->unsent_bytes > 0
               ? connection->progress_us + net->settings.write_deadline_us
               : UINT64_MAX;
}

/* For the handshake, for the rest of a frame, or for the next frame of an idle client. */
static uint64_t read_deadline_us(const struct net *net, const struct net_connection *connection)
{
    if (connection->state == NET_PROXIED || connection->state == NET_GREETING ||
        connection->state == NET_CHALLENGED) {
        return connection->accepted_us + net->settings.handshake_us;
    }
    if (connection->state != NET_OPEN) {
        return UINT64_MAX;
    }
    if (connection->frame_started_us != 0) {
        uint64_t bought_us = connection->received_bytes * UINT64_C(1000000) /
                             net->settings.frame_rate;
        return connection->frame_started_us + net->settings.frame_deadline_us + bought_us;
    }
    bool is_idle = connection->calls_count == 0 && connection->flows_count == 0;
    return is_idle ? connection->active_us + net->settings.idle_us : UINT64_MAX;
}

uint64_t net_connection_deadline_us(const struct net *net,
                                    const struct net_connection *connection)
{
    return lesser(write_deadline_us(net, connection), read_deadline_us(net, connection));
}

/* What closes was noted when its ERROR was queued. */
static void note_silent(struct net *net, const struct net_connection *connection, uint64_t now_us)
{
    if (connection->state == NET_OPEN) {
        net_refusal_note_drop(net, connection, "it does not read: net.write_deadline", now_us);
    } else if (connection->state != NET_CLOSING) {
        net_refusal_note_drop(net, connection, "no handshake within net.handshake", now_us);
    }
}

void net_connection_expire(struct net *net, uint32_t index, uint64_t now_us)
{
    struct net_connection *connection = connection_at(net, index);
    ASSERT(connection->state != NET_CLOSED);
    uint64_t deadline_us = net_connection_deadline_us(net, connection);
    if (now_us < deadline_us) {
        net->due_us = lesser(net->due_us, deadline_us);
        return;
    }
    bool silent = connection->state != NET_OPEN || now_us >= write_deadline_us(net, connection);
    /* A connection that is closing was counted when its ERROR was queued. */
    uint32_t counts = connection->state != NET_CLOSING ? 1 : 0;
    net->stats->connections_expired += counts;
    if (silent) {
        net->stats->connections_dropped += counts;
        note_silent(net, connection, now_us);
        net_connection_close(net, index);
        return;
    }
    struct wire_fault fault = {.status = STATUS_GONE_DEADLINE, .field = WIRE_FIELD_CONNECTION};
    net_connection_fail(net, index, &fault, now_us);
}

/* True when the next step is the appliance's: the inbox may have room in the next pass, the
 * scheduler may answer, and the time of a partial frame restarts in every pass in which the client
 * waits for us. */
static bool waits_for_us(const struct net *net, const struct net_connection *connection)
{
    return connection->pending || connection->backlog || !net_connection_may_reply(net, connection);
}

void net_connection_rest(struct net *net, struct net_connection *connection)
{
    net->due_us = lesser(net->due_us, net_connection_deadline_us(net, connection));
    if (!waits_for_us(net, connection)) {
        put_to_sleep(net, connection);
    }
}
