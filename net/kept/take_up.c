/* SPDX-License-Identifier: MIT */
/*
 * What: a core goes on with what the one before it has left: replies, connections, calls, and
 * workflows (take_up_flows.c).
 *
 * A call whose connection stays goes on by itself. One whose connection is lost goes on when its
 * client sends it again: it gets the tokens that it had as a part of a reply. Either way only their
 * KV is computed again, and the last one of them: it may have ended the call, and whether it did is
 * found as it was before. Log probabilities are not kept: a call that asked for them computes all
 * tokens again, and sends those that its client lacks.
 *
 * Death: a core may die here, too. What it has done until then is done again by the next one.
 * Poison: frames that cores have died of twice are not tried a third time; and if successors die
 * before they have ended a pass, the next one keeps no connection and no workflow. Cores that were
 * killed do not count.
 * Bounds: O(connections * keys), all kept tokens, the bytes of a move.
 */
#include <string.h>

#include "net/auth/auth.h"
#include "net/cancel.h"
#include "net/connection.h"
#include "net/intake.h"
#include "net/kept/connections.h"
#include "net/kept/progress.h"
#include "net/kept/replies.h"
#include "net/kept/workflows.h"
#include "net/stop_text.h"

#define DEATHS_MAX   2
#define ATTEMPTS_MAX 2

/* ---- connections ----------------------------------------------------------------------------- */

static bool may_stay(const struct net *net)
{
    return net->kept.head->attempts <= ATTEMPTS_MAX;
}

/* Moves that were under way have ended; all places are within the buffers. */
static bool is_sane(struct net *net, uint32_t index)
{
    const struct net_connection *connection = &net->connections[index];
    const struct limits *limits = net->settings.limits;
    struct net_kept_connection *kept = &net->kept.of[index];
    const struct net_kept_version *version = net_kept_version(kept);
    uint32_t frame = WIRE_HEADER_BYTES + limits->frame_bytes;
    if (!net_kept_is_whole(kept) || !version->may_stay ||
        !net_span_is_sane(&kept->received, frame) ||
        !net_span_is_sane(&kept->unsent, limits->send_bytes)) {
        return false;
    }
    net_span_settle(&kept->received);
    net_span_settle(&kept->unsent);
    net_span_go_on(&kept->received, connection->received);
    net_span_go_on(&kept->unsent, connection->unsent);
    return kept->received.base <= version->read && version->read <= kept->taken.total &&
           kept->taken.total - kept->received.base <= frame &&
           kept->unsent.base <= kept->sent.total && kept->sent.total <= version->written &&
           version->written - kept->unsent.base <= limits->send_bytes;
}

/* True for a client that could come in again as it is. */
static bool is_let_in(const struct net *net, const struct net_kept_peer *peer, uint32_t key)
{
    struct wire_fault fault;
    bool is_known = peer->peer_kind == WORLD_PEER_LOCAL
                        ? config_access_allows(&net->settings.access, (uint32_t)peer->domain,
                                               &peer->gid, 1)
                        : !net_auth_asks(net, (enum world_peer_kind)peer->peer_kind) ||
                              key != NET_KEY_NONE;
    return is_known && net_connection_fits(net, peer->domain, &fault);
}

/* Counts what was under way when the core died; false where it cannot be known. */
static bool settle_transfers(const struct net *net, struct net_kept_connection *kept,
                             const struct world_kept *found)
{
    const struct net_kept_version *version = net_kept_version(kept);
    uint64_t room_end = kept->received.base + WIRE_HEADER_BYTES + net->settings.limits->frame_bytes;
    if (!found->is_exact) {
        return !net_transfer_is_in_doubt(&kept->taken) && !net_transfer_is_in_doubt(&kept->sent);
    }
    if (found->taken < kept->taken.total || found->taken > room_end ||
        found->sent < kept->sent.total || found->sent > version->written) {
        return false;
    }
    kept->taken.total = found->taken;
    kept->sent.total = found->sent;
    kept->taken.asked = found->taken;
    kept->sent.asked = found->sent;
    return true;
}

