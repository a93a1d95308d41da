/* SPDX-License-Identifier: MIT */
/*
 * Goal: refusals of the appliance name their reason, and the client library refuses bad arguments
 * and calls for which it has no room.
 * Method: answers are fed to a session in memory (sdk_rig.h).
 */
#include "selftest/unit/tools/sdk_rig.h"

#include <math.h>

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
    feed_error(&agx, STATUS_GONE_DEADLINE, 0, 0, true);
    expect_next(&agx, AGX_ERROR_CLOSED);        /* a call that crossed this is sent again */
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

static void test_call_bad_adjustments_name_the_field(void **state)
{
    const struct agx_bias large[] = {{1, 101}}, twice[] = {{3, 1}, {1, 1}, {3, 2}};
    struct agx_call good = call_of_three(1), bad = good;
    bad.presence_penalty = -2.5f;
    expect_argument(bad, "presence_penalty");
    bad = good;
    bad.frequency_penalty = NAN;
    expect_argument(bad, "frequency_penalty");
    bad = good;
    bad.biases = large;
    bad.biases_count = 1;
    expect_argument(bad, "bias");
    bad.biases = twice;
    bad.biases_count = 3;
    expect_argument(bad, "logit_bias");
    bad.biases_count = AGX_BIASES_MAX + 1;
    expect_argument(bad, "logit_bias");
    bad.biases = NULL;
    bad.biases_count = 1;
    expect_argument(bad, "logit_bias");
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

static void test_class_with_a_bad_name_is_not_sent(void **state)
{
    struct agx agx;
    const uint8_t id[AGX_ID_BYTES] = {7};
    const char *names[] = {"two words", "caf\xc3\xa9", "\x7f",
                           "33-bytes-are-one-more-than-allowed"};
    const uint64_t found[] = {' ', 0xc3, 0x7f, AGX_CLASS_BYTES + 1};
    open_session(&agx);
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(agx_session_program_start(&agx, id, names[i]), AGX_ERROR_ARGUMENT);
        assert_string_equal(agx_fault(&agx)->frame, "PROGRAM_START");
        assert_string_equal(agx_fault(&agx)->field, "class");
        assert_int_equal(agx_fault(&agx)->found, found[i]);
        assert_false(agx_wants_write(&agx));
    }
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
    assert_string_equal(agx_fault(&agx)->field, "buffer_bytes");
    assert_int_equal(agx_fault(&agx)->found, AGX_BUFFER_BYTES_MIN - 1);
    assert_int_equal(agx_fault(&agx)->min, AGX_BUFFER_BYTES_MIN);
    assert_int_equal(agx_session_init(&agx, NULL, sizeof buffer), AGX_ERROR_ARGUMENT);
    for (uint32_t shift = 0; shift < 8; shift++) {
        assert_int_equal(agx_session_init(&agx, buffer + shift, AGX_BUFFER_BYTES_MIN), AGX_OK);
        assert_int_equal((uintptr_t)agx.tokens % _Alignof(uint32_t), 0);
        assert_true(agx.out + agx.out_max <= buffer + shift + AGX_BUFFER_BYTES_MIN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_refused_call_names_the_field_and_frees_the_id),
        cmocka_unit_test(test_next_refused_cancel_leaves_the_call_open),
        cmocka_unit_test(test_next_closing_errors_are_results),
        cmocka_unit_test(test_welcome_unsound_is_refused),
        cmocka_unit_test(test_welcome_refused_version_or_busy),
        cmocka_unit_test(test_call_bad_adjustments_name_the_field),
        cmocka_unit_test(test_call_bad_arguments_name_the_field),
        cmocka_unit_test(test_class_with_a_bad_name_is_not_sent),
        cmocka_unit_test(test_call_beyond_the_appliances_frame_is_refused),
        cmocka_unit_test(test_call_long_stop_text_is_refused),
        cmocka_unit_test(test_call_open_id_is_refused),
        cmocka_unit_test(test_call_beyond_table_is_space),
        cmocka_unit_test(test_call_full_buffer_waits_or_never_fits),
        cmocka_unit_test(test_init_small_or_unaligned_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
