/* SPDX-License-Identifier: MIT */
/*
 * What: the stage: its memory, its listeners, and the two moments of a pass.
 *
 *   net_event()  notes readiness
 *   net_poll()   for every connection that is awake: receive, act on frames; deadlines; accepts
 *   net_emit()   news of the scheduler; then for every connection awake: backlog, flush, watch
 *
 * Invariants: see net_check(). Sockets are written in net_emit() only, except to refuse a
 * connection that finds no slot.
 *
 * Bounds: a pass takes O(connections with something to do), times what each may do. When a deadline
 * may have passed it takes O(connections). That is rare: `due_us` is the earliest deadline at the
 * time of the last search. NET_ACCEPTS_PER_PASS accepts of each listener.
 *
 * Why not act on readiness at once: the order of events would decide which connection is served.
 * Instead every connection has one turn in a pass, whatever the others send.
 *
 * Why not a heap of deadlines: each byte from a client moves its deadline, so the heap would work
 * for every frame to save one search of all connections every few seconds.
 */
#include "net/net.h"

#include <string.h>

#include "net/auth/preauth.h"
#include "net/auth/auth.h"
#include "net/auth/proxy.h"
#include "net/auth/refusals.h"
#include "net/connection.h"
#include "net/emit.h"
#include "net/intake.h"
#include "net/open_calls.h"
#include "net/kept/connections.h"
#include "net/kept/progress.h"
#include "net/kept/replies.h"
#include "net/kept/workflows.h"
#include "net/workflow/workflow.h"

#define ACCEPT_AGAIN_US UINT64_C(1000000)       /* when descriptors have run out */

/* ---- boot ------------------------------------------------------------------------------------ */

#define HELD_US 50000u              /* between looks at what has been written */

void net_settings_fill(struct net_settings *settings, const struct options *options,
                       const struct limits *limits, const struct config_access *access,
                       const char *model_name)
{
    *settings = (struct net_settings){
        .limits = limits,
        .handshake_us = options->net_handshake.number,
        .frame_deadline_us = options->net_frame_deadline.number,
        .write_deadline_us = options->net_write_deadline.number,
        .idle_us = options->net_idle.number,
        .call_deadline_us = options->limits_call_deadline.number,
        .frame_rate = (uint32_t)options->net_frame_rate.number,
        .linger_us = options->workflow_linger.number,
        .unsent_tokens = (uint32_t)options->net_unsent_tokens.number,
        .access = *access,
        .ends_wait = options->limits_replies_file.text[0] != '\0' &&
                     option_limits_replies_sync(options) == OPTION_LIMITS_REPLIES_SYNC_YES,
    };
    memcpy(settings->model, model_name, strnlen(model_name, sizeof settings->model - 1));
}

/* The longest text of a prompt: no more than a frame carries, and no more than a context of the
 * longest tokens. A longer text is refused before it is tokenized. */
static uint32_t text_bytes_max(const struct limits *limits, const struct gguf_vocab_info *vocab)
{
    uint64_t bytes = vocab_text_bytes_max(vocab, limits->context_tokens);
    return bytes < limits->frame_bytes ? (uint32_t)bytes : limits->frame_bytes;
}

void net_plan_memory(struct memory_plan *plan, const struct limits *limits,
                     const struct gguf_vocab_info *vocab)
{
    memory_plan_add(plan, MEMORY_CORE, "net connections", limits->connections,
             sizeof(struct net_connection));
    memory_plan_add(plan, MEMORY_CORE, "net connection order", limits->connections,
                    sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "net text of a frame", 1, limits->send_bytes);
    memory_plan_add(plan, MEMORY_CORE, "net tokenizer scratch", 1,
             vocab_scratch_bytes(text_bytes_max(limits, vocab)));
    net_open_plan_memory(plan, limits);
    net_workflow_plan_memory(plan, limits, text_bytes_max(limits, vocab));
    net_replies_plan_memory(plan, limits);
    net_progress_plan_memory(plan, limits);
    net_kept_plan_memory(plan, limits);
    net_kept_flows_plan_memory(plan, limits);
    net_auth_plan_memory(plan, limits);
}

static void init_connections(struct net *net, struct arena *arena)
{
    const struct limits *limits = net->settings.limits;
    net->connections = arena_take(arena, limits->connections, sizeof(struct net_connection));
    net->order = arena_take(arena, limits->connections, sizeof(uint32_t));
    for (uint32_t i = 0; i < limits->connections; i++) {
        net->order[i] = i;
        net->connections[i] = (struct net_connection){
            .generation = 1,
            .account = QUOTA_ACCOUNT_NONE,
            .handle = -1,
            .position = i,
            .calls_first = CALL_NONE,
            .flows_first = WORKFLOW_NONE,
        };
    }
}

