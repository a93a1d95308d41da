/* SPDX-License-Identifier: MIT */
/*
 * Goal: every input of trust.md's protocol table costs its sender at most one connection or one
 * call, and every refusal that docs/protocol.md names is sent, by name.
 * Method: the stage in the world in memory, a scheduler that does what the test says, clients that
 * send bytes; net_check() after every pass.
 */
#include "selftest/unit/test.h"

#include "selftest/unit/net/net_fixture.h"

static struct fixture fixture;
static struct received got;

static int setup(void **state)
{
    fixture_init(&fixture, test_arena(), &fixture_limits);
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

static void expect_error(struct fixture *f, uint32_t peer, enum status status,
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

static void expect_alive(struct fixture *f, uint32_t peer)
{
    fixture_send_ping(f, peer, 0xA11FE);
    fixture_pass(f);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_PONG);
    assert_true(got.pong.nonce == 0xA11FE);
}

static void expect_slots_free(const struct fixture *f, uint32_t free_count)
{
    assert_int_equal(f->calls.free_count, free_count);
}

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
    static const char *const peers[] = {"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
                                        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "X",
                                        "AGX2aaaaaaaaaaaaaaaaaaaa", "\r\n\r\n"};
    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++) {
        uint32_t peer = fixture_connect(f);
        fixture_send(f, peer, (const uint8_t *)peers[i], (uint32_t)strlen(peers[i]));
        fixture_pass(f);
        assert_true(fake_client_is_closed(&f->fake, peer));
        assert_int_equal(f->fake.peers[peer].to_client.count, 0);
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

static void send_raw(struct fixture *f, uint32_t peer, uint8_t type, uint8_t reserved,
                     uint32_t length, uint32_t sent, uint32_t flip)
{
    static uint8_t bytes[WIRE_HEADER_BYTES + 8192];
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, "AGX1", 4);
    bytes[4] = type;
    bytes[6] = reserved;
    memcpy(bytes + 8, &length, 4);
    uint32_t sum = wire_checksum(bytes, bytes + WIRE_HEADER_BYTES, sent) ^ flip;
    memcpy(bytes + 12, &sum, 4);
    fixture_send(f, peer, bytes, WIRE_HEADER_BYTES + sent);
    fixture_pass(f);
}

static void test_fault_of_framing_is_one_error_then_the_end(void **state)
{
    struct fixture *f = *state;
    const struct {
        uint8_t type, reserved;
        uint32_t length, sent, flip;
        enum status status;
        enum wire_field field;
    } rows[] = {
        {0, 0, 8, 8, 0, STATUS_BAD_FRAME_TYPE, WIRE_FIELD_TYPE},
        {0x55, 0, 8, 8, 0, STATUS_BAD_FRAME_TYPE, WIRE_FIELD_TYPE},
        {WIRE_WELCOME, 0, 112, 112, 0, STATUS_BAD_FRAME_TYPE, WIRE_FIELD_TYPE},
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
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int greeted = 0; greeted < 2; greeted++) {
            uint32_t peer = greeted ? open_client(f) : fixture_connect(f);
            send_raw(f, peer, rows[i].type, rows[i].reserved, rows[i].length, rows[i].sent,
                     rows[i].flip);
            expect_error(f, peer, rows[i].status, rows[i].field, true);
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

static void test_auth_is_refused_and_lives(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    send_raw(f, peer, WIRE_AUTH, 0, 17, 17, 0);
    expect_error(f, peer, STATUS_BAD_AUTH, WIRE_FIELD_TYPE, false);
    expect_alive(f, peer);
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

/* ---- refusals of calls ----------------------------------------------------------------------- */

static void refuse_call(struct fixture *f, uint32_t peer, const struct wire_call *call,
                        enum status status, enum wire_field field)
{
    uint32_t free_count = f->calls.free_count;
    fixture_send_call(f, peer, call);
    fixture_pass(f);
    expect_error(f, peer, status, field, false);
    assert_int_equal(got.error.fault.frame_type, WIRE_CALL);
    assert_true(got.error.fault.call_id == call->call_id);
    expect_slots_free(f, free_count);
}

static void test_bad_field_names_it_and_the_connection_lives(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    call.sampling.top_p = 2;
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_TOP_P);
    assert_int_equal(got.error.fault.found, 2000);
    assert_int_equal(got.error.fault.max, 1000);
    call = fixture_wire_call(1);
    call.max_tokens = 0;
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_MAX_TOKENS);
    call = fixture_wire_call(1);
    call.sampling.temperature = __builtin_nanf("");
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_TEMPERATURE);
    assert_int_equal(f->stats.calls_refused, 3);
    expect_alive(f, peer);
}

