/* SPDX-License-Identifier: MIT */
/*
 * Goal: the client library accepts right answers, and tells every kind of wrong answer from a right
 * one and from the other kinds.
 * Method: answers are fed to a session in memory (sdk_rig.h), without threads.
 */
#include "selftest/unit/tools/sdk_rig.h"

/* ---- right answers --------------------------------------------------------------------------- */

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
                            .ignore_eos = 1, .want_text = 1, .want_control = 1,
                            .stop_ids = stop_ids, .stop_ids_count = 2, .stop_texts = {"end"},
                            .stop_texts_count = 1, .prompt_text = "hello", .prompt_text_bytes = 5};
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
                                    WIRE_CALL_IGNORE_EOS | WIRE_CALL_WANT_CONTROL);
    assert_true(got.sampling.top_p == 1.0f && got.sampling.repeat_penalty == 1.0f);
    assert_true(got.sampling.temperature == 0.5f && got.sampling.min_p == 0.25f);
    assert_int_equal(got.sampling.stop_ids[1], 5);
    assert_int_equal(got.stop_texts[0].length_bytes, 3);
    assert_int_equal(got.prompt_count, 5);
    assert_memory_equal(got.prompt, "hello", 5);
}

/* Biases are sorted. A call that asks for nothing of MORE has the frame that it always had. */
static void test_call_writes_penalties_and_biases(void **state)
{
    const struct agx_bias biases[] = {{9, 1.5f}, {2, -100}, {5, 0.25f}};
    const struct agx_bias sorted[] = {{2, -100}, {5, 0.25f}, {9, 1.5f}};
    const uint32_t prompt[] = {1, 2};
    struct agx_call call = {.call_id = 1, .max_tokens = 1, .prompt_ids = prompt,
                            .prompt_ids_count = 2};
    for (uint32_t i = 0; i < 2; i++) {
        struct agx agx;
        struct wire_call got;
        struct wire_fault fault;
        uint32_t count, payload = WIRE_CALL_BYTES_MIN + (i == 1 ? 12 + 3 * 8 : 0) + 8;
        call.presence_penalty = i == 1 ? -0.5f : 0.0f;
        call.biases = biases;
        call.biases_count = i == 1 ? 3 : 0;
        open_session(&agx);
        assert_int_equal(agx_session_call(&agx, &call), AGX_OK);
        const uint8_t *bytes = agx_session_unsent(&agx, &count);
        assert_int_equal(count, WIRE_HEADER_BYTES + payload);
        assert_status(STATUS_OK, wire_call_decode(bytes + WIRE_HEADER_BYTES, payload, &got,
                                                  &fault));
        assert_int_equal(got.flags, i == 1 ? WIRE_CALL_MORE : 0);
        assert_true(got.sampling.presence_penalty == call.presence_penalty);
        assert_int_equal(got.sampling.biases_count, call.biases_count);
        for (uint32_t k = 0; k < call.biases_count; k++) {
            assert_int_equal(got.biases[k].token, sorted[k].token);
            assert_true(got.biases[k].bias == sorted[k].bias);
        }
    }
}

/* Without a class the frame is as it was before there were any. */
static void test_program_start_writes_id_and_class(void **state)
{
    struct agx agx;
    const uint8_t id[AGX_ID_BYTES] = {7, 8};
    const char *names[] = {NULL, "", "web"};
    for (uint32_t i = 0; i < 3; i++) {
        struct wire_program_start got;
        struct wire_fault fault;
        uint32_t count, payload = 16 + (i == 2 ? 3 : 0);
        open_session(&agx);
        assert_int_equal(agx_session_program_start(&agx, id, names[i]), AGX_OK);
        const uint8_t *bytes = agx_session_unsent(&agx, &count);
        assert_int_equal(count, WIRE_HEADER_BYTES + payload);
        assert_status(STATUS_OK, wire_program_start_decode(bytes + WIRE_HEADER_BYTES, payload,
                                                           &got, &fault));
        assert_memory_equal(got.program_id, id, sizeof id);
        assert_string_equal(got.class_name, i == 2 ? "web" : "");
    }
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

static void feed_chat(struct agx *agx, const char *system, uint32_t first)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_chat chat = {.nonce = 5, .verdict = 1, .template_bytes = 9, .format = "qwen3",
                             .bos = "<s>", .system_bytes = (uint32_t)strlen(system),
                             .first = first};
    size_t left = strlen(system) - first;
    memcpy(chat.system, system + first, left < sizeof chat.system ? left : sizeof chat.system);
    feed(agx, bytes, wire_chat_encode(&chat, bytes, sizeof bytes));
}