static void open_again(struct net *net, uint32_t index, int32_t handle, uint32_t key)
{
    const struct net_kept_connection *kept = &net->kept.of[index];
    const struct net_kept_version *version = net_kept_version(kept);
    struct net_connection *connection = &net->connections[index];
    net_connection_open_again(net, index, &kept->peer, handle);
    connection->key = key;
    connection->is_kept = true;
    connection->received_first = (uint32_t)(version->read - kept->received.base);
    connection->received_bytes = (uint32_t)(kept->taken.total - version->read);
    connection->pending = connection->received_bytes >= WIRE_HEADER_BYTES;
    connection->unsent_first = (uint32_t)(kept->sent.total - kept->unsent.base);
    connection->unsent_bytes = (uint32_t)(version->written - kept->sent.total);
    net->stats->connections_kept++;
    net->due_us = 0;                    /* at once */
}

/* Counts the death for the connection whose frames the core died of. Once: the next one may die
 * before it has taken up all of them. */
static void count_death(struct net_kept_head *head, struct net_kept_connection *kept)
{
    kept->deaths++;
    kept_order();
    head->acting = 0;
}

static void take_up_connection(struct net *net, uint32_t index)
{
    struct net_kept_connection *kept = &net->kept.of[index];
    struct world_kept found;
    if (net->kept.head->acting == index + 1) {
        count_death(net->kept.head, kept);
    }
    int32_t handle = may_stay(net) && is_sane(net, index) &&
                     kept->deaths < DEATHS_MAX
                         ? net->world->recall(net->world->self, index, &found) : WORLD_ECLOSED;
    uint32_t key = net_kept_find_key(net, kept->peer.key_id, kept->peer.domain,
                                     kept->peer.key_print);
    if (handle >= 0 && is_let_in(net, &kept->peer, key) && settle_transfers(net, kept, &found)) {
        open_again(net, index, handle, key);
        return;
    }
    net_kept_write(kept, (struct net_kept_version){0});
    net->world->forget(net->world->self, index);
    if (handle >= 0) {
        net->world->close(net->world->self, handle);
    }
}