static void test_prompt_length_at_and_beyond_the_context(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    uint8_t ids[65 * 4] = {0};
    struct wire_call call = fixture_wire_call(1);
    call.prompt = ids;
    call.max_tokens = 1;
    call.prompt_count = 64;
    refuse_call(f, peer, &call, STATUS_BAD_PROMPT_LENGTH, WIRE_FIELD_PROMPT);
    assert_int_equal(got.error.fault.found, 65);
    assert_int_equal(got.error.fault.max, 64);
    call.prompt_count = 2;
    call.max_tokens = INT32_MAX;
    refuse_call(f, peer, &call, STATUS_BAD_PROMPT_LENGTH, WIRE_FIELD_PROMPT);
    call.prompt_count = 0;
    call.max_tokens = 1;
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_PROMPT);
    call.prompt_count = 63;
    fixture_send_call(f, peer, &call);
    fixture_pass(f);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_ACCEPT);
    assert_int_equal(got.accept.prompt_tokens, 63);
}

static void test_text_prompt_becomes_tokens_with_bos(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    call.flags = WIRE_CALL_TEXT_PROMPT | WIRE_CALL_ADD_BOS;
    call.prompt = (const uint8_t *)"hi";
    fixture_send_call(f, peer, &call);
    fixture_pass(f);
    const struct call *slot = fixture_call(f, f->last_call);
    assert_int_equal(slot->prompt_tokens, 3);
    assert_int_equal(slot->tokens[0], 1);
    assert_int_equal(slot->tokens[2], FIXTURE_BYTE('i'));
    call.call_id = 2;
    call.prompt_count = 0;
    fixture_send_call(f, peer, &call);
    fixture_pass(f);
    assert_int_equal(fixture_call(f, f->last_call)->prompt_tokens, 1);
}

static void test_text_prompt_too_long_gives_the_slot_back(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    char text[200];
    memset(text, 'a', sizeof text);
    struct wire_call call = fixture_wire_call(1);
    call.flags = WIRE_CALL_TEXT_PROMPT;
    call.prompt = (const uint8_t *)text;
    call.prompt_count = sizeof text;
    refuse_call(f, peer, &call, STATUS_BAD_PROMPT_LENGTH, WIRE_FIELD_PROMPT);
    call.prompt_count = 60;
    refuse_call(f, peer, &call, STATUS_BAD_PROMPT_LENGTH, WIRE_FIELD_PROMPT);
    call.prompt_count = 1;
    call.prompt = (const uint8_t *)"\xff";
    refuse_call(f, peer, &call, STATUS_BAD_TEXT, WIRE_FIELD_PROMPT);
}

static void test_text_without_vocabulary_is_refused(void **state)
{
    struct fixture *f = *state;
    f->vocab.info.kind = VOCAB_NONE;
    f->vocab.info.bos_id = GGUF_NO_TOKEN;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    call.flags = WIRE_CALL_WANT_TEXT;
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_FLAGS);
    call.flags = WIRE_CALL_TEXT_PROMPT;
    call.prompt_count = 1;
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_FLAGS);
    call = fixture_wire_call(1);
    call.stop_texts_count = 1;
    call.stop_texts[0] = (struct call_stop_text){1, "x"};
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_STOP_TEXTS);
}

static void test_empty_text_without_bos_in_the_vocabulary_is_refused(void **state)
{
    struct fixture *f = *state;
    f->vocab.info.bos_id = GGUF_NO_TOKEN;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    call.flags = WIRE_CALL_TEXT_PROMPT | WIRE_CALL_ADD_BOS;
    call.prompt_count = 0;
    refuse_call(f, peer, &call, STATUS_BAD_FIELD, WIRE_FIELD_PROMPT);
}

static void test_token_outside_the_vocabulary_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    uint32_t ids[2] = {1, FIXTURE_TOKENS};
    call.prompt = (const uint8_t *)ids;
    refuse_call(f, peer, &call, STATUS_BAD_TOKEN, WIRE_FIELD_PROMPT);
    assert_int_equal(got.error.fault.found, FIXTURE_TOKENS);
    assert_int_equal(got.error.fault.max, FIXTURE_TOKENS - 1);
    ids[1] = UINT32_MAX;
    refuse_call(f, peer, &call, STATUS_BAD_TOKEN, WIRE_FIELD_PROMPT);
    ids[1] = 1;
    call.sampling.stop_ids_count = 1;
    call.sampling.stop_ids[0] = FIXTURE_TOKENS;
    refuse_call(f, peer, &call, STATUS_BAD_TOKEN, WIRE_FIELD_STOP_IDS);
}

