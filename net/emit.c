/* SPDX-License-Identifier: MIT */
/*
 * What: answers, and the frames of calls, into send buffers:
 *
 *   ACCEPT  TOKENS*  DONE        or one ERROR, for a call that the scheduler refused
 *
 * Each accepted call gets exactly one ACCEPT and one terminal frame; token indices are consecutive;
 * DONE carries the digest of the tokens that were framed. Once the terminal frame is in the buffer,
 * the slot is free and the reply is on record (net/kept/replies.c). Where settings.ends_wait, it is
 * on record before, and DONE waits until that is on the disk.
 *
 * Back-pressure: news that finds no room stays in the call's slot (`backlog`). Calls of one
 * connection take turns: a call that got a share of the room goes after those that got none. A call
 * with more than unsent_tokens waiting is paused: it gets no place in a batch until its client
 * reads.
 *
 * Bounds: news: each call is visited once. A visit makes one frame of TOKENS, unless one frame
 * cannot hold them all.
 */
#include "net/emit.h"

#include <string.h>

#include "net/connection.h"
#include "net/kept/progress.h"
#include "net/kept/replies.h"
#include "net/open_calls.h"
#include "net/stop_text.h"
#include "net/text.h"
#include "net/workflow/workflow.h"

STATIC_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "log probabilities are sent as they are");

/* ---- answers to PROGRAM_START and PROGRAM_END ------------------------------------------------ */

static void deliver_answer(struct net *net, const struct answer *answer, uint64_t now_us)
{
    struct net_connection *connection = &net->connections[answer->connection];
    ASSERT(answer->connection < net->settings.limits->connections);
    if (connection->generation != answer->connection_generation ||
        connection->state != NET_OPEN) {
        return;
    }
    ASSERT(connection->answers_due > 0);
    connection->answers_due--;
    uint8_t type = answer->kind == COMMAND_PROGRAM_START ? WIRE_PROGRAM_START : WIRE_PROGRAM_END;
    if (answer->status != STATUS_OK) {
        struct wire_fault fault = {.status = answer->status, .field = WIRE_FIELD_PROGRAM_ID,
                                   .frame_type = type};
        net_connection_error(net, connection, &fault, false, now_us);
        return;
    }
    struct wire_program_ok ok = {.kind = type, .calls = answer->calls,
                                 .service_us = answer->service_us, .wait_us = answer->wait_us};
    memcpy(ok.program_id, answer->program_id, sizeof ok.program_id);
    uint32_t count = wire_program_ok_encode(&ok, net_connection_tail(net, connection),
                                            net_connection_room(net, connection));
    net_connection_push(net, connection, count, now_us);
}

/* ---- frames of a call: each returns false where there is no room ----------------------------- */

static struct net_connection *reader_of(struct net *net, const struct call *call)
{
    ASSERT(call->connection < net->settings.limits->connections);
    return &net->connections[call->connection];
}

/* The terminal frame is in the buffer. */
static void let_go(struct net *net, uint32_t call_index, uint64_t now_us)
{
    struct call *call = &net->calls->calls[call_index];
    ASSERT(call->state == CALL_FINISHED);
    reader_of(net, call)->active_us = now_us;
    net_progress_close(net, call);
    net_open_remove(net, call_index);
    net->again = net->again || net_workflow_waits_for(net, reader_of(net, call)->key);
    net_connection_detach(net, call_index);
    call_release(net->calls, call_index);
}

static bool send_refusal(struct net *net, struct call *call, uint64_t now_us)
{
    struct net_connection *connection = reader_of(net, call);
    if (net_connection_room_of_calls(net, connection) < WIRE_REPLY_BYTES_MAX) {
        return false;
    }
    struct wire_fault fault = {.status = call->status, .frame_type = WIRE_CALL,
                               .call_id = call->client_call_id};
    if (call->status == STATUS_BAD_PROMPT_LENGTH) {
        fault.field = WIRE_FIELD_PROMPT;
        fault.found = (uint64_t)call->prompt_tokens + call->max_tokens;
        fault.max = net->settings.limits->context_tokens;
    } else if (call->status == STATUS_BUSY_PROGRAMS) {
        fault.field = WIRE_FIELD_PROGRAM_ID;
        fault.found = fault.max = net->settings.limits->programs;
    } else if (call->status == STATUS_BUSY_CALLS_OF_PROG) {
        fault.field = WIRE_FIELD_PROGRAM_ID;
        fault.found = fault.max = net->settings.limits->calls_per_program;
    }
    net_connection_error(net, connection, &fault, false, now_us);
    return true;
}

