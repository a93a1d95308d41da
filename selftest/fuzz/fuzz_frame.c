/* SPDX-License-Identifier: MIT */
/*
 * Goal: clients cannot break the net stage, whatever they send, read and leave out. net_check()
 * holds after every pass. Every frame of the server is well formed. Each call gets what the
 * protocol promises: ACCEPT, all tokens in order, and one DONE with their number and digest. When
 * all clients have gone, every call slot and every connection is free.
 * Method: the world in memory. The input is a script. A step is one byte for operation (enum step)
 * and client, then the operand. The last two clients come over TCP, one from afar, and must prove a
 * key; the others are local.
 */
#include "net/utf8.h"
#include "selftest/fuzz/wire_words.h"
#include "selftest/unit/net/net_fixture.h"

#define CLIENTS       5
#define CLIENTS_LOCAL 3
#define CALLS         16
#define MEMORY_BYTES  (96u << 10)       /* cleared for each input */

static _Alignas(ARENA_ALIGN_BYTES) uint8_t memory[MEMORY_BYTES];
static struct fixture fixture;
static struct received got;
static uint32_t peers[CLIENTS];
static struct wire_welcome welcomes[CLIENTS];

static const struct config_keys keys = {
    .count = 1, .domains_count = 1, .domains = {"d"}, .keys = {{.id = "k", .secret = "fuzz"}}};

/* What a client has read of a call; only small ids are followed. */
struct open_call {
    bool accepted;
    uint32_t tokens;
    uint64_t digest;
};
static struct open_call open_calls[CLIENTS][CALLS];

enum step {
    STEP_CONNECT,
    STEP_BYTES,                     /* raw */
    STEP_FRAME,                     /* type and payload; header and checksum are added */
    STEP_END,                       /* FIN or RST */
    STEP_WINDOW,                    /* how much the client's side buffers */
    STEP_SLEEP,
    STEP_MOOD,                      /* how the scheduler answers, how sockets move */
    STEP_PHASES,
    STEP_CALL,                      /* a valid CALL, but for one number with a range */
    STEP_CANCEL,                    /* of a call that STEP_CALL may have made */
    STEP_AUTH,                      /* with the right proof, or with one bit of it changed */
    STEP_SCARCE,                    /* few descriptors, or no new calls */
    STEPS = 16                      /* the others are passes, too */
};

struct script {
    const uint8_t *bytes;
    size_t count;
};

static uint8_t next(struct script *script)
{
    if (script->count == 0) {
        return 0;
    }
    script->count--;
    return *script->bytes++;
}

static uint32_t next_bytes(struct script *script, uint8_t *bytes, uint32_t max)
{
    uint32_t wanted = next(script) | (uint32_t)next(script) << 8, count = 0;
    while (count < wanted && count < max && script->count > 0) {
        bytes[count++] = next(script);
    }
    return count;
}

static bool is_alive(const struct fixture *f, uint32_t client)
{
    return peers[client] != FAKE_NONE && !f->fake.peers[peers[client]].to_server.ended &&
           !f->fake.peers[peers[client]].reset;
}

static void send_frame(struct fixture *f, uint32_t client, bool right, struct script *script)
{
    static uint8_t bytes[WIRE_HEADER_BYTES + 4096 + 16];
    memset(bytes, 0, WIRE_HEADER_BYTES);
    memcpy(bytes, "AGX1", 4);
    bytes[4] = next(script);
    uint32_t count =
        next_bytes(script, bytes + WIRE_HEADER_BYTES, sizeof bytes - WIRE_HEADER_BYTES);
    memcpy(bytes + 8, &count, 4);
    uint32_t sum = wire_checksum(bytes, bytes + WIRE_HEADER_BYTES, count) + !right;
    memcpy(bytes + 12, &sum, 4);
    fake_client_send(&f->fake, peers[client], bytes, WIRE_HEADER_BYTES + count);
}

/* The field of CALL that has range number `which`; NULL: so many there are not. */
static const struct wire_row *field_with_range(uint32_t which)
{
    for (uint32_t i = 0; i < wire_call_layout.rows_count; i++) {
        const struct wire_row *row = &wire_call_layout.rows[i];
        if (row->range.is_checked && which-- == 0) {
            return row;
        }
    }
    return NULL;
}

/* What stands before the prompt of a CALL with MORE; now and then a number is beyond its range. */
static void draw_more(struct wire_call *call, struct script *script)
{
    struct call_sampling *sampling = &call->sampling;
    sampling->presence_penalty = (float)(next(script) % 8) / 2 - 2;
    sampling->frequency_penalty = (float)(next(script) % 8) / 2 - 2;
    sampling->wants_logprobs = next(script) % 3;
    sampling->top_logprobs = next(script) % (CALL_TOP_LOGPROBS_MAX + 2);
    sampling->biases_count = next(script) % 5;
    for (uint32_t i = 0, token = 0; i < sampling->biases_count; i++, token += next(script)) {
        call->biases[i] = (struct call_bias){.token = token, .bias = (float)next(script) - 100};
    }
}

