/* SPDX-License-Identifier: MIT */
/*
 * Goal: the text of a call is valid UTF-8 in every frame and never holds a stop string, whatever
 * the tokens are and however they are spread over frames; a stop string ends its call.
 * Method: cases by hand, then random ones against a naive model that has all bytes at once.
 */
#include "selftest/unit/net/net_client.h"

/* ---- text ------------------------------------------------------------------------------------ */

static void test_text_is_split_only_between_characters(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = text_call(1, NULL);
    uint32_t slot = start_call(f, peer, &call);
    const char *text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
    for (const char *at = text; *at != '\0'; at++) {
        generate_text(f, slot, (const char[2]){*at, '\0'});
        read_all(f, peer);
        assert_true(utf8_is_valid(answers[1].text, answers[1].text_bytes));
    }
    fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
    fixture_pass(f);
    read_all(f, peer);
    expect_text(1, text);
}

static void test_control_tokens_have_text_where_the_call_wants_it(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    for (uint32_t wants = 0; wants < 2; wants++) {
        struct wire_call call = text_call(wants, "]x");
        call.flags |= wants ? WIRE_CALL_WANT_CONTROL : 0;
        uint32_t slot = start_call(f, peer, &call);
        generate_text(f, slot, "a");
        fixture_generate(f, slot, FIXTURE_CONTROL);
        fixture_pass(f);
        generate_text(f, slot, "x");
        fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
        fixture_pass(f);
    }
    read_all(f, peer);
    expect_text(0, "ax");
    expect_text(1, "a[CALL");           /* a stop string may lie across it */
    assert_int_equal(answers[1].end.finish, CALL_FINISH_STOP_TEXT);
}

static void test_bytes_that_are_no_text_become_replacements(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = text_call(1, NULL);
    uint32_t slot = start_call(f, peer, &call);
    generate_text(f, slot, "a\xFF\xE2\x82" "b\xC3");
    fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
    fixture_pass(f);
    read_all(f, peer);
    expect_text(1, "a\xEF\xBF\xBD\xEF\xBF\xBD" "b\xEF\xBF\xBD");
    assert_int_equal(answers[1].tokens_count, 6);
}

static void test_space_of_the_first_token_is_dropped_after_bos_alone(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    fixture_token_texts[0] = " word";
    for (uint64_t id = 1; id <= 2; id++) {
        struct wire_call call = text_call(id, NULL);
        call.prompt_count = id == 1 ? 1 : 2;
        uint32_t slot = start_call(f, peer, &call);
        fixture_generate(f, slot, FIXTURE_TEXT_TOKEN);
        fixture_generate(f, slot, FIXTURE_TEXT_TOKEN);
        fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
        fixture_pass(f);
    }
    read_all(f, peer);
    expect_text(1, "word word");
    expect_text(2, " word word");
}


/* ---- stop strings ---------------------------------------------------------------------------- */

static void test_stop_string_over_tokens_ends_the_call_and_the_text_before_it(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = text_call(1, "\n\nEnd");
    uint32_t slot = start_call(f, peer, &call);
    generate_text(f, slot, "one\ntwo\n\n\nEnd of it");
    fixture_pass(f);
    read_all(f, peer);
    assert_true(answers[1].done);
    assert_int_equal(answers[1].end.finish, CALL_FINISH_STOP_TEXT);
    assert_int_equal(answers[1].tokens_count, 13);
    expect_text(1, "one\ntwo\n");
}

static void test_text_that_may_become_a_stop_string_is_held_and_then_said(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = text_call(1, "abcabd");
    uint32_t slot = start_call(f, peer, &call);
    generate_text(f, slot, "xabcab");
    read_all(f, peer);
    expect_text(1, "x");
    assert_int_equal(answers[1].tokens_count, 6);
    generate_text(f, slot, "c");
    read_all(f, peer);
    expect_text(1, "xabc");
    fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
    fixture_pass(f);
    read_all(f, peer);
    expect_text(1, "xabcabc");
    assert_int_equal(answers[1].end.finish, CALL_FINISH_LENGTH);
}

/* What is sent is a beginning of the whole text, because the call may be executed again. */
static void test_text_that_waits_is_said_only_when_the_call_comes_to_its_own_end(void **state)
{
    static const enum call_finish ends[] = {CALL_FINISH_LENGTH, CALL_FINISH_EOS,
                                            CALL_FINISH_STOP_ID, CALL_FINISH_CANCELLED,
                                            CALL_FINISH_DEADLINE, CALL_FINISH_FAILED};
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    for (uint32_t id = 0; id < sizeof ends / sizeof ends[0]; id++) {
        struct wire_call call = text_call(id, "abcabd");
        uint32_t slot = start_call(f, peer, &call);
        bool is_own_end = ends[id] <= CALL_FINISH_STOP_ID;
        generate_text(f, slot, "xyab\xC3");
        read_all(f, peer);
        expect_text(id, "xyab");
        generate_text(f, slot, "\xA9" "abcab");
        fixture_finish(f, slot, ends[id], STATUS_OK);
        fixture_pass(f);
        read_all(f, peer);
        assert_true(answers[id].done);
        assert_int_equal(answers[id].tokens_count, 11);
        expect_text(id, is_own_end ? "xyab\xC3\xA9" "abcab" : "xyab\xC3\xA9");
    }
}

