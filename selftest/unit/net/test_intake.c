/* SPDX-License-Identifier: MIT */
/*
 * Goal: nothing that a peer sends costs more than its own connection; programs and cancels reach
 * the scheduler as they should. Method: the stage in the world in memory, a scheduler that does
 * what the test says, clients that send bytes; net_check() after every pass.
 */
#include "selftest/unit/net/net_client.h"

/* ---- the greeting ---------------------------------------------------------------------------- */

static void test_hello_is_answered_with_the_limits(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = fixture_connect(f);
    assert_false(fixture_receive(f, peer, &got));       /* the server does not speak first */
    fixture_hello(f, peer);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.welcome.version, 1);
    assert_int_equal(got.welcome.context_tokens_max, 64);
    assert_int_equal(got.welcome.frame_bytes_max, 4096);
    assert_int_equal(got.welcome.calls_per_connection_max, 3);
    assert_int_equal(got.welcome.vocab_tokens, FIXTURE_TOKENS);
    assert_int_equal(got.welcome.eos_id, 2);
    assert_string_equal(got.welcome.model, "fixture");
    assert_memory_equal(got.welcome.boot_id, f->net.settings.boot_id, WIRE_BOOT_ID_BYTES);
}

static void test_foreign_protocol_is_closed_without_a_word(void **state)
{
    struct fixture *f = *state;
    static const struct { const char *bytes, *word; } peers[] = {       /* the log has the word */
        {"GET / HTTP/1.1\r\n\r\n", "HTTP"},
        {"POST /v1/chat/completions HTTP/1.1\r\n", "HTTP"},
        {"\x16\x03\x01\x02", "TLS"},
        {"SSH-2.0-OpenSSH_9.2\r\n", "not this protocol"},
        {"X", "not this protocol"},
        {"AGX2aaaaaaaaaaaaaaaaaaaa", "not this protocol"},
        {"\r\n\r\n", "not this protocol"}};
    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++) {
        struct net_refusal refusal;
        uint32_t peer = fixture_connect(f);
        fixture_send(f, peer, (const uint8_t *)peers[i].bytes, (uint32_t)strlen(peers[i].bytes));
        fixture_pass(f);
        assert_true(fake_client_is_closed(&f->fake, peer));
        assert_int_equal(f->fake.peers[peer].to_client.count, 0);
        assert_true(net_refusal_take(&f->net, &refusal));
        assert_non_null(strstr(refusal.why, peers[i].word));
        fake_client_forget(&f->fake, peer);
    }
}

static void test_foreign_bytes_after_a_frame_close_without_a_word(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    fixture_send(f, peer, (const uint8_t *)"nonsense", 8);
    fixture_pass(f);
    assert_true(fake_client_is_closed(&f->fake, peer));
    assert_false(fixture_receive(f, peer, &got));
}

/* A header, what follows it, and the fault that it is. */
struct framing {
    uint8_t type, reserved;
    uint32_t length, sent, flip;
    enum status status;
    enum wire_field field;
};

static void send_framing(struct fixture *f, uint32_t peer, const struct framing *framing)
{
    static uint8_t bytes[WIRE_HEADER_BYTES + 8192];
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, "AGX1", 4);
    bytes[4] = framing->type;
    bytes[6] = framing->reserved;
    memcpy(bytes + 8, &framing->length, 4);
    uint32_t sum = wire_checksum(bytes, bytes + WIRE_HEADER_BYTES, framing->sent) ^ framing->flip;
    memcpy(bytes + 12, &sum, 4);
    fixture_send(f, peer, bytes, WIRE_HEADER_BYTES + framing->sent);
    fixture_pass(f);
}

