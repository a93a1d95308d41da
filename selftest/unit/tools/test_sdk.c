/* SPDX-License-Identifier: MIT */
/*
 * Goal: the client library tells every kind of wrong answer from every other and from a right one.
 * Method: the test plays the appliance with the encoders of net/wire.h, without threads: answers
 * are fed to the session from memory, or wait in a socket pair before the client looks.
 */
#include "selftest/unit/folder.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/wire.h"
#include "tools/sdk/agx.h"
#include "tools/sdk/session.h"

#define VOCAB 100
static _Alignas(8) uint8_t buffer[AGX_BUFFER_BYTES_MIN + 8];
static const uint32_t three[] = {7, 8, 9};

static struct wire_welcome welcome_frame(void)
{
    return (struct wire_welcome){.version = 1, .boot_id = {1, 2, 3}, .frame_bytes_max = 4096,
                                 .context_tokens_max = 64, .vocab_tokens = VOCAB,
                                 .calls_per_connection_max = 4, .programs_max = 2, .bos_id = 1,
                                 .eos_id = UINT32_MAX, .model = "tiny"};
}

static void feed(struct agx *agx, const uint8_t *bytes, uint32_t count)
{
    uint32_t room;
    uint8_t *at = agx_session_room(agx, &room);
    assert_true(count <= room);
    memcpy(at, bytes, count);
    agx_session_received(agx, count);
}

static void feed_welcome(struct agx *agx)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_welcome welcome = welcome_frame();
    feed(agx, bytes, wire_welcome_encode(&welcome, bytes, sizeof bytes));
}

static void feed_accept(struct agx *agx, uint64_t call_id)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_accept accept = {.call_id = call_id, .prompt_tokens = 2};
    feed(agx, bytes, wire_accept_encode(&accept, bytes, sizeof bytes));
}

/* TOKENS of queue 3. */
static uint32_t encode_tokens(const uint32_t *tokens, uint32_t count, const char *text,
                              uint8_t *bytes, uint32_t max)
{
    struct wire_tokens frame = {.call_id = 1, .tokens_count = count, .queue = 3,
                                .text_bytes = (uint32_t)strlen(text),
                                .text = (const uint8_t *)text};
    return wire_tokens_encode(&frame, tokens, bytes, max);
}

static void feed_tokens(struct agx *agx, uint64_t call_id, uint32_t first, const uint32_t *tokens,
                        uint32_t count)
{
    uint8_t bytes[1024];
    struct wire_tokens frame = {.call_id = call_id, .first_index = first, .tokens_count = count,
                                .text_bytes = 3, .queue = 3, .text = (const uint8_t *)"abc"};
    feed(agx, bytes, wire_tokens_encode(&frame, tokens, bytes, sizeof bytes));
}

static void feed_done(struct agx *agx, uint64_t call_id, uint32_t count, uint64_t digest)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_done done = {.call_id = call_id, .finish = CALL_FINISH_LENGTH, .prompt_tokens = 2,
                             .generated_tokens = count, .wait_us = 5, .service_us = 6,
                             .total_us = 11, .digest = digest, .queue = 5};
    feed(agx, bytes, wire_done_encode(&done, bytes, sizeof bytes));
}

static void feed_error(struct agx *agx, enum status status, uint8_t frame_type, uint64_t call_id,
                       bool closes)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_error error = {.fault = {.status = status, .field = WIRE_FIELD_TOP_P,
                                         .frame_type = frame_type, .call_id = call_id,
                                         .found = 1500, .min = 1, .max = 1000},
                               .closes = closes, .retry_ms = 70, .text = "text"};
    feed(agx, bytes, wire_error_encode(&error, bytes, sizeof bytes));
}

static void open_session(struct agx *agx)
{
    assert_int_equal(agx_session_init(agx, buffer, sizeof buffer), AGX_OK);
    feed_welcome(agx);
    assert_int_equal(agx_session_welcome(agx), AGX_OK);
}

static struct agx_call call_of_three(uint64_t call_id)
{
    return (struct agx_call){.call_id = call_id, .max_tokens = 8, .prompt_ids = three,
                             .prompt_ids_count = 3};
}

/* An open session with call 1 sent and accepted. */
static void open_call(struct agx *agx)
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

static void expect_next(struct agx *agx, enum agx_result expected)
{
    struct agx_event event;
    assert_int_equal(agx_session_next(agx, &event), expected);
    if (expected != AGX_OK && expected != AGX_AGAIN) {
        /* Final: the same again, whatever comes. */
        assert_int_equal(agx_session_next(agx, &event), expected);
    }
}

/* ---- what is right --------------------------------------------------------------------------- */

static void test_next_takes_whole_answer(void **state)
{
    struct agx agx;
    struct agx_event event;
    open_call(&agx);
    feed_tokens(&agx, 1, 0, three, 2);
    assert_int_equal(agx_session_next(&agx, &event), AGX_OK);
    assert_int_equal(event.kind, AGX_TOKENS);
    assert_int_equal(event.tokens_count, 2);
    assert_memory_equal(event.tokens, three, 8);
    assert_memory_equal(event.text, "abc", 3);
    assert_int_equal(event.queue, 3);
    feed_tokens(&agx, 1, 2, three + 2, 1);
    feed_done(&agx, 1, 3, wire_digest(WIRE_DIGEST_START, three, 3));
    assert_int_equal(agx_session_next(&agx, &event), AGX_OK);
    assert_int_equal(event.first_index, 2);
    assert_int_equal(agx_session_next(&agx, &event), AGX_OK);
    assert_int_equal(event.kind, AGX_DONE);
    assert_int_equal(event.finish, AGX_FINISH_LENGTH);
    assert_int_equal(event.generated_tokens, 3);
    assert_int_equal(event.total_us, 11);
    assert_int_equal(event.queue, 5);
    expect_next(&agx, AGX_AGAIN);
    /* The id is free again. */
    struct agx_call call = call_of_three(1);
    assert_int_equal(agx_session_call(&agx, &call), AGX_OK);
}