/* The room for replies, and for one token with its text beside them (config_check). */
STATIC_ASSERT(WIRE_REPLY_BYTES_MAX == CONFIG_REPLY_BYTES, "a reply is what the check counts");
STATIC_ASSERT(WIRE_HEADER_BYTES + NET_FRAME_OF_TOKEN_BYTES_MAX <= CONFIG_TOKEN_FRAME_BYTES,
              "a token's frame is what the check counts");

void net_init(struct net *net, const struct net_settings *settings,
              const struct config_keys *keys, const struct net_wiring *wiring, struct arena *arena)
{
    const struct limits *limits = settings->limits;
    /* One token with its text fits a frame, and a frame fits beside the room for replies. */
    ASSERT(limits->frame_bytes >= NET_FRAME_OF_TOKEN_BYTES_MAX);
    ASSERT(limits->send_bytes >= WIRE_REPLY_BYTES_MAX * limits->frames_per_pass +
                                     WIRE_HEADER_BYTES + NET_FRAME_OF_TOKEN_BYTES_MAX);
    *net = (struct net){
        .settings = *settings,
        .world = wiring->world,
        .vocab = wiring->vocab,
        .calls = wiring->calls,
        .exchange = wiring->exchange,
        .stats = wiring->stats,
        .workflows = wiring->workflows,
        .encoder = wiring->encoder,
        .due_us = UINT64_MAX,
    };
    for (uint32_t i = 0; i < NET_LISTENERS_MAX; i++) {
        net->listeners[i].handle = -1;
    }
    quota_init(&net->quota, limits->connections);
    net_preauth_init(net);
    init_connections(net, arena);
    net->text = arena_take(arena, 1, limits->send_bytes);
    net->vocab_digest = vocab_digest(net->vocab);
    net->chat_digest = chat_digest(settings->chat.verdict, &settings->chat.format);
    uint32_t text_bytes = text_bytes_max(limits, &net->vocab->info);
    vocab_scratch_init(&net->scratch, arena_take(arena, 1, vocab_scratch_bytes(text_bytes)),
                       text_bytes);
    net_open_init(net, arena);
    net_workflow_init(net, text_bytes, arena);
    struct arena *kept = wiring->kept != NULL ? wiring->kept : arena;
    if (wiring->replies != NULL) {
        net->replies.pages = *wiring->replies;
    } else {
        net_replies_take(&net->replies.pages, limits, kept);
    }
    net_replies_init(net, arena);
    net_progress_init(net, kept);
    net_kept_init(net, kept);
    net_kept_flows_init(net, kept);
    net_auth_init(net, keys, arena);
}

void net_bind_quotas(struct net *net, const struct quotas *quotas)
{
    quota_bind(&net->quota, quotas, QUOTA_CONNECTIONS);
    quota_bind(&net->replies.quota, quotas, QUOTA_REPLIES);
    quota_bind(&net->replies.tokens_quota, quotas, QUOTA_REPLY_TOKENS);
    if (net->workflows != NULL) {
        quota_bind(&net->workflows->quota, quotas, QUOTA_WORKFLOWS);
    }
}

/* ---- listeners ------------------------------------------------------------------------------- */

static void watch_listener(struct net *net, uint32_t index, bool accepts)
{
    struct net_listener *listener = &net->listeners[index];
    listener->is_watched = accepts;
    if (listener->handle >= 0) {
        net->world->watch(net->world->self, listener->handle, WORLD_SOURCE_LISTENER, index,
                          accepts ? WORLD_READABLE : 0);
    }
}

/* A listener stays readable while a connection waits: watching it would spin. */
static void pause_listener(struct net *net, uint32_t index, uint64_t again_us)
{
    watch_listener(net, index, false);
    net->listeners[index].again_us = again_us;
}

void net_listen(struct net *net, enum net_listener_index index, int32_t handle)
{
    ASSERT(index < NET_LISTENERS_MAX);
    net->listeners[index].handle = handle;
    if (!net->draining && !net->is_resting) {
        watch_listener(net, index, true);
    }
}

void net_rest(struct net *net)
{
    net->is_resting = true;
    for (uint32_t i = 0; i < NET_LISTENERS_MAX; i++) {
        watch_listener(net, i, false);
    }
}

bool net_has_newcomers(const struct net *net)
{
    for (uint32_t i = 0; i < net->open_count; i++) {
        if (net->connections[net->order[i]].state < NET_OPEN) {
            return true;
        }
    }
    return false;
}

