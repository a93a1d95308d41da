/* SPDX-License-Identifier: MIT */
/*
 * Goal: a client gets ACCEPT, its tokens in order with consecutive indices, valid text without stop
 * strings, and exactly one terminal frame with the right digest, however the bytes flow; a client
 * that does not read pauses its own calls, is dropped at its deadline, and nobody else feels it.
 * Method: the stage in the world in memory; a reader that checks every frame against what was
 * generated. Random cases compare with a naive model of text and stop strings.
 */
#include "selftest/unit/test.h"

#include "net/utf8.h"
#include "selftest/unit/net/net_fixture.h"

static struct fixture fixture;
static struct received got;

/* What a client has put together of one call. */
struct answer_so_far {
    bool accepted, done;
    uint32_t tokens_count, frames;
    uint32_t tokens[256];
    uint32_t text_bytes;
    char text[8192];
    struct wire_done end;
};
static struct answer_so_far answers[16];

static int setup(void **state)
{
    fixture_init(&fixture, test_arena(), &fixture_limits);
    memset(answers, 0, sizeof answers);
    *state = &fixture;
    return 0;
}

static uint32_t open_client(struct fixture *f)
{
    uint32_t peer = fixture_connect(f);
    fixture_hello(f, peer);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_WELCOME);
    return peer;
}

static void read_tokens(struct answer_so_far *answer)
{
    assert_int_equal(got.tokens.first_index, answer->tokens_count);
    assert_true(got.tokens.tokens_count + got.tokens.text_bytes > 0);
    memcpy(answer->tokens + answer->tokens_count, got.tokens.tokens,
           got.tokens.tokens_count * sizeof(uint32_t));
    answer->tokens_count += got.tokens.tokens_count;
    memcpy(answer->text + answer->text_bytes, got.tokens.text, got.tokens.text_bytes);
    answer->text_bytes += got.tokens.text_bytes;
    answer->frames++;
}

/* Takes everything that is there; calls have ids below 16. */
static void read_all(struct fixture *f, uint32_t peer)
{
    while (fixture_receive(f, peer, &got)) {
        if (got.type == WIRE_ACCEPT) {
            assert_false(answers[got.accept.call_id].accepted);
            answers[got.accept.call_id].accepted = true;
        } else if (got.type == WIRE_TOKENS) {
            assert_true(answers[got.tokens.call_id].accepted);
            assert_false(answers[got.tokens.call_id].done);
            read_tokens(&answers[got.tokens.call_id]);
        } else if (got.type == WIRE_DONE) {
            struct answer_so_far *answer = &answers[got.done.call_id];
            assert_true(answer->accepted && !answer->done);
            answer->done = true;
            answer->end = got.done;
            assert_int_equal(got.done.generated_tokens, answer->tokens_count);
            assert_true(got.done.digest == wire_digest(WIRE_DIGEST_START, answer->tokens,
                                                       answer->tokens_count));
        } else {
            fail_msg("unexpected %s", wire_type_name(got.type));
        }
    }
}

static uint32_t start_call(struct fixture *f, uint32_t peer, const struct wire_call *call)
{
    uint64_t before = f->commands[COMMAND_CALL];
    fixture_send_call(f, peer, call);
    fixture_pass(f);
    assert_int_equal(f->commands[COMMAND_CALL], before + 1);
    return f->last_call;
}

static struct wire_call text_call(uint64_t call_id, const char *stop)
{
    struct wire_call call = fixture_wire_call(call_id);
    call.flags = WIRE_CALL_WANT_TEXT;
    call.max_tokens = 60;
    if (stop != NULL) {
        call.stop_texts_count = 1;
        call.stop_texts[0].length_bytes = (uint16_t)strlen(stop);
        memcpy(call.stop_texts[0].bytes, stop, strlen(stop));
    }
    return call;
}

