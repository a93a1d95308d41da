/* SPDX-License-Identifier: MIT */
#include "tools/sdk/session.h"

#include <string.h>

#include "config/base/assert.h"

/*
 * What: the sending half of a session: requests as frames in the output buffer.
 *
 * Invariants: out_first + out_bytes <= out_max; a frame is in the buffer whole or not at all. CALL
 * is checked by the decoder that the appliance itself uses, so a malformed call is refused here,
 * with the same field, found and allowed values, and is never sent.
 * Bounds: linear in the frame; no allocation.
 */

/* A prompt's ids and parts are copied from the caller's arrays as they are in memory. */
STATIC_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire is little-endian");
STATIC_ASSERT(AGX_ID_BYTES == CALL_PROGRAM_ID_BYTES, "one size of program ids");
STATIC_ASSERT(AGX_KEY_ID_BYTES == WIRE_KEY_ID_BYTES, "one size of key ids");
STATIC_ASSERT(AGX_SECRET_BYTES == WIRE_SECRET_BYTES, "one size of secrets");
STATIC_ASSERT(AGX_AFFINITY_BYTES + 1 == WIRE_NAME_BYTES, "a key fills the name of HELLO");
STATIC_ASSERT(sizeof((struct agx *)0)->name == WIRE_NAME_BYTES, "one size of names");
STATIC_ASSERT(AGX_STOP_IDS_MAX == WIRE_STOP_IDS_MAX, "one limit of stop ids");
STATIC_ASSERT(AGX_STOP_TEXTS_MAX == CALL_STOP_TEXTS_MAX, "one limit of stop texts");
STATIC_ASSERT(AGX_BIASES_MAX == CALL_BIASES_MAX, "one limit of biases");
STATIC_ASSERT(AGX_TOP_LOGPROBS_MAX == CALL_TOP_LOGPROBS_MAX, "one limit of alternatives");
STATIC_ASSERT(AGX_PARTS_MAX == WIRE_PARTS_MAX, "one limit of parts");
STATIC_ASSERT(AGX_CLASS_BYTES == CALL_CLASS_BYTES, "one size of names of classes");
STATIC_ASSERT((int)AGX_FINISH_LENGTH == (int)CALL_FINISH_LENGTH, "finishes are wire values");
STATIC_ASSERT((int)AGX_FINISH_FAILED == (int)CALL_FINISH_FAILED, "finishes are wire values");

const uint8_t *agx_session_unsent(const struct agx *agx, uint32_t *bytes)
{
    *bytes = agx->out_bytes;
    return agx->out + agx->out_first;
}

void agx_session_sent(struct agx *agx, uint32_t bytes)
{
    ASSERT(bytes <= agx->out_bytes);
    agx->out_first += bytes;
    agx->out_bytes -= bytes;
    if (agx->out_bytes == 0) {
        agx->out_first = 0;
    }
}

uint8_t *agx_session_output(struct agx *agx, uint32_t *room)
{
    if (agx->out_first > 0) {
        memmove(agx->out, agx->out + agx->out_first, agx->out_bytes);
        agx->out_first = 0;
    }
    ASSERT(agx->out_bytes <= agx->out_max);
    *room = agx->out_max - agx->out_bytes;
    return agx->out + agx->out_bytes;
}

enum agx_result agx_session_queue(struct agx *agx, uint32_t bytes)
{
    if (bytes == 0) {
        return agx->out_bytes > 0 ? AGX_AGAIN : AGX_ERROR_SPACE;
    }
    agx->out_bytes += bytes;
    ASSERT(agx->out_bytes <= agx->out_max);
    return AGX_OK;
}

enum agx_result agx_session_hello(struct agx *agx)
{
    struct wire_hello hello = {.version_min = WIRE_VERSION, .version_max = WIRE_VERSION};
    uint32_t room;
    memcpy(hello.name, agx->name, sizeof hello.name);
    uint8_t *out = agx_session_output(agx, &room);
    return agx_session_queue(agx, wire_hello_encode(&hello, out, room));
}

