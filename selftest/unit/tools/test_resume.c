/* SPDX-License-Identifier: MIT */
/*
 * Goal: a client that resumes loses nothing, gets nothing twice, and is told when what comes after
 * a break is not what came before it.
 * Method: the test plays the appliance with the encoders of net/wire.h. Breaks in each state are
 * made in memory; agx_resume() meets a thread on a unix socket that closes, refuses and restarts.
 */
#include "selftest/unit/folder.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/wire.h"
#include "tools/sdk/agx.h"
#include "tools/sdk/session.h"

#define TOKENS 6
static _Alignas(8) uint8_t buffer[AGX_BUFFER_BYTES_MIN];
static const uint32_t answer[TOKENS] = {11, 12, 13, 14, 15, 16};
static const char text[] = "h\xc3\xa9llo, w\xc3\xb6rld";
#define TEXT_BYTES ((uint32_t)sizeof text - 1)

/* ---- an appliance of frames ------------------------------------------------------------------ */

static uint32_t welcome_frame(uint8_t boot, uint8_t *bytes)
{
    struct wire_welcome welcome = {.version = 1, .boot_id = {boot}, .frame_bytes_max = 60000,
                                   .context_tokens_max = 64, .vocab_tokens = 100,
                                   .calls_per_connection_max = 64, .programs_max = 2,
                                   .bos_id = 1, .eos_id = 2, .model = "tiny"};
    return wire_welcome_encode(&welcome, bytes, WIRE_REPLY_BYTES_MAX);
}

static uint32_t accept_frame(uint64_t call_id, uint32_t flags, uint8_t *bytes)
{
    struct wire_accept accept = {.call_id = call_id, .prompt_tokens = 3, .flags = flags};
    return wire_accept_encode(&accept, bytes, WIRE_REPLY_BYTES_MAX);
}

/* Some of `tokens` and some of `words`. */
struct part { uint32_t token_first, token_count, byte_first, byte_count; };
static uint32_t part_frame(struct part part, const uint32_t *tokens, const char *words,
                           uint8_t *bytes)
{
    struct wire_tokens frame = {.call_id = 1, .first_index = part.token_first,
                                .tokens_count = part.token_count, .text_bytes = part.byte_count,
                                .text = (const uint8_t *)words + part.byte_first};
    return wire_tokens_encode(&frame, tokens + part.token_first, bytes, WIRE_REPLY_BYTES_MAX);
}

static uint32_t done_frame(enum call_finish finish, enum status status, const uint32_t *tokens,
                           uint32_t count, uint8_t *bytes)
{
    struct wire_done done = {.call_id = 1, .finish = finish, .status = status, .prompt_tokens = 3,
                             .generated_tokens = count,
                             .digest = wire_digest(WIRE_DIGEST_START, tokens, count)};
    return wire_done_encode(&done, bytes, WIRE_REPLY_BYTES_MAX);
}

static uint32_t error_frame(enum status status, uint64_t call_id, uint8_t *bytes)
{
    struct wire_error error = {.retry_ms = status == STATUS_BUSY_CALLS ? 60000 : 0,
                               .fault = {.status = status, .frame_type = WIRE_CALL,
                                         .call_id = call_id}};
    return wire_error_encode(&error, bytes, WIRE_REPLY_BYTES_MAX);
}

/* ---- a session in memory --------------------------------------------------------------------- */

static uint8_t frame[WIRE_REPLY_BYTES_MAX];

static void feed(struct agx *agx, uint32_t count)
{
    uint32_t room;
    uint8_t *at = agx_session_room(agx, &room);
    assert_true(count > 0 && count <= room);
    memcpy(at, frame, count);
    agx_session_received(agx, count);
}

static void feed_part(struct agx *agx, struct part part)
{
    feed(agx, part_frame(part, answer, text, frame));
}

static void feed_done(struct agx *agx)
{
    feed(agx, done_frame(CALL_FINISH_LENGTH, STATUS_OK, answer, TOKENS, frame));
}

static struct agx_call call_of(uint64_t call_id)
{
    return (struct agx_call){.call_id = call_id, .max_tokens = TOKENS, .want_text = 1,
                             .prompt_ids = answer, .prompt_ids_count = 3};
}