/* Tokens that the client is to get next. None for a call that a core has taken over, until it has
 * those again that its client has. */
static uint32_t unsent_tokens(const struct call *call)
{
    uint32_t kept = net_stop_text_kept_tokens(call), sent = call->emit.sent_tokens;
    return kept > sent ? kept - sent : 0;
}

/* Why the call ended, as the client sees it: a stop string counts even if the scheduler had another
 * reason first, and the end-of-turn token that the appliance added is an end like EOS. */
static enum call_finish finish_of(const struct call *call)
{
    if (call->stop_text_hit) {
        return CALL_FINISH_STOP_TEXT;
    }
    if (call->finish != CALL_FINISH_STOP_ID || !call->emit.eot_is_eos) {
        return call->finish;
    }
    ASSERT(call->generated_tokens > 0);
    uint32_t last = call->tokens[call->prompt_tokens + call->generated_tokens - 1];
    uint32_t after = call->eos_id_index_plus_1 != 0 ? 1 : 0;
    uint32_t eot_id = call->sampling.stop_ids[call->sampling.stop_ids_count - 1 - after];
    return last == eot_id ? CALL_FINISH_EOS : CALL_FINISH_STOP_ID;
}

static void fill_done(const struct call *call, struct wire_done *done)
{
    uint32_t unsent = unsent_tokens(call);
    const uint32_t *tokens = call->tokens + call->prompt_tokens + call->emit.sent_tokens;
    ASSERT(call->state == CALL_FINISHED && call->finish != CALL_FINISH_REFUSED);
    *done = (struct wire_done){
        .call_id = call->client_call_id,
        .finish = finish_of(call),
        .status = call->stop_text_hit ? STATUS_OK : call->status,
        .queue = (uint16_t)call->queue,
        .prompt_tokens = call->prompt_tokens,
        .cached_tokens = call->cached_tokens,
        .generated_tokens = call->emit.sent_tokens + unsent,
        .preemptions = call->preemptions,
        .wait_us = call->wait_us,
        .service_us = call->service_us,
        .total_us = call->finished_us - call->arrived_us,
        .digest = wire_digest(call->emit.digest, tokens, unsent),
        .has_drafts = call->want_drafts,
        .drafts = {call->draft_tokens, call->draft_tokens_agreed},
    };
    ASSERT(done->finish >= CALL_FINISH_LENGTH && done->finish <= CALL_FINISH_FAILED);
    ASSERT(call->queue < WIRE_QUEUES_MAX);
}

/* How far it has come, for the core's successor. Log probabilities that its client is still to get
 * are not kept, so such a call has no end. */
static void note(struct net *net, const struct call *call)
{
    struct wire_done done = {.finish = CALL_FINISH_NONE};
    if (call->state == CALL_FINISHED && call->finish == CALL_FINISH_REFUSED) {
        done = (struct wire_done){.finish = CALL_FINISH_REFUSED, .status = call->status,
                                  .digest = call->emit.digest};
    } else if (call->state == CALL_FINISHED && !call->sampling.wants_logprobs) {
        fill_done(call, &done);
    }
    net_progress_note(net, call, &done);
}

static bool send_accept(struct net *net, struct call *call, uint64_t now_us)
{
    struct net_connection *connection = reader_of(net, call);
    struct wire_accept accept = {.call_id = call->client_call_id,
                                 .prompt_tokens = call->prompt_tokens,
                                 .flags = call->emit.is_replayed ? WIRE_ACCEPT_REPLAYED : 0};
    uint32_t count = wire_accept_encode(&accept, net_connection_tail(net, connection),
                                        net_connection_room_of_calls(net, connection));
    if (count == 0) {
        return false;
    }
    net_connection_push(net, connection, count, now_us);
    call->emit.accept_sent = true;
    return true;
}

