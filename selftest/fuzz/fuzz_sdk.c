/* SPDX-License-Identifier: MIT */
/*
 * Goal: no bytes of an appliance make the client library read or write out of bounds, hang, deliver
 * a token out of order, or revive a connection that has ended, whatever the client asks for
 * meanwhile.
 * Method: libFuzzer drives the pure session (tools/sdk/session.h), which has greeted and has CALLS
 * calls open. The input is a list of records:
 *
 *     kind u8, length u8, bytes     a frame of type 128 + kind % 16 with this payload and a right
 *                                   header, because no fuzzer guesses checksums; enum way says how
 *                                   it arrives. Or a client's request, or the bytes as they are
 *
 * The first byte of an input may instead say what a stranger sends: 255, a frame in place of
 * WELCOME, with its type and payload; 254, any bytes; 253, an impostor's answer to AUTH.
 * Model: this file counts tokens and digest of each call again, from the events alone.
 */
#include "selftest/fuzz/wire_words.h"
#include "tools/sdk/session.h"

#define CALLS      3
#define TOKENS_MAX 16
#define VOCAB      300

enum way {                          /* kind / 16 */
    WAY_WHOLE,
    WAY_RIGHT,                      /* also with the right count and digest in a DONE */
    WAY_HALVES,                     /* in two parts, with a read in between */
    WAY_WRONG,                      /* one bit of it is wrong */
    WAY_REQUEST,                    /* kind % 16: enum request */
    WAYS                            /* the bytes as they are */
};
enum { STRANGER_AUTH = 253, STRANGER_BYTES, STRANGER_FRAME };  /* first byte of an input */
enum request { REQUEST_CALL, REQUEST_CANCEL, REQUEST_PING, REQUEST_PROGRAM, REQUEST_SENT,
               REQUEST_CALL_OF_TEXT, REQUEST_RESUME, REQUEST_RESEND, REQUEST_CALL_OF_MORE,
               REQUESTS_COUNT };
enum { DONE_GENERATED_AT = 24, DONE_DIGEST_AT = 56, DONE_BYTES = 64 };     /* docs/protocol.md */

struct model {
    uint32_t tokens[CALLS];
    uint64_t digests[CALLS];
};

/* A request stays in place while its call is open: resuming reads it. */
static struct request_of_call {
    struct agx_call call;
    char text[UINT8_MAX + 1];
    struct agx_bias biases[3];
} requests[CALLS], greeted_requests[CALLS], refused;

struct record {
    uint8_t kind;
    const uint8_t *bytes;
    uint32_t count;
};

static uint8_t buffer[AGX_BUFFER_BYTES_MIN];

/* Writes the header that the appliance would send before `count` bytes of payload. */
static uint32_t seal(uint8_t *frame, uint8_t type, uint32_t count)
{
    const uint8_t start[8] = {0x41, 0x47, 0x58, 0x31, type};
    memcpy(frame, start, sizeof start);
    memcpy(frame + 8, &count, sizeof count);
    uint32_t checksum = wire_checksum(frame, frame + WIRE_HEADER_BYTES, count);
    memcpy(frame + 12, &checksum, sizeof checksum);
    return WIRE_HEADER_BYTES + count;
}

static void feed(struct agx *agx, const uint8_t *bytes, uint32_t count)
{
    uint32_t room;
    uint8_t *at = agx_session_room(agx, &room);
    ASSERT(room > 0 || agx->broken != AGX_OK);
    count = count < room ? count : room;
    memcpy(at, bytes, count);
    agx_session_received(agx, count);
}

/* ---- events of the client -------------------------------------------------------------------- */