static void test_fault_of_framing_is_one_error_then_the_end(void **state)
{
    struct fixture *f = *state;
    const struct framing rows[] = {
        {0, 0, 8, 8, 0, STATUS_BAD_FRAME_TYPE, WIRE_FIELD_TYPE},
        {0x55, 0, 8, 8, 0, STATUS_BAD_FRAME_TYPE, WIRE_FIELD_TYPE},
        {WIRE_WELCOME, 0, 144, 144, 0, STATUS_BAD_FRAME_TYPE, WIRE_FIELD_TYPE},
        {WIRE_DONE, 0, 64, 64, 0, STATUS_BAD_FRAME_TYPE, WIRE_FIELD_TYPE},
        {WIRE_PING, 1, 8, 8, 0, STATUS_BAD_RESERVED, WIRE_FIELD_RESERVED},
        {WIRE_PING, 0, 0, 0, 0, STATUS_BAD_FRAME_LENGTH, WIRE_FIELD_LENGTH},
        {WIRE_PING, 0, 9, 9, 0, STATUS_BAD_FRAME_LENGTH, WIRE_FIELD_LENGTH},
        {WIRE_CALL, 0, 79, 79, 0, STATUS_BAD_FRAME_LENGTH, WIRE_FIELD_LENGTH},
        {WIRE_CALL, 0, 4097, 0, 0, STATUS_BAD_FRAME_LENGTH, WIRE_FIELD_LENGTH},
        {WIRE_CALL, 0, 1u << 31, 0, 0, STATUS_BAD_FRAME_LENGTH, WIRE_FIELD_LENGTH},
        {WIRE_CALL, 0, UINT32_MAX, 0, 0, STATUS_BAD_FRAME_LENGTH, WIRE_FIELD_LENGTH},
        {WIRE_PING, 0, 8, 8, 1, STATUS_BAD_FRAME_CHECKSUM, WIRE_FIELD_CHECKSUM},
        {WIRE_CALL, 0, 4096, 4096, 1u << 31, STATUS_BAD_FRAME_CHECKSUM, WIRE_FIELD_CHECKSUM},
        {WIRE_HELLO, 0, 68, 68, 1, STATUS_BAD_FRAME_CHECKSUM, WIRE_FIELD_CHECKSUM},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int greeted = 0; greeted < 2; greeted++) {
            uint32_t peer = greeted ? open_client(f) : fixture_connect(f);
            send_framing(f, peer, &rows[i]);
            /* Before HELLO a frame that is not due is refused by its header. */
            bool by_header = rows[i].status == STATUS_BAD_FRAME_CHECKSUM && !greeted &&
                             rows[i].type != WIRE_HELLO;
            expect_error(f, peer, by_header ? STATUS_BAD_FRAME_ORDER : rows[i].status,
                         by_header ? WIRE_FIELD_TYPE : rows[i].field, true);
            fake_client_forget(&f->fake, peer);
        }
    }
    assert_int_equal(f->stats.connections_open, 0);
}

static void test_frame_before_hello_is_refused_and_ends(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = fixture_connect(f);
    fixture_send_ping(f, peer, 1);
    fixture_pass(f);
    expect_error(f, peer, STATUS_BAD_FRAME_ORDER, WIRE_FIELD_TYPE, true);
    peer = fixture_connect(f);
    struct wire_call call = fixture_wire_call(1);
    fixture_send_call(f, peer, &call);
    fixture_pass(f);
    expect_error(f, peer, STATUS_BAD_FRAME_ORDER, WIRE_FIELD_TYPE, true);
    expect_slots_free(f, 8);
}

static void test_second_hello_is_refused_and_lives(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    fixture_hello(f, peer);
    expect_error(f, peer, STATUS_BAD_FRAME_ORDER, WIRE_FIELD_TYPE, false);
    expect_alive(f, peer);
}

static void test_version_without_overlap_is_refused_and_ends(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[256];
    struct wire_hello hello = {.version_min = 2, .version_max = 9};
    uint32_t peer = fixture_connect(f);
    fixture_send(f, peer, bytes, wire_hello_encode(&hello, bytes, sizeof bytes));
    fixture_pass(f);
    expect_error(f, peer, STATUS_BAD_VERSION, WIRE_FIELD_VERSION, true);
    assert_int_equal(got.error.fault.found, 2);
    assert_int_equal(got.error.fault.max, 1);
}


