/* SPDX-License-Identifier: MIT */
#include "tools/sdk/session.h"

#include <string.h>

#include "config/base/assert.h"
#include "net/utf8.h"

/*
 * What: the receiving half of a session: frames out of a byte stream, frames into events, and the
 * proof that nothing was lost on the way.
 *
 * Invariants: in_used <= in_bytes <= in_max. A frame is checked whole: header, length, checksum,
 * then its fields, then what only the session knows: the call is open and was accepted, token
 * indices are consecutive, ids are in the vocabulary, the digest is that of the tokens received.
 * The first frame that fails ends the session; `broken` keeps the reason.
 * Bounds: no allocation; time is linear in the frames. Only frames with something new are events.
 * Why the table of calls: only who counts and hashes what arrives can tell all tokens from some.
 */

enum agx_result agx_session_init(struct agx *agx, void *buffer, size_t buffer_bytes)
{
    memset(agx, 0, sizeof *agx);
    agx->descriptor = -1;
    if (buffer == NULL || buffer_bytes < AGX_BUFFER_BYTES_MIN ||
        buffer_bytes > AGX_BUFFER_BYTES_MAX) {
        agx->fault = (struct agx_fault){
            .frame = "", .field = "buffer_bytes", .text = "out of range", .found = buffer_bytes,
            .min = AGX_BUFFER_BYTES_MIN, .max = AGX_BUFFER_BYTES_MAX};
        return AGX_ERROR_ARGUMENT;
    }
    uint32_t align = (uint32_t)(-(uintptr_t)buffer & (_Alignof(uint32_t) - 1));
    uint32_t third = (uint32_t)(buffer_bytes - align) / 3 & ~(uint32_t)(sizeof(uint32_t) - 1);
    agx->tokens = (uint32_t *)((uint8_t *)buffer + align);
    agx->tokens_max = third / sizeof(uint32_t);
    agx->in = (uint8_t *)buffer + align + third;
    agx->in_max = third;
    agx->out = agx->in + third;
    agx->out_max = third;
    ASSERT((uintptr_t)agx->tokens % _Alignof(uint32_t) == 0);
    ASSERT(agx->out + agx->out_max <= (uint8_t *)buffer + buffer_bytes);
    return AGX_OK;
}

uint8_t *agx_session_room(struct agx *agx, uint32_t *bytes)
{
    ASSERT(agx->in_used <= agx->in_bytes);
    if (agx->in_used > 0) {
        memmove(agx->in, agx->in + agx->in_used, agx->in_bytes - agx->in_used);
        agx->in_bytes -= agx->in_used;
        agx->in_used = 0;
    }
    *bytes = agx->in_max - agx->in_bytes;
    return agx->in + agx->in_bytes;
}

void agx_session_received(struct agx *agx, uint32_t bytes)
{
    ASSERT(agx->in_used == 0);
    ASSERT(bytes <= agx->in_max - agx->in_bytes);
    agx->in_bytes += bytes;
}

enum agx_result agx_session_break(struct agx *agx, enum agx_result why)
{
    ASSERT(why != AGX_OK && why != AGX_AGAIN);
    if (agx->broken == AGX_OK) {
        agx->broken = why;
    }
    return agx->broken;
}

void agx_session_reset(struct agx *agx)
{
    agx->in_bytes = agx->in_used = agx->out_first = agx->out_bytes = 0;
    agx->broken = AGX_OK;
    for (uint32_t i = 0; i < AGX_CALLS_MAX; i++) {
        if (agx->calls[i].state == AGX_CALL_DUE) {
            agx->calls[i].state = AGX_CALL_LOST;    /* not before it is greeted */
        }
    }
    agx->calls_due = agx->busy_tries = agx->busy_ms = 0;
    agx->is_busy = agx->chat_due = 0;
    agx->chat_first = 0;
    agx->flows = NULL;                      /* their owners open them again */
}

void agx_session_fault(struct agx *agx, const struct wire_fault *fault)
{
    agx->fault = (struct agx_fault){
        .code = status_wire(fault->status),
        .is_busy = status_class(fault->status) == STATUS_CLASS_BUSY,
        .in_thousandths = wire_field_is_float(fault->field),
        .call_id = fault->call_id,
        .found = fault->found,
        .min = fault->min,
        .max = fault->max,
        .frame = wire_type_name(fault->frame_type),
        .field = wire_field_name(fault->field),
        .text = status_text(fault->status),
    };
}