static void check_tokens(const struct agx *agx, const struct agx_event *event, struct model *model)
{
    uint32_t *tokens = &model->tokens[event->call_id], sum = 0;
    ASSERT(event->first_index == *tokens);
    *tokens += event->tokens_count;
    ASSERT(*tokens <= TOKENS_MAX);
    for (uint32_t i = 0; i < event->tokens_count; i++) {
        ASSERT(event->tokens[i] < agx->welcome.vocab_tokens);
    }
    for (uint32_t i = 0; i < event->text_bytes; i++) {
        sum += (uint8_t)event->text[i];     /* every byte must be readable */
    }
    ASSERT(sum < UINT32_MAX);
    ASSERT((event->logprobs != NULL) == (event->logprobs_each > 0));
    for (uint32_t i = 0; i < event->tokens_count * event->logprobs_each; i++) {
        ASSERT(event->logprobs[i].token < agx->welcome.vocab_tokens);
        ASSERT(event->logprobs[i].logprob <= 0);
    }
    uint64_t *digest = &model->digests[event->call_id];
    *digest = wire_digest(*digest, event->tokens, event->tokens_count);
}

static void begin_call(struct model *model, uint64_t call_id)
{
    model->tokens[call_id] = 0;
    model->digests[call_id] = WIRE_DIGEST_START;
}

static void check_event(const struct agx *agx, const struct agx_event *event, struct model *model)
{
    switch (event->kind) {
    case AGX_TOKENS:
        ASSERT(event->call_id < CALLS && event->queue < WIRE_QUEUES_MAX);
        check_tokens(agx, event, model);
        break;
    case AGX_DONE:
        ASSERT(event->call_id < CALLS && event->queue < WIRE_QUEUES_MAX);
        ASSERT(event->generated_tokens == model->tokens[event->call_id]);
        ASSERT(event->digest == model->digests[event->call_id]);
        ASSERT(event->finish >= AGX_FINISH_LENGTH && event->finish <= AGX_FINISH_FAILED);
        break;
    case AGX_ACCEPTED:
        ASSERT(event->call_id < CALLS && model->tokens[event->call_id] == 0);
        break;
    case AGX_REFUSED:
        ASSERT(agx->fault.field != NULL && agx->fault.frame != NULL && agx->fault.text != NULL);
        break;
    case AGX_CHAT:
        ASSERT(strlen(agx->chat.format) < sizeof agx->chat.format);
        ASSERT(strlen(agx->chat.system) < sizeof agx->chat.system);
        break;
    case AGX_FLOW:
        ASSERT(false);                      /* no workflow was opened */
        break;
    case AGX_PONG:
    case AGX_MODEL:
    case AGX_PROGRAM:
        break;
    }
}

static void drain(struct agx *agx, struct model *model)
{
    struct agx_event event;
    enum agx_result result;
    while ((result = agx_session_next(agx, &event)) == AGX_OK) {
        check_event(agx, &event, model);
    }
    if (result != AGX_AGAIN) {
        ASSERT(agx_session_next(agx, &event) == result);
        ASSERT(agx_session_welcome(agx) == result);
    }
}

/* ---- requests of the client ------------------------------------------------------------------ */

/* A place for the request of a call: open calls keep theirs. */
static struct request_of_call *request_for(struct agx *agx, uint64_t call_id)
{
    struct request_of_call *request =
        agx_calls_find(agx, call_id) == NULL ? &requests[call_id] : &refused;
    request->call = (struct agx_call){.call_id = call_id, .max_tokens = TOKENS_MAX};
    return request;
}

static void start_call(struct agx *agx, const struct agx_call *call, struct model *model)
{
    bool was_open = agx_calls_find(agx, call->call_id) != NULL;
    if (agx_session_call(agx, call) == AGX_OK) {
        ASSERT(!was_open);
        begin_call(model, call->call_id);
    }
}

static void start_call_of_ids(struct agx *agx, uint64_t call_id, struct model *model)
{
    static const uint32_t prompt = 1;
    struct agx_call *call = &request_for(agx, call_id)->call;
    call->prompt_ids = &prompt;
    call->prompt_ids_count = 1;
    start_call(agx, call, model);
}