/* ---- bytes that come slowly, or all at once -------------------------------------------------- */

static void test_frames_byte_by_byte_are_understood(void **state)
{
    struct fixture *f = *state;
    f->fake.transfer_max = 1;
    f->fake.again_every = 3;
    f->generates = true;
    uint32_t peer = fixture_connect(f);
    fixture_hello(f, peer);
    struct wire_call call = fixture_wire_call(5);
    fixture_send_call(f, peer, &call);
    fixture_passes(f, 2000);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_WELCOME);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_ACCEPT);
    do {
        assert_true(fixture_receive(f, peer, &got));
    } while (got.type == WIRE_TOKENS);
    assert_int_equal(got.type, WIRE_DONE);
    assert_int_equal(got.done.generated_tokens, 8);
    expect_slots_free(f, 8);
}

static void test_half_a_frame_ends_at_its_deadline_though_bytes_trickle(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    const uint8_t head[WIRE_HEADER_BYTES + 64] = {'A', 'G', 'X', '1', WIRE_CALL, 0, 0, 0, 80};
    for (uint32_t i = 0; i < sizeof head && !fake_client_is_closed(&f->fake, peer); i++) {
        fixture_send(f, peer, head + i, 1);
        fixture_sleep(f, 400000);
    }
    expect_error(f, peer, STATUS_GONE_DEADLINE, WIRE_FIELD_CONNECTION, true);
    assert_int_equal(f->stats.connections_open, 0);
    assert_int_equal(f->stats.connections_expired, 1);
    assert_int_equal(f->stats.frames_bad, 0);       /* it never came */
}

static void test_half_a_greeting_ends_silently_at_its_deadline(void **state)
{
    struct fixture *f = *state;
    uint32_t silent = fixture_connect(f), half = fixture_connect(f);
    fixture_send(f, half, (const uint8_t *)"AGX1", 4);
    fixture_sleep(f, 1999999);
    assert_false(fake_client_is_closed(&f->fake, silent));
    fixture_sleep(f, 10);
    assert_true(fake_client_is_closed(&f->fake, silent));
    assert_true(fake_client_is_closed(&f->fake, half));
    assert_int_equal(f->fake.peers[half].to_client.count, 0);
    assert_int_equal(f->stats.connections_dropped, 2);
    assert_int_equal(f->stats.connections_expired, 2);
}

static void test_idle_connection_is_closed_but_not_while_a_call_is_open(void **state)
{
    struct fixture *f = *state;
    uint32_t idle = open_client(f), busy = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    fixture_send_call(f, busy, &call);
    fixture_sleep(f, 900000001);
    expect_error(f, idle, STATUS_GONE_DEADLINE, WIRE_FIELD_CONNECTION, true);
    assert_false(fake_client_is_closed(&f->fake, busy));
    fixture_finish(f, f->last_call, CALL_FINISH_EOS, STATUS_OK);
    fixture_pass(f);
    fixture_sleep(f, 899999999);            /* silence counts from the last answer */
    assert_false(fake_client_is_closed(&f->fake, busy));
    fixture_sleep(f, 2);
    assert_true(fake_client_is_closed(&f->fake, busy));
    assert_int_equal(f->stats.connections_expired, 2);
    assert_int_equal(f->stats.frames_bad, 0);
}