static void test_eos_is_added_last_unless_ignored(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    call.sampling.stop_ids_count = 15;
    for (uint32_t i = 0; i < 15; i++) {
        call.sampling.stop_ids[i] = 100 + i;
    }
    fixture_send_call(f, peer, &call);
    fixture_pass(f);
    const struct call *slot = fixture_call(f, f->last_call);
    assert_int_equal(slot->sampling.stop_ids_count, 17);
    assert_int_equal(slot->eos_id_index_plus_1, 17);
    assert_int_equal(slot->sampling.stop_ids[16], 2);
    assert_int_equal(slot->sampling.stop_ids[15], 3);
    call.call_id = 2;
    call.flags = WIRE_CALL_IGNORE_EOS;
    fixture_send_call(f, peer, &call);
    fixture_pass(f);
    slot = fixture_call(f, f->last_call);
    assert_int_equal(slot->sampling.stop_ids_count, 15);
    assert_int_equal(slot->eos_id_index_plus_1, 0);
}

static void test_call_id_that_is_open_is_refused_everywhere(void **state)
{
    struct fixture *f = *state;
    uint32_t one = open_client(f), other = open_client(f);
    struct wire_call call = fixture_wire_call(5);
    fixture_send_call(f, one, &call);
    fixture_pass(f);
    assert_true(fixture_receive(f, one, &got));
    refuse_call(f, one, &call, STATUS_BAD_CALL_OPEN, WIRE_FIELD_CALL_ID);
    refuse_call(f, other, &call, STATUS_BAD_CALL_OPEN, WIRE_FIELD_CALL_ID);
    /* Another program may use the id, on another connection. */
    memcpy(call.program_id, fixture_program_id("second"), sizeof call.program_id);
    refuse_call(f, one, &call, STATUS_BAD_CALL_OPEN, WIRE_FIELD_CALL_ID);
    fixture_send_call(f, other, &call);
    fixture_pass(f);
    assert_true(fixture_receive(f, other, &got));
    assert_int_equal(got.type, WIRE_ACCEPT);
}

static void test_call_id_is_free_after_the_terminal_frame_or_the_connection(void **state)
{
    struct fixture *f = *state;
    uint32_t one = open_client(f), other = open_client(f);
    struct wire_call call = fixture_wire_call(5);
    fixture_send_call(f, one, &call);
    fixture_pass(f);
    fixture_finish(f, f->last_call, CALL_FINISH_EOS, STATUS_OK);
    fixture_pass(f);
    fixture_send_call(f, one, &call);
    fixture_pass(f);
    assert_int_equal(f->commands[COMMAND_CALL], 2);
    fake_client_finish(&f->fake, one);
    fixture_pass(f);
    fixture_send_call(f, other, &call);
    fixture_pass(f);
    assert_int_equal(f->commands[COMMAND_CALL], 3);
    assert_true(fixture_receive(f, other, &got));
    assert_int_equal(got.type, WIRE_ACCEPT);
}

static void test_calls_of_a_connection_and_of_all_are_limited(void **state)
{
    struct fixture *f = *state;
    uint32_t peers[3] = {open_client(f), open_client(f), open_client(f)};
    uint64_t id = 1;
    for (int p = 0; p < 3; p++) {
        for (int i = 0; i < (p == 2 ? 2 : 3); i++) {
            struct wire_call call = fixture_wire_call(id++);
            fixture_send_call(f, peers[p], &call);
            fixture_pass(f);
            assert_true(fixture_receive(f, peers[p], &got));
            assert_int_equal(got.type, WIRE_ACCEPT);
        }
    }
    struct wire_call call = fixture_wire_call(id);
    refuse_call(f, peers[0], &call, STATUS_BUSY_CALLS_OF_CONN, WIRE_FIELD_CONNECTION);
    assert_int_equal(got.error.fault.max, 3);
    refuse_call(f, peers[2], &call, STATUS_BUSY_CALLS, WIRE_FIELD_NONE);
    assert_int_equal(got.error.fault.max, 8);
    expect_slots_free(f, 0);
}