/* ---- frames out of bytes --------------------------------------------------------------------- */

/* The result for a header that was refused. */
static enum agx_result header_result(const struct agx *agx, const struct wire_fault *fault)
{
    bool is_long = fault->status == STATUS_BAD_FRAME_LENGTH && fault->found > fault->max;
    bool is_variable = fault->frame_type == WIRE_TOKENS || fault->frame_type == WIRE_VALUE ||
                       fault->frame_type == WIRE_ASK;
    return is_long && is_variable && fault->found <= agx->welcome.frame_bytes_max
               ? AGX_ERROR_SPACE : AGX_ERROR_PROTOCOL;
}

/* Takes one whole frame out of what was received. Its payload stays in place until the next
 * agx_session_room(). */
static enum agx_result take_frame(struct agx *agx, struct agx_frame *frame)
{
    const uint8_t *start = agx->in + agx->in_used;
    uint32_t available = agx->in_bytes - agx->in_used;
    struct wire_fault fault;
    if (available < WIRE_HEADER_BYTES) {
        return AGX_AGAIN;
    }
    if (wire_header_decode(start, agx->in_max - WIRE_HEADER_BYTES, &frame->header, &fault) !=
        STATUS_OK) {
        return header_result(agx, &fault);
    }
    if (available - WIRE_HEADER_BYTES < frame->header.length_bytes) {
        return AGX_AGAIN;
    }
    frame->payload = start + WIRE_HEADER_BYTES;
    if (wire_checksum(start, frame->payload, frame->header.length_bytes) !=
        frame->header.checksum) {
        return AGX_ERROR_PROTOCOL;
    }
    agx->in_used += WIRE_HEADER_BYTES + frame->header.length_bytes;
    ASSERT(agx->in_used <= agx->in_bytes);
    return AGX_OK;
}

/* ---- frames into events ---------------------------------------------------------------------- */

static enum agx_result take_error(struct agx *agx, const struct agx_frame *frame,
                                  struct agx_event *event)
{
    struct wire_fault fault;
    struct wire_error error;
    struct agx_open_call *call;
    if (wire_error_decode(frame->payload, frame->header.length_bytes, &error, &fault) !=
            STATUS_OK || error.fault.status == STATUS_OK) {
        return AGX_ERROR_PROTOCOL;
    }
    agx_session_fault(agx, &error.fault);
    agx->fault.retry_ms = error.retry_ms;
    if (error.closes) {
        return error.fault.status == STATUS_BAD_VERSION     ? AGX_ERROR_VERSION
               : error.fault.status == STATUS_BAD_AUTH      ? AGX_ERROR_KEY
               : error.fault.status == STATUS_GONE_DEADLINE ? AGX_ERROR_CLOSED  /* it was idle */
               : agx->fault.is_busy                         ? AGX_ERROR_BUSY
                                                            : AGX_ERROR_REFUSED;
    }
    if (error.fault.frame_type == WIRE_CALL) {
        /* An accepted call ends by DONE alone. */
        enum agx_result result = agx_calls_find_in(agx, error.fault.call_id, AGX_CALL_SENT, &call);
        if (result != AGX_OK) {
            return result;
        }
        if (call->is_resent && agx->fault.is_busy) {
            agx_calls_make_due(agx, call);
            agx->is_busy = 1;
            agx->busy_ms = error.retry_ms > agx->busy_ms ? error.retry_ms : agx->busy_ms;
            return AGX_AGAIN;
        }
        call->state = AGX_CALL_FREE;
    }
    agx_session_flow_refused(agx, &error.fault);
    event->kind = AGX_REFUSED;
    event->call_id = error.fault.call_id;
    event->code = agx->fault.code;
    return AGX_OK;
}