static void take_up_connections(struct net *net, bool was_killed)
{
    struct net_kept_head *head = net->kept.head;
    head->attempts += !was_killed;
    head->acting = was_killed ? 0 : head->acting;
    for (uint32_t i = 0; net->world->recall != NULL && i < net->settings.limits->connections; i++) {
        take_up_connection(net, i);
    }
    head->acting = 0;               /* where it was garbage, or there is none to recall */
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The last version that the connection has committed; NULL: the call does not go on with it. */
static const struct net_progress_version *committed(const struct net *net,
                                                 const struct net_progress *progress)
{
    const struct net_progress_version *found = NULL;
    uint32_t index = progress->connection;
    for (uint32_t i = 0; i < 2; i++) {
        const struct net_progress_version *version = &progress->versions[i];
        if (net_kept_holds(net, index, progress->begun, version->number) &&
            net->connections[index].state == NET_OPEN &&
            (found == NULL || found->number < version->number)) {
            found = version;
        }
    }
    return found;
}

static void fill_emit(struct call *call, const struct net_progress *progress,
                      const struct net_progress_version *version)
{
    struct call_emit *emit = &call->emit;
    ASSERT(version->held_bytes <= CALL_HELD_BYTES);
    emit->request = progress->request;
    emit->eot_is_eos = progress->eot_is_eos;
    emit->digest = version->digest;
    emit->sent_tokens = version->tokens;
    emit->accept_sent = version->accept_sent;
    emit->text_bytes = version->text_bytes;
    emit->held_bytes = version->held_bytes;
    memcpy(emit->held, version->held, version->held_bytes);
}

static void fill(struct call *call, const struct net_progress *progress)
{
    bool again = progress->sampling.wants_logprobs;
    call->client_call_id = progress->call_id;
    memcpy(call->program_id, progress->program_id, sizeof call->program_id);
    call->deadline_us = progress->deadline_us;
    call->arrived_us = progress->arrived_us;
    call->goes_on = true;
    call->prompt_tokens = progress->prompt_tokens;
    call->max_tokens = progress->max_tokens;
    call->thread = progress->thread;
    call->eos_id_index_plus_1 = progress->eos_id_index_plus_1;
    call->want_text = progress->want_text;
    call->want_control = progress->want_control;
    call->want_drafts = progress->want_drafts;
    call->sampling = progress->sampling;
    memcpy(call->biases, progress->biases, sizeof call->biases);
    call->stop_texts_count = progress->stop_texts_count;
    memcpy(call->stop_texts, progress->stop_texts, sizeof call->stop_texts);
    call->generated_tokens = again || call->emit.sent_tokens == 0 ? 0 : call->emit.sent_tokens - 1;
    call->published_tokens = call->generated_tokens;
    net_stop_text_prepare(call);
}

/* The call goes on with its connection. */
static void go_on(struct net *net, uint32_t slot, const struct net_progress_version *version)
{
    const struct net_progress *progress = &net->progress[slot];
    struct call *call = &net->calls->calls[slot];
    call_take_slot(net->calls, slot, progress->domain);
    fill_emit(call, progress, version);
    fill(call, progress);
    net_connection_attach(net, progress->connection, slot);
    net->connections[progress->connection].calls_mark ^= version->check;
    net_call_resume(net, slot, version->done.finish != CALL_FINISH_NONE ? &version->done : NULL);
    net->stats->calls_continued += call->generated_tokens > 0;
    if (version->is_cancelled) {
        net_cancel(net, slot);
    }
}

static bool may_go_on(const struct net *net, uint32_t slot,
                      const struct net_progress_version *version)
{
    const struct net_progress *progress = &net->progress[slot];
    return version != NULL && !version->is_closed && net_progress_has_tokens(net, slot, version) &&
           net_progress_has_prompt(net, slot) &&
           progress->domain == net->connections[progress->connection].domain &&
           call_room(net->calls, progress->domain) > 0;
}

/* All of its tokens but the last, of its last version that is whole. */
static void keep_part(struct net *net, uint32_t slot)
{
    const struct net_progress *progress = &net->progress[slot];
    const struct net_progress_version *versions = progress->versions;
    const struct net_progress_version *last = net_progress_last(progress);
    last = net_progress_has_tokens(net, slot, last) ? last : &versions[last == &versions[0]];
    if (progress->sampling.wants_logprobs || !net_progress_has_tokens(net, slot, last) ||
        last->is_closed || last->tokens < 2 ||
        net_reply_find(net, progress->domain, progress->program_id, progress->call_id) != NULL) {
        return;
    }
    struct net_reply_part part = {
        .domain = progress->domain, .call_id = progress->call_id, .request = progress->request,
        .tokens = net->calls->calls[slot].tokens + progress->prompt_tokens,
        .prompt_tokens = progress->prompt_tokens, .tokens_count = last->tokens - 1};
    memcpy(part.program_id, progress->program_id, sizeof part.program_id);
    net_reply_keep_part(net, &part);
}

static void take_up_call(struct net *net, uint32_t slot)
{
    struct net_progress *progress = &net->progress[slot];
    if (!net_progress_is_whole(net, slot)) {
        net_progress_end(net, slot);
        return;
    }
    const struct net_progress_version *version = committed(net, progress);
    if (may_go_on(net, slot, version)) {
        progress->versions[version == &progress->versions[0]].number = 0;   /* not committed */
        go_on(net, slot, version);
        return;
    }
    if (version == NULL || !version->is_closed) {
        keep_part(net, slot);
    }
    net_progress_end(net, slot);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* One that lacks a call or workflow, or the last version of one, is closed. */
static void verify(struct net *net)
{
    for (uint32_t i = 0; i < net->settings.limits->connections; i++) {
        const struct net_kept_version *version = net_kept_version(&net->kept.of[i]);
        const struct net_connection *connection = &net->connections[i];
        if (connection->state == NET_OPEN &&
            (connection->calls_count != version->calls_count ||
             connection->calls_mark != version->calls_mark ||
             connection->flows_count != version->flows_count ||
             net_kept_flows_mark(net, i) != version->flows_mark)) {
            net_connection_close(net, i);
        }
    }
}

void net_take_up(struct net *net, bool was_killed)
{
    net_replies_take_up(net);
    take_up_connections(net, was_killed);
    for (uint32_t slot = 0; slot < net->calls->count; slot++) {
        take_up_call(net, slot);
    }
    net_kept_flows_take_up(net, may_stay(net));
    verify(net);
}