/* Every token is framed and no text is held that is still to be said. */
static bool all_said(const struct call *call)
{
    bool more_text = call->want_text && net_text_is_whole(call) && call->emit.held_bytes > 0;
    return unsent_tokens(call) == 0 && !more_text;
}

/* Unsent tokens that one frame may have: log probabilities are sent from where they lie. */
static uint32_t sendable_tokens(const struct net *net, const struct call *call)
{
    uint32_t unsent = unsent_tokens(call);
    if (!call->sampling.wants_logprobs) {
        return unsent;
    }
    ASSERT(unsent <= net->calls->logprobs.tokens);
    uint32_t run = call_logprobs_run(net->calls, call->emit.sent_tokens);
    return run < unsent ? run : unsent;
}

/* The number of unsent tokens that fit `room`; their text, if the client asked for it, is put into
 * net->text. */
static uint32_t gather_tokens(struct net *net, struct call *call, uint32_t room,
                              uint32_t *text_bytes)
{
    uint32_t unsent = sendable_tokens(net, call), count = 0;
    uint32_t used = WIRE_HEADER_BYTES + WIRE_TOKENS_BYTES_MIN;
    uint32_t of_one = (uint32_t)sizeof(uint32_t) +
                      call_logprob_entries(&call->sampling) * (uint32_t)sizeof(struct call_logprob);
    if (!call->want_text) {
        uint32_t fit = room > used ? (room - used) / of_one : 0;
        return fit < unsent ? fit : unsent;
    }
    while (count < unsent) {
        used += of_one;
        if (used + *text_bytes + net_text_bytes_max(net, call) > room) {
            return count;
        }
        net_text_add(net, call, call->emit.sent_tokens + count++, net->text, text_bytes);
    }
    if (count == unsent_tokens(call) && net_text_is_whole(call) &&
        used + *text_bytes + net_text_bytes_max(net, call) <= room) {
        net_text_end(call, net->text, text_bytes);
    }
    return count;
}

static bool send_tokens(struct net *net, struct call *call, uint64_t now_us)
{
    struct net_connection *connection = reader_of(net, call);
    uint32_t room = net_connection_room_of_calls(net, connection), text_bytes = 0;
    uint32_t largest = WIRE_HEADER_BYTES + net->settings.limits->frame_bytes;
    room = room < largest ? room : largest;
    uint32_t tokens_count = gather_tokens(net, call, room, &text_bytes);
    if (tokens_count == 0 && text_bytes == 0) {
        return all_said(call);
    }
    const uint32_t *tokens = call->tokens + call->prompt_tokens + call->emit.sent_tokens;
    struct wire_tokens frame = {.call_id = call->client_call_id,
                                .first_index = call->emit.sent_tokens,
                                .tokens_count = tokens_count, .text_bytes = text_bytes,
                                .queue = call->queue, .text = (const uint8_t *)net->text};
    if (call->sampling.wants_logprobs) {
        frame.entries = call_logprob_entries(&call->sampling);
        frame.logprobs = (const uint8_t *)call_logprobs_at(net->calls, call,
                                                           call->emit.sent_tokens);
    }
    ASSERT(call->queue < WIRE_QUEUES_MAX);
    uint32_t count =
        wire_tokens_encode(&frame, tokens, net_connection_tail(net, connection), room);
    ASSERT(count > 0 && count <= room);
    net_connection_push(net, connection, count, now_us);
    call->emit.digest = wire_digest(call->emit.digest, tokens, tokens_count);
    call->emit.sent_tokens += tokens_count;
    return true;
}

/* Log probabilities are not on record: a call with them that comes again is computed again, and
 * gives the same. */
static void keep_reply(struct net *net, struct call *call, const struct wire_done *done)
{
    if (call->emit.reply == 0 && !call->emit.is_replayed && !call->sampling.wants_logprobs) {
        call->emit.reply = net_reply_keep(net, call, done);
    }
}

