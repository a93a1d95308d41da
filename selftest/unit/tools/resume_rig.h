/* SPDX-License-Identifier: MIT */
#pragma once
/* What: an appliance of frames, and an answer of six tokens, for tests of a client that resumes. */
#include "selftest/unit/folder.h"

#include <stdbool.h>

#include "net/wire.h"
#include "tools/sdk/agx.h"
#include "tools/sdk/session.h"

#define TOKENS 6
static _Alignas(8) uint8_t buffer[AGX_BUFFER_BYTES_MIN];
static const uint32_t answer[TOKENS] = {11, 12, 13, 14, 15, 16};
static const char text[] = "h\xc3\xa9llo, w\xc3\xb6rld";
#define TEXT_BYTES ((uint32_t)sizeof text - 1)

/* ---- an appliance of frames ------------------------------------------------------------------ */

static inline uint32_t welcome_frame(uint8_t boot, uint8_t *bytes)
{
    struct wire_welcome welcome = {.version = 1, .boot_id = {boot}, .frame_bytes_max = 60000,
                                   .context_tokens_max = 64, .vocab_tokens = 100,
                                   .calls_per_connection_max = 64, .programs_max = 2,
                                   .bos_id = 1, .eos_id = 2, .model = "tiny"};
    return wire_welcome_encode(&welcome, bytes, WIRE_REPLY_BYTES_MAX);
}

static inline uint32_t accept_frame(uint64_t call_id, uint32_t flags, uint8_t *bytes)
{
    struct wire_accept accept = {.call_id = call_id, .prompt_tokens = 3, .flags = flags};
    return wire_accept_encode(&accept, bytes, WIRE_REPLY_BYTES_MAX);
}

/* Some of `tokens` and some of `words`. */
struct part { uint32_t token_first, token_count, byte_first, byte_count; };
static inline uint32_t part_frame(struct part part, const uint32_t *tokens, const char *words,
                                  uint8_t *bytes)
{
    struct wire_tokens frame = {.call_id = 1, .first_index = part.token_first,
                                .tokens_count = part.token_count, .text_bytes = part.byte_count,
                                .text = (const uint8_t *)words + part.byte_first};
    return wire_tokens_encode(&frame, tokens + part.token_first, bytes, WIRE_REPLY_BYTES_MAX);
}

static inline uint32_t done_frame(enum call_finish finish, enum status status,
                                  const uint32_t *tokens, uint32_t count, uint8_t *bytes)
{
    struct wire_done done = {.call_id = 1, .finish = finish, .status = status, .prompt_tokens = 3,
                             .generated_tokens = count,
                             .digest = wire_digest(WIRE_DIGEST_START, tokens, count)};
    return wire_done_encode(&done, bytes, WIRE_REPLY_BYTES_MAX);
}

static inline uint32_t error_frame(enum status status, uint64_t call_id, uint8_t *bytes)
{
    struct wire_error error = {.retry_ms = status == STATUS_BUSY_CALLS ? 60000 : 0,
                               .fault = {.status = status, .frame_type = WIRE_CALL,
                                         .call_id = call_id}};
    return wire_error_encode(&error, bytes, WIRE_REPLY_BYTES_MAX);
}

/* ---- a session in memory --------------------------------------------------------------------- */

static uint8_t frame[WIRE_REPLY_BYTES_MAX];

static inline void feed(struct agx *agx, uint32_t count)
{
    uint32_t room;
    uint8_t *at = agx_session_room(agx, &room);
    assert_true(count > 0 && count <= room);
    memcpy(at, frame, count);
    agx_session_received(agx, count);
}

static inline void feed_part(struct agx *agx, struct part part)
{
    feed(agx, part_frame(part, answer, text, frame));
}

static inline void feed_done(struct agx *agx)
{
    feed(agx, done_frame(CALL_FINISH_LENGTH, STATUS_OK, answer, TOKENS, frame));
}

static inline struct agx_call call_of(uint64_t call_id)
{
    return (struct agx_call){.call_id = call_id, .max_tokens = TOKENS, .want_text = 1,
                             .prompt_ids = answer, .prompt_ids_count = 3};
}

static inline void greet(struct agx *agx, uint8_t boot)
{
    feed(agx, welcome_frame(boot, frame));
    assert_int_equal(agx_session_welcome(agx), AGX_OK);
    assert_int_equal(agx->welcome.boot_id[0], boot);
}