/* Generates the bytes of `text`, one token each, a pass after each. */
static void generate_text(struct fixture *f, uint32_t slot, const char *text)
{
    for (; *text != '\0' && fixture_call(f, slot)->state == CALL_QUEUED; text++) {
        fixture_generate(f, slot, FIXTURE_BYTE(*text));
        fixture_pass(f);
    }
}

static void expect_text(uint64_t call_id, const char *text)
{
    answers[call_id].text[answers[call_id].text_bytes] = '\0';
    assert_string_equal(answers[call_id].text, text);
}

/* ---- order ----------------------------------------------------------------------------------- */

static void test_frames_of_a_call_come_in_order_and_end_once(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    uint32_t slot = start_call(f, peer, &call);
    read_all(f, peer);
    assert_true(answers[1].accepted);
    for (uint32_t i = 0; i < 5; i++) {
        fixture_generate(f, slot, 100 + i);
        if (i % 2 == 0) {
            fixture_pass(f);
        }
    }
    struct call *record = fixture_call(f, slot);
    record->lifetime_wait_us = 5;
    record->lifetime_service_us = 6;
    record->cached_tokens = 1;
    record->preemptions = 2;
    f->fake.now_us += 1000;
    fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
    fixture_pass(f);
    read_all(f, peer);
    assert_int_equal(answers[1].tokens_count, 5);
    assert_int_equal(answers[1].tokens[4], 104);
    assert_int_equal(answers[1].frames, 3);
    assert_true(answers[1].done);
    assert_int_equal(answers[1].end.finish, CALL_FINISH_LENGTH);
    assert_int_equal(answers[1].end.prompt_tokens, 2);
    assert_int_equal(answers[1].end.cached_tokens, 1);
    assert_int_equal(answers[1].end.preemptions, 2);
    assert_int_equal(answers[1].end.wait_us, 5);
    assert_int_equal(answers[1].end.service_us, 6);
    assert_int_equal(answers[1].end.total_us, 1000);
    assert_int_equal(f->calls.free_count, 8);
    fixture_passes(f, 3);
    assert_false(fixture_receive(f, peer, &got));
}

static void test_call_that_fails_before_a_token_still_gets_accept_and_done(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    uint32_t slot = start_call(f, peer, &call);
    fixture_finish(f, slot, CALL_FINISH_FAILED, STATUS_DEVICE_NUMERIC);
    fixture_pass(f);
    read_all(f, peer);
    assert_true(answers[1].done);
    assert_int_equal(answers[1].end.finish, CALL_FINISH_FAILED);
    assert_int_equal(answers[1].end.status, STATUS_DEVICE_NUMERIC);
    assert_true(answers[1].end.digest == WIRE_DIGEST_START);
}

static void test_end_of_turn_token_is_reported_as_eos(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    for (uint32_t id = 1; id <= 2; id++) {
        struct wire_call call = fixture_wire_call(id);
        if (id == 2) {              /* the client names it: a stop id of its own */
            call.sampling.stop_ids_count = 1;
            call.sampling.stop_ids[0] = 3;
        }
        uint32_t slot = start_call(f, peer, &call);
        fixture_generate(f, slot, 3);
        fixture_finish(f, slot, CALL_FINISH_STOP_ID, STATUS_OK);
        fixture_pass(f);
    }
    read_all(f, peer);
    assert_int_equal(answers[1].end.finish, CALL_FINISH_EOS);
    assert_int_equal(answers[2].end.finish, CALL_FINISH_STOP_ID);
}

static void test_short_sends_change_nothing(void **state)
{
    struct fixture *f = *state;
    f->fake.transfer_max = 7;
    f->fake.random = 99;
    f->fake.again_every = 4;
    f->generates = true;
    uint32_t peer = fixture_connect(f);
    fixture_hello(f, peer);
    fixture_passes(f, 100);
    assert_true(fixture_receive(f, peer, &got));
    for (uint64_t id = 1; id <= 3; id++) {
        struct wire_call call = text_call(id, NULL);
        fixture_send_call(f, peer, &call);
    }
    for (uint32_t i = 0; i < 3000; i++) {
        fixture_pass(f);
        if (i % 50 == 0) {
            read_all(f, peer);
        }
    }
    read_all(f, peer);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_true(answers[id].done);
        assert_int_equal(answers[id].tokens_count, 60);
    }
}