static enum agx_result take_accept(struct agx *agx, const struct agx_frame *frame,
                                   struct agx_event *event)
{
    struct wire_fault fault;
    struct wire_accept accept;
    if (wire_accept_decode(frame->payload, frame->header.length_bytes, &accept, &fault) !=
        STATUS_OK) {
        return AGX_ERROR_PROTOCOL;
    }
    struct agx_open_call *call;
    enum agx_result result = agx_calls_find_in(agx, accept.call_id, AGX_CALL_SENT, &call);
    if (result != AGX_OK) {
        return result;
    }
    call->state = AGX_CALL_ACCEPTED;
    call->is_replayed = accept.flags == WIRE_ACCEPT_REPLAYED;
    agx->busy_tries = 0;
    if (call->is_accepted) {
        return AGX_AGAIN;
    }
    call->is_accepted = 1;
    event->kind = AGX_ACCEPTED;
    event->call_id = accept.call_id;
    event->prompt_tokens = accept.prompt_tokens;
    return AGX_OK;
}

bool agx_session_tokens(struct agx *agx, const uint8_t *tokens, uint32_t count)
{
    ASSERT(count <= agx->tokens_max);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *at = tokens + 4 * (size_t)i;
        agx->tokens[i] = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                         (uint32_t)at[3] << 24;
        if (agx->tokens[i] >= agx->welcome.vocab_tokens) {
            return false;
        }
    }
    return true;
}

/* Tells the caller what it does not have yet. */
static enum agx_result tell_tokens(const struct agx *agx, struct agx_open_call *call,
                                   const struct wire_tokens *tokens, struct agx_event *event)
{
    const char *text = (const char *)tokens->text;
    uint32_t old_tokens, old_bytes;
    enum agx_result result =
        agx_calls_take_tokens(call, agx->tokens, tokens->tokens_count, &old_tokens);
    if (result == AGX_OK) {
        result = agx_calls_take_text(call, text, tokens->text_bytes, &old_bytes);
    }
    if (result != AGX_OK) {
        return result;
    }
    event->tokens = agx->tokens + old_tokens;
    event->tokens_count = tokens->tokens_count - old_tokens;
    event->first_index = call->told.tokens - event->tokens_count;
    event->logprobs_each = call->logprobs_each;
    event->logprobs = call->logprobs_each == 0 ? NULL
                      : agx_session_entries(agx, tokens->tokens_count) +
                            (size_t)old_tokens * call->logprobs_each;
    event->text = text + old_bytes;
    event->text_bytes = tokens->text_bytes - old_bytes;
    if (!utf8_is_valid(event->text, event->text_bytes)) {
        return AGX_ERROR_PROTOCOL;
    }
    return event->tokens_count + event->text_bytes > 0 ? AGX_OK : AGX_AGAIN;
}

static enum agx_result take_tokens(struct agx *agx, const struct agx_frame *frame,
                                   struct agx_event *event)
{
    struct wire_fault fault;
    struct wire_tokens tokens;
    if (wire_tokens_decode(frame->payload, frame->header.length_bytes, &tokens, &fault) !=
        STATUS_OK) {
        return AGX_ERROR_PROTOCOL;
    }
    struct agx_open_call *call;
    enum agx_result result = agx_calls_find_in(agx, tokens.call_id, AGX_CALL_ACCEPTED, &call);
    if (result != AGX_OK) {
        return result;
    }
    if (!agx_session_tokens(agx, tokens.tokens, tokens.tokens_count) ||
        !agx_session_logprobs(agx, call, &tokens)) {
        return AGX_ERROR_PROTOCOL;
    }
    if (tokens.first_index != call->seen.tokens ||
        tokens.tokens_count > call->tokens_max - call->seen.tokens) {
        return AGX_ERROR_INDEX;
    }
    event->kind = AGX_TOKENS;
    event->call_id = tokens.call_id;
    event->queue = tokens.queue;
    return tell_tokens(agx, call, &tokens, event);
}