/* The expected answer is computed now, so the secret need not be kept. */
enum agx_result agx_session_auth(struct agx *agx, const struct agx_key *key,
                                 const uint8_t nonce[WIRE_NONCE_BYTES])
{
    struct wire_auth auth;
    struct wire_proof proof;
    uint32_t room;
    if (agx->broken != AGX_OK || !agx->welcome.needs_key) {
        return agx->broken != AGX_OK ? agx->broken : AGX_ERROR_IMPOSTOR;
    }
    memset(&auth, 0, sizeof auth);
    memcpy(auth.key_id, key->id, strnlen(key->id, sizeof auth.key_id - 1));
    memcpy(auth.nonce, nonce, sizeof auth.nonce);
    memcpy(proof.key_id, auth.key_id, sizeof proof.key_id);
    memcpy(proof.boot_id, agx->welcome.boot_id, sizeof proof.boot_id);
    memcpy(proof.server_nonce, agx->server_nonce, sizeof proof.server_nonce);
    memcpy(proof.client_nonce, nonce, sizeof proof.client_nonce);
    wire_proof_mac(&proof, WIRE_CLIENT, key->secret, auth.mac);
    wire_proof_mac(&proof, WIRE_SERVER, key->secret, agx->expected_mac);
    uint8_t *out = agx_session_output(agx, &room);
    return agx_session_queue(agx, wire_auth_encode(&auth, out, room));
}

enum agx_result agx_session_program_start(struct agx *agx, const uint8_t id[AGX_ID_BYTES],
                                          const char *class_name)
{
    struct wire_program_start start = {.class_name = ""};
    struct wire_fault fault = {.frame_type = WIRE_PROGRAM_START};
    const char *name = class_name != NULL ? class_name : "";
    uint32_t bytes = (uint32_t)strnlen(name, CALL_CLASS_BYTES + 1), room;
    if (wire_class_check((const uint8_t *)name, bytes, &fault) != STATUS_OK) {
        agx_session_fault(agx, &fault);
        return AGX_ERROR_ARGUMENT;
    }
    memcpy(start.program_id, id, AGX_ID_BYTES);
    memcpy(start.class_name, name, bytes);
    uint8_t *out = agx_session_output(agx, &room);
    return agx_session_queue(agx, wire_program_start_encode(&start, out, room));
}

enum agx_result agx_session_program_end(struct agx *agx, const uint8_t id[AGX_ID_BYTES])
{
    struct wire_program_end end;
    uint32_t room;
    memcpy(end.program_id, id, AGX_ID_BYTES);
    uint8_t *out = agx_session_output(agx, &room);
    return agx_session_queue(agx, wire_program_end_encode(&end, out, room));
}

enum agx_result agx_session_cancel(struct agx *agx, const uint8_t program_id[AGX_ID_BYTES],
                                   uint64_t call_id)
{
    struct wire_cancel cancel = {.call_id = call_id};
    uint32_t room;
    memcpy(cancel.program_id, program_id, AGX_ID_BYTES);
    uint8_t *out = agx_session_output(agx, &room);
    return agx_session_queue(agx, wire_cancel_encode(&cancel, out, room));
}

enum agx_result agx_session_ping(struct agx *agx, uint64_t nonce)
{
    struct wire_ping ping = {.nonce = nonce};
    uint32_t room;
    uint8_t *out = agx_session_output(agx, &room);
    return agx_session_queue(agx, wire_ping_encode(&ping, WIRE_PING, out, room));
}

enum agx_result agx_session_chat_ask(struct agx *agx, uint64_t nonce, uint32_t first)
{
    struct wire_chat_ask ask = {.nonce = nonce, .first = first};
    uint32_t room;
    uint8_t *out = agx_session_output(agx, &room);
    return agx_session_queue(agx, wire_chat_ask_encode(&ask, out, room));
}

enum agx_result agx_session_model_ask(struct agx *agx, uint64_t nonce)
{
    struct wire_model_ask ask = {.nonce = nonce};
    uint32_t room;
    uint8_t *out = agx_session_output(agx, &room);
    return agx_session_queue(agx, wire_model_ask_encode(&ask, out, room));
}

/* ---- CALL ------------------------------------------------------------------------------------ */

/* For an argument that cannot be put into a frame. */
static enum agx_result refuse_argument(struct agx *agx, enum wire_field field, uint64_t found,
                                       uint64_t max)
{
    struct wire_fault fault = {.status = STATUS_BAD_FIELD, .frame_type = WIRE_CALL, .field = field,
                               .found = found, .max = max};
    agx_session_fault(agx, &fault);
    return AGX_ERROR_ARGUMENT;
}