void net_drain(struct net *net)
{
    net->draining = true;
    net_rest(net);
}

static bool is_idle(const struct net_connection *connection)
{
    return connection->state == NET_OPEN && connection->calls_count == 0 &&
           connection->flows_count == 0 && connection->answers_due == 0 &&
           connection->unsent_bytes == 0 && connection->received_bytes == 0;
}

void net_leave(struct net *net)
{
    ASSERT(net->draining);
    for (uint32_t i = 0; i < NET_LISTENERS_MAX; i++) {
        if (net->listeners[i].handle >= 0) {
            net->world->close(net->world->self, net->listeners[i].handle);
            net->listeners[i].handle = -1;
        }
    }
    for (uint32_t i = net->open_count; i-- > 0;) {
        uint32_t index = net->order[i];
        if (i < net->open_count && is_idle(&net->connections[index])) {
            net_connection_close(net, index);
        }
    }
}

/* Sends the refusal, if one send can do it, and closes the connection. */
static void turn_away(struct net *net, int32_t handle, const struct world_peer *peer,
                      const struct wire_fault *fault, uint64_t now_us)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    uint32_t count = net_connection_refusal(fault, true, bytes, sizeof bytes);
    int64_t sent = net->world->send(net->world->self, handle, bytes, count);
    net->stats->bytes_sent += sent > 0 ? (uint64_t)sent : 0;    /* it is gone either way */
    net->world->close(net->world->self, handle);
    net->stats->connections_refused++;
    net_refusal_note_peer(net, peer, fault->status, now_us);
}

/* A place among the connections that have not authenticated; false, with the reason, if none. */
static bool make_place(struct net *net, const struct world_peer *peer, struct wire_fault *fault,
                       uint64_t now_us)
{
    uint32_t yields;
    if (!net_preauth_admit(net, peer, now_us, &yields, fault)) {
        return false;
    }
    if (yields != NET_CONNECTION_NONE) {
        net->stats->connections_displaced++;
        net_connection_close(net, yields);
    }
    return true;
}

/* False, with the reason, for a peer that gets no slot. */
static bool admit_peer(struct net *net, const struct world_peer *peer, struct wire_fault *fault,
                       uint64_t now_us)
{
    uint32_t connections = net->settings.limits->connections;
    if (!net_auth_allows(net, peer)) {
        net->stats->auth_refused++;
        *fault = (struct wire_fault){.status = STATUS_BAD_AUTH, .field = WIRE_FIELD_CONNECTION};
        return false;
    }
    if (peer->kind == WORLD_PEER_LOCAL && net->open_count < connections) {
        return net_connection_fits(net, net_auth_domain(peer), fault);
    }
    if (peer->kind != WORLD_PEER_LOCAL && !make_place(net, peer, fault, now_us)) {
        return false;
    }
    *fault = (struct wire_fault){.status = STATUS_BUSY_CONNECTIONS,
                                 .field = WIRE_FIELD_CONNECTION,
                                 .found = connections,
                                 .max = connections};
    return net->open_count < connections;
}

/* False when no connection waits at the listener, or the listener must wait. */
static bool accept_one(struct net *net, uint32_t index, uint64_t now_us)
{
    struct world_peer peer;
    struct wire_fault fault;
    uint64_t free_us = index == NET_LISTENER_TCP ? net_preauth_free_us(net, now_us) : 0;
    if (free_us != 0) {
        pause_listener(net, index, free_us);
        return false;
    }
    int32_t handle = net->world->accept(net->world->self, net->listeners[index].handle, &peer);
    if (handle == WORLD_EFULL) {
        pause_listener(net, index, now_us + ACCEPT_AGAIN_US);
    }
    if (handle < 0) {
        return false;
    }
    if (net_proxy_is_due(net, &peer)) {
        peer.kind = WORLD_PEER_LOOPBACK;        /* an address that many clients share */
    }
    if (admit_peer(net, &peer, &fault, now_us)) {
        net_connection_open(net, handle, &peer, net_auth_domain(&peer), now_us);
    } else {
        turn_away(net, handle, &peer, &fault, now_us);
    }
    return true;
}

/* Is there a listener that waits for its time? */
static bool is_paused(const struct net *net, uint32_t index)
{
    const struct net_listener *listener = &net->listeners[index];
    return listener->handle >= 0 && !listener->is_watched && !net->draining &&
           !net->is_resting;
}