/* ---- readers that stop ----------------------------------------------------------------------- */

static void test_reader_that_stops_pauses_its_calls_and_nobody_elses(void **state)
{
    struct fixture *f = *state;
    f->generates = true;
    f->next_token = FIXTURE_TEXT_TOKEN;
    fixture_token_texts[0] = "thirty-one bytes of text a token";
    uint32_t stopped = open_client(f), reading = open_client(f);
    struct wire_call call = text_call(1, NULL);
    fake_client_window(&f->fake, stopped, 100);
    uint32_t slots[3];
    for (uint32_t i = 0; i < 3; i++) {
        call.call_id = 1 + i;
        slots[i] = start_call(f, stopped, &call);
    }
    call.call_id = 9;
    start_call(f, reading, &call);
    fixture_passes(f, 70);
    read_all(f, reading);
    assert_true(answers[9].done);
    assert_int_equal(answers[9].tokens_count, 60);
    uint32_t unsent = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const struct call *record = fixture_call(f, slots[i]);
        assert_true(record->paused);
        assert_true(record->generated_tokens - record->emit.sent_tokens <= 16 + 1);
        unsent += record->generated_tokens - record->emit.sent_tokens;
    }
    assert_true(unsent > 0);
    /* It reads again: everything comes, nothing is lost. */
    fake_client_window(&f->fake, stopped, FAKE_QUEUE_BYTES);
    fixture_passes(f, 300);
    read_all(f, stopped);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_true(answers[id].done);
        assert_int_equal(answers[id].tokens_count, 60);
    }
    assert_int_equal(f->calls.free_count, 8);
}

static void test_resumed_call_makes_the_loop_go_on(void **state)
{
    struct fixture *f = *state;
    f->generates = true;
    f->next_token = FIXTURE_TEXT_TOKEN;
    fixture_token_texts[0] = "thirty-one bytes of text a token";
    uint32_t peer = open_client(f);
    fake_client_window(&f->fake, peer, 100);
    struct wire_call call = text_call(1, NULL);
    for (call.call_id = 1; call.call_id <= 3; call.call_id++) {
        start_call(f, peer, &call);
    }
    fixture_passes(f, 200);
    uint32_t slot = f->last_call;
    assert_true(fixture_call(f, slot)->paused);
    fake_client_window(&f->fake, peer, FAKE_QUEUE_BYTES);
    for (uint32_t i = 0; i < 10 && fixture_call(f, slot)->paused; i++) {
        fixture_pass(f);
    }
    assert_false(fixture_call(f, slot)->paused);
    assert_int_equal(net_next_us(&f->net, f->fake.now_us), 0);
}

static void test_reader_that_stops_is_dropped_at_the_write_deadline(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f), other = open_client(f);
    fake_client_window(&f->fake, peer, 0);
    struct wire_call call = fixture_wire_call(1);
    uint32_t slot = start_call(f, peer, &call);
    fixture_generate(f, slot, 9);
    fixture_sleep(f, 9999999);
    assert_false(fake_client_is_closed(&f->fake, peer));
    fixture_sleep(f, 2);
    assert_true(fake_client_is_closed(&f->fake, peer));
    fixture_pass(f);
    assert_int_equal(f->calls.free_count, 8);
    assert_int_equal(f->commands[COMMAND_CANCEL], 1);
    fixture_send_ping(f, other, 3);
    fixture_pass(f);
    assert_true(fixture_receive(f, other, &got));
}