static enum agx_result take_done(struct agx *agx, const struct agx_frame *frame,
                                 struct agx_event *event)
{
    struct wire_fault fault;
    struct wire_done done;
    if (wire_done_decode(frame->payload, frame->header.length_bytes, &done, &fault) != STATUS_OK) {
        return AGX_ERROR_PROTOCOL;
    }
    struct agx_open_call *call = agx_calls_find(agx, done.call_id);
    if (call == NULL) {
        return AGX_ERROR_UNKNOWN_CALL;
    }
    enum agx_result result = agx_calls_check_done(call, &done);
    if (result != AGX_OK) {
        return result;
    }
    if (done.status == STATUS_GONE_SHUTDOWN) {
        call->state = AGX_CALL_LOST;
        return AGX_AGAIN;
    }
    /* A call that was cancelled, or met its deadline, may have fewer tokens this time. */
    if (done.finish <= CALL_FINISH_STOP_TEXT && agx_calls_is_behind(call)) {
        return AGX_ERROR_DIFFERENT;
    }
    call->state = AGX_CALL_FREE;
    event->kind = AGX_DONE;
    event->call_id = done.call_id;
    event->finish = (enum agx_finish)done.finish;
    event->code = status_wire(done.status);
    event->prompt_tokens = done.prompt_tokens;
    event->cached_tokens = done.cached_tokens;
    event->generated_tokens = call->told.tokens;
    event->preemptions = done.preemptions;
    event->draft_tokens = done.drafts.draft_tokens;
    event->draft_tokens_agreed = done.drafts.draft_tokens_agreed;
    event->queue = done.queue;
    event->wait_us = done.wait_us;
    event->service_us = done.service_us;
    event->total_us = done.total_us;
    event->digest = call->told.digest;
    event->is_replayed = call->is_replayed;
    return AGX_OK;
}

static enum agx_result take_program(const struct agx_frame *frame, struct agx_event *event)
{
    struct wire_fault fault;
    struct wire_program_ok program;
    if (wire_program_ok_decode(frame->payload, frame->header.length_bytes, &program, &fault) !=
        STATUS_OK) {
        return AGX_ERROR_PROTOCOL;
    }
    event->kind = AGX_PROGRAM;
    memcpy(event->program_id, program.program_id, AGX_ID_BYTES);
    event->program_has_ended = program.kind == WIRE_PROGRAM_END;
    event->program_calls = program.calls;
    event->program_service_us = program.service_us;
    event->program_wait_us = program.wait_us;
    return AGX_OK;
}

static enum agx_result take_pong(const struct agx_frame *frame, struct agx_event *event)
{
    struct wire_fault fault;
    struct wire_ping pong;
    if (wire_ping_decode(frame->payload, frame->header.length_bytes, &pong, &fault) != STATUS_OK) {
        return AGX_ERROR_PROTOCOL;
    }
    event->kind = AGX_PONG;
    event->nonce = pong.nonce;
    return AGX_OK;
}

/* AGX_AGAIN: no whole frame, or a frame with nothing new. */
static enum agx_result take_event(struct agx *agx, struct agx_event *event)
{
    struct agx_frame frame;
    memset(event, 0, sizeof *event);
    enum agx_result result = take_frame(agx, &frame);
    if (result != AGX_OK) {
        return result;
    }
    switch (frame.header.type) {
    case WIRE_PROGRAM_OK:
        return take_program(&frame, event);
    case WIRE_ACCEPT:
        return take_accept(agx, &frame, event);
    case WIRE_TOKENS:
        return take_tokens(agx, &frame, event);
    case WIRE_DONE:
        return take_done(agx, &frame, event);
    case WIRE_PONG:
        return take_pong(&frame, event);
    case WIRE_CHAT:
    case WIRE_MODEL:
        return agx_session_told(agx, &frame, event);
    case WIRE_FLOW_OK:
    case WIRE_VALUE:
    case WIRE_ASK:
    case WIRE_ROW_DONE:
    case WIRE_FLOW_DONE:
        return agx_session_flow(agx, &frame, event);
    case WIRE_ERROR:
        return take_error(agx, &frame, event);
    default:
        return AGX_ERROR_PROTOCOL;          /* a second WELCOME, or a client's frame */
    }
}

enum agx_result agx_session_next(struct agx *agx, struct agx_event *event)
{
    if (agx->broken != AGX_OK) {
        return agx->broken;
    }
    uint32_t used;
    enum agx_result result;
    do {
        used = agx->in_used;
        result = take_event(agx, event);
    } while (result == AGX_AGAIN && agx->in_used > used);
    return result == AGX_OK || result == AGX_AGAIN ? result : agx_session_break(agx, result);
}