/* The same bytes are prompt and stop text. */
static void start_call_of_text(struct agx *agx, const struct record *record, struct model *model)
{
    struct request_of_call *request = request_for(agx, record->bytes[0] % CALLS);
    uint32_t bytes = record->count - 1;
    memcpy(request->text, record->bytes + 1, bytes);
    request->text[bytes] = '\0';
    request->call.prompt_text = request->call.stop_texts[0] = request->text;
    request->call.prompt_text_bytes = bytes;
    request->call.stop_texts_count = record->bytes[0] / 128;
    start_call(agx, &request->call, model);
}

/* One with penalties, biases and log probabilities: TOKENS then carry as many entries. */
static void start_call_of_more(struct agx *agx, const struct record *record, struct model *model)
{
    static const uint32_t prompt = 1;
    uint8_t bytes[6] = {0};
    memcpy(bytes, record->bytes, record->count < sizeof bytes ? record->count : sizeof bytes);
    struct request_of_call *request = request_for(agx, bytes[0] % CALLS);
    struct agx_call *call = &request->call;
    call->prompt_ids = &prompt;
    call->prompt_ids_count = 1;
    call->presence_penalty = (float)(bytes[1] % 8) / 2 - 2;
    call->frequency_penalty = (float)(bytes[1] / 8 % 8) / 2 - 2;
    call->want_control = call->want_logprobs = bytes[1] >= 64;
    call->top_logprobs = bytes[2] % (AGX_TOP_LOGPROBS_MAX + 2);
    call->biases = request->biases;
    call->biases_count = bytes[3] % 4;
    for (uint32_t i = 0; i < call->biases_count; i++) {
        request->biases[i] = (struct agx_bias){bytes[4] * (i + 1) % VOCAB, (float)bytes[5] - 100};
    }
    start_call(agx, call, model);
}

static void greet(struct agx *agx)
{
    uint8_t frame[WIRE_REPLY_BYTES_MAX];
    struct wire_welcome welcome = {.version = 1, .frame_bytes_max = 60000, .vocab_tokens = VOCAB,
                                   .context_tokens_max = 64, .bos_id = 1, .eos_id = 2};
    ASSERT(agx_session_hello(agx) == AGX_OK);
    feed(agx, frame, wire_welcome_encode(&welcome, frame, sizeof frame));
    ASSERT(agx_session_welcome(agx) == AGX_OK);
}

/* Does what agx_resume() does, without the socket: only a break can be resumed from. */
static void resume(struct agx *agx)
{
    if (agx_session_break(agx, AGX_ERROR_CLOSED) == AGX_ERROR_CLOSED) {
        agx_session_reset(agx);
        greet(agx);
        agx_session_resume(agx);
        ASSERT(agx_session_resend(agx) == AGX_OK && agx->calls_due == 0);
    }
}

static void send_some(struct agx *agx, uint32_t wanted)
{
    uint32_t count;
    const uint8_t *bytes = agx_session_unsent(agx, &count);
    uint32_t sent = wanted < count ? wanted : count, left;
    ASSERT(bytes >= buffer && bytes + count <= buffer + sizeof buffer);
    agx_session_sent(agx, sent);
    (void)agx_session_unsent(agx, &left);
    ASSERT(left == count - sent);
}

/* A start of a class, whatever it is called, or an end. */
static void ask_program(struct agx *agx, const struct record *record, const uint8_t *program)
{
    char name[AGX_CLASS_BYTES + 2] = "";
    uint32_t count = record->count - 1;
    memcpy(name, record->bytes + 1, count < sizeof name ? count : sizeof name - 1);
    if (record->bytes[0] % 2 == 0) {
        (void)agx_session_program_start(agx, program, name);
    } else {
        (void)agx_session_program_end(agx, program);
    }
}