static void greet(struct agx *agx, uint8_t boot)
{
    feed(agx, welcome_frame(boot, frame));
    assert_int_equal(agx_session_welcome(agx), AGX_OK);
    assert_int_equal(agx->welcome.boot_id[0], boot);
}

static void open_session(struct agx *agx, const struct agx_call *call)
{
    assert_int_equal(agx_session_init(agx, buffer, sizeof buffer), AGX_OK);
    greet(agx, 1);
    assert_int_equal(agx_session_call(agx, call), AGX_OK);
}

/* The connection breaks, and another one is greeted. */
static void resume(struct agx *agx)
{
    agx_session_break(agx, AGX_ERROR_CLOSED);
    agx_session_reset(agx);
    greet(agx, 2);
    agx_session_resume(agx);
    assert_int_equal(agx_session_resend(agx), AGX_OK);
}

/* Takes one CALL out of what is unsent; false: there is none. */
static bool take_sent_call(struct agx *agx, struct wire_call *call)
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

static void expect_sent(struct agx *agx, const struct agx_call *call)
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

static enum agx_result take_all(struct agx *agx, struct agx_event *last)
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

static void expect_whole(struct agx *agx)
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

static int set_up(void **state)
{
    memset(&told, 0, sizeof told);
    return 0;
}

