/* SPDX-License-Identifier: MIT */
/*
 * What: a CALL frame into a call slot, and a command for the scheduler. A call that has ended
 * before gets the reply that it had then (net/kept/replies.c).
 *
 * How: decode (fields, ranges), then admit (limits, ids, tokens: changes nothing), then fill a
 * slot. Checks that need the prompt's tokens can still refuse after the slot was taken, because the
 * tokens are made in the place where they will stay. The slot is released then, and no other stage
 * has seen it.
 *
 * Invariants: a refusal leaves every table as it was. A call that is pushed on the inbox has passed
 * every check that needs no scheduler: prompt_tokens >= 1, every id < vocab_tokens,
 * prompt_tokens + max_tokens <= context_tokens.
 *
 * Bounds: linear in the frame, except for vocab_encode() (config/vocab/vocab.h) and the walk over
 * the open calls of the connection (limits.calls_per_connection).
 */
#include "net/intake.h"

#include <string.h>

#include "net/bytes.h"
#include "net/connection.h"
#include "net/kept/progress.h"
#include "net/kept/replies.h"
#include "net/open_calls.h"
#include "net/stop_text.h"
#include "net/workflow/workflow.h"

/* ---- admission: changes nothing -------------------------------------------------------------- */

/* Frames of the server name a call by its id alone, so an id is also unique on its connection. A
 * call that is open on another connection may be the same client's, from before a break that the
 * appliance has not seen yet: the client is told to try again. */
static enum status admit_id(struct net_frame *frame, const struct wire_call *wire)
{
    const struct net *net = frame->net;
    const struct net_connection *connection = &net->connections[frame->connection];
    uint32_t at = connection->calls_first;
    for (uint32_t i = 0; i < connection->calls_count; i++) {
        if (net->calls->calls[at].client_call_id == wire->call_id) {
            return net_frame_fault(frame, STATUS_BAD_CALL_OPEN, WIRE_FIELD_CALL_ID, wire->call_id,
                                   0);
        }
        at = net->calls->calls[at].emit.conn_next;
    }
    return net_open_find(net, connection->domain, wire->program_id, wire->call_id) == CALL_NONE
               ? STATUS_OK
               : net_frame_fault(frame, STATUS_BUSY_CALL_OPEN, WIRE_FIELD_CALL_ID, wire->call_id,
                                 0);
}

/* What workflows of the key have open counts, too. */
static enum status admit_key(struct net_frame *frame, uint32_t index)
{
    const struct net_key *key = &frame->net->keys[index];
    uint32_t open = key->calls_open + net_workflow_calls(frame->net, index);
    return open < key->calls_max ? STATUS_OK
                                 : net_frame_fault(frame, STATUS_BUSY_CALLS_OF_KEY,
                                                   WIRE_FIELD_KEY_ID, open, key->calls_max);
}

static enum status admit_limits(struct net_frame *frame, const struct wire_call *wire)
{
    const struct net *net = frame->net;
    const struct net_connection *connection = &net->connections[frame->connection];
    const struct limits *limits = net->settings.limits;
    if (net->draining) {
        return net_frame_fault(frame, STATUS_BUSY_DRAINING, WIRE_FIELD_NONE, 0, 0);
    }
    TRY(admit_id(frame, wire));
    if (connection->calls_count >= limits->calls_per_connection) {
        return net_frame_fault(frame, STATUS_BUSY_CALLS_OF_CONN, WIRE_FIELD_CONNECTION,
                        connection->calls_count, limits->calls_per_connection);
    }
    if (connection->key != NET_KEY_NONE) {
        TRY(admit_key(frame, connection->key));
    }
    if (net->calls->free_count == 0) {
        return net_frame_fault(frame, STATUS_BUSY_CALLS, WIRE_FIELD_NONE, net->calls->count,
                        net->calls->count);
    }
    if (call_room(net->calls, connection->domain) == 0) {
        uint32_t used = net->calls->quota.used_by[quota_account(connection->domain)];
        return net_frame_fault(frame, STATUS_BUSY_CALLS_OF_KEY, WIRE_FIELD_KEY_ID, used, used);
    }
    return STATUS_OK;
}