static void test_refusal_of_the_scheduler_becomes_an_error(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    f->refuse_with = STATUS_BUSY_PROGRAMS;
    struct wire_call call = fixture_wire_call(9);
    refuse_call(f, peer, &call, STATUS_BUSY_PROGRAMS, WIRE_FIELD_PROGRAM_ID);
    f->refuse_with = STATUS_BAD_PROMPT_LENGTH;
    refuse_call(f, peer, &call, STATUS_BAD_PROMPT_LENGTH, WIRE_FIELD_PROMPT);
    expect_alive(f, peer);
}

static void test_draining_refuses_new_work_and_lets_open_calls_end(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    struct wire_call call = fixture_wire_call(1);
    fixture_send_call(f, peer, &call);
    fixture_pass(f);
    uint32_t slot = f->last_call;
    net_drain(&f->net);
    assert_true(fixture_receive(f, peer, &got));
    call.call_id = 2;
    refuse_call(f, peer, &call, STATUS_BUSY_DRAINING, WIRE_FIELD_NONE);
    fixture_send_program(f, peer, WIRE_PROGRAM_START, "new");
    fixture_pass(f);
    expect_error(f, peer, STATUS_BUSY_DRAINING, WIRE_FIELD_NONE, false);
    uint32_t late = fake_client_connect(&f->fake, 0);
    fixture_passes(f, 3);
    assert_false(f->fake.peers[late].accepted);
    fixture_finish(f, slot, CALL_FINISH_EOS, STATUS_OK);
    assert_false(net_is_flushed(&f->net));
    fixture_pass(f);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_DONE);
    assert_true(net_is_flushed(&f->net));
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

/* ---- connections that end -------------------------------------------------------------------- */

/* In each state of a call: refused by nobody, its slot must come back. */
static void test_disconnect_in_each_state_frees_the_slot(void **state)
{
    struct fixture *f = *state;
    for (int how = 0; how < 2; how++) {
        for (int stage = 0; stage < 5; stage++) {
            uint32_t peer = open_client(f);
            struct wire_call call = fixture_wire_call(1);
            fixture_send_call(f, peer, &call);
            if (stage > 0) {
                fixture_pass(f);
            }
            uint32_t slot = f->last_call;
            if (stage == 2) {
                fixture_generate(f, slot, 50);
            } else if (stage == 3) {
                fixture_generate(f, slot, 50);
                fixture_finish(f, slot, CALL_FINISH_EOS, STATUS_OK);
            } else if (stage == 4) {
                /* Its terminal frame is in the send buffer, and finds no reader. */
                fake_client_window(&f->fake, peer, 0);
                fixture_finish(f, slot, CALL_FINISH_EOS, STATUS_OK);
            }
            if (how == 0) {
                fake_client_finish(&f->fake, peer);
            } else {
                fake_client_reset(&f->fake, peer);
            }
            fixture_passes(f, 3);
            assert_true(fake_client_is_closed(&f->fake, peer));
            expect_slots_free(f, 8);
            fake_client_forget(&f->fake, peer);
        }
    }
    assert_int_equal(f->stats.connections_open, 0);
}

static void test_frames_before_a_fin_still_count(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_client(f);
    for (int i = 0; i < 20; i++) {
        fixture_send_program(f, peer, WIRE_PROGRAM_START, "p");
    }
    fake_client_finish(&f->fake, peer);
    fixture_passes(f, 6);
    assert_int_equal(f->commands[COMMAND_PROGRAM_START], 20);
    assert_true(fake_client_is_closed(&f->fake, peer));
}

static void test_connection_beyond_the_table_is_turned_away(void **state)
{
    struct fixture *f = *state;
    uint32_t peers[4];
    for (int i = 0; i < 4; i++) {
        peers[i] = open_client(f);
    }
    uint32_t fifth = fixture_connect(f);
    expect_error(f, fifth, STATUS_BUSY_CONNECTIONS, WIRE_FIELD_CONNECTION, true);
    assert_int_equal(f->stats.connections_refused, 1);
    for (int i = 0; i < 4; i++) {
        expect_alive(f, peers[i]);
    }
    fake_client_finish(&f->fake, peers[2]);
    fixture_pass(f);
    open_client(f);
}

static void test_accepts_of_a_pass_are_limited(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 40; i++) {
        assert_int_not_equal(fake_client_connect(&f->fake, (uint32_t)i % 2), FAKE_NONE);
    }
    fixture_pass(f);
    assert_int_equal(f->fake.accepts, NET_ACCEPTS_PER_PASS);
    fixture_passes(f, 3);
    assert_int_equal(f->fake.accepts, 40);
    assert_int_equal(f->stats.connections_refused, 36);
}