/* Half a character, and no stop string. */
static void test_half_a_character_is_said_only_when_the_call_comes_to_its_own_end(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    for (uint64_t id = 0; id < 2; id++) {
        struct wire_call call = text_call(id, NULL);
        uint32_t slot = start_call(f, peer, &call);
        generate_text(f, slot, "a\xE2\x82");
        fixture_finish(f, slot, id == 0 ? CALL_FINISH_LENGTH : CALL_FINISH_CANCELLED, STATUS_OK);
        fixture_pass(f);
        read_all(f, peer);
        assert_true(answers[id].done);
        assert_int_equal(answers[id].tokens_count, 3);
        expect_text(id, id == 0 ? "a\xEF\xBF\xBD" : "a");
    }
}

static void test_stop_string_inside_one_token_and_tokens_behind_it_are_not_sent(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    fixture_token_texts[0] = "12STOP34";
    struct wire_call call = text_call(1, "STOP");
    uint32_t slot = start_call(f, peer, &call);
    fixture_generate(f, slot, FIXTURE_BYTE('0'));
    fixture_generate(f, slot, FIXTURE_TEXT_TOKEN);
    fixture_generate(f, slot, FIXTURE_BYTE('5'));
    fixture_generate(f, slot, FIXTURE_BYTE('6'));
    fixture_passes(f, 2);
    read_all(f, peer);
    assert_true(answers[1].done);
    assert_int_equal(answers[1].tokens_count, 2);
    expect_text(1, "012");
}

static void test_stop_string_in_the_last_tokens_of_a_finished_call_counts(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = text_call(1, "!");
    uint32_t slot = start_call(f, peer, &call);
    fixture_generate(f, slot, FIXTURE_BYTE('a'));
    fixture_generate(f, slot, FIXTURE_BYTE('!'));
    fixture_generate(f, slot, FIXTURE_BYTE('b'));
    fixture_finish(f, slot, CALL_FINISH_DEADLINE, STATUS_GONE_DEADLINE);
    fixture_passes(f, 2);
    read_all(f, peer);
    assert_int_equal(answers[1].end.finish, CALL_FINISH_STOP_TEXT);
    assert_int_equal(answers[1].end.status, STATUS_OK);
    assert_int_equal(answers[1].tokens_count, 2);
    expect_text(1, "a");
    assert_int_equal(f->commands[COMMAND_CANCEL], 0);
}

static void test_stop_string_is_seen_though_the_client_does_not_read(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    fake_client_window(&f->fake, peer, 0);
    fixture_token_texts[0] = "many bytes that fill up the buf ";
    struct wire_call call = text_call(1, "STOP");
    call.max_tokens = 62;
    uint32_t slot = start_call(f, peer, &call);
    for (uint32_t i = 0; i < 55; i++) {
        fixture_generate(f, slot, FIXTURE_TEXT_TOKEN);
    }
    fixture_pass(f);
    assert_true(fixture_call(f, slot)->emit.sent_tokens < 55);
    generate_text(f, slot, "STOP");
    fixture_pass(f);
    assert_int_equal(fixture_call(f, slot)->state, CALL_FINISHED);
    assert_int_equal(f->commands[COMMAND_CANCEL], 1);
    fake_client_window(&f->fake, peer, FAKE_QUEUE_BYTES);
    fixture_passes(f, 10);
    read_all(f, peer);
    assert_true(answers[1].done);
    assert_int_equal(answers[1].text_bytes, 55 * 32);
}


/* ---- a naive model of text and stop strings -------------------------------------------------- */

static uint32_t random_state = 1;
static uint32_t draw(uint32_t bound)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % bound;
}