/* What needs a vocabulary that can encode and decode. */
static enum status admit_text(struct net_frame *frame, const struct wire_call *wire)
{
    const struct gguf_vocab_info *info = &frame->net->vocab->info;
    bool reads = info->kind != VOCAB_NONE;
    bool writes = reads && info->token_bytes_max <= NET_TOKEN_TEXT_BYTES_MAX;
    uint32_t allowed = WIRE_CALL_FLAGS_ALL & ~((reads ? 0u : (uint32_t)WIRE_CALL_TEXT_PROMPT) |
                                               (writes ? 0u : (uint32_t)WIRE_CALL_WANT_TEXT));
    if ((wire->flags & ~allowed) != 0) {
        return net_frame_fault(frame, STATUS_BAD_FIELD, WIRE_FIELD_FLAGS, wire->flags, allowed);
    }
    if (wire->stop_texts_count > 0 && !writes) {
        return net_frame_fault(frame, STATUS_BAD_FIELD, WIRE_FIELD_STOP_TEXTS,
                               wire->stop_texts_count, 0);
    }
    return STATUS_OK;
}

static enum status admit_logprobs(struct net_frame *frame, const struct wire_call *wire)
{
    const struct limits *limits = frame->net->settings.limits;
    if (wire->sampling.wants_logprobs && limits->logprob_tokens == 0) {
        return net_frame_fault(frame, STATUS_BAD_FIELD, WIRE_FIELD_LOGPROBS, 1, 0);
    }
    return wire->sampling.top_logprobs <= limits->top_logprobs
               ? STATUS_OK
               : net_frame_fault(frame, STATUS_BAD_FIELD, WIRE_FIELD_TOP_LOGPROBS,
                                 wire->sampling.top_logprobs, limits->top_logprobs);
}

static enum status admit_length(struct net_frame *frame, uint64_t prompt_tokens,
                                uint32_t max_tokens)
{
    uint32_t context_tokens = frame->net->settings.limits->context_tokens;
    if (prompt_tokens == 0) {
        frame->fault.min = 1;
        return net_frame_fault(frame, STATUS_BAD_FIELD, WIRE_FIELD_PROMPT, 0, context_tokens);
    }
    if (prompt_tokens + max_tokens > context_tokens) {
        return net_frame_fault(frame, STATUS_BAD_PROMPT_LENGTH, WIRE_FIELD_PROMPT,
                        prompt_tokens + max_tokens, context_tokens);
    }
    return STATUS_OK;
}

static enum status admit_tokens(struct net_frame *frame, const struct wire_call *wire)
{
    uint32_t vocab_tokens = frame->net->settings.limits->vocab_tokens;
    for (uint32_t i = 0; i < wire->sampling.stop_ids_count; i++) {
        if (wire->sampling.stop_ids[i] >= vocab_tokens) {
            return net_frame_fault(frame, STATUS_BAD_TOKEN, WIRE_FIELD_STOP_IDS,
                            wire->sampling.stop_ids[i], vocab_tokens - 1);
        }
    }
    for (uint32_t i = 0; i < wire->sampling.biases_count; i++) {
        if (wire->biases[i].token >= vocab_tokens) {
            return net_frame_fault(frame, STATUS_BAD_TOKEN, WIRE_FIELD_LOGIT_BIAS,
                                   wire->biases[i].token, vocab_tokens - 1);
        }
    }
    if ((wire->flags & WIRE_CALL_TEXT_PROMPT) != 0) {
        return STATUS_OK;
    }
    TRY(admit_length(frame, wire->prompt_count, wire->max_tokens));
    struct bytes ids = bytes_reader(wire->prompt, wire->prompt_count * (uint32_t)sizeof(uint32_t));
    for (uint32_t i = 0; i < wire->prompt_count; i++) {
        uint32_t token = 0;
        bytes_u32(&ids, &token);
        if (token >= vocab_tokens) {
            return net_frame_fault(frame, STATUS_BAD_TOKEN, WIRE_FIELD_PROMPT, token,
                                   vocab_tokens - 1);
        }
    }
    return STATUS_OK;
}

/* ---- filling a slot -------------------------------------------------------------------------- */

STATIC_ASSERT(GGUF_NO_TOKEN == CALL_NONE, "no token is one number");

/* EOS is the last stop id, end-of-turn the one before. */
static void fill_stops(const struct net *net, struct call *call, const struct wire_call *wire)
{
    const struct gguf_vocab_info *info = &net->vocab->info;
    bool has_eos = false;
    if ((wire->flags & WIRE_CALL_IGNORE_EOS) == 0) {
        call->emit.eot_is_eos = call_add_stop_id(call, info->eot_id);
        has_eos = call_add_stop_id(call, info->eos_id);
    }
    call->eos_id_index_plus_1 = has_eos ? call->sampling.stop_ids_count : 0;
    call->stop_texts_count = wire->stop_texts_count;
    memcpy(call->stop_texts, wire->stop_texts, sizeof call->stop_texts);
    net_stop_text_prepare(call);
}