/* True for a call that has ended and whose reply is to be on the disk first. */
static bool is_held(struct net *net, struct call *call)
{
    struct wire_done done;
    if (!net->settings.ends_wait) {
        return false;
    }
    fill_done(call, &done);
    keep_reply(net, call, &done);
    bool waits = call->emit.reply > pages_written(&net->replies.pages);
    net->held.are_there = net->held.are_there || waits;
    return waits;
}

static bool send_done(struct net *net, struct call *call, uint64_t now_us)
{
    struct net_connection *connection = reader_of(net, call);
    struct wire_done done;
    fill_done(call, &done);
    uint32_t count = wire_done_encode(&done, net_connection_tail(net, connection),
                                      net_connection_room_of_calls(net, connection));
    if (count == 0) {
        return false;
    }
    net_connection_push(net, connection, count, now_us);
    keep_reply(net, call, &done);
    return true;
}

/* ---- one call -------------------------------------------------------------------------------- */

/* More than this and the call is paused. Log probabilities have less room (config/limits.c). */
static uint32_t unsent_tokens_max(const struct net *net, const struct call *call)
{
    uint32_t steps = net->settings.limits->steps_per_plan;
    return call->sampling.wants_logprobs && steps < net->settings.unsent_tokens
               ? steps : net->settings.unsent_tokens;
}

/* A resumed call may be planned again, so the scheduler must run. */
static void set_paused(struct net *net, uint32_t call_index, uint64_t now_us)
{
    struct call *call = &net->calls->calls[call_index];
    bool paused = unsent_tokens(call) > unsent_tokens_max(net, call);
    net->again = net->again || (call->paused && !paused);
    if (paused != call->paused && call->state != CALL_FINISHED) {
        event_log_note_call(net->settings.event_log, now_us, call,
                            (struct event_what){.kind = paused ? EVENT_PAUSED : EVENT_RESUMED});
    }
    call->paused = paused;
}

/* A call that a core has taken over was accepted, and now has no place. */
static bool has_no_place(const struct call *call)
{
    return call->state == CALL_FINISHED && call->finish == CALL_FINISH_REFUSED &&
           call->emit.accept_sent;
}

/* Sends all news in order; false when the room ends first. Frees a finished call. */
static bool send_news(struct net *net, uint32_t call_index, uint64_t now_us)
{
    struct call *call = &net->calls->calls[call_index];
    ASSERT(call->state != CALL_FREE && call->state != CALL_INTAKE);
    if (call->state == CALL_FINISHED && call->finish == CALL_FINISH_REFUSED) {
        if (!send_refusal(net, call, now_us)) {
            return false;
        }
        let_go(net, call_index, now_us);
        return true;
    }
    if (!call->emit.accept_sent && !send_accept(net, call, now_us)) {
        return false;
    }
    while (!all_said(call)) {
        if (!send_tokens(net, call, now_us)) {
            return false;
        }
    }
    if (call->state != CALL_FINISHED || is_held(net, call)) {
        return true;
    }
    if (!send_done(net, call, now_us)) {
        return false;
    }
    let_go(net, call_index, now_us);
    return true;
}

/* Once more is on the disk, each of them is looked at as when it ended. */
void net_emit_held(struct net *net)
{
    uint64_t written = pages_written(&net->replies.pages);
    if (!net->held.are_there || written == net->held.at) {
        return;
    }
    net->held.are_there = false;
    net->held.at = written;
    for (uint32_t i = 0; i < net->calls->count; i++) {
        struct call *call = &net->calls->calls[i];
        if (call->state == CALL_FINISHED && call->emit.reply != 0 && !call->in_emit_ring) {
            exchange_emit(net->exchange, call);
        }
    }
}

/* A stop string that a call's last tokens complete ends it before the next plan; and what a
 * workflow's call gave is known when the scheduler looks for it. */
void net_scan(struct net *net)
{
    const struct exchange *exchange = net->exchange;
    for (uint32_t i = 0; i < ring_count(&exchange->emit_ring); i++) {
        net_stop_text_scan(net, exchange->emit[ring_at(&exchange->emit_ring, i)]);
    }
}