static void test_slow_reader_that_moves_is_not_dropped(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    fake_client_window(&f->fake, peer, 0);
    struct wire_call call = fixture_wire_call(1);
    uint32_t slot = start_call(f, peer, &call);
    for (uint32_t i = 0; i < 8; i++) {
        fixture_generate(f, slot, 9);
    }
    fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
    for (uint32_t window = 1; window <= 200; window += 10) {
        fake_client_window(&f->fake, peer, window);
        fixture_sleep(f, 9000000);
        assert_false(fake_client_is_closed(&f->fake, peer));
    }
    read_all(f, peer);
    assert_true(answers[1].done);
}

static void test_calls_of_a_slow_connection_take_turns(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    f->generates = true;
    f->next_token = FIXTURE_TEXT_TOKEN;
    fixture_token_texts[0] = "thirty-one bytes of text a token";
    fake_client_window(&f->fake, peer, 0);
    struct wire_call call = text_call(1, NULL);
    for (call.call_id = 1; call.call_id <= 3; call.call_id++) {
        start_call(f, peer, &call);
    }
    fixture_passes(f, 100);
    uint32_t read_bytes = 0;
    uint8_t bytes[512];
    /* A trickle; no call may be left behind by more than a send buffer's worth. */
    for (uint32_t i = 0; i < 20; i++) {
        fake_client_window(&f->fake, peer, 512);
        fixture_passes(f, 3);
        read_bytes += fake_client_recv(&f->fake, peer, bytes, sizeof bytes);
    }
    assert_true(read_bytes > 5000);
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < f->calls.count; i++) {
        const struct call *record = fixture_call(f, i);
        if (record->state != CALL_FREE) {
            least = record->emit.sent_tokens < least ? record->emit.sent_tokens : least;
            most = record->emit.sent_tokens > most ? record->emit.sent_tokens : most;
        }
    }
    assert_true(least > 0 || most == 0);
}

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
    fixture_finish(f, slot, CALL_FINISH_LENGTH, STATUS_OK);
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

static void run_random_case(struct fixture *f, uint32_t peer)
{
    uint32_t tokens[60], count = 1 + draw(60), text_bytes = 0;
    char text[8192];
    struct wire_call call = random_call(1);
    memset(&answers[1], 0, sizeof answers[1]);
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
    assert_true(answers[1].done);
    assert_int_equal(answers[1].tokens_count, kept);
    assert_memory_equal(answers[1].tokens, tokens, kept * sizeof(uint32_t));
    assert_int_equal(answers[1].text_bytes, text_bytes);
    assert_memory_equal(answers[1].text, text, text_bytes);
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
        run_random_case(f, peer);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        T(test_frames_of_a_call_come_in_order_and_end_once),
        T(test_call_that_fails_before_a_token_still_gets_accept_and_done),
        T(test_end_of_turn_token_is_reported_as_eos),
        T(test_short_sends_change_nothing),
        T(test_reader_that_stops_pauses_its_calls_and_nobody_elses),
        T(test_resumed_call_makes_the_loop_go_on),
        T(test_reader_that_stops_is_dropped_at_the_write_deadline),
        T(test_slow_reader_that_moves_is_not_dropped),
        T(test_calls_of_a_slow_connection_take_turns),
        T(test_text_is_split_only_between_characters),
        T(test_bytes_that_are_no_text_become_replacements),
        T(test_space_of_the_first_token_is_dropped_after_bos_alone),
        T(test_stop_string_over_tokens_ends_the_call_and_the_text_before_it),
        T(test_text_that_may_become_a_stop_string_is_held_and_then_said),
        T(test_stop_string_inside_one_token_and_tokens_behind_it_are_not_sent),
        T(test_stop_string_in_the_last_tokens_of_a_finished_call_counts),
        T(test_stop_string_is_seen_though_the_client_does_not_read),
        T(test_random_texts_and_stop_strings_equal_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