/* What the client asks for, but no later than the appliance allows; 0 stands for never. */
static uint64_t deadline_us(const struct net *net, const struct wire_call *wire, uint64_t now_us)
{
    uint64_t asked_us = wire->deadline_us != 0 ? wire->deadline_us : UINT64_MAX;
    uint64_t limit_us =
        net->settings.call_deadline_us != 0 ? net->settings.call_deadline_us : UINT64_MAX;
    uint64_t least_us = asked_us < limit_us ? asked_us : limit_us;
    return least_us != UINT64_MAX ? now_us + least_us : UINT64_MAX;
}

static void fill(const struct net_frame *frame, struct call *call, const struct wire_call *wire)
{
    const struct net *net = frame->net;
    call->client_call_id = wire->call_id;
    memcpy(call->program_id, wire->program_id, sizeof call->program_id);
    call->thread = wire->thread;
    call->sampling = wire->sampling;
    memcpy(call->biases, wire->biases, wire->sampling.biases_count * sizeof *call->biases);
    call->max_tokens = wire->max_tokens;
    call->want_text = (wire->flags & WIRE_CALL_WANT_TEXT) != 0;
    call->want_control = (wire->flags & WIRE_CALL_WANT_CONTROL) != 0;
    call->want_drafts = (wire->flags & WIRE_CALL_WANT_DRAFTS) != 0;
    call->deadline_us = deadline_us(net, wire, frame->now_us);
    call->arrived_us = frame->now_us;
    call->emit.digest = WIRE_DIGEST_START;
    call->emit.request = net_reply_request(frame->payload, frame->payload_bytes);
    fill_stops(frame->net, call, wire);
}

static void fill_ids(struct call *call, const struct wire_call *wire)
{
    struct bytes ids = bytes_reader(wire->prompt, wire->prompt_count * (uint32_t)sizeof(uint32_t));
    for (uint32_t i = 0; i < wire->prompt_count; i++) {
        bytes_u32(&ids, &call->tokens[i]);
    }
    ASSERT(bytes_at_end(&ids));
    call->prompt_tokens = wire->prompt_count;
}

static enum status fill_text(struct net_frame *frame, struct call *call,
                             const struct wire_call *wire)
{
    struct net *net = frame->net;
    uint32_t context_tokens = net->settings.limits->context_tokens, first = 0;
    uint32_t bos_id = net->vocab->info.bos_id;
    if ((wire->flags & WIRE_CALL_ADD_BOS) != 0 && bos_id != GGUF_NO_TOKEN) {
        call->tokens[first++] = bos_id;
    }
    const struct vocab_input input = {
        .text = (const char *)wire->prompt, .bytes = wire->prompt_count,
        .parse_special = (wire->flags & WIRE_CALL_PARSE_SPECIAL) != 0,
        .parts = wire->parts, .parts_count = wire->parts_count};
    struct vocab_output output = {.tokens = call->tokens + first, .max = context_tokens - first};
    if (wire->prompt_count > 0 &&
        vocab_encode(net->vocab, &net->scratch, &input, &output) != STATUS_OK) {
        uint64_t least = (uint64_t)context_tokens + 1;      /* of a text beyond the scratch */
        return admit_length(frame, greater(least, first + output.count), wire->max_tokens);
    }
    call->prompt_tokens = first + output.count;
    return admit_length(frame, call->prompt_tokens, wire->max_tokens);
}

static enum status fill_prompt(struct net_frame *frame, struct call *call,
                               const struct wire_call *wire)
{
    if ((wire->flags & WIRE_CALL_TEXT_PROMPT) != 0) {
        return fill_text(frame, call, wire);
    }
    fill_ids(call, wire);
    return STATUS_OK;
}

/* ---- execution, or the reply on record ------------------------------------------------------- */

/* The digest tells a different request apart; the length of the prompt makes sure that the tokens
 * fit after it, and a part leaves room for one more. */
static bool is_reply_to(const struct net_reply *reply, const struct call *call)
{
    return reply->request == call->emit.request &&
           reply->done.prompt_tokens == call->prompt_tokens &&
           (!net_reply_is_part(reply) || reply->done.generated_tokens < call->max_tokens);
}

/* The call that this one repeats, or NULL. A part of another request's reply is of no use any more:
 * as long as a call is open its ids may not be used again, and that one is not. */