/* The first `count` tokens and the first `bytes` of the text have been told. */
static void open_and_hear(struct agx *agx, const struct agx_call *call, uint32_t count,
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

/* ---- breaks ---------------------------------------------------------------------------------- */

static void test_break_in_each_state_goes_on_where_it_was(void **state)
{
    const struct agx_call call = call_of(1);
    for (int stage = 0; stage < 6; stage++) {
        struct agx agx;
        struct wire_call sent;
        struct agx_event last;
        memset(&told, 0, sizeof told);
        open_session(&agx, &call);
        if (stage > 0) {                        /* else its frame was not even sent */
            assert_true(take_sent_call(&agx, &sent));
        }
        if (stage > 1) {
            feed(&agx, accept_frame(1, 0, frame));
        }
        if (stage > 2) {
            feed_part(&agx, (struct part){0, 2, 0, 4});
        }
        if (stage > 3) {
            feed_part(&agx, (struct part){2, 4, 4, TEXT_BYTES - 4});
        }
        if (stage > 4) {                        /* half of DONE */
            feed(&agx, done_frame(CALL_FINISH_LENGTH, STATUS_OK, answer, TOKENS, frame) / 2);
        }
        assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
        resume(&agx);
        expect_sent(&agx, &call);
        feed(&agx, accept_frame(1, 0, frame));
        feed_part(&agx, (struct part){0, TOKENS, 0, TEXT_BYTES});
        feed_done(&agx);
        expect_whole(&agx);
        assert_int_equal(agx_session_call(&agx, &call), AGX_OK);     /* the id is free */
    }
}

/* Whatever was told, and however the second answer is cut into two frames. */
static void test_second_answer_may_be_cut_elsewhere(void **state)
{
    static const uint32_t cuts[] = {0, 1, 3, 4, 5, 9, 11, 14};  /* between two characters */
    const struct agx_call call = call_of(1);
    const uint32_t cuts_count = sizeof cuts / sizeof cuts[0];
    for (uint32_t i = 0; i < 8 * 8 * (TOKENS + 1) * (TOKENS + 1); i++) {
        struct agx agx;
        uint32_t was = cuts[i % 8], now = cuts[i / 8 % 8];
        uint32_t had = i / 64 % (TOKENS + 1), has = i / 64 / (TOKENS + 1);
        assert_int_equal(cuts[cuts_count - 1], TEXT_BYTES);
        open_and_hear(&agx, &call, had, was);
        resume(&agx);
        feed(&agx, accept_frame(1, 0, frame));
        feed_part(&agx, (struct part){0, has, 0, now});
        feed_part(&agx, (struct part){has, TOKENS - has, now, TEXT_BYTES - now});
        feed_done(&agx);
        expect_whole(&agx);
    }
}

static void test_break_after_break_goes_on(void **state)
{
    struct agx agx;
    struct agx_event last;
    const struct agx_call call = call_of(1);
    open_and_hear(&agx, &call, 4, 9);
    for (int i = 0; i < 3; i++) {               /* each comes less far than the first */
        resume(&agx);
        feed(&agx, accept_frame(1, 0, frame));
        feed_part(&agx, (struct part){0, 2, 0, 5});
        assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
        assert_int_equal(told.tokens_count, 4);
    }
    resume(&agx);
    feed(&agx, accept_frame(1, 0, frame));
    feed_part(&agx, (struct part){0, TOKENS, 0, TEXT_BYTES});
    feed_done(&agx);
    expect_whole(&agx);
}

static void test_answer_from_the_record_says_so(void **state)
{
    const struct agx_call call = call_of(1);
    for (uint32_t flags = 0; flags < 2; flags++) {
        struct agx agx;
        struct agx_event last;
        open_and_hear(&agx, &call, 2, 3);
        resume(&agx);
        feed(&agx, accept_frame(1, flags, frame));
        feed_part(&agx, (struct part){0, TOKENS, 0, TEXT_BYTES});
        feed_done(&agx);
        assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
        assert_int_equal(last.kind, AGX_DONE);
        assert_int_equal(last.is_replayed, flags);
    }
}

/* The appliance gives a call up when it shuts down: no end for us, and nothing to send it yet. */
static void test_end_by_shutdown_is_a_break(void **state)
{
    struct agx agx;
    struct agx_event last;
    struct wire_call sent;
    const struct agx_call call = call_of(1);
    open_and_hear(&agx, &call, 2, 3);
    feed(&agx, done_frame(CALL_FINISH_FAILED, STATUS_GONE_SHUTDOWN, answer, 2, frame));
    assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
    assert_int_equal(told.dones, 0);
    assert_int_equal(agx_session_resend(&agx), AGX_OK);
    assert_false(take_sent_call(&agx, &sent));
    resume(&agx);
    expect_sent(&agx, &call);
    feed(&agx, accept_frame(1, 0, frame));
    feed_part(&agx, (struct part){0, TOKENS, 0, TEXT_BYTES});
    feed_done(&agx);
    expect_whole(&agx);
}

static void test_cancelled_call_may_come_less_far_than_before(void **state)
{
    struct agx agx;
    struct agx_event last;
    const struct agx_call call = call_of(1);
    open_and_hear(&agx, &call, 4, 9);
    resume(&agx);
    feed(&agx, accept_frame(1, 0, frame));
    feed_part(&agx, (struct part){0, 1, 0, 0});
    feed(&agx, done_frame(CALL_FINISH_CANCELLED, STATUS_GONE_CANCELLED, answer, 1, frame));
    assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
    assert_int_equal(last.kind, AGX_DONE);
    assert_int_equal(last.finish, AGX_FINISH_CANCELLED);
    assert_int_equal(last.generated_tokens, 4);
    assert_true(last.digest == wire_digest(WIRE_DIGEST_START, answer, 4));
}

/* It ends within a character that was whole the last time. */
static void test_sooner_end_may_say_half_a_character(void **state)
{
    for (uint32_t told_bytes = 3; told_bytes < 6; told_bytes++) {
        struct agx agx;
        struct agx_event last;
        const struct agx_call call = call_of(1);
        open_and_hear(&agx, &call, 4, told_bytes);
        resume(&agx);
        feed(&agx, accept_frame(1, 0, frame));
        feed(&agx, part_frame((struct part){0, 2, 0, 4}, answer, "h\xef\xbf\xbd", frame));
        feed(&agx, done_frame(CALL_FINISH_CANCELLED, STATUS_GONE_CANCELLED, answer, 2, frame));
        assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
        assert_int_equal(last.kind, AGX_DONE);
        assert_int_equal(told.text_bytes, told_bytes);
        assert_true(agx.broken == AGX_OK);
    }
}

/* ---- what is not the same -------------------------------------------------------------------- */

static void expect_different(struct agx *agx)
{
    struct agx_event last;
    assert_int_equal(take_all(agx, &last), AGX_ERROR_DIFFERENT);
    assert_int_equal(agx_resume(agx, "unix:/nowhere", NULL, 0), AGX_ERROR_DIFFERENT);
}

static void resume_and_accept(struct agx *agx, const struct agx_call *call, uint32_t tokens,
                              uint32_t bytes)
{
    open_and_hear(agx, call, tokens, bytes);
    resume(agx);
    feed(agx, accept_frame(1, 0, frame));
}

static void test_other_tokens_are_found_before_any_new_one(void **state)
{
    const struct agx_call call = call_of(1);
    for (uint32_t wrong = 0; wrong < 4; wrong++) {
        struct agx agx;
        uint32_t other[TOKENS];
        memcpy(other, answer, sizeof other);
        other[wrong]++;
        resume_and_accept(&agx, &call, 4, 0);
        feed(&agx, part_frame((struct part){0, 3, 0, 0}, other, text, frame));
        feed(&agx, part_frame((struct part){3, 3, 0, 0}, other, text, frame));
        expect_different(&agx);
        assert_int_equal(told.tokens_count, 4);
    }
}

static void test_other_text_is_found_before_any_new_one(void **state)
{
    struct agx agx;
    const struct agx_call call = call_of(1);
    resume_and_accept(&agx, &call, 0, 5);
    feed(&agx, part_frame((struct part){0, 1, 0, TEXT_BYTES}, answer, "h\xc3\xa9lpo, w\xc3\xb6rld",
                          frame));
    expect_different(&agx);
    assert_int_equal(told.text_bytes, 5);
}

static void test_answer_that_is_whole_but_shorter_is_found(void **state)
{
    struct agx agx;
    const struct agx_call call = call_of(1);
    resume_and_accept(&agx, &call, 4, 0);
    feed_part(&agx, (struct part){0, 3, 0, 0});
    feed(&agx, done_frame(CALL_FINISH_EOS, STATUS_OK, answer, 3, frame));
    expect_different(&agx);
    resume_and_accept(&agx, &call, 3, 3);       /* another text of fewer tokens than were told */
    feed(&agx, part_frame((struct part){0, 2, 0, 3}, answer, "hel", frame));
    feed_part(&agx, (struct part){2, 2, 3, 1});
    expect_different(&agx);
    resume_and_accept(&agx, &call, 3, 3);       /* the same, and it ends there */
    feed(&agx, part_frame((struct part){0, 2, 0, 3}, answer, "hel", frame));
    feed(&agx, done_frame(CALL_FINISH_EOS, STATUS_OK, answer, 2, frame));
    expect_different(&agx);
    resume_and_accept(&agx, &call, 2, 5);       /* as many tokens, and less text */
    feed_part(&agx, (struct part){0, 2, 0, 4});
    feed(&agx, done_frame(CALL_FINISH_EOS, STATUS_OK, answer, 2, frame));
    expect_different(&agx);
}

static void test_gap_in_the_second_answer_is_found(void **state)
{
    struct agx agx;
    struct agx_event last;
    const struct agx_call call = call_of(1);
    resume_and_accept(&agx, &call, 3, 0);
    feed_part(&agx, (struct part){3, 3, 0, 0});     /* as if the first three were taken for sent */
    assert_int_equal(take_all(&agx, &last), AGX_ERROR_INDEX);
    resume_and_accept(&agx, &call, 3, 0);
    feed_part(&agx, (struct part){0, 2, 0, 0});
    feed(&agx, done_frame(CALL_FINISH_LENGTH, STATUS_OK, answer, TOKENS, frame));
    assert_int_equal(take_all(&agx, &last), AGX_ERROR_INDEX);
}

/* Frames for a call that is not sent yet. */
static void test_answer_before_the_question_is_found(void **state)
{
    struct agx agx;
    struct agx_event last;
    const struct agx_call call = call_of(1);
    open_and_hear(&agx, &call, 2, 0);
    agx_session_break(&agx, AGX_ERROR_CLOSED);
    agx_session_reset(&agx);
    greet(&agx, 2);
    agx_session_resume(&agx);
    feed_part(&agx, (struct part){0, 1, 0, 0});
    assert_int_equal(take_all(&agx, &last), AGX_ERROR_PROTOCOL);
}

/* ---- refusals, and room ---------------------------------------------------------------------- */

static void test_busy_is_asked_again_and_other_refusals_are_told(void **state)
{
    struct agx agx;
    struct agx_event last;
    struct wire_call sent;
    const struct agx_call call = call_of(1), fresh = call_of(2);
    open_and_hear(&agx, &call, 2, 0);
    resume(&agx);
    expect_sent(&agx, &call);
    for (int i = 0; i < 3; i++) {
        feed(&agx, error_frame(STATUS_BUSY_CALL_OPEN, 1, frame));
        assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
        assert_int_equal(agx_session_resend(&agx), AGX_OK);
        expect_sent(&agx, &call);
    }
    feed(&agx, error_frame(STATUS_BUSY_DRAINING, 1, frame));
    assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
    resume(&agx);                               /* a break while it waits */
    expect_sent(&agx, &call);
    /* A new call is its caller's to repeat. */
    assert_int_equal(agx_session_call(&agx, &fresh), AGX_OK);
    feed(&agx, error_frame(STATUS_BUSY_CALLS, 2, frame));
    assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
    assert_int_equal(last.kind, AGX_REFUSED);
    assert_int_equal(last.call_id, 2);
    assert_true(take_sent_call(&agx, &sent));
    feed(&agx, error_frame(STATUS_BAD_CALL_REUSED, 1, frame));
    assert_int_equal(take_all(&agx, &last), AGX_AGAIN);
    assert_int_equal(last.kind, AGX_REFUSED);
    assert_int_equal(last.call_id, 1);
    assert_int_equal(agx_session_call(&agx, &call), AGX_OK);
}

/* More open calls than the output buffer holds: they go out as it empties. */
static void test_many_calls_are_sent_again_as_there_is_room(void **state)
{
    static const uint32_t prompt[1000];
    static struct agx_call calls[AGX_CALLS_MAX];
    struct agx agx;
    struct wire_call sent;
    uint32_t rounds = 0, seen = 0;
    assert_int_equal(agx_session_init(&agx, buffer, sizeof buffer), AGX_OK);
    greet(&agx, 1);
    for (uint32_t i = 0; i < AGX_CALLS_MAX; i++) {
        calls[i] = call_of(i);
        calls[i].prompt_ids = prompt;
        calls[i].prompt_ids_count = 1000;
        assert_int_equal(agx_session_call(&agx, &calls[i]), AGX_OK);
        assert_true(take_sent_call(&agx, &sent));
    }
    resume(&agx);
    for (; seen < AGX_CALLS_MAX; rounds++) {
        assert_int_equal(agx_session_resend(&agx), AGX_OK);
        while (take_sent_call(&agx, &sent)) {
            assert_int_equal(sent.call_id, seen++);
        }
    }
    assert_true(rounds > 4);
    assert_int_equal(agx.calls_due, 0);
}

static void test_call_that_no_longer_fits_ends_the_session(void **state)
{
    struct agx agx;
    struct agx_event last;
    const struct agx_call call = call_of(1);
    open_and_hear(&agx, &call, 2, 0);
    agx_session_break(&agx, AGX_ERROR_CLOSED);
    agx_session_reset(&agx);
    greet(&agx, 2);
    agx.welcome.frame_bytes_max = WIRE_CALL_BYTES_MIN;
    agx_session_resume(&agx);
    assert_int_equal(agx_session_resend(&agx), AGX_ERROR_ARGUMENT);
    assert_string_equal(agx_fault(&agx)->field, "length");
    assert_int_equal(take_all(&agx, &last), AGX_ERROR_ARGUMENT);
}

/* ---- over sockets ---------------------------------------------------------------------------- */

static struct server {
    char path[64], address[80];
    int listener;
    pthread_t thread;
    uint32_t refused;
    bool is_confused;
} server;

static void listen_again(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", server.path);
    unlink(server.path);
    server.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(server.listener, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(server.listener, 4), 0);
}

static void start_server(void)
{
    snprintf(server.path, sizeof server.path, "%s/s", test_folder());
    snprintf(server.address, sizeof server.address, "unix:%s", server.path);
    listen_again();
}

static void stop_server(void)
{
    close(server.listener);
}

static void put(int peer, const uint8_t *bytes, uint32_t count)
{
    server.is_confused |= count == 0 || send(peer, bytes, count, MSG_NOSIGNAL) != (ssize_t)count;
}

/* Greets, and waits for the whole CALL. */
static int take_caller(uint8_t boot)
{
    uint8_t bytes[1024];
    const size_t expected = WIRE_HEADER_BYTES + 68 + WIRE_HEADER_BYTES + WIRE_CALL_BYTES_MIN + 12;
    int peer = accept(server.listener, NULL, NULL);
    put(peer, bytes, welcome_frame(boot, bytes));
    server.is_confused |=
        recv(peer, bytes, expected, MSG_WAITALL) != (ssize_t)expected;
    return peer;
}

static void *play_restarts(void *context)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    int peer = take_caller(1);
    put(peer, bytes, accept_frame(1, 0, bytes));
    put(peer, bytes, part_frame((struct part){0, 2, 0, 3}, answer, text, bytes));
    close(peer);
    close(accept(server.listener, NULL, NULL));         /* it goes before it has greeted */
    peer = take_caller(2);
    put(peer, bytes, error_frame(STATUS_BUSY_CALL_OPEN, 1, bytes));
    /* Sent again after a pause, though nothing else comes. */
    const size_t call_bytes = WIRE_HEADER_BYTES + WIRE_CALL_BYTES_MIN + 12;
    server.is_confused |=
        recv(peer, bytes, call_bytes, MSG_WAITALL) != (ssize_t)call_bytes;
    put(peer, bytes, accept_frame(1, 0, bytes));
    put(peer, bytes, part_frame((struct part){0, TOKENS, 0, TEXT_BYTES}, answer, text, bytes));
    put(peer, bytes, done_frame(CALL_FINISH_LENGTH, STATUS_OK, answer, TOKENS, bytes));
    server.is_confused |= recv(peer, bytes, 1, 0) != 0;
    close(peer);
    return context;
}