static void test_welcome_fills_limits(void **state)
{
    struct agx agx;
    open_session(&agx);
    assert_int_equal(agx.welcome.context_tokens_max, 64);
    assert_int_equal(agx.welcome.bos_id, 1);
    assert_int_equal(agx.welcome.eos_id, UINT32_MAX);
    assert_int_equal(agx.welcome.boot_id[2], 3);
    assert_string_equal(agx.welcome.model, "tiny");
}

static void test_call_writes_what_the_appliance_reads(void **state)
{
    struct agx agx;
    uint32_t stop_ids[] = {4, 5};
    struct agx_call call = {.call_id = 77, .thread = 2, .max_tokens = 5, .temperature = 0.5f,
                            .top_k = 40, .min_p = 0.25f, .seed = 9, .deadline_us = 1000,
                            .ignore_eos = 1, .want_text = 1, .stop_ids = stop_ids,
                            .stop_ids_count = 2, .stop_texts = {"end"}, .stop_texts_count = 1,
                            .prompt_text = "hello", .prompt_text_bytes = 5};
    struct wire_header header;
    struct wire_call got;
    struct wire_fault fault;
    uint32_t count;
    agx_program_id("a", call.program_id);
    open_session(&agx);
    assert_int_equal(agx_session_call(&agx, &call), AGX_OK);

    const uint8_t *bytes = agx_session_unsent(&agx, &count);
    assert_status(STATUS_OK, wire_header_decode(bytes, 4096, &header, &fault));
    assert_int_equal(header.type, WIRE_CALL);
    assert_int_equal(count, WIRE_HEADER_BYTES + header.length_bytes);
    assert_status(STATUS_OK, wire_call_decode(bytes + WIRE_HEADER_BYTES, header.length_bytes, &got,
                                              &fault));
    assert_int_equal(got.call_id, 77);
    assert_memory_equal(got.program_id, call.program_id, AGX_ID_BYTES);
    assert_int_equal(got.flags, WIRE_CALL_TEXT_PROMPT | WIRE_CALL_ADD_BOS | WIRE_CALL_WANT_TEXT |
                                    WIRE_CALL_IGNORE_EOS);
    assert_true(got.sampling.top_p == 1.0f && got.sampling.repeat_penalty == 1.0f);
    assert_true(got.sampling.temperature == 0.5f && got.sampling.min_p == 0.25f);
    assert_int_equal(got.sampling.stop_ids[1], 5);
    assert_int_equal(got.stop_texts[0].length_bytes, 3);
    assert_int_equal(got.prompt_count, 5);
    assert_memory_equal(got.prompt, "hello", 5);
}

static void test_next_passes_program_and_pong(void **state)
{
    struct agx agx;
    struct agx_event event;
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_program_ok program = {.program_id = {5}, .kind = WIRE_PROGRAM_END, .calls = 3,
                                      .service_us = 10, .wait_us = 20};
    struct wire_ping pong = {.nonce = 42};
    open_session(&agx);
    feed(&agx, bytes, wire_program_ok_encode(&program, bytes, sizeof bytes));
    feed(&agx, bytes, wire_ping_encode(&pong, WIRE_PONG, bytes, sizeof bytes));
    assert_int_equal(agx_session_next(&agx, &event), AGX_OK);
    assert_int_equal(event.kind, AGX_PROGRAM);
    assert_true(event.program_has_ended);
    assert_int_equal(event.program_calls, 3);
    assert_int_equal(event.program_wait_us, 20);
    assert_int_equal(agx_session_next(&agx, &event), AGX_OK);
    assert_int_equal(event.kind, AGX_PONG);
    assert_int_equal(event.nonce, 42);
}

static void test_program_id_depends_on_name_alone(void **state)
{
    uint8_t a[AGX_ID_BYTES], again[AGX_ID_BYTES], b[AGX_ID_BYTES];
    agx_program_id("alpha", a);
    agx_program_id("alpha", again);
    agx_program_id("alphb", b);
    assert_memory_equal(a, again, sizeof a);
    assert_memory_not_equal(a, b, 8);
    assert_memory_not_equal(a + 8, b + 8, 8);
    assert_memory_not_equal(a, a + 8, 8);
}

/* ---- what is wrong --------------------------------------------------------------------------- */

static void test_next_every_prefix_waits(void **state)
{
    uint8_t bytes[2048];
    uint32_t count = encode_tokens(three, 3, "abc", bytes, sizeof bytes);
    for (uint32_t cut = 0; cut < count; cut++) {
        struct agx agx;
        struct agx_event event;
        open_call(&agx);
        feed(&agx, bytes, cut);
        expect_next(&agx, AGX_AGAIN);
        feed(&agx, bytes + cut, count - cut);
        assert_int_equal(agx_session_next(&agx, &event), AGX_OK);
        assert_int_equal(event.tokens_count, 3);
    }
}