static enum status find_reply(struct net_frame *frame, const struct call *call,
                              const struct net_reply **reply)
{
    *reply = net_reply_find(frame->net, call->domain, call->program_id, call->client_call_id);
    if (*reply == NULL || is_reply_to(*reply, call)) {
        return STATUS_OK;
    }
    if (!net_reply_is_part(*reply)) {
        return net_frame_fault(frame, STATUS_BAD_CALL_REUSED, WIRE_FIELD_CALL_ID,
                               call->client_call_id, 0);
    }
    net_reply_forget(frame->net, *reply);
    *reply = NULL;
    return STATUS_OK;
}

/* The call goes on where the core before this one has left it. */
static void go_on(struct net *net, struct call *call, const struct net_reply *part)
{
    ASSERT(part->done.generated_tokens < call->max_tokens);
    net_reply_tokens(net, part, call->tokens + call->prompt_tokens);
    call->generated_tokens = call->published_tokens = part->done.generated_tokens;
    net_reply_forget(net, part);
    net->stats->calls_continued++;
}

/* The call as it was when it ended, with tokens that are there; it is sent like any other. */
static void end_as(struct net *net, struct call *call, const struct wire_done *done)
{
    call->generated_tokens = call->published_tokens = done->generated_tokens;
    call->finish = (enum call_finish)done->finish;
    call->status = done->status;
    call->queue = done->queue;
    call->cached_tokens = done->cached_tokens;
    call->preemptions = done->preemptions;
    call->draft_tokens = done->drafts.draft_tokens;
    call->draft_tokens_agreed = done->drafts.draft_tokens_agreed;
    call->wait_us = done->wait_us;
    call->service_us = done->service_us;
    call->finished_us = call->arrived_us + done->total_us;
    call->state = CALL_FINISHED;
    exchange_emit(net->exchange, call);
}

/* Or repeats the reply, if there is one. */
static void execute(struct net *net, struct call *call, const struct net_reply *reply)
{
    if (reply != NULL) {
        net_reply_tokens(net, reply, call->tokens + call->prompt_tokens);
        call->emit.is_replayed = true;
        call->emit.reply = reply->number;
        net->stats->calls_replayed++;
        const struct wire_done done = net_reply_done(reply);
        end_as(net, call, &done);
        return;
    }
    exchange_command(net->exchange,
                     &(struct command){.kind = COMMAND_CALL, .call = call->slot});
}

static void commit(struct net_frame *frame, uint32_t call_index, const struct net_reply *reply)
{
    struct net *net = frame->net;
    struct call *call = &net->calls->calls[call_index];
    ASSERT(call->state == CALL_INTAKE);
    net_connection_attach(net, frame->connection, call_index);
    net_open_insert(net, call_index);
    net_progress_begin(net, call);
    if (reply != NULL && net_reply_is_part(reply)) {
        go_on(net, call, reply);
        reply = NULL;
    }
    execute(net, call, reply);
}

void net_call_resume(struct net *net, uint32_t call_index, const struct wire_done *done)
{
    struct call *call = &net->calls->calls[call_index];
    const struct net_reply *reply = net_reply_find(net, call->domain, call->program_id,
                                                   call->client_call_id);
    if (reply != NULL && (net_reply_is_part(reply) || !is_reply_to(reply, call))) {
        net_reply_forget(net, reply);
        reply = NULL;
    }
    net_open_insert(net, call_index);
    if (reply == NULL && done != NULL) {
        end_as(net, call, done);
    } else {
        execute(net, call, reply);
    }
}

enum status net_call_intake(struct net_frame *frame)
{
    struct net *net = frame->net;
    const struct net_reply *reply = NULL;
    struct wire_call wire;
    TRY(wire_call_decode(frame->payload, frame->payload_bytes, &wire, &frame->fault));
    frame->fault.call_id = wire.call_id;
    TRY(admit_limits(frame, &wire));
    TRY(admit_text(frame, &wire));
    TRY(admit_logprobs(frame, &wire));
    TRY(admit_tokens(frame, &wire));
    uint32_t call_index = call_take(net->calls, net_frame_sender(frame)->domain);
    ASSERT(call_index != CALL_NONE);
    struct call *call = &net->calls->calls[call_index];
    fill(frame, call, &wire);
    enum status status = fill_prompt(frame, call, &wire);
    if (status == STATUS_OK) {
        status = find_reply(frame, call, &reply);
    }
    if (status != STATUS_OK) {
        call_release(net->calls, call_index);
        return status;
    }
    commit(frame, call_index, reply);
    return STATUS_OK;
}
