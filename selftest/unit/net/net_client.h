/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a fixture for each test, and its client, which checks every frame: one answer for each
 * call, ACCEPT first, consecutive tokens, one DONE with the right digest. Calls have ids below 16.
 */
#include "selftest/unit/test.h"

#include "net/utf8.h"
#include "selftest/unit/net/net_fixture.h"

static struct fixture fixture;
static struct received got;

/* What a client has put together of one call. */
struct answer_so_far {
    bool accepted, replayed, done;
    uint32_t tokens_count, frames;
    uint32_t tokens[256];
    uint32_t queues[256];           /* of each frame of tokens */
    uint32_t text_bytes;
    char text[8192];
    struct wire_done end;
};
static struct answer_so_far answers[16];

static inline int setup(void **state)
{
    fixture_init(&fixture, test_arena(), &fixture_limits);
    memset(answers, 0, sizeof answers);
    *state = &fixture;
    return 0;
}

static inline uint32_t open_client(struct fixture *f)
{
    uint32_t peer = fixture_connect(f);
    fixture_hello(f, peer);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_WELCOME);
    return peer;
}

static inline void expect_error(struct fixture *f, uint32_t peer, enum status status,
                         enum wire_field field, bool closes)
{
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_ERROR);
    assert_string_equal(status_name(got.error.fault.status), status_name(status));
    assert_string_equal(wire_field_name(got.error.fault.field), wire_field_name(field));
    assert_int_equal(got.error.closes, closes);
    assert_string_equal(got.error.text, status_text(status));
    assert_int_equal(fake_client_is_closed(&f->fake, peer), closes);
}

static inline void expect_alive(struct fixture *f, uint32_t peer)
{
    fixture_send_ping(f, peer, 0xA11FE);
    fixture_pass(f);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_PONG);
    assert_true(got.pong.nonce == 0xA11FE);
}

static inline void expect_slots_free(const struct fixture *f, uint32_t free_count)
{
    assert_int_equal(f->calls.free_count, free_count);
}

/* ---- calls and their answers ----------------------------------------------------------------- */

static inline void read_tokens(struct answer_so_far *answer)
{
    assert_int_equal(got.tokens.first_index, answer->tokens_count);
    assert_true(got.tokens.tokens_count + got.tokens.text_bytes > 0);
    memcpy(answer->tokens + answer->tokens_count, got.tokens.tokens,
           got.tokens.tokens_count * sizeof(uint32_t));
    answer->tokens_count += got.tokens.tokens_count;
    memcpy(answer->text + answer->text_bytes, got.tokens.text, got.tokens.text_bytes);
    answer->text_bytes += got.tokens.text_bytes;
    assert_true(answer->frames < 256);
    answer->queues[answer->frames++] = got.tokens.queue;
}

/* Takes everything that is there; calls have ids below 16. */
static inline void read_all(struct fixture *f, uint32_t peer)
{
    while (fixture_receive(f, peer, &got)) {
        if (got.type == WIRE_ACCEPT) {
            assert_false(answers[got.accept.call_id].accepted);
            answers[got.accept.call_id].accepted = true;
            answers[got.accept.call_id].replayed = got.accept.flags == WIRE_ACCEPT_REPLAYED;
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

static inline uint32_t start_call(struct fixture *f, uint32_t peer, const struct wire_call *call)
{
    uint64_t before = f->commands[COMMAND_CALL];
    fixture_send_call(f, peer, call);
    fixture_pass(f);
    assert_int_equal(f->commands[COMMAND_CALL], before + 1);
    return f->last_call;
}

static inline struct wire_call text_call(uint64_t call_id, const char *stop)
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
static inline void generate_text(struct fixture *f, uint32_t slot, const char *text)
{
    for (; *text != '\0' && fixture_call(f, slot)->state == CALL_QUEUED; text++) {
        fixture_generate(f, slot, FIXTURE_BYTE(*text));
        fixture_pass(f);
    }
}

static inline void expect_text(uint64_t call_id, const char *text)
{
    answers[call_id].text[answers[call_id].text_bytes] = '\0';
    assert_string_equal(answers[call_id].text, text);
}