static void test_resume_survives_a_restart(void **state)
{
    struct agx agx;
    struct agx_event event = {0};
    const struct agx_call call = call_of(1);
    uint32_t tokens = 0, bytes = 0, resumed = 0;
    enum agx_result result;
    start_server();
    assert_int_equal(pthread_create(&server.thread, NULL, play_restarts, NULL), 0);
    assert_int_equal(agx_open(&agx, server.address, buffer, sizeof buffer, 10000), AGX_OK);
    assert_int_equal(agx_call_start(&agx, &call), AGX_OK);
    while (event.kind != AGX_DONE) {
        result = agx_next(&agx, &event, 10000);
        if (result == AGX_ERROR_CLOSED) {
            assert_int_equal(agx_resume(&agx, server.address, NULL, 10000), AGX_OK);
            assert_int_equal(agx.welcome.boot_id[0], 2);
            resumed++;
            continue;
        }
        assert_int_equal(result, AGX_OK);
        tokens += event.tokens_count;
        bytes += event.text_bytes;
    }
    assert_int_equal(tokens, TOKENS);
    assert_int_equal(bytes, TEXT_BYTES);
    assert_int_equal(resumed, 1);
    assert_int_equal(agx_wait_ms(&agx), -1);
    assert_int_equal(agx.busy_tries, 0);
    agx_close(&agx);
    pthread_join(server.thread, NULL);
    assert_false(server.is_confused);
    stop_server();
}