static void send_call(struct fixture *f, uint32_t client, struct script *script)
{
    static uint8_t bytes[512];
    struct wire_call call = fixture_wire_call(next(script) % CALLS);
    uint8_t which = next(script);
    call.max_tokens = 1 + next(script) % 62;
    call.flags = next(script) & WIRE_CALL_FLAGS_ALL;
    call.stop_texts_count = which % 3;
    for (uint32_t i = 0; i < call.stop_texts_count; i++) {
        call.stop_texts[i].length_bytes = 1;
        call.stop_texts[i].bytes[0] = (char)(next(script) & 0x7f);
    }
    call.prompt_count = (call.flags & WIRE_CALL_TEXT_PROMPT) != 0 ? 1 : 2;
    if ((call.flags & WIRE_CALL_MORE) != 0) {
        draw_more(&call, script);
    }
    uint32_t count = wire_call_encode(&call, bytes, sizeof bytes);
    const struct wire_row *row = field_with_range(which);
    if (row != NULL) {
        uint8_t *field = bytes + WIRE_HEADER_BYTES + row->offset;
        for (uint32_t i = 0; i < 4 && i < row->bytes; i++) {
            field[i] = next(script);
        }
        uint32_t sum = wire_checksum(bytes, bytes + WIRE_HEADER_BYTES, count - WIRE_HEADER_BYTES);
        memcpy(bytes + 12, &sum, 4);
    }
    fake_client_send(&f->fake, peers[client], bytes, count);
}

static void send_cancel(struct fixture *f, uint32_t client, struct script *script)
{
    uint8_t bytes[64];
    struct wire_cancel cancel = {.call_id = next(script) % CALLS};
    memcpy(cancel.program_id, fixture_program_id("program"), sizeof cancel.program_id);
    uint32_t count = wire_cancel_encode(&cancel, bytes, sizeof bytes);
    fake_client_send(&f->fake, peers[client], bytes, count);
}

static void connect_client(struct fixture *f, uint32_t client, bool hello)
{
    if (peers[client] != FAKE_NONE) {
        return;
    }
    peers[client] = fake_client_connect(
        &f->fake, client < CLIENTS_LOCAL ? NET_LISTENER_LOCAL : NET_LISTENER_TCP);
    ASSERT(peers[client] != FAKE_NONE);
    if (client == CLIENTS - 1) {
        f->fake.peers[peers[client]].who =
            (struct world_peer){.kind = WORLD_PEER_REMOTE, .address = 1};
    }
    fixture_pass(f);
    if (hello) {
        fixture_hello(f, peers[client]);
    }
}

static void send_auth(struct fixture *f, uint32_t client, struct script *script)
{
    uint8_t bytes[WIRE_REPLY_BYTES_MAX];
    struct wire_auth auth = {.key_id = "k"};
    struct wire_proof proof = {.key_id = "k"};
    memcpy(proof.boot_id, welcomes[client].boot_id, sizeof proof.boot_id);
    memcpy(proof.server_nonce, welcomes[client].nonce, sizeof proof.server_nonce);
    wire_proof_mac(&proof, WIRE_CLIENT, keys.keys[0].secret, auth.mac);
    ((uint8_t *)&auth)[next(script) % sizeof auth] ^= next(script) % 4 == 0 ? 1 : 0;
    auth.key_id[WIRE_KEY_ID_BYTES - 1] = 0;
    uint32_t count = wire_auth_encode(&auth, bytes, sizeof bytes);
    fake_client_send(&f->fake, peers[client], bytes, count);
}

static void take_tokens(struct open_call *call)
{
    static uint32_t tokens[FAKE_QUEUE_BYTES / sizeof(uint32_t)];
    ASSERT(call->accepted && got.tokens.first_index == call->tokens);
    memcpy(tokens, got.tokens.tokens, got.tokens.tokens_count * sizeof tokens[0]);
    call->tokens += got.tokens.tokens_count;
    call->digest = wire_digest(call->digest, tokens, got.tokens.tokens_count);
    ASSERT(utf8_is_valid((const char *)got.tokens.text, got.tokens.text_bytes));
}

static void take_frame(uint32_t client)
{
    if (got.type == WIRE_WELCOME) {
        welcomes[client] = got.welcome;
    }
    uint64_t call_id = got.type == WIRE_ACCEPT   ? got.accept.call_id
                       : got.type == WIRE_TOKENS ? got.tokens.call_id
                       : got.type == WIRE_DONE   ? got.done.call_id
                                                 : CALLS;
    if (call_id >= CALLS) {
        return;
    }
    struct open_call *call = &open_calls[client][call_id];
    if (got.type == WIRE_ACCEPT) {
        ASSERT(!call->accepted);
        *call = (struct open_call){.accepted = true, .digest = WIRE_DIGEST_START};
    } else if (got.type == WIRE_TOKENS) {
        take_tokens(call);
    } else {
        ASSERT(call->accepted && got.done.generated_tokens == call->tokens);
        ASSERT(got.done.digest == call->digest);
        call->accepted = false;
    }
}