/* True when the call asks for what only a CALL with MORE says: others stay as they always were. */
static bool has_more(const struct agx_call *call)
{
    return call->presence_penalty != 0.0f || call->frequency_penalty != 0.0f ||
           call->biases_count > 0 || call->want_logprobs || call->top_logprobs > 0;
}

static uint32_t call_flags(const struct agx_call *call)
{
    return (call->prompt_ids == NULL ? WIRE_CALL_TEXT_PROMPT : 0) |
           (call->prompt_ids == NULL && !call->no_bos ? WIRE_CALL_ADD_BOS : 0) |
           (call->want_text ? WIRE_CALL_WANT_TEXT : 0) |
           (call->want_control ? WIRE_CALL_WANT_CONTROL : 0) |
           (call->want_drafts ? WIRE_CALL_WANT_DRAFTS : 0) |
           (call->ignore_eos ? WIRE_CALL_IGNORE_EOS : 0) |
           (call->parse_special ? WIRE_CALL_PARSE_SPECIAL : 0) |
           (has_more(call) ? WIRE_CALL_MORE : 0);
}

static enum agx_result fill_stops(struct agx *agx, const struct agx_call *call,
                                  struct wire_call *frame)
{
    if (call->stop_ids_count > AGX_STOP_IDS_MAX ||
        (call->stop_ids_count > 0 && call->stop_ids == NULL)) {
        return refuse_argument(agx, WIRE_FIELD_STOP_IDS, call->stop_ids_count, AGX_STOP_IDS_MAX);
    }
    if (call->stop_texts_count > AGX_STOP_TEXTS_MAX) {
        return refuse_argument(agx, WIRE_FIELD_STOP_TEXTS, call->stop_texts_count,
                               AGX_STOP_TEXTS_MAX);
    }
    frame->sampling.stop_ids_count = call->stop_ids_count;
    for (uint32_t i = 0; i < call->stop_ids_count; i++) {
        frame->sampling.stop_ids[i] = call->stop_ids[i];
    }
    frame->stop_texts_count = call->stop_texts_count;
    for (uint32_t i = 0; i < call->stop_texts_count; i++) {
        const char *text = call->stop_texts[i] != NULL ? call->stop_texts[i] : "";
        size_t length = strnlen(text, CALL_STOP_TEXT_BYTES + 1);
        if (length > CALL_STOP_TEXT_BYTES) {
            return refuse_argument(agx, WIRE_FIELD_STOP_TEXTS, length, CALL_STOP_TEXT_BYTES);
        }
        frame->stop_texts[i].length_bytes = (uint16_t)length;
        memcpy(frame->stop_texts[i].bytes, text, length);
    }
    return AGX_OK;
}

/* On the wire the ids of tokens ascend; a caller need not sort. */
static enum agx_result fill_biases(struct agx *agx, const struct agx_call *call,
                                   struct wire_call *frame)
{
    if (call->biases_count > AGX_BIASES_MAX ||
        (call->biases_count > 0 && call->biases == NULL)) {
        return refuse_argument(agx, WIRE_FIELD_LOGIT_BIAS, call->biases_count, AGX_BIASES_MAX);
    }
    frame->sampling.biases_count = call->biases_count;
    for (uint32_t i = 0; i < call->biases_count; i++) {
        uint32_t at = i;
        for (; at > 0 && frame->biases[at - 1].token > call->biases[i].token; at--) {
            frame->biases[at] = frame->biases[at - 1];
        }
        frame->biases[at] = (struct call_bias){call->biases[i].token, call->biases[i].bias};
    }
    return AGX_OK;
}