static void test_time_of_a_frame_begins_with_its_own_first_byte(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[64];
    uint32_t count = wire_ping_encode(&(struct wire_ping){3}, WIRE_PING, bytes, sizeof bytes);
    uint32_t peer = open_client(f);
    fixture_send(f, peer, bytes, 10);
    for (uint32_t i = 0; i < 3; i++) {
        fixture_sleep(f, 4000000);
        fixture_send(f, peer, bytes + 10, count - 10);
        fixture_send(f, peer, bytes, 10);
        fixture_pass(f);
        assert_true(fixture_receive(f, peer, &got));
        assert_int_equal(got.type, WIRE_PONG);
    }
    /* Ten bytes give 610 us more. */
    fixture_sleep(f, 5000609);
    assert_false(fixture_receive(f, peer, &got));
    fixture_sleep(f, 1);
    expect_error(f, peer, STATUS_GONE_DEADLINE, WIRE_FIELD_CONNECTION, true);
}

/* The rest of a frame is not read while replies find no room: that time is not the client's. */
static void test_time_of_a_frame_stands_still_while_nothing_is_read(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[64];
    uint32_t count = wire_ping_encode(&(struct wire_ping){3}, WIRE_PING, bytes, sizeof bytes);
    uint32_t peer = open_client(f);
    fake_client_window(&f->fake, peer, 0);
    /* One PONG more than leaves room for a reply. */
    uint32_t pings = (f->limits.send_bytes - WIRE_REPLY_BYTES_MAX) / count + 1;
    for (uint32_t i = 0; i < pings; i++) {
        fixture_send(f, peer, bytes, count);
    }
    fixture_send(f, peer, bytes, 10);
    fixture_sleep(f, 9000000);
    assert_int_equal(f->stats.frames_received, 1 + pings);
    fake_client_window(&f->fake, peer, FAKE_QUEUE_BYTES);
    fixture_send(f, peer, bytes + 10, count - 10);
    fixture_passes(f, 3);
    for (uint32_t i = 0; i <= pings; i++) {
        assert_true(fixture_receive(f, peer, &got));
        assert_int_equal(got.type, WIRE_PONG);
    }
}

static void test_model_is_told_by_its_digests(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[64];
    uint32_t peer = open_client(f);
    struct wire_model_ask ask = {.nonce = 8};
    fixture_send(f, peer, bytes, wire_model_ask_encode(&ask, bytes, sizeof bytes));
    fixture_passes(f, 2);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_MODEL);
    assert_int_equal(got.model.nonce, 8);
    assert_int_equal(got.model.vocab, vocab_digest(f->net.vocab));
    assert_int_equal(got.model.chat, chat_digest(CHAT_ABSENT, &f->net.settings.chat.format));
}

static void ask_chat(struct fixture *f, uint32_t peer, uint32_t first)
{
    uint8_t bytes[64];
    struct wire_chat_ask ask = {.nonce = 8, .first = first};
    fixture_send(f, peer, bytes, wire_chat_ask_encode(&ask, bytes, sizeof bytes));
    fixture_passes(f, 2);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_CHAT);
    assert_int_equal(got.chat.nonce, 8);
}

static void test_chat_is_told_in_parts(void **state)
{
    struct fixture *f = *state;
    const struct wire_chat *chat = &got.chat;
    struct net_chat *own = &f->net.settings.chat;
    uint32_t peer = open_client(f);
    ask_chat(f, peer, 0);
    assert_int_equal(chat->verdict, CHAT_ABSENT);
    assert_string_equal(chat->format, "plain");
    own->verdict = CHAT_KNOWN;
    own->format.id = CHAT_CHATML;
    memset(own->format.system, 'a', WIRE_SYSTEM_PART_BYTES);
    memcpy(own->format.system + WIRE_SYSTEM_PART_BYTES, "bc", 3);
    ask_chat(f, peer, 0);
    assert_string_equal(chat->format, "chatml");
    assert_int_equal(chat->system_bytes, WIRE_SYSTEM_PART_BYTES + 2);
    assert_true(chat->system[0] == 'a' && chat->system[WIRE_SYSTEM_PART_BYTES - 1] == 'a');
    ask_chat(f, peer, WIRE_SYSTEM_PART_BYTES);
    assert_memory_equal(chat->system, "bc\0", 4);
    ask_chat(f, peer, UINT32_MAX);               /* beyond the end there is nothing */
    assert_int_equal(chat->first, WIRE_SYSTEM_PART_BYTES + 2);
    assert_int_equal(chat->system[0], 0);
}