static inline void open_session(struct agx *agx, const struct agx_call *call)
{
    assert_int_equal(agx_session_init(agx, buffer, sizeof buffer), AGX_OK);
    greet(agx, 1);
    assert_int_equal(agx_session_call(agx, call), AGX_OK);
}

/* The connection breaks, and another one is greeted. */
static inline void resume(struct agx *agx)
{
    agx_session_break(agx, AGX_ERROR_CLOSED);
    agx_session_reset(agx);
    greet(agx, 2);
    agx_session_resume(agx);
    assert_int_equal(agx_session_resend(agx), AGX_OK);
}

/* Takes one CALL out of what is unsent; false: there is none. */
static inline bool take_sent_call(struct agx *agx, struct wire_call *call)
{
    uint32_t count;
    const uint8_t *bytes = agx_session_unsent(agx, &count);
    struct wire_header header;
    struct wire_fault fault;
    if (count == 0) {
        return false;
    }
    assert_status(STATUS_OK, wire_header_decode(bytes, 60000, &header, &fault));
    assert_int_equal(header.type, WIRE_CALL);
    assert_status(STATUS_OK, wire_call_decode(bytes + WIRE_HEADER_BYTES, header.length_bytes, call,
                                              &fault));
    agx_session_sent(agx, WIRE_HEADER_BYTES + header.length_bytes);
    return true;
}

static inline void expect_sent(struct agx *agx, const struct agx_call *call)
{
    struct wire_call sent;
    assert_true(take_sent_call(agx, &sent));
    assert_int_equal(sent.call_id, call->call_id);
    assert_memory_equal(sent.program_id, call->program_id, AGX_ID_BYTES);
    assert_int_equal(sent.prompt_count, 3);
    assert_int_equal(sent.flags, WIRE_CALL_WANT_TEXT);
    assert_false(take_sent_call(agx, &sent));
}

/* What the caller has put together, over all connections. */
static struct { uint32_t accepts, tokens_count, text_bytes, dones; } told;

static inline enum agx_result take_all(struct agx *agx, struct agx_event *last)
{
    enum agx_result result;
    struct agx_event event;
    while ((result = agx_session_next(agx, &event)) == AGX_OK) {
        *last = event;
        told.accepts += event.kind == AGX_ACCEPTED;
        told.dones += event.kind == AGX_DONE;
        if (event.kind != AGX_TOKENS) {
            continue;
        }
        assert_true(event.tokens_count + event.text_bytes > 0);
        assert_int_equal(event.first_index, told.tokens_count);
        assert_true(told.tokens_count + event.tokens_count <= TOKENS);
        assert_memory_equal(event.tokens, answer + told.tokens_count, 4 * event.tokens_count);
        told.tokens_count += event.tokens_count;
        assert_memory_equal(event.text, text + told.text_bytes, event.text_bytes);
        told.text_bytes += event.text_bytes;
    }
    return result;
}

static inline void expect_whole(struct agx *agx)
{
    struct agx_event last;
    assert_int_equal(take_all(agx, &last), AGX_AGAIN);
    assert_int_equal(told.accepts, 1);
    assert_int_equal(told.tokens_count, TOKENS);
    assert_int_equal(told.text_bytes, TEXT_BYTES);
    assert_int_equal(told.dones, 1);
    assert_int_equal(last.generated_tokens, TOKENS);
    assert_true(last.digest == wire_digest(WIRE_DIGEST_START, answer, TOKENS));
}

static inline int set_up(void **state)
{
    memset(&told, 0, sizeof told);
    return 0;
}

/* Opens a session that has told the first `count` tokens and the first `bytes` of the text. */
static inline void open_and_hear(struct agx *agx, const struct agx_call *call, uint32_t count,
                                 uint32_t bytes)
{
    struct agx_event last;
    struct wire_call sent;
    memset(&told, 0, sizeof told);
    open_session(agx, call);
    assert_true(take_sent_call(agx, &sent));
    feed(agx, accept_frame(1, 0, frame));
    if (count + bytes > 0) {
        feed_part(agx, (struct part){0, count, 0, bytes});
    }
    assert_int_equal(take_all(agx, &last), AGX_AGAIN);
    assert_int_equal(told.tokens_count, count);
    assert_int_equal(told.text_bytes, bytes);
}