static void accept_all(struct net *net, uint64_t now_us)
{
    for (uint32_t i = 0; i < NET_LISTENERS_MAX; i++) {
        struct net_listener *listener = &net->listeners[i];
        if (is_paused(net, i) && now_us >= listener->again_us) {
            watch_listener(net, i, true);
        }
        uint32_t rest = NET_ACCEPTS_PER_PASS;
        bool ready = listener->is_ready;
        listener->is_ready = false;
        while (ready && listener->is_watched && rest > 0 && accept_one(net, i, now_us)) {
            rest--;
        }
    }
}

/* ---- the pass -------------------------------------------------------------------------------- */

void net_event(struct net *net, const struct world_event *event)
{
    if (event->source == WORLD_SOURCE_LISTENER) {
        ASSERT(event->index < NET_LISTENERS_MAX);
        net->listeners[event->index].is_ready = true;
        return;
    }
    ASSERT(event->source == WORLD_SOURCE_CONNECTION);
    ASSERT(event->index < net->settings.limits->connections);
    struct net_connection *connection = &net->connections[event->index];
    connection->readable = connection->readable || (event->ready & WORLD_READABLE) != 0;
    connection->hangup = connection->hangup || (event->ready & WORLD_HANGUP) != 0;
    connection->stalled = connection->stalled && (event->ready & WORLD_WRITABLE) == 0;
    net_connection_wake(net, connection);
}

/* By slot, not in `order`: a connection that expires is woken, which changes the order. */
static void expire_all(struct net *net, uint64_t now_us)
{
    net->due_us = UINT64_MAX;
    for (uint32_t index = 0; index < net->settings.limits->connections; index++) {
        if (net->connections[index].state != NET_CLOSED) {
            net_connection_expire(net, index, now_us);
        }
    }
}

/* Connections are visited from the last to the first: closing one moves the last of them, which
 * has been visited, into its place. */
void net_poll(struct net *net, uint64_t now_us)
{
    net->again = false;
    for (uint32_t i = net->awake_count; i-- > 0;) {
        net_intake(net, net->order[i], now_us);
    }
    if (now_us >= net->due_us) {
        expire_all(net, now_us);
    }
    accept_all(net, now_us);
    net->polled_us = now_us;
    net_kept_flows_settle(net);
    net_workflow_expire(net, now_us);
    net_workflow_bound(net);
}

static void serve(struct net *net, uint32_t index, uint64_t now_us)
{
    struct net_connection *connection = &net->connections[index];
    if (connection->backlog) {
        net_emit_backlog(net, index, now_us);
    }
    net_kept_commit(net, index);
    net_connection_flush(net, index, now_us);
    if (connection->state == NET_CLOSED) {
        return;
    }
    net_connection_watch(net, index);
    /* What stopped for lack of room, or at its share of the pass, may go on in the next. */
    bool more_out = connection->backlog && connection->unsent_bytes == 0;
    bool more_in = connection->pending && net_intake_may_act(net, connection);
    net->again = net->again || more_out || more_in;
    net_connection_rest(net, connection);
}

void net_emit(struct net *net, uint64_t now_us)
{
    net_emit_held(net);
    net_emit_news(net, now_us);
    for (uint32_t i = net->awake_count; i-- > 0;) {
        serve(net, net->order[i], now_us);
    }
    net->kept.head->attempts = 0;
    net->again = net->again || net_kept_flows_are_due(net);
}

uint64_t net_next_us(const struct net *net, uint64_t now_us)
{
    /* After intake, a send to a lost client or a stop string has asked for a call's end. */
    if (net->again || !ring_is_empty(&net->exchange->inbox_ring)) {
        return 0;
    }
    uint64_t next_us = net_workflow_next_us(net);
    next_us = net->due_us < next_us ? net->due_us : next_us;
    /* The writer rings; one that died before it could does not. */
    next_us = net->held.are_there && next_us > now_us + HELD_US ? now_us + HELD_US : next_us;
    for (uint32_t i = 0; i < NET_LISTENERS_MAX; i++) {
        uint64_t again_us = is_paused(net, i) ? net->listeners[i].again_us : UINT64_MAX;
        next_us = again_us < next_us ? again_us : next_us;
    }
    return next_us <= now_us ? 0 : next_us;
}

bool net_is_flushed(const struct net *net)
{
    for (uint32_t i = 0; i < net->open_count; i++) {
        if (net->connections[net->order[i]].unsent_bytes > 0) {
            return false;
        }
    }
    for (uint32_t i = 0; i < net->calls->count; i++) {
        if (net->calls->calls[i].state == CALL_FINISHED) {
            return false;
        }
    }
    return net_workflow_is_flushed(net);
}

void net_close_all(struct net *net)
{
    while (net->open_count > 0) {
        net_connection_close(net, net->order[0]);
    }
    net_drain(net);
}