static void test_no_descriptors_stops_accepting_until_one_is_free(void **state)
{
    struct fixture *f = *state;
    f->fake.descriptors = 2;
    uint32_t one = open_client(f);
    open_client(f);
    uint32_t third = fixture_connect(f);
    uint64_t waits = f->fake.waits;
    fixture_sleep(f, 500000);
    assert_false(f->fake.peers[third].accepted);
    assert_true(f->fake.waits - waits < 10);            /* not spun on */
    fake_client_finish(&f->fake, one);
    fixture_passes(f, 3);
    assert_true(f->fake.peers[third].accepted);
}

static void test_no_descriptors_is_tried_again_after_a_second(void **state)
{
    struct fixture *f = *state;
    f->fake.descriptors = 0;
    uint32_t peer = fixture_connect(f);
    f->fake.descriptors = 8;
    fixture_sleep(f, 1100000);
    fixture_passes(f, 2);
    assert_true(f->fake.peers[peer].accepted);
}

static void test_client_that_reads_nothing_is_not_parsed_beyond_its_buffer(void **state)
{
    struct fixture *f = *state;
    uint32_t stopped = open_client(f), other = open_client(f);
    fake_client_window(&f->fake, stopped, 0);
    for (uint32_t i = 0; i < 1000; i++) {
        fixture_send_ping(f, stopped, i);
    }
    fixture_passes(f, 100);
    /* A PONG has 24 bytes: at most the buffer's worth were answered. */
    assert_true(f->stats.frames_received < 2 + 4096 / 24 + 8);
    expect_alive(f, other);
    assert_int_not_equal(net_next_us(&f->net, f->fake.now_us), 0);
    fake_client_window(&f->fake, stopped, FAKE_QUEUE_BYTES);
    fixture_passes(f, 300);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(fixture_receive(f, stopped, &got));
        assert_true(got.pong.nonce == i);
    }
}

static void test_close_all_frees_everything(void **state)
{
    struct fixture *f = *state;
    for (uint32_t p = 0; p < 4; p++) {
        uint32_t peer = open_client(f);
        for (uint32_t i = 0; i < 2; i++) {
            struct wire_call call = fixture_wire_call(10 * p + i);
            fixture_send_call(f, peer, &call);
        }
    }
    fixture_passes(f, 2);
    expect_slots_free(f, 0);
    net_close_all(&f->net);
    fixture_sched(f);
    net_emit(&f->net, f->fake.now_us);
    net_check(&f->net);
    expect_slots_free(f, 8);
    assert_int_equal(f->stats.connections_open, 0);
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
        T(test_auth_is_refused_and_lives),
        T(test_frames_byte_by_byte_are_understood),
        T(test_half_a_frame_ends_at_its_deadline_though_bytes_trickle),
        T(test_half_a_greeting_ends_silently_at_its_deadline),
        T(test_idle_connection_is_closed_but_not_while_a_call_is_open),
        T(test_burst_is_worked_off_in_shares),
        T(test_bad_field_names_it_and_the_connection_lives),
        T(test_prompt_length_at_and_beyond_the_context),
        T(test_text_prompt_becomes_tokens_with_bos),
        T(test_text_prompt_too_long_gives_the_slot_back),
        T(test_text_without_vocabulary_is_refused),
        T(test_empty_text_without_bos_in_the_vocabulary_is_refused),
        T(test_token_outside_the_vocabulary_is_refused),
        T(test_eos_is_added_last_unless_ignored),
        T(test_call_id_that_is_open_is_refused_everywhere),
        T(test_call_id_is_free_after_the_terminal_frame_or_the_connection),
        T(test_calls_of_a_connection_and_of_all_are_limited),
        T(test_refusal_of_the_scheduler_becomes_an_error),
        T(test_draining_refuses_new_work_and_lets_open_calls_end),
        T(test_program_frames_are_answered_in_order),
        T(test_program_refusal_is_an_error),
        T(test_answer_for_a_connection_that_is_gone_is_dropped),
        T(test_cancel_reaches_only_the_own_call),
        T(test_disconnect_in_each_state_frees_the_slot),
        T(test_frames_before_a_fin_still_count),
        T(test_connection_beyond_the_table_is_turned_away),
        T(test_accepts_of_a_pass_are_limited),
        T(test_no_descriptors_stops_accepting_until_one_is_free),
        T(test_no_descriptors_is_tried_again_after_a_second),
        T(test_client_that_reads_nothing_is_not_parsed_beyond_its_buffer),
        T(test_close_all_frees_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