/* Reads whole frames; fixture_receive() asserts that they are well formed. */
static void read_frames(struct fixture *f, uint32_t client)
{
    if (peers[client] == FAKE_NONE || f->fake.peers[peers[client]].to_client.capacity == 0 ||
        !is_alive(f, client) || fake_client_is_closed(&f->fake, peers[client])) {
        return;
    }
    while (fixture_receive(f, peers[client], &got)) {
        take_frame(client);
    }
}

static void set_mood(struct fixture *f, struct script *script)
{
    f->generates = next(script) % 4 != 0;
    f->refuse_with = next(script) % 8 == 0 ? STATUS_BUSY_PROGRAMS : STATUS_OK;
    f->program_status = next(script) % 4 == 0 ? STATUS_BAD_PROGRAM_ACTIVE : STATUS_OK;
    f->fake.transfer_max = next(script);
    f->fake.again_every = (next(script) % 4) * 2;   /* never 1: nothing would move */
    f->next_token = next(script) % 2 != 0 ? FIXTURE_TEXT_TOKEN : 0;
}

static void make_scarce(struct fixture *f, bool drain, struct script *script)
{
    f->fake.descriptors = next(script) % CLIENTS;
    if (drain) {
        net_drain(&f->net);
    }
}

static void send_bytes(struct fixture *f, uint32_t client, struct script *script)
{
    static uint8_t bytes[4200];
    uint32_t count = next_bytes(script, bytes, sizeof bytes);
    fake_client_send(&f->fake, peers[client], bytes, count);
}

static void end_client(struct fixture *f, uint32_t client, bool reset)
{
    if (reset) {
        fake_client_reset(&f->fake, peers[client]);
    } else {
        fake_client_finish(&f->fake, peers[client]);
    }
}

static void set_window(struct fixture *f, uint32_t client, struct script *script)
{
    uint32_t bytes = next(script) % 2 != 0 ? FAKE_QUEUE_BYTES : next(script);
    fake_client_window(&f->fake, peers[client], bytes);
}

/* Up to half a minute, or up to most of an hour. */
static void sleep_long(struct fixture *f, bool long_time, struct script *script)
{
    fixture_sleep(f, (uint64_t)(next(script) + 1) * (long_time ? 10000000 : 100000));
}

static void do_step(struct fixture *f, struct script *script)
{
    uint8_t what = next(script);
    uint32_t client = (what >> 4) % CLIENTS;
    bool variant = (what & 0x80) != 0;
    if (what % STEPS == STEP_CONNECT) {
        connect_client(f, client, !variant);
        return;
    }
    if (!is_alive(f, client)) {
        fixture_pass(f);
        return;
    }
    switch (what % STEPS) {
    case STEP_BYTES: send_bytes(f, client, script); break;
    case STEP_FRAME: send_frame(f, client, !variant, script); break;
    case STEP_END: end_client(f, client, variant); break;
    case STEP_WINDOW: set_window(f, client, script); break;
    case STEP_SLEEP: sleep_long(f, variant, script); break;
    case STEP_MOOD: set_mood(f, script); break;
    case STEP_CALL: send_call(f, client, script); break;
    case STEP_CANCEL: send_cancel(f, client, script); break;
    case STEP_AUTH: send_auth(f, client, script); break;
    case STEP_SCARCE: make_scarce(f, variant, script); break;
    default: fixture_passes(f, 1 + next(script) % 8); break;
    }
    fixture_pass(f);
    read_frames(f, client);
}

static void end_all(struct fixture *f)
{
    f->fake.again_every = 0;
    f->fake.transfer_max = 0;
    f->fake.descriptors = FAKE_PEERS_MAX;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (peers[i] != FAKE_NONE) {
            fake_client_reset(&f->fake, peers[i]);
        }
    }
    fixture_sleep(f, 2000000);      /* connections that lacked a descriptor are accepted now */
    fixture_passes(f, 6);
    ASSERT(f->calls.free_count == f->calls.count);
    ASSERT(f->net.open_count == 0 && f->net.preauth_count == 0);
    ASSERT(net_is_flushed(&f->net));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script = {data, size};
    struct arena arena;
    arena_init(&arena, memory, sizeof memory);
    fixture_init_keyed(&fixture, &arena, &fixture_limits, &keys);
    fixture_token_texts[0] = "a token of text \xC3\xA9 and half \xE2\x82";
    memset(open_calls, 0, sizeof open_calls);
    memset(welcomes, 0, sizeof welcomes);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        peers[i] = FAKE_NONE;
    }
    for (uint32_t steps = 0; script.count > 0 && steps < 300; steps++) {
        do_step(&fixture, &script);
    }
    end_all(&fixture);
    return 0;
}

/* A step that sends a frame of each type; bounds of the numbers of CALL. */
void dictionary_write(void)
{
#define FRAME(id, type, from, layout, answer) dictionary_number(STEP_FRAME | (type) << 8, 2);
#include "net/frames.def"
    wire_words_write();
}