/* All bytes at once, with searches from scratch. Returns the tokens that are kept. */
static uint32_t model_of(const struct wire_call *call, const uint32_t *tokens, uint32_t count,
                         char *text, uint32_t *text_bytes)
{
    char raw[4096];
    uint32_t raw_bytes = 0, kept = count, end = UINT32_MAX;
    for (uint32_t i = 0; i < count && end == UINT32_MAX; i++) {
        uint32_t piece = vocab_decode(NULL, tokens[i], false, raw + raw_bytes, 64);
        for (uint32_t at = raw_bytes + 1; at <= raw_bytes + piece && end == UINT32_MAX; at++) {
            for (uint32_t s = 0; s < call->stop_texts_count; s++) {
                uint32_t length = call->stop_texts[s].length_bytes;
                if (at >= length && at - length < end &&
                    memcmp(raw + at - length, call->stop_texts[s].bytes, length) == 0) {
                    end = at - length;
                    kept = i + 1;
                }
            }
        }
        raw_bytes += piece;
    }
    raw_bytes = end < raw_bytes ? end : raw_bytes;
    *text_bytes = 0;
    for (uint32_t at = 0; at < raw_bytes;) {
        int32_t length = utf8_sequence(raw + at, raw_bytes - at);
        if (length > 0) {
            memcpy(text + *text_bytes, raw + at, (size_t)length);
            *text_bytes += (uint32_t)length;
            at += (uint32_t)length;
        } else {
            memcpy(text + *text_bytes, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
            *text_bytes += UTF8_REPLACEMENT_BYTES;
            at = length == 0 ? raw_bytes : at + (uint32_t)-length;
        }
    }
    return kept;
}

static struct wire_call random_call(uint64_t call_id)
{
    static const char letters[] = "ab";
    struct wire_call call = text_call(call_id, NULL);
    call.stop_texts_count = draw(4);
    for (uint32_t i = 0; i < call.stop_texts_count; i++) {
        struct call_stop_text *stop = &call.stop_texts[i];
        stop->length_bytes = (uint16_t)(2 + draw(6));
        for (uint32_t k = 0; k < stop->length_bytes; k++) {
            stop->bytes[k] = letters[draw(2)];
        }
    }
    return call;
}

static uint32_t random_token(void)
{
    switch (draw(12)) {
    case 0: return FIXTURE_TEXT_TOKEN;          /* "abab" */
    case 1: return FIXTURE_TEXT_TOKEN + 1;      /* two bytes of three */
    case 2: return FIXTURE_BYTE(0xAC);
    case 3: return 1;                           /* a control token: no text */
    case 4: return FIXTURE_TEXT_TOKEN + 2;      /* a character that ends in letters */
    default: return FIXTURE_BYTE('a' + draw(2));
    }
}

/* What has come for the call is what the model says; then nothing has come for it. */
static void expect_and_forget(struct answer_so_far *answer, const uint32_t *tokens, uint32_t kept,
                              const char *text, uint32_t text_bytes)
{
    assert_true(answer->done);
    assert_int_equal(answer->tokens_count, kept);
    assert_memory_equal(answer->tokens, tokens, kept * sizeof(uint32_t));
    assert_int_equal(answer->text_bytes, text_bytes);
    assert_memory_equal(answer->text, text, text_bytes);
    memset(answer, 0, sizeof *answer);
}

/* Once executed, once answered from the record. */
static void run_random_case(struct fixture *f, uint32_t peer, uint64_t call_id)
{
    uint32_t tokens[60], count = 1 + draw(60), text_bytes = 0;
    char text[8192];
    struct wire_call call = random_call(call_id);
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = random_token();
    }
    uint32_t kept = model_of(&call, tokens, count, text, &text_bytes);
    uint32_t slot = start_call(f, peer, &call), burst = 1 + draw(10);
    f->fake.transfer_max = draw(3) == 0 ? 0 : 1 + draw(200);
    for (uint32_t i = 0; i < count && fixture_call(f, slot)->state == CALL_QUEUED; i++) {
        fixture_generate(f, slot, tokens[i]);
        if (draw(burst) == 0) {
            fixture_pass(f);
        }
    }
    if (fixture_call(f, slot)->state == CALL_QUEUED) {
        fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
    }
    f->fake.transfer_max = 0;
    fixture_passes(f, 6);
    read_all(f, peer);
    expect_and_forget(&answers[call_id], tokens, kept, text, text_bytes);
    fixture_send_call(f, peer, &call);
    fixture_passes(f, 6);
    read_all(f, peer);
    assert_true(answers[call_id].replayed);
    expect_and_forget(&answers[call_id], tokens, kept, text, text_bytes);
    assert_int_equal(f->calls.free_count, 8);
}

static void test_random_texts_and_stop_strings_equal_the_model(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    for (uint32_t seed = 1; seed <= 2000; seed++) {
        random_state = seed;
        fixture_token_texts[0] = "abab";
        fixture_token_texts[1] = "\xE2\x82";
        fixture_token_texts[2] = "\xC3\xA9" "ab";
        run_random_case(f, peer, seed % 16);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        T(test_text_is_split_only_between_characters),
        T(test_control_tokens_have_text_where_the_call_wants_it),
        T(test_bytes_that_are_no_text_become_replacements),
        T(test_space_of_the_first_token_is_dropped_after_bos_alone),
        T(test_stop_string_over_tokens_ends_the_call_and_the_text_before_it),
        T(test_text_that_may_become_a_stop_string_is_held_and_then_said),
        T(test_text_that_waits_is_said_only_when_the_call_comes_to_its_own_end),
        T(test_half_a_character_is_said_only_when_the_call_comes_to_its_own_end),
        T(test_stop_string_inside_one_token_and_tokens_behind_it_are_not_sent),
        T(test_stop_string_in_the_last_tokens_of_a_finished_call_counts),
        T(test_stop_string_is_seen_though_the_client_does_not_read),
        T(test_random_texts_and_stop_strings_equal_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