static void test_chat_is_one_event_however_long_its_message_is(void **state)
{
    struct agx agx;
    struct agx_event event;
    char system[WIRE_SYSTEM_BYTES_MAX + 1];
    uint32_t count;
    open_session(&agx);
    memset(system, 'x', sizeof system - 1);
    system[sizeof system - 1] = '\0';
    for (uint32_t first = 0; first < sizeof system - 1; first += WIRE_SYSTEM_PART_BYTES) {
        bool is_last = first + WIRE_SYSTEM_PART_BYTES >= sizeof system - 1;
        feed_chat(&agx, system, first);
        assert_int_equal(agx_session_next(&agx, &event), is_last ? AGX_OK : AGX_AGAIN);
        assert_int_equal(agx_session_chat_more(&agx), AGX_OK);
        agx_session_unsent(&agx, &count);
        assert_int_equal(count > 0, !is_last);
        agx_session_sent(&agx, count);
    }
    assert_int_equal(event.kind, AGX_CHAT);
    assert_int_equal(event.nonce, 5);
    assert_string_equal(agx.chat.format, "qwen3");
    assert_string_equal(agx.chat.system, system);
    feed_chat(&agx, "again", 0);                /* another answer begins anew */
    assert_int_equal(agx_session_next(&agx, &event), AGX_OK);
    assert_string_equal(agx.chat.system, "again");
}

static void test_model_is_an_event(void **state)
{
    struct agx agx;
    struct agx_event event;
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    const struct wire_model model = {.nonce = 9, .vocab = 1, .chat = UINT64_MAX};
    uint32_t count;
    open_session(&agx);
    assert_int_equal(agx_session_model_ask(&agx, 9), AGX_OK);
    assert_int_equal(agx_session_unsent(&agx, &count)[4], WIRE_MODEL_ASK);
    feed(&agx, bytes, wire_model_encode(&model, bytes, sizeof bytes));
    assert_int_equal(agx_session_next(&agx, &event), AGX_OK);
    assert_int_equal(event.kind, AGX_MODEL);
    assert_int_equal(event.nonce, 9);
    assert_int_equal(event.vocab_digest, 1);
    assert_int_equal(event.chat_digest, UINT64_MAX);
}

static void test_chat_out_of_order_is_a_protocol_error(void **state)
{
    struct agx agx;
    struct agx_event event;
    open_session(&agx);
    feed_chat(&agx, "hello", 3);
    assert_int_equal(agx_session_next(&agx, &event), AGX_ERROR_PROTOCOL);
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

/* ---- wrong answers --------------------------------------------------------------------------- */

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

/* What drafts brought is told when it was asked for, and not when it was not. */
static void test_done_has_drafts_as_asked(void **state)
{
    for (int told = 0; told < 2; told++) {
        for (int asked = 0; asked < 2; asked++) {
            struct agx agx;
            struct agx_event event;
            uint8_t bytes[WIRE_REPLY_BYTES_MAX];
            struct agx_call call = call_of_three(1);
            struct wire_done done = {.call_id = 1, .finish = CALL_FINISH_LENGTH,
                                     .digest = WIRE_DIGEST_START, .has_drafts = told,
                                     .drafts = {9, 4}};
            call.want_drafts = asked;
            open_session(&agx);
            assert_int_equal(agx_session_call(&agx, &call), AGX_OK);
            feed_accept(&agx, 1);
            feed(&agx, bytes, wire_done_encode(&done, bytes, sizeof bytes));
            assert_int_equal(agx_session_next(&agx, &event), AGX_OK);
            assert_int_equal(agx_session_next(&agx, &event),
                             told == asked ? AGX_OK : AGX_ERROR_PROTOCOL);
            assert_true(told != asked || event.draft_tokens_agreed == 4u * asked);
        }
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_takes_whole_answer),
        cmocka_unit_test(test_welcome_fills_limits),
        cmocka_unit_test(test_call_writes_what_the_appliance_reads),
        cmocka_unit_test(test_call_writes_penalties_and_biases),
        cmocka_unit_test(test_program_start_writes_id_and_class),
        cmocka_unit_test(test_next_passes_program_and_pong),
        cmocka_unit_test(test_chat_is_one_event_however_long_its_message_is),
        cmocka_unit_test(test_model_is_an_event),
        cmocka_unit_test(test_chat_out_of_order_is_a_protocol_error),
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
        cmocka_unit_test(test_done_has_drafts_as_asked),
        cmocka_unit_test(test_next_clients_frame_is_found),
        cmocka_unit_test(test_next_frame_beyond_buffer_is_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