static void test_burst_is_worked_off_in_shares(void **state)
{
    struct fixture *f = *state;
    uint32_t noisy = open_client(f), quiet = open_client(f);
    for (uint32_t i = 0; i < 200; i++) {
        fixture_send_ping(f, noisy, i);
    }
    fixture_send_ping(f, quiet, 7);
    uint64_t before = f->stats.frames_received;
    fixture_pass(f);
    assert_int_equal(f->stats.frames_received - before, 8 + 1);
    assert_true(fixture_receive(f, quiet, &got));
    assert_int_equal(net_next_us(&f->net, f->fake.now_us), 0);
    fixture_passes(f, 40);
    for (uint32_t i = 0; i < 200; i++) {
        assert_true(fixture_receive(f, noisy, &got));
        assert_true(got.pong.nonce == i);
    }
    assert_int_not_equal(net_next_us(&f->net, f->fake.now_us), 0);
}

static void test_bytes_of_a_pass_are_limited(void **state)
{
    struct fixture *f = *state;
    f->limits.bytes_per_pass = 100;
    uint32_t peer = open_client(f), other = open_client(f);
    for (uint32_t i = 0; i < 20; i++) {
        fixture_send_ping(f, peer, i);
    }
    uint64_t before = f->stats.bytes_received;
    fixture_pass(f);
    assert_int_equal(f->stats.bytes_received - before, 100);
    expect_alive(f, other);
    fixture_passes(f, 20);
    for (uint32_t i = 0; i < 20; i++) {
        assert_true(fixture_receive(f, peer, &got));
        assert_true(got.pong.nonce == i);
    }
}

/* A frame that is under way at the agreed rate has all the time that it needs. */
static void test_long_frame_at_the_least_rate_arrives(void **state)
{
    struct fixture *f = *state;
    static uint8_t bytes[8192];
    f->net.settings.frame_rate = 16;
    struct wire_call call = fixture_wire_call(1);
    uint32_t peer = open_client(f), count = wire_call_encode(&call, bytes, sizeof bytes), sent = 0;
    while (sent + 16 < count) {
        fixture_send(f, peer, bytes + sent, 16);
        sent += 16;
        fixture_sleep(f, 2 * 1000000);              /* half the rate: five seconds last ten */
        if (fake_client_is_closed(&f->fake, peer)) {
            break;
        }
    }
    assert_in_range(sent, 5 * 16, count - 16);
    peer = open_client(f);
    for (sent = 0; sent < count; sent += 16) {
        fixture_sleep(f, 1000000);
        fixture_send(f, peer, bytes + sent, count - sent < 16 ? count - sent : 16);
    }
    fixture_passes(f, 2);
    assert_int_equal(f->commands[COMMAND_CALL], 1);
}

/* ---- programs, cancel ------------------------------------------------------------------------ */

static void test_program_frames_are_answered_in_order(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    for (int i = 0; i < 20; i++) {
        fixture_send_program(f, peer, i % 2 ? WIRE_PROGRAM_END : WIRE_PROGRAM_START, "p");
    }
    fixture_passes(f, 5);
    for (int i = 0; i < 20; i++) {
        assert_true(fixture_receive(f, peer, &got));
        assert_int_equal(got.type, WIRE_PROGRAM_OK);
        assert_int_equal(got.program_ok.kind, i % 2 ? WIRE_PROGRAM_END : WIRE_PROGRAM_START);
        assert_int_equal(got.program_ok.calls, 33);
        assert_memory_equal(got.program_ok.program_id, fixture_program_id("p"), 16);
    }
}