/* ---- the greeting ---------------------------------------------------------------------------- */

static bool token_is_sound(uint32_t token, uint32_t vocab_tokens)
{
    return token == UINT32_MAX || token < vocab_tokens;
}

/* The one frame that is due, or the ERROR that ends the connection instead. */
static enum agx_result take_due(struct agx *agx, uint8_t type, struct agx_frame *frame)
{
    struct agx_event refusal;
    enum agx_result result = take_frame(agx, frame);
    if (result != AGX_OK || frame->header.type == type) {
        return result;
    }
    result = frame->header.type == WIRE_ERROR ? take_error(agx, frame, &refusal) : AGX_OK;
    return result == AGX_OK ? AGX_ERROR_PROTOCOL : result;
}

static enum agx_result take_welcome(struct agx *agx)
{
    struct agx_frame frame;
    struct wire_fault fault;
    struct wire_welcome got;
    enum agx_result result = take_due(agx, WIRE_WELCOME, &frame);
    if (result != AGX_OK) {
        return result;
    }
    if (wire_welcome_decode(frame.payload, frame.header.length_bytes, &got, &fault) != STATUS_OK) {
        return AGX_ERROR_PROTOCOL;
    }
    if (got.version != WIRE_VERSION || got.auth > WIRE_AUTH_KEY) {
        return AGX_ERROR_VERSION;
    }
    if (got.frame_bytes_max < WIRE_REPLY_BYTES_MAX || got.context_tokens_max == 0 ||
        got.vocab_tokens == 0 || !token_is_sound(got.bos_id, got.vocab_tokens) ||
        !token_is_sound(got.eos_id, got.vocab_tokens)) {
        return AGX_ERROR_PROTOCOL;
    }
    struct agx_welcome *welcome = &agx->welcome;
    memcpy(welcome->boot_id, got.boot_id, sizeof welcome->boot_id);
    welcome->frame_bytes_max = got.frame_bytes_max;
    welcome->context_tokens_max = got.context_tokens_max;
    welcome->vocab_tokens = got.vocab_tokens;
    welcome->calls_per_connection_max = got.calls_per_connection_max;
    welcome->programs_max = got.programs_max;
    welcome->bos_id = got.bos_id;
    welcome->eos_id = got.eos_id;
    memcpy(welcome->model, got.model, WIRE_NAME_BYTES);
    welcome->needs_key = got.auth == WIRE_AUTH_KEY;
    agx->is_admitted = !welcome->needs_key;
    memcpy(agx->server_nonce, got.nonce, sizeof agx->server_nonce);
    return AGX_OK;
}

enum agx_result agx_session_welcome(struct agx *agx)
{
    STATIC_ASSERT(sizeof agx->welcome.model > WIRE_NAME_BYTES, "a terminator always fits");
    if (agx->broken != AGX_OK) {
        return agx->broken;
    }
    enum agx_result result = take_welcome(agx);
    return result == AGX_OK || result == AGX_AGAIN ? result : agx_session_break(agx, result);
}

static enum agx_result take_auth_reply(struct agx *agx)
{
    struct agx_frame frame;
    struct wire_fault fault;
    struct wire_auth_reply reply;
    enum agx_result result = take_due(agx, WIRE_AUTH_REPLY, &frame);
    if (result != AGX_OK) {
        return result;
    }
    if (wire_auth_reply_decode(frame.payload, frame.header.length_bytes, &reply, &fault) !=
        STATUS_OK) {
        return AGX_ERROR_PROTOCOL;
    }
    if (!wire_is_equal(reply.mac, agx->expected_mac)) {
        return AGX_ERROR_IMPOSTOR;
    }
    agx->is_admitted = 1;
    return AGX_OK;
}

enum agx_result agx_session_admitted(struct agx *agx)
{
    if (agx->broken != AGX_OK) {
        return agx->broken;
    }
    enum agx_result result = take_auth_reply(agx);
    return result == AGX_OK || result == AGX_AGAIN ? result : agx_session_break(agx, result);
}