static void ask(struct agx *agx, const struct record *record, struct model *model)
{
    static const uint8_t program[AGX_ID_BYTES];
    if (record->count == 0) {
        return;
    }
    uint8_t value = record->bytes[0];
    switch (record->kind % 16 % REQUESTS_COUNT) {
    case REQUEST_CALL: start_call_of_ids(agx, value % CALLS, model); break;
    case REQUEST_CANCEL: (void)agx_session_cancel(agx, program, value % CALLS); break;
    case REQUEST_CALL_OF_TEXT: start_call_of_text(agx, record, model); break;
    case REQUEST_CALL_OF_MORE: start_call_of_more(agx, record, model); break;
    case REQUEST_PING: (void)agx_session_ping(agx, value); break;
    case REQUEST_PROGRAM:
        ask_program(agx, record, program);
        break;
    case REQUEST_RESUME: resume(agx); break;
    case REQUEST_RESEND: (void)agx_session_resend(agx); break;
    default:
        (void)agx_session_chat_more(agx);
        send_some(agx, value);
        break;
    }
}

/* ---- records --------------------------------------------------------------------------------- */

static void put_done_right(uint8_t *payload, const struct model *model)
{
    uint64_t call_id = 0;
    memcpy(&call_id, payload, sizeof call_id);
    if (call_id < CALLS) {
        memcpy(payload + DONE_GENERATED_AT, &model->tokens[call_id], sizeof(uint32_t));
        memcpy(payload + DONE_DIGEST_AT, &model->digests[call_id], sizeof(uint64_t));
    }
}

static void take_frame(struct agx *agx, const struct record *record, struct model *model)
{
    uint8_t frame[WIRE_HEADER_BYTES + UINT8_MAX];
    uint8_t *payload = frame + WIRE_HEADER_BYTES;
    uint8_t type = (uint8_t)(128 + record->kind % 16);
    memcpy(payload, record->bytes, record->count);
    enum way way = record->kind / 16;
    if (way == WAY_RIGHT && type == WIRE_DONE && record->count == DONE_BYTES) {
        put_done_right(payload, model);
    }
    uint32_t count = seal(frame, type, record->count);
    uint32_t somewhere = record->count * 37 % count;        /* in the header or the payload */
    if (way == WAY_HALVES) {
        feed(agx, frame, somewhere);
        drain(agx, model);
        feed(agx, frame + somewhere, count - somewhere);
        return;
    }
    frame[somewhere] ^= way == WAY_WRONG;
    feed(agx, frame, count);
}

static void take_record(struct agx *agx, const struct record *record, struct model *model)
{
    if (record->kind / 16 < WAY_REQUEST) {
        take_frame(agx, record, model);
    } else if (record->kind / 16 == WAY_REQUEST) {
        ask(agx, record, model);
    } else {
        feed(agx, record->bytes, record->count);
    }
    drain(agx, model);
}

static void check_welcome(const struct agx_welcome *welcome)
{
    ASSERT(welcome->vocab_tokens > 0 && welcome->context_tokens_max > 0);
    ASSERT(welcome->bos_id < welcome->vocab_tokens || welcome->bos_id == UINT32_MAX);
    ASSERT(welcome->eos_id < welcome->vocab_tokens || welcome->eos_id == UINT32_MAX);
    ASSERT(strnlen(welcome->model, sizeof welcome->model) < sizeof welcome->model);
}

static void meet_stranger(const struct record *record)
{
    uint8_t frame[WIRE_HEADER_BYTES + UINT8_MAX];
    struct agx agx;
    ASSERT(agx_session_init(&agx, buffer, sizeof buffer) == AGX_OK);
    if (record->kind == STRANGER_FRAME && record->count > 0) {
        memcpy(frame + WIRE_HEADER_BYTES, record->bytes + 1, record->count - 1);
        feed(&agx, frame, seal(frame, record->bytes[0], record->count - 1));
    } else {
        feed(&agx, record->bytes, record->count);
    }
    enum agx_result result = agx_session_welcome(&agx);
    if (result == AGX_OK) {
        check_welcome(&agx.welcome);
    } else if (result != AGX_AGAIN) {
        ASSERT(agx_session_welcome(&agx) == result);
    }
}