static void test_program_refusal_is_an_error(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    const enum status rows[] = {STATUS_BAD_PROGRAM_ACTIVE, STATUS_BAD_PROGRAM_UNKNOWN,
                                STATUS_BUSY_PROGRAMS};
    for (int i = 0; i < 3; i++) {
        f->program_status = rows[i];
        fixture_send_program(f, peer, WIRE_PROGRAM_END, "p");
        fixture_pass(f);
        expect_error(f, peer, rows[i], WIRE_FIELD_PROGRAM_ID, false);
        assert_int_equal(got.error.fault.frame_type, WIRE_PROGRAM_END);
    }
}

static void test_answer_for_a_connection_that_is_gone_is_dropped(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct answer late = {.kind = COMMAND_PROGRAM_END, .connection = 0,
                          .connection_generation = f->net.connections[0].generation};
    fake_client_reset(&f->fake, peer);
    fixture_pass(f);
    uint32_t next = open_client(f);
    exchange_answer(&f->exchange, &late);
    fixture_pass(f);
    assert_false(fixture_receive(f, next, &got));
    expect_alive(f, next);
}

static void test_cancel_reaches_only_the_own_call(void **state)
{
    struct fixture *f = *state;
    uint32_t one = open_client(f), other = open_client(f);
    struct wire_call call = fixture_wire_call(5);
    fixture_send_call(f, one, &call);
    fixture_pass(f);
    assert_true(fixture_receive(f, one, &got));
    fixture_send_cancel(f, other, 5, "program");
    fixture_send_cancel(f, one, 5, "else");
    fixture_send_cancel(f, one, 6, "program");
    fixture_pass(f);
    expect_error(f, other, STATUS_BAD_CALL_UNKNOWN, WIRE_FIELD_CALL_ID, false);
    expect_error(f, one, STATUS_BAD_CALL_UNKNOWN, WIRE_FIELD_CALL_ID, false);
    expect_error(f, one, STATUS_BAD_CALL_UNKNOWN, WIRE_FIELD_CALL_ID, false);
    assert_true(got.error.fault.call_id == 6);
    fixture_send_cancel(f, one, 5, "program");
    fixture_send_cancel(f, one, 5, "program");
    fixture_pass(f);
    assert_int_equal(f->commands[COMMAND_CANCEL], 1);
    assert_true(fixture_receive(f, one, &got));
    assert_int_equal(got.type, WIRE_DONE);
    assert_int_equal(got.done.finish, CALL_FINISH_CANCELLED);
    fixture_send_cancel(f, one, 5, "program");
    fixture_pass(f);
    expect_error(f, one, STATUS_BAD_CALL_UNKNOWN, WIRE_FIELD_CALL_ID, false);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        T(test_hello_is_answered_with_the_limits),
        T(test_foreign_protocol_is_closed_without_a_word),
        T(test_foreign_bytes_after_a_frame_close_without_a_word),
        T(test_fault_of_framing_is_one_error_then_the_end),
        T(test_frame_before_hello_is_refused_and_ends),
        T(test_second_hello_is_refused_and_lives),
        T(test_version_without_overlap_is_refused_and_ends),
        T(test_frames_byte_by_byte_are_understood),
        T(test_half_a_frame_ends_at_its_deadline_though_bytes_trickle),
        T(test_half_a_greeting_ends_silently_at_its_deadline),
        T(test_idle_connection_is_closed_but_not_while_a_call_is_open),
        T(test_time_of_a_frame_begins_with_its_own_first_byte),
        T(test_time_of_a_frame_stands_still_while_nothing_is_read),
        T(test_model_is_told_by_its_digests),
        T(test_chat_is_told_in_parts),
        T(test_burst_is_worked_off_in_shares),
        T(test_bytes_of_a_pass_are_limited),
        T(test_long_frame_at_the_least_rate_arrives),
        T(test_program_frames_are_answered_in_order),
        T(test_program_refusal_is_an_error),
        T(test_answer_for_a_connection_that_is_gone_is_dropped),
        T(test_cancel_reaches_only_the_own_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