/* Points to the prompt in its place; an empty text needs no pointer. */
static enum agx_result fill_prompt(struct agx *agx, const struct agx_call *call,
                                   struct wire_call *frame)
{
    if (call->prompt_ids != NULL) {
        frame->prompt = (const uint8_t *)call->prompt_ids;
        frame->prompt_count = call->prompt_ids_count;
        return AGX_OK;
    }
    if (call->prompt_text_bytes > UINT32_MAX ||
        (call->prompt_text == NULL && call->prompt_text_bytes > 0)) {
        return refuse_argument(agx, WIRE_FIELD_PROMPT, call->prompt_text_bytes, UINT32_MAX);
    }
    if (call->prompt_parts_count > AGX_PARTS_MAX ||
        (call->prompt_parts == NULL && call->prompt_parts_count > 0)) {
        return refuse_argument(agx, WIRE_FIELD_PARTS, call->prompt_parts_count, AGX_PARTS_MAX);
    }
    frame->parts = (const uint8_t *)call->prompt_parts;
    frame->parts_count = call->prompt_parts_count;
    frame->prompt = (const uint8_t *)(call->prompt_text != NULL ? call->prompt_text : "");
    frame->prompt_count = (uint32_t)call->prompt_text_bytes;
    return AGX_OK;
}

static enum agx_result fill_call(struct agx *agx, const struct agx_call *call,
                                 struct wire_call *frame)
{
    memset(frame, 0, sizeof *frame);
    frame->call_id = call->call_id;
    memcpy(frame->program_id, call->program_id, AGX_ID_BYTES);
    frame->thread = call->thread;
    frame->flags = call_flags(call);
    frame->max_tokens = call->max_tokens;
    frame->sampling.temperature = call->temperature;
    frame->sampling.top_k = call->top_k;
    frame->sampling.top_p = call->top_p == 0.0f ? 1.0f : call->top_p;
    frame->sampling.min_p = call->min_p;
    frame->sampling.repeat_penalty = call->repeat_penalty == 0.0f ? 1.0f : call->repeat_penalty;
    frame->sampling.presence_penalty = call->presence_penalty;
    frame->sampling.frequency_penalty = call->frequency_penalty;
    frame->sampling.wants_logprobs = call->want_logprobs != 0;
    frame->sampling.top_logprobs = call->top_logprobs;
    frame->sampling.seed = call->seed;
    frame->deadline_us = call->deadline_us;
    enum agx_result result = fill_stops(agx, call, frame);
    result = result == AGX_OK ? fill_biases(agx, call, frame) : result;
    return result == AGX_OK ? fill_prompt(agx, call, frame) : result;
}

/* Checks the frame in the buffer with the appliance's own decoder. */
static enum agx_result judge(struct agx *agx, const uint8_t *frame, uint32_t bytes)
{
    struct wire_header header;
    struct wire_call call;
    struct wire_fault fault;
    if (wire_header_decode(frame, agx->welcome.frame_bytes_max, &header, &fault) == STATUS_OK &&
        wire_call_decode(frame + WIRE_HEADER_BYTES, bytes - WIRE_HEADER_BYTES, &call, &fault) ==
            STATUS_OK) {
        return AGX_OK;
    }
    agx_session_fault(agx, &fault);
    return AGX_ERROR_ARGUMENT;
}

enum agx_result agx_session_put_call(struct agx *agx, const struct agx_call *call)
{
    struct wire_call frame;
    enum agx_result result = fill_call(agx, call, &frame);
    if (result != AGX_OK) {
        return result;
    }
    uint32_t room;
    uint8_t *out = agx_session_output(agx, &room);
    uint32_t bytes = wire_call_encode(&frame, out, room);
    if (bytes != 0) {
        result = judge(agx, out, bytes);
    }
    return result == AGX_OK ? agx_session_queue(agx, bytes) : result;
}

enum agx_result agx_session_call(struct agx *agx, const struct agx_call *call)
{
    struct agx_open_call *slot = agx_calls_free(agx);
    if (slot == NULL) {
        return AGX_ERROR_SPACE;
    }
    if (agx_calls_find(agx, call->call_id) != NULL) {
        return refuse_argument(agx, WIRE_FIELD_CALL_ID, call->call_id, 0);
    }
    enum agx_result result = agx_session_put_call(agx, call);
    if (result == AGX_OK) {
        *slot = (struct agx_open_call){.call_id = call->call_id, .request = call,
                                       .tokens_max = call->max_tokens, .state = AGX_CALL_SENT,
                                       .wants_drafts = call->want_drafts != 0,
                                       .logprobs_each = call->want_logprobs
                                                            ? 1 + call->top_logprobs : 0,
                                       .told = AGX_PROGRESS_NONE, .seen = AGX_PROGRESS_NONE};
    }
    return result;
}