/* A proof needs the secret: no input may have one. */
static void meet_impostor(const struct record *record)
{
    static const struct agx_key key = {.id = "k", .secret = "fuzz"};
    static const uint8_t nonce[WIRE_NONCE_BYTES];
    uint8_t frame[WIRE_REPLY_BYTES_MAX];
    struct wire_welcome welcome = {.version = 1, .auth = WIRE_AUTH_KEY, .frame_bytes_max = 60000,
                                   .vocab_tokens = VOCAB, .context_tokens_max = 64};
    struct agx agx;
    ASSERT(agx_session_init(&agx, buffer, sizeof buffer) == AGX_OK);
    ASSERT(agx_session_hello(&agx) == AGX_OK);
    feed(&agx, frame, wire_welcome_encode(&welcome, frame, sizeof frame));
    ASSERT(agx_session_welcome(&agx) == AGX_OK);
    ASSERT(agx_session_auth(&agx, &key, nonce) == AGX_OK);
    uint32_t count = record->count < WIRE_MAC_BYTES ? record->count : WIRE_MAC_BYTES;
    memcpy(frame + WIRE_HEADER_BYTES, record->bytes, count);
    feed(&agx, frame, seal(frame, WIRE_AUTH_REPLY, count));
    ASSERT(agx_session_admitted(&agx) != AGX_OK && !agx.is_admitted);
}

/* A session that has greeted and has CALLS calls open. Made once; every input starts from it. */
static void begin(struct agx *agx, struct model *model)
{
    static struct agx greeted;
    static struct model greeted_model;
    if (greeted.in == NULL) {
        ASSERT(agx_session_init(&greeted, buffer, sizeof buffer) == AGX_OK);
        greet(&greeted);
        for (uint64_t id = 0; id < CALLS; id++) {
            start_call_of_ids(&greeted, id, &greeted_model);
        }
        memcpy(greeted_requests, requests, sizeof requests);
    }
    *agx = greeted;
    *model = greeted_model;
    memcpy(requests, greeted_requests, sizeof requests);
}

static void talk(const uint8_t *bytes, size_t count)
{
    struct agx agx;
    struct model model;
    begin(&agx, &model);
    for (size_t at = 0; at + 2 <= count;) {
        struct record record = {.kind = bytes[at], .bytes = bytes + at + 2,
                                .count = bytes[at + 1]};
        at += 2;
        record.count = record.count < count - at ? record.count : (uint32_t)(count - at);
        at += record.count;
        take_record(&agx, &record, &model);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count > 0 && bytes[0] >= STRANGER_AUTH) {
        struct record record = {.kind = bytes[0], .bytes = bytes + 1,
                                .count = (uint32_t)(count - 1 < UINT8_MAX ? count - 1
                                                                         : UINT8_MAX)};
        (record.kind == STRANGER_AUTH ? meet_impostor : meet_stranger)(&record);
    } else {
        talk(bytes, count);
    }
    return 0;
}

/* The kinds of records, and the first bytes of strangers. */
void dictionary_write(void)
{
    for (uint32_t way = WAY_WHOLE; way < WAY_REQUEST; way++) {
        for (uint32_t type = 128; type < 144; type++) {
            if (wire_layout_of((uint8_t)type) != NULL) {
                dictionary_number(16 * way + type - 128, 1);
            }
        }
    }
    for (uint32_t request = 0; request < REQUESTS_COUNT; request++) {
        dictionary_number(16 * WAY_REQUEST + request, 1);
    }
    dictionary_number(STRANGER_FRAME | WIRE_WELCOME << 8, 2);
    dictionary_number(STRANGER_FRAME | WIRE_ERROR << 8, 2);
    dictionary_number(VOCAB, 4);
    dictionary_number(TOKENS_MAX, 4);
    wire_words_write();
}
