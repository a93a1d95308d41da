/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: an appliance of frames for tests of the client library: answers, made by the encoders of
 * net/wire.h, are fed to a session in memory.
 */
#include "selftest/unit/folder.h"

#include "net/wire.h"
#include "tools/sdk/agx.h"
#include "tools/sdk/session.h"

#define VOCAB 100
static _Alignas(8) uint8_t buffer[AGX_BUFFER_BYTES_MIN + 8];
static const uint32_t three[] = {7, 8, 9};

static inline struct wire_welcome welcome_frame(void)
{
    return (struct wire_welcome){.version = 1, .boot_id = {1, 2, 3}, .frame_bytes_max = 4096,
                                 .context_tokens_max = 64, .vocab_tokens = VOCAB,
                                 .calls_per_connection_max = 4, .programs_max = 2, .bos_id = 1,
                                 .eos_id = UINT32_MAX, .model = "tiny"};
}

static inline void feed(struct agx *agx, const uint8_t *bytes, uint32_t count)
{
    uint32_t room;
    uint8_t *at = agx_session_room(agx, &room);
    assert_true(count <= room);
    memcpy(at, bytes, count);
    agx_session_received(agx, count);
}

static inline void feed_welcome(struct agx *agx)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_welcome welcome = welcome_frame();
    feed(agx, bytes, wire_welcome_encode(&welcome, bytes, sizeof bytes));
}

static inline void feed_accept(struct agx *agx, uint64_t call_id)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_accept accept = {.call_id = call_id, .prompt_tokens = 2};
    feed(agx, bytes, wire_accept_encode(&accept, bytes, sizeof bytes));
}

/* TOKENS of queue 3. */
static inline uint32_t encode_tokens(const uint32_t *tokens, uint32_t count, const char *text,
                                     uint8_t *bytes, uint32_t max)
{
    struct wire_tokens frame = {.call_id = 1, .tokens_count = count, .queue = 3,
                                .text_bytes = (uint32_t)strlen(text),
                                .text = (const uint8_t *)text};
    return wire_tokens_encode(&frame, tokens, bytes, max);
}

static inline void feed_tokens(struct agx *agx, uint64_t call_id, uint32_t first,
                               const uint32_t *tokens, uint32_t count)
{
    uint8_t bytes[1024];
    struct wire_tokens frame = {.call_id = call_id, .first_index = first, .tokens_count = count,
                                .text_bytes = 3, .queue = 3, .text = (const uint8_t *)"abc"};
    feed(agx, bytes, wire_tokens_encode(&frame, tokens, bytes, sizeof bytes));
}

/* TOKENS of call 1 with one token and so many entries. */
static inline void feed_logprobs(struct agx *agx, uint32_t first, uint32_t token,
                                 const struct agx_logprob *entries, uint32_t count)
{
    uint8_t bytes[1024];
    struct wire_tokens frame = {.call_id = 1, .first_index = first, .tokens_count = 1,
                                .text = (const uint8_t *)"", .entries = count,
                                .logprobs = (const uint8_t *)entries};
    feed(agx, bytes, wire_tokens_encode(&frame, &token, bytes, sizeof bytes));
}

static inline void feed_done(struct agx *agx, uint64_t call_id, uint32_t count, uint64_t digest)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_done done = {.call_id = call_id, .finish = CALL_FINISH_LENGTH, .prompt_tokens = 2,
                             .generated_tokens = count, .wait_us = 5, .service_us = 6,
                             .total_us = 11, .digest = digest, .queue = 5};
    feed(agx, bytes, wire_done_encode(&done, bytes, sizeof bytes));
}

static inline void feed_error(struct agx *agx, enum status status, uint8_t frame_type,
                              uint64_t call_id, bool closes)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_error error = {.fault = {.status = status, .field = WIRE_FIELD_TOP_P,
                                         .frame_type = frame_type, .call_id = call_id,
                                         .found = 1500, .min = 1, .max = 1000},
                               .closes = closes, .retry_ms = 70, .text = "text"};
    feed(agx, bytes, wire_error_encode(&error, bytes, sizeof bytes));
}

static inline void open_session(struct agx *agx)
{
    assert_int_equal(agx_session_init(agx, buffer, sizeof buffer), AGX_OK);
    feed_welcome(agx);
    assert_int_equal(agx_session_welcome(agx), AGX_OK);
}

static inline struct agx_call call_of_three(uint64_t call_id)
{
    return (struct agx_call){.call_id = call_id, .max_tokens = 8, .prompt_ids = three,
                             .prompt_ids_count = 3};
}

/* An open session with call 1 sent and accepted. */
static inline void open_call(struct agx *agx)
{
    struct agx_event event;
    struct agx_call call = call_of_three(1);
    open_session(agx);
    assert_int_equal(agx_session_call(agx, &call), AGX_OK);
    feed_accept(agx, 1);
    assert_int_equal(agx_session_next(agx, &event), AGX_OK);
    assert_int_equal(event.kind, AGX_ACCEPTED);
    assert_int_equal(event.prompt_tokens, 2);
}

static inline void expect_next(struct agx *agx, enum agx_result expected)
{
    struct agx_event event;
    assert_int_equal(agx_session_next(agx, &event), expected);
    if (expected != AGX_OK && expected != AGX_AGAIN) {
        /* Final: the result stays. */
        assert_int_equal(agx_session_next(agx, &event), expected);
    }
}