static void *play_end(void *context)
{
    close(take_caller(1));
    close(server.listener);
    unlink(server.path);
    return context;
}

static void *play_busy(void *context)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    int peer = take_caller(2);
    put(peer, bytes, error_frame(STATUS_BUSY_CALLS, 1, bytes));
    server.is_confused |= recv(peer, bytes, 1, 0) != 0;
    close(peer);
    return context;
}

/* Has no room for anybody, until it ends. */
static void *play_full(void *context)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    const struct wire_error error = {.fault = {.status = STATUS_BUSY_CONNECTIONS}, .closes = true,
                                     .retry_ms = context != NULL ? 60000 : 0};
    int peer;
    uint32_t count = wire_error_encode(&error, bytes, sizeof bytes);
    server.refused = 0;
    while ((peer = accept(server.listener, NULL, NULL)) >= 0) {
        server.refused++;
        (void)send(peer, bytes, count, MSG_NOSIGNAL);   /* who waited in the backlog may be gone */
        close(peer);
    }
    return context;
}

static void test_resume_without_an_appliance_may_be_tried_again(void **state)
{
    struct agx agx;
    struct agx_event event;
    const struct agx_call call = call_of(1);
    start_server();
    assert_int_equal(pthread_create(&server.thread, NULL, play_end, NULL), 0);
    assert_int_equal(agx_open(&agx, server.address, buffer, sizeof buffer, 10000), AGX_OK);
    assert_int_equal(agx_call_start(&agx, &call), AGX_OK);
    assert_int_equal(agx_next(&agx, &event, 10000), AGX_ERROR_CLOSED);
    pthread_join(server.thread, NULL);
    assert_int_equal(agx_resume(&agx, server.address, NULL, 0), AGX_ERROR_CONNECT);
    assert_int_equal(agx_resume(&agx, server.address, NULL, 30), AGX_ERROR_CONNECT);
    assert_false(agx_is_open(&agx));
    assert_int_equal(agx_next(&agx, &event, 0), AGX_ERROR_ARGUMENT);
    assert_int_equal(agx_resume(&agx, "nonsense", NULL, 30), AGX_ERROR_ADDRESS);
    listen_again();
    /* It is silent. */
    assert_int_equal(agx_resume(&agx, server.address, NULL, 0), AGX_ERROR_TIMEOUT);
    assert_int_equal(pthread_create(&server.thread, NULL, play_full, NULL), 0);
    enum agx_result result = agx_resume(&agx, server.address, NULL, 1000);
    assert_true(result == AGX_ERROR_BUSY || result == AGX_ERROR_TIMEOUT);
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    close(server.listener);
    listen_again();
    assert_int_equal(pthread_create(&server.thread, NULL, play_busy, NULL), 0);
    assert_int_equal(agx_resume(&agx, server.address, NULL, 10000), AGX_OK);
    while (agx_wait_ms(&agx) < 0) {             /* until the busy answer is there: no event */
        assert_int_equal(agx_next(&agx, &event, 1), AGX_AGAIN);
    }
    assert_true(agx_wait_ms(&agx) > 1000);      /* a minute was the hint */
    agx_close(&agx);
    pthread_join(server.thread, NULL);
    assert_false(server.is_confused);
    stop_server();
}