/* One call that the scheduler has marked. */
static void take_news(struct net *net, uint32_t call_index, uint64_t now_us)
{
    struct call *call = &net->calls->calls[call_index];
    call->in_emit_ring = false;
    if (call->connection == CALL_NONE) {
        if (call->state == CALL_FINISHED) {
            call_release(net->calls, call_index);
        }
        return;
    }
    struct net_connection *connection = reader_of(net, call);
    ASSERT(connection->state == NET_OPEN);
    net_stop_text_scan(net, call_index);
    uint32_t generation = call->generation;
    if (has_no_place(call) && call->status == STATUS_DEVICE_FAILED) {
        call->finish = CALL_FINISH_FAILED;      /* no engine is left: as those that had one */
    } else if (has_no_place(call)) {
        net_connection_close(net, call->connection);    /* its client comes back, and asks again */
        return;
    }
    /* If others wait for room, it waits after them: they take turns. */
    connection->backlog = connection->backlog || !send_news(net, call_index, now_us);
    net_connection_wake(net, connection);
    if (call->generation == generation) {
        set_paused(net, call_index, now_us);
        note(net, call);
    }
}

static void take_workflow_news(struct net *net, uint32_t index, uint64_t now_us)
{
    uint32_t of = net->workflows->workflows[index].connection;
    if (of == CALL_NONE) {
        net_workflow_release_alone(net, index);
        return;
    }
    struct net_connection *connection = &net->connections[of];
    connection->backlog = connection->backlog || !net_workflow_send(net, index, now_us);
    net_connection_wake(net, connection);
}

void net_emit_news(struct net *net, uint64_t now_us)
{
    struct exchange *exchange = net->exchange;
    while (!ring_is_empty(&exchange->outbox_ring)) {
        deliver_answer(net, &exchange->outbox[ring_pop(&exchange->outbox_ring)], now_us);
    }
    while (!ring_is_empty(&exchange->emit_ring)) {
        take_news(net, exchange->emit[ring_pop(&exchange->emit_ring)], now_us);
    }
    while (!ring_is_empty(&exchange->news_ring)) {
        take_workflow_news(net, exchange_workflow_news_pop(exchange), now_us);
    }
}

static void send_flows(struct net *net, struct net_connection *connection, uint64_t now_us)
{
    uint32_t rest = connection->flows_count, at = connection->flows_first;
    while (rest-- > 0 && !connection->backlog) {
        uint32_t flow = at;
        at = net->workflows->workflows[flow].emit.next;
        if (!net_workflow_send(net, flow, now_us)) {
            connection->backlog = true;
            connection->flows_first = at;
        }
    }
}

static void send_calls(struct net *net, struct net_connection *connection, uint64_t now_us)
{
    uint32_t rest = connection->calls_count, at = connection->calls_first;
    while (rest-- > 0 && !connection->backlog) {
        struct call *call = &net->calls->calls[at];
        uint32_t call_index = at, generation = call->generation;
        uint32_t unsent_bytes = connection->unsent_bytes;
        at = call->emit.conn_next;
        if (!send_news(net, call_index, now_us)) {
            connection->backlog = true;
            /* The next turn is not for the call that was stopped: it may always have more news. */
            connection->calls_first = connection->unsent_bytes > unsent_bytes ? at : call_index;
        }
        if (call->generation == generation) {
            set_paused(net, call_index, now_us);
            note(net, call);
        }
    }
}

/* Calls and workflows take turns at who goes first. */
void net_emit_backlog(struct net *net, uint32_t index, uint64_t now_us)
{
    struct net_connection *connection = &net->connections[index];
    bool flows_turn = connection->flows_turn;
    connection->backlog = false;
    connection->flows_turn = !flows_turn;
    if (flows_turn) {
        send_flows(net, connection, now_us);
    }
    send_calls(net, connection, now_us);
    if (!flows_turn) {
        send_flows(net, connection, now_us);
    }
}