static void test_next_every_flipped_bit_is_a_protocol_error(void **state)
{
    uint8_t bytes[1024];
    uint32_t count = encode_tokens(three, 3, "abc", bytes, sizeof bytes);
    for (uint32_t bit = 0; bit < 8 * count; bit++) {
        struct agx agx;
        struct agx_event event;
        open_call(&agx);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        feed(&agx, bytes, count);
        /* A longer length waits for bytes that do not come; everything else is found out. */
        enum agx_result result = agx_session_next(&agx, &event);
        assert_true(result == AGX_ERROR_PROTOCOL || (result == AGX_AGAIN && bit / 32 == 2));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void test_next_index_gap_is_found(void **state)
{
    struct agx agx;
    open_call(&agx);
    feed_tokens(&agx, 1, 1, three, 1);
    expect_next(&agx, AGX_ERROR_INDEX);
}

static void test_next_doubled_tokens_are_found(void **state)
{
    struct agx agx;
    open_call(&agx);
    feed_tokens(&agx, 1, 0, three, 2);
    expect_next(&agx, AGX_OK);
    feed_tokens(&agx, 1, 0, three, 2);
    expect_next(&agx, AGX_ERROR_INDEX);
}

static void test_next_more_tokens_than_asked_are_found(void **state)
{
    struct agx agx;
    uint32_t nine[9] = {0};
    open_call(&agx);
    feed_tokens(&agx, 1, 0, nine, 9);
    expect_next(&agx, AGX_ERROR_INDEX);
    open_call(&agx);                        /* the same over two frames */
    feed_tokens(&agx, 1, 0, nine, 5);
    expect_next(&agx, AGX_OK);
    feed_tokens(&agx, 1, 5, nine, 4);
    expect_next(&agx, AGX_ERROR_INDEX);
}

static void test_next_lost_tail_is_found(void **state)
{
    struct agx agx;
    open_call(&agx);
    feed_tokens(&agx, 1, 0, three, 2);
    expect_next(&agx, AGX_OK);
    feed_done(&agx, 1, 3, wire_digest(WIRE_DIGEST_START, three, 3));
    expect_next(&agx, AGX_ERROR_INDEX);
}

static void test_next_wrong_digest_is_found(void **state)
{
    struct agx agx;
    open_call(&agx);
    feed_tokens(&agx, 1, 0, three, 3);
    expect_next(&agx, AGX_OK);
    feed_done(&agx, 1, 3, 1 + wire_digest(WIRE_DIGEST_START, three, 3));
    expect_next(&agx, AGX_ERROR_DIGEST);
}

static void test_next_unknown_call_is_found(void **state)
{
    struct agx agx;
    open_call(&agx);
    feed_tokens(&agx, 2, 0, three, 1);
    expect_next(&agx, AGX_ERROR_UNKNOWN_CALL);
    open_call(&agx);
    feed_accept(&agx, 2);
    expect_next(&agx, AGX_ERROR_UNKNOWN_CALL);
    open_call(&agx);
    feed_done(&agx, 2, 0, WIRE_DIGEST_START);
    expect_next(&agx, AGX_ERROR_UNKNOWN_CALL);
    open_call(&agx);
    feed_error(&agx, STATUS_BAD_FIELD, WIRE_CALL, 2, false);
    expect_next(&agx, AGX_ERROR_UNKNOWN_CALL);
}

static void test_next_second_terminal_frame_is_found(void **state)
{
    struct agx agx;
    open_call(&agx);
    feed_done(&agx, 1, 0, WIRE_DIGEST_START);
    expect_next(&agx, AGX_OK);
    feed_done(&agx, 1, 0, WIRE_DIGEST_START);
    expect_next(&agx, AGX_ERROR_UNKNOWN_CALL);
}

static void test_next_frames_out_of_order_are_found(void **state)
{
    struct agx agx;
    struct agx_call call = call_of_three(2);
    open_call(&agx);
    feed_accept(&agx, 1);
    expect_next(&agx, AGX_ERROR_PROTOCOL);
    open_call(&agx);
    assert_int_equal(agx_session_call(&agx, &call), AGX_OK);
    feed_tokens(&agx, 2, 0, three, 1);      /* before its ACCEPT */
    expect_next(&agx, AGX_ERROR_PROTOCOL);
    open_call(&agx);
    feed_error(&agx, STATUS_BAD_FIELD, WIRE_CALL, 1, false);    /* after its ACCEPT */
    expect_next(&agx, AGX_ERROR_PROTOCOL);
    open_session(&agx);
    feed_welcome(&agx);
    expect_next(&agx, AGX_ERROR_PROTOCOL);
}

static void test_next_token_outside_vocabulary_is_found(void **state)
{
    struct agx agx;
    uint32_t outside = VOCAB;
    open_call(&agx);
    feed_tokens(&agx, 1, 0, &outside, 1);
    expect_next(&agx, AGX_ERROR_PROTOCOL);
}

static void test_next_text_that_is_not_utf8_is_found(void **state)
{
    struct agx agx;
    uint8_t bytes[256];
    open_call(&agx);
    feed(&agx, bytes, encode_tokens(three, 1, "\xc3", bytes, sizeof bytes));
    expect_next(&agx, AGX_ERROR_PROTOCOL);
}

static void test_next_queue_out_of_range_is_found(void **state)
{
    struct agx agx;
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_tokens tokens = {.call_id = 1, .tokens_count = 1, .queue = WIRE_QUEUES_MAX};
    struct wire_done done = {.call_id = 1, .finish = CALL_FINISH_LENGTH, .queue = WIRE_QUEUES_MAX,
                             .digest = WIRE_DIGEST_START};
    open_call(&agx);
    feed(&agx, bytes, wire_tokens_encode(&tokens, three, bytes, sizeof bytes));
    expect_next(&agx, AGX_ERROR_PROTOCOL);
    open_call(&agx);
    feed(&agx, bytes, wire_done_encode(&done, bytes, sizeof bytes));
    expect_next(&agx, AGX_ERROR_PROTOCOL);
}

static void test_next_clients_frame_is_found(void **state)
{
    struct agx agx;
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_ping ping = {.nonce = 1};
    open_session(&agx);
    feed(&agx, bytes, wire_ping_encode(&ping, WIRE_PING, bytes, sizeof bytes));
    expect_next(&agx, AGX_ERROR_PROTOCOL);
}

static void test_next_frame_beyond_buffer_is_space(void **state)
{
    struct agx agx;
    uint8_t header[WIRE_HEADER_BYTES] = {0x41, 0x47, 0x58, 0x31, WIRE_TOKENS};
    struct wire_welcome welcome = welcome_frame();
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    welcome.frame_bytes_max = 1u << 20;
    assert_int_equal(agx_session_init(&agx, buffer, sizeof buffer), AGX_OK);
    feed(&agx, bytes, wire_welcome_encode(&welcome, bytes, sizeof bytes));
    assert_int_equal(agx_session_welcome(&agx), AGX_OK);
    header[10] = 1;             /* 65,536 bytes: allowed by the welcome, not by our buffer */
    feed(&agx, header, sizeof header);
    expect_next(&agx, AGX_ERROR_SPACE);
    open_session(&agx);
    header[11] = 0xff;          /* beyond what the welcome announced */
    feed(&agx, header, sizeof header);
    expect_next(&agx, AGX_ERROR_PROTOCOL);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void test_next_refused_call_names_the_field_and_frees_the_id(void **state)
{
    struct agx agx;
    struct agx_event event;
    struct agx_call call = call_of_three(6);
    open_session(&agx);
    assert_int_equal(agx_session_call(&agx, &call), AGX_OK);
    feed_error(&agx, STATUS_BAD_FIELD, WIRE_CALL, 6, false);
    assert_int_equal(agx_session_next(&agx, &event), AGX_OK);
    assert_int_equal(event.kind, AGX_REFUSED);
    assert_int_equal(event.call_id, 6);
    assert_string_equal(agx_fault(&agx)->frame, "CALL");
    assert_string_equal(agx_fault(&agx)->field, "top_p");
    assert_int_equal(agx_fault(&agx)->found, 1500);
    assert_true(agx_fault(&agx)->in_thousandths);
    assert_false(agx_fault(&agx)->is_busy);
    assert_int_equal(agx_session_call(&agx, &call), AGX_OK);
}

static void test_next_refused_cancel_leaves_the_call_open(void **state)
{
    struct agx agx;
    struct agx_event event;
    open_call(&agx);
    feed_error(&agx, STATUS_BAD_CALL_UNKNOWN, WIRE_CANCEL, 1, false);
    assert_int_equal(agx_session_next(&agx, &event), AGX_OK);
    assert_int_equal(event.kind, AGX_REFUSED);
    feed_tokens(&agx, 1, 0, three, 1);
    expect_next(&agx, AGX_OK);
}

static void test_next_closing_errors_are_results(void **state)
{
    struct agx agx;
    open_session(&agx);
    feed_error(&agx, STATUS_BAD_FRAME_CHECKSUM, WIRE_CALL, 0, true);
    expect_next(&agx, AGX_ERROR_REFUSED);
    open_session(&agx);
    feed_error(&agx, STATUS_BUSY_CONNECTIONS, 0, 0, true);
    expect_next(&agx, AGX_ERROR_BUSY);
    assert_true(agx_fault(&agx)->is_busy);
    open_session(&agx);
    feed_error(&agx, STATUS_OK, 0, 0, true);
    expect_next(&agx, AGX_ERROR_PROTOCOL);
}

static void test_welcome_unsound_is_refused(void **state)
{
    struct wire_welcome bad[6];
    enum agx_result expected[6] = {AGX_ERROR_VERSION, AGX_ERROR_VERSION, AGX_ERROR_PROTOCOL,
                                   AGX_ERROR_PROTOCOL, AGX_ERROR_PROTOCOL, AGX_ERROR_PROTOCOL};
    for (uint32_t i = 0; i < 6; i++) {
        bad[i] = welcome_frame();
    }
    bad[0].version = 2;
    bad[1].auth = 2;
    bad[2].frame_bytes_max = 16;
    bad[3].context_tokens_max = 0;
    bad[4].vocab_tokens = 0;
    bad[5].eos_id = VOCAB;
    for (uint32_t i = 0; i < 6; i++) {
        struct agx agx;
        uint8_t bytes[WIRE_REPLY_BYTES_MAX];
        assert_int_equal(agx_session_init(&agx, buffer, sizeof buffer), AGX_OK);
        feed(&agx, bytes, wire_welcome_encode(&bad[i], bytes, sizeof bytes));
        assert_int_equal(agx_session_welcome(&agx), expected[i]);
    }
}

static void test_welcome_refused_version_or_busy(void **state)
{
    struct agx agx;
    assert_int_equal(agx_session_init(&agx, buffer, sizeof buffer), AGX_OK);
    feed_error(&agx, STATUS_BAD_VERSION, WIRE_HELLO, 0, true);
    assert_int_equal(agx_session_welcome(&agx), AGX_ERROR_VERSION);
    assert_int_equal(agx_session_init(&agx, buffer, sizeof buffer), AGX_OK);
    feed_error(&agx, STATUS_BUSY_CONNECTIONS, 0, 0, true);
    assert_int_equal(agx_session_welcome(&agx), AGX_ERROR_BUSY);
    assert_int_equal(agx_fault(&agx)->retry_ms, 70);
    assert_int_equal(agx_session_init(&agx, buffer, sizeof buffer), AGX_OK);
    feed_accept(&agx, 1);
    assert_int_equal(agx_session_welcome(&agx), AGX_ERROR_PROTOCOL);
}

/* ---- arguments and space --------------------------------------------------------------------- */

static void expect_argument(struct agx_call call, const char *field)
{
    struct agx agx;
    open_session(&agx);
    assert_int_equal(agx_session_call(&agx, &call), AGX_ERROR_ARGUMENT);
    assert_string_equal(agx_fault(&agx)->field, field);
    assert_false(agx_wants_write(&agx));
}

static void test_call_bad_arguments_name_the_field(void **state)
{
    struct agx_call good = call_of_three(1), bad = good;
    bad.max_tokens = 0;
    expect_argument(bad, "max_tokens");
    bad = good;
    bad.temperature = 101;
    expect_argument(bad, "temperature");
    bad = good;
    bad.top_p = -0.5f;
    expect_argument(bad, "top_p");
    bad = good;
    bad.min_p = 1;
    expect_argument(bad, "min_p");
    bad = good;
    bad.repeat_penalty = 11;
    expect_argument(bad, "repeat_penalty");
    bad = good;
    bad.deadline_us = UINT64_MAX;
    expect_argument(bad, "deadline");
    bad = good;
    bad.stop_ids_count = AGX_STOP_IDS_MAX + 1;
    expect_argument(bad, "stop_ids");
    bad = good;
    bad.stop_texts_count = AGX_STOP_TEXTS_MAX + 1;
    expect_argument(bad, "stop_texts");
    bad = good;
    bad.prompt_ids_count = 0;
    expect_argument(bad, "prompt");
    bad = good;
    bad.prompt_ids = NULL;
    bad.prompt_text = "\xff";
    bad.prompt_text_bytes = 1;
    expect_argument(bad, "prompt");
    bad.prompt_text_bytes = 0;
    bad.no_bos = 1;
    expect_argument(bad, "prompt");
}

static void test_call_beyond_the_appliances_frame_is_refused(void **state)
{
    struct agx agx;
    uint32_t ids[100] = {0};
    struct agx_call call = call_of_three(1);
    open_session(&agx);
    agx.welcome.frame_bytes_max = WIRE_CALL_BYTES_MIN + sizeof ids - 1;
    call.prompt_ids = ids;
    call.prompt_ids_count = 100;
    assert_int_equal(agx_session_call(&agx, &call), AGX_ERROR_ARGUMENT);
    assert_string_equal(agx_fault(&agx)->field, "length");
    agx.welcome.frame_bytes_max++;
    assert_int_equal(agx_session_call(&agx, &call), AGX_OK);
}

static void test_call_long_stop_text_is_refused(void **state)
{
    char text[CALL_STOP_TEXT_BYTES + 2];
    struct agx_call call = call_of_three(1);
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    call.stop_texts[0] = text;
    call.stop_texts_count = 1;
    expect_argument(call, "stop_texts");
}

static void test_call_open_id_is_refused(void **state)
{
    struct agx agx;
    struct agx_call call = call_of_three(1);
    open_call(&agx);
    assert_int_equal(agx_session_call(&agx, &call), AGX_ERROR_ARGUMENT);
    assert_string_equal(agx_fault(&agx)->field, "call_id");
}

static void test_call_beyond_table_is_space(void **state)
{
    struct agx agx;
    open_session(&agx);
    for (uint32_t i = 0; i < AGX_CALLS_MAX; i++) {
        struct agx_call call = call_of_three(i);
        assert_int_equal(agx_session_call(&agx, &call), AGX_OK);
    }
    struct agx_call call = call_of_three(AGX_CALLS_MAX);
    assert_int_equal(agx_session_call(&agx, &call), AGX_ERROR_SPACE);
}

static void test_call_full_buffer_waits_or_never_fits(void **state)
{
    static char text[AGX_BUFFER_BYTES_MIN];
    struct agx agx;
    struct agx_call call = {.max_tokens = 1, .prompt_text = text};
    uint32_t count;
    memset(text, 'x', sizeof text);
    open_session(&agx);
    agx.welcome.frame_bytes_max = UINT32_MAX;
    call.prompt_text_bytes = sizeof text;
    assert_int_equal(agx_session_call(&agx, &call), AGX_ERROR_SPACE);
    call.prompt_text_bytes = sizeof text / 4;
    assert_int_equal(agx_session_call(&agx, &call), AGX_OK);
    call.call_id = 1;
    assert_int_equal(agx_session_call(&agx, &call), AGX_AGAIN);
    (void)agx_session_unsent(&agx, &count);
    agx_session_sent(&agx, count - 1);      /* the rest moves to the front */
    assert_int_equal(agx_session_call(&agx, &call), AGX_OK);
}

static void test_init_small_or_unaligned_buffer(void **state)
{
    struct agx agx;
    assert_int_equal(agx_session_init(&agx, buffer, AGX_BUFFER_BYTES_MIN - 1), AGX_ERROR_ARGUMENT);
    assert_int_equal(agx_session_init(&agx, NULL, sizeof buffer), AGX_ERROR_ARGUMENT);
    for (uint32_t shift = 0; shift < 8; shift++) {
        assert_int_equal(agx_session_init(&agx, buffer + shift, AGX_BUFFER_BYTES_MIN), AGX_OK);
        assert_int_equal((uintptr_t)agx.tokens % _Alignof(uint32_t), 0);
        assert_true(agx.out + agx.out_max <= buffer + shift + AGX_BUFFER_BYTES_MIN);
    }
}

/* ---- the key --------------------------------------------------------------------------------- */

static const struct agx_key key = {.id = "ops", .secret = "thirty-two bytes that we share.."};
static const uint8_t our_nonce[WIRE_NONCE_BYTES] = "ours";

/* Asked for a key, with AUTH in the output buffer. */
static void challenged_session(struct agx *agx)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    uint32_t sent;
    struct wire_welcome welcome = welcome_frame();
    welcome.auth = WIRE_AUTH_KEY;
    memcpy(welcome.nonce, "theirs", 6);
    assert_int_equal(agx_session_init(agx, buffer, sizeof buffer), AGX_OK);
    feed(agx, bytes, wire_welcome_encode(&welcome, bytes, sizeof bytes));
    assert_int_equal(agx_session_welcome(agx), AGX_OK);
    assert_true(agx->welcome.needs_key);
    assert_int_equal(agx_session_auth(agx, &key, our_nonce), AGX_OK);
    (void)agx_session_unsent(agx, &sent);
    assert_int_equal(sent, WIRE_HEADER_BYTES + WIRE_AUTH_BYTES);
}

/* What an appliance makes of the AUTH that was sent. */
static void proof_of(struct agx *agx, enum wire_side side, const uint8_t *secret, uint8_t *mac)
{
    uint32_t sent;
    struct wire_auth auth;
    struct wire_fault fault;
    struct wire_proof proof = {.boot_id = {1, 2, 3}, .server_nonce = "theirs"};
    const uint8_t *bytes = agx_session_unsent(agx, &sent);
    assert_status(STATUS_OK, wire_auth_decode(bytes + WIRE_HEADER_BYTES, WIRE_AUTH_BYTES, &auth,
                                              &fault));
    assert_string_equal(auth.key_id, "ops");
    assert_memory_equal(auth.nonce, our_nonce, sizeof our_nonce);
    memcpy(proof.key_id, auth.key_id, sizeof proof.key_id);
    memcpy(proof.client_nonce, auth.nonce, sizeof proof.client_nonce);
    wire_proof_mac(&proof, side, secret, mac);
    uint8_t expected[WIRE_MAC_BYTES];
    wire_proof_mac(&proof, WIRE_CLIENT, key.secret, expected);
    assert_memory_equal(auth.mac, expected, sizeof expected);
}

static void feed_auth_reply(struct agx *agx, const uint8_t *mac)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_auth_reply reply;
    memcpy(reply.mac, mac, sizeof reply.mac);
    feed(agx, bytes, wire_auth_reply_encode(&reply, bytes, sizeof bytes));
}

static void test_auth_right_proof_opens_the_session(void **state)
{
    struct agx agx;
    uint8_t mac[WIRE_MAC_BYTES];
    challenged_session(&agx);
    assert_int_equal(agx_session_admitted(&agx), AGX_AGAIN);
    assert_false(agx.is_admitted);
    proof_of(&agx, WIRE_SERVER, key.secret, mac);
    feed_auth_reply(&agx, mac);
    assert_int_equal(agx_session_admitted(&agx), AGX_OK);
    assert_true(agx.is_admitted);
}

/* Our own proof sent back, one of another secret, none at all. */
static void test_auth_wrong_proof_is_an_impostor(void **state)
{
    uint8_t macs[3][WIRE_MAC_BYTES] = {{0}}, other[WIRE_SECRET_BYTES] = "another secret";
    for (int i = 0; i < 3; i++) {
        struct agx agx;
        challenged_session(&agx);
        proof_of(&agx, WIRE_CLIENT, key.secret, macs[0]);
        proof_of(&agx, WIRE_SERVER, other, macs[1]);
        feed_auth_reply(&agx, macs[i]);
        assert_int_equal(agx_session_admitted(&agx), AGX_ERROR_IMPOSTOR);
        assert_int_equal(agx_session_admitted(&agx), AGX_ERROR_IMPOSTOR);
        assert_false(agx.is_admitted);
    }
}

static void test_auth_not_asked_for_is_an_impostor(void **state)
{
    struct agx agx;
    open_session(&agx);
    assert_int_equal(agx_session_auth(&agx, &key, our_nonce), AGX_ERROR_IMPOSTOR);
}

static void test_auth_refused_or_answered_by_something_else(void **state)
{
    struct agx agx;
    challenged_session(&agx);
    feed_error(&agx, STATUS_BAD_AUTH, WIRE_AUTH, 0, true);
    assert_int_equal(agx_session_admitted(&agx), AGX_ERROR_KEY);
    challenged_session(&agx);
    feed_error(&agx, STATUS_BUSY_CONNECTIONS, WIRE_AUTH, 0, true);
    assert_int_equal(agx_session_admitted(&agx), AGX_ERROR_BUSY);
    challenged_session(&agx);
    feed_accept(&agx, 1);
    assert_int_equal(agx_session_admitted(&agx), AGX_ERROR_PROTOCOL);
    challenged_session(&agx);
    feed_welcome(&agx);
    assert_int_equal(agx_session_admitted(&agx), AGX_ERROR_PROTOCOL);
}

/* ---- sockets --------------------------------------------------------------------------------- */

/* A client that is connected to `server`; the WELCOME waited in the socket pair. */
static void attach_pair(struct agx *agx, int *server)
{
    int pair[2];
    uint8_t bytes[WIRE_REPLY_BYTES_MAX], hello[WIRE_REPLY_BYTES_MAX];
    struct wire_welcome welcome = welcome_frame();
    uint32_t count = wire_welcome_encode(&welcome, bytes, sizeof bytes);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(write(pair[1], bytes, count), count);
    assert_int_equal(agx_attach(agx, pair[0], buffer, sizeof buffer, 1000), AGX_OK);
    assert_int_equal(read(pair[1], hello, sizeof hello), WIRE_HEADER_BYTES + 68);
    assert_int_equal(hello[4], WIRE_HELLO);
    *server = pair[1];
}

static void test_attach_sends_hello_and_answers(void **state)
{
    struct agx agx;
    struct agx_event event;
    int server;
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_ping pong = {.nonce = 3};
    attach_pair(&agx, &server);
    assert_int_equal(agx_ping(&agx, 3), AGX_OK);
    assert_false(agx_wants_write(&agx));
    assert_int_equal(read(server, bytes, sizeof bytes), WIRE_HEADER_BYTES + 8);
    assert_int_equal(agx_next(&agx, &event, 0), AGX_AGAIN);
    uint32_t count = wire_ping_encode(&pong, WIRE_PONG, bytes, sizeof bytes);
    for (uint32_t i = 0; i < count; i++) {      /* byte by byte */
        assert_int_equal(agx_next(&agx, &event, 0), AGX_AGAIN);
        assert_int_equal(write(server, bytes + i, 1), 1);
    }
    assert_int_equal(agx_next(&agx, &event, 1000), AGX_OK);
    assert_int_equal(event.kind, AGX_PONG);
    agx_close(&agx);
    agx_close(&agx);
    close(server);
}

static void test_next_answer_before_close_is_not_lost(void **state)
{
    struct agx agx;
    struct agx_event event;
    int server;
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_ping pong = {.nonce = 3};
    attach_pair(&agx, &server);
    uint32_t count = wire_ping_encode(&pong, WIRE_PONG, bytes, sizeof bytes);
    assert_int_equal(write(server, bytes, count), count);
    close(server);
    assert_int_equal(agx_ping(&agx, 4), AGX_OK);        /* EPIPE must not hide the answer */
    assert_int_equal(agx_next(&agx, &event, 1000), AGX_OK);
    assert_int_equal(event.nonce, 3);
    assert_true(agx_is_open(&agx));
    assert_int_equal(agx_next(&agx, &event, 1000), AGX_ERROR_CLOSED);
    assert_false(agx_is_open(&agx));
    assert_int_equal(agx_next(&agx, &event, 1000), AGX_ERROR_CLOSED);
    assert_int_equal(agx_ping(&agx, 5), AGX_ERROR_CLOSED);
    agx_close(&agx);
    assert_int_equal(agx_ping(&agx, 6), AGX_ERROR_ARGUMENT);
}

static void test_requests_wait_for_the_key(void **state)
{
    struct agx agx;
    int server;
    attach_pair(&agx, &server);
    agx.welcome.needs_key = 1;
    agx.is_admitted = 0;
    struct agx_call call = call_of_three(1);
    assert_int_equal(agx_ping(&agx, 1), AGX_ERROR_KEY);
    assert_int_equal(agx_call_start(&agx, &call), AGX_ERROR_KEY);
    assert_false(agx_wants_write(&agx));
    struct agx_key endless;
    memset(&endless, 'k', sizeof endless);
    assert_int_equal(agx_authenticate(&agx, &endless, 0), AGX_ERROR_ARGUMENT);
    assert_int_equal(agx_authenticate(&agx, NULL, 0), AGX_ERROR_ARGUMENT);
    assert_int_equal(agx_authenticate(&agx, &key, 0), AGX_ERROR_TIMEOUT);
    assert_int_equal(agx_ping(&agx, 1), AGX_ERROR_TIMEOUT);         /* the end is final */
    agx_close(&agx);
    close(server);
    attach_pair(&agx, &server);
    assert_int_equal(agx_authenticate(&agx, &key, 0), AGX_ERROR_IMPOSTOR);
    assert_false(agx_is_open(&agx));
    agx_close(&agx);
    close(server);
}

static void test_attach_silent_or_gone_server(void **state)
{
    struct agx agx;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(agx_attach(&agx, pair[0], buffer, sizeof buffer, 0), AGX_ERROR_TIMEOUT);
    assert_int_equal(agx_descriptor(&agx), -1);
    close(pair[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    close(pair[1]);
    assert_int_equal(agx_attach(&agx, pair[0], buffer, sizeof buffer, 1000), AGX_ERROR_CLOSED);
}

static void test_open_bad_addresses(void **state)
{
    static const char *const bad[] = {"", "unix:", "localhost:1", "127.0.0.1", "127.0.0.1:0",
                                      "127.0.0.1:65536", "::1:5", "[::1:5", "1.2.3:4",
                                      "127.0.0.1:7x"};
    struct agx agx;
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(agx_open(&agx, bad[i], buffer, sizeof buffer, 0), AGX_ERROR_ADDRESS);
    }
    char path[200] = "unix:";
    memset(path + 5, 'x', 150);
    assert_int_equal(agx_open(&agx, path, buffer, sizeof buffer, 0), AGX_ERROR_ADDRESS);
    assert_int_equal(agx_open(&agx, NULL, buffer, sizeof buffer, 0), AGX_ERROR_ARGUMENT);
}

static void test_open_nobody_listens(void **state)
{
    struct agx agx;
    assert_int_equal(agx_open(&agx, "unix:/nonexistent/socket", buffer, sizeof buffer, 0),
                     AGX_ERROR_CONNECT);
}

static void test_open_listener_that_never_answers(void **state)
{
    struct agx agx;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[128];
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", test_folder());
    snprintf(name, sizeof name, "unix:%s", address.sun_path);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(agx_open(&agx, name, buffer, sizeof buffer, 1), AGX_ERROR_TIMEOUT);
    close(listener);
}

static void test_result_texts_are_distinct(void **state)
{
    for (int i = AGX_OK; i <= AGX_ERROR_SYSTEM; i++) {
        for (int j = i + 1; j <= AGX_ERROR_SYSTEM; j++) {
            assert_string_not_equal(agx_result_text((enum agx_result)i),
                                    agx_result_text((enum agx_result)j));
        }
    }
    assert_string_equal(agx_result_text((enum agx_result)99), "unknown result");
    assert_string_equal(agx_finish_text((enum agx_finish)99), "unknown");
}

/* ---- when to ask again ----------------------------------------------------------------------- */

static void test_retry_is_never_sooner_than_the_hint_and_at_most_half_later(void **state)
{
    static const uint32_t hints[] = {0, 1, 9, 100, 1000, UINT16_MAX, UINT32_MAX};
    uint64_t lot = 5;
    for (uint32_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        for (uint32_t n = 0; n < 4000; n++) {
            uint32_t least = 10u << (n % 6) < hints[i] ? hints[i] : 10u << (n % 6);
            uint32_t pause = agx_retry_ms(hints[i], n % 6, &lot);
            assert_true(pause >= least && pause <= (uint64_t)least + least / 2);
        }
    }
    assert_in_range(agx_retry_ms(0, UINT32_MAX, &lot), 500, 750);       /* it stops growing */
}

static void test_retry_pauses_of_two_lots_differ_and_of_one_do_not(void **state)
{
    uint64_t one = 1, same = 1, other = 2;
    uint32_t differ = 0, least = UINT32_MAX, most = 0;
    for (uint32_t n = 0; n < 100; n++) {
        uint32_t pause = agx_retry_ms(1000, 0, &one);
        assert_int_equal(agx_retry_ms(1000, 0, &same), pause);
        differ += agx_retry_ms(1000, 0, &other) != pause;
        least = pause < least ? pause : least;
        most = pause > most ? pause : most;
    }
    assert_true(differ > 90);
    assert_true(least < 1050 && most > 1450);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_takes_whole_answer),
        cmocka_unit_test(test_welcome_fills_limits),
        cmocka_unit_test(test_call_writes_what_the_appliance_reads),
        cmocka_unit_test(test_next_passes_program_and_pong),
        cmocka_unit_test(test_program_id_depends_on_name_alone),
        cmocka_unit_test(test_next_every_prefix_waits),
        cmocka_unit_test(test_next_every_flipped_bit_is_a_protocol_error),
        cmocka_unit_test(test_next_index_gap_is_found),
        cmocka_unit_test(test_next_doubled_tokens_are_found),
        cmocka_unit_test(test_next_more_tokens_than_asked_are_found),
        cmocka_unit_test(test_next_lost_tail_is_found),
        cmocka_unit_test(test_next_wrong_digest_is_found),
        cmocka_unit_test(test_next_unknown_call_is_found),
        cmocka_unit_test(test_next_second_terminal_frame_is_found),
        cmocka_unit_test(test_next_frames_out_of_order_are_found),
        cmocka_unit_test(test_next_token_outside_vocabulary_is_found),
        cmocka_unit_test(test_next_text_that_is_not_utf8_is_found),
        cmocka_unit_test(test_next_queue_out_of_range_is_found),
        cmocka_unit_test(test_next_clients_frame_is_found),
        cmocka_unit_test(test_next_frame_beyond_buffer_is_space),
        cmocka_unit_test(test_next_refused_call_names_the_field_and_frees_the_id),
        cmocka_unit_test(test_next_refused_cancel_leaves_the_call_open),
        cmocka_unit_test(test_next_closing_errors_are_results),
        cmocka_unit_test(test_auth_right_proof_opens_the_session),
        cmocka_unit_test(test_auth_wrong_proof_is_an_impostor),
        cmocka_unit_test(test_auth_not_asked_for_is_an_impostor),
        cmocka_unit_test(test_auth_refused_or_answered_by_something_else),
        cmocka_unit_test(test_requests_wait_for_the_key),
        cmocka_unit_test(test_welcome_unsound_is_refused),
        cmocka_unit_test(test_welcome_refused_version_or_busy),
        cmocka_unit_test(test_call_bad_arguments_name_the_field),
        cmocka_unit_test(test_call_beyond_the_appliances_frame_is_refused),
        cmocka_unit_test(test_call_long_stop_text_is_refused),
        cmocka_unit_test(test_call_open_id_is_refused),
        cmocka_unit_test(test_call_beyond_table_is_space),
        cmocka_unit_test(test_call_full_buffer_waits_or_never_fits),
        cmocka_unit_test(test_init_small_or_unaligned_buffer),
        cmocka_unit_test(test_attach_sends_hello_and_answers),
        cmocka_unit_test(test_next_answer_before_close_is_not_lost),
        cmocka_unit_test(test_attach_silent_or_gone_server),
        cmocka_unit_test(test_open_bad_addresses),
        cmocka_unit_test(test_open_nobody_listens),
        cmocka_unit_test(test_open_listener_that_never_answers),
        cmocka_unit_test(test_result_texts_are_distinct),
        cmocka_unit_test(test_retry_is_never_sooner_than_the_hint_and_at_most_half_later),
        cmocka_unit_test(test_retry_pauses_of_two_lots_differ_and_of_one_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