static void test_resume_does_not_connect_sooner_than_it_was_told(void **state)
{
    struct agx agx;
    struct agx_event event;
    start_server();
    assert_int_equal(pthread_create(&server.thread, NULL, play_end, NULL), 0);
    assert_int_equal(agx_open(&agx, server.address, buffer, sizeof buffer, 10000), AGX_OK);
    const struct agx_call call = call_of(1);
    assert_int_equal(agx_call_start(&agx, &call), AGX_OK);
    assert_int_equal(agx_next(&agx, &event, 10000), AGX_ERROR_CLOSED);
    pthread_join(server.thread, NULL);
    listen_again();
    assert_int_equal(pthread_create(&server.thread, NULL, play_full, &server), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(agx_resume(&agx, server.address, NULL, i == 0 ? 10000 : 10),
                         AGX_ERROR_BUSY);
        assert_false(agx_is_open(&agx));
    }
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    assert_int_equal(server.refused, 1);
    assert_false(server.is_confused);
    stop_server();
}

static void test_resume_bad_arguments(void **state)
{
    struct agx agx = {.descriptor = -1};
    assert_int_equal(agx_resume(NULL, "unix:/nowhere", NULL, 0), AGX_ERROR_ARGUMENT);
    assert_int_equal(agx_resume(&agx, "unix:/nowhere", NULL, 0), AGX_ERROR_ARGUMENT);
    assert_int_equal(agx_session_init(&agx, buffer, sizeof buffer), AGX_OK);
    assert_int_equal(agx_resume(&agx, NULL, NULL, 0), AGX_ERROR_ARGUMENT);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        T(test_break_in_each_state_goes_on_where_it_was),
        T(test_second_answer_may_be_cut_elsewhere),
        T(test_break_after_break_goes_on),
        T(test_answer_from_the_record_says_so),
        T(test_end_by_shutdown_is_a_break),
        T(test_cancelled_call_may_come_less_far_than_before),
        T(test_sooner_end_may_say_half_a_character),
        T(test_other_tokens_are_found_before_any_new_one),
        T(test_other_text_is_found_before_any_new_one),
        T(test_answer_that_is_whole_but_shorter_is_found),
        T(test_gap_in_the_second_answer_is_found),
        T(test_answer_before_the_question_is_found),
        T(test_busy_is_asked_again_and_other_refusals_are_told),
        T(test_many_calls_are_sent_again_as_there_is_room),
        T(test_call_that_no_longer_fits_ends_the_session),
        T(test_resume_survives_a_restart),
        T(test_resume_without_an_appliance_may_be_tried_again),
        T(test_resume_does_not_connect_sooner_than_it_was_told),
        T(test_resume_bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
