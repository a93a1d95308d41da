/* SPDX-License-Identifier: MIT */
/*
 * What: hostile clients against the whole net stage, in the world in memory.
 *
 * Input: a script. Each step is one byte of operation and client, then its operand:
 *   0 connect       1 raw bytes        2 a frame: type and payload; header and checksum are made
 *   3 FIN or RST    4 reader's window  5 time passes        6 the scheduler's mood    7 passes
 *   8 a valid CALL whose number `operand` (wire_call_ranges) is overwritten
 *   9 AUTH with the right proof, or with one byte of it changed
 *
 * The last two clients come over TCP, one from afar, and must prove a key; the others are local.
 *
 * Oracle: no sanitizer report, no assertion; net_check() after every pass; everything the server
 * sends is well formed, token indices are consecutive; when all clients have gone, every call slot
 * and every connection is free.
 *
 * Build:  clang -g -O1 -std=gnu11 -I. -D_GNU_SOURCE -DAGENTIX_VERIFY \
 *             -fsanitize=fuzzer,address,undefined selftest/fuzz/fuzz_frame.c \
 *             selftest/fake/fake_world.c net/[a-z]*.c \
 *             appliance/base/{arena,assert,call,exchange,status}.c -l:libbearssl.a
 * Run:    ./a.out -max_len=2048 selftest/fuzz/corpus/frame
 */
#include <stddef.h>

#include "selftest/unit/net/net_fixture.h"

#define CLIENTS 5
#define CLIENTS_LOCAL 3

static _Alignas(ARENA_ALIGN_BYTES) uint8_t memory[1u << 20];
static struct fixture fixture;
static struct received got;
static uint32_t peers[CLIENTS];
static struct wire_welcome welcomes[CLIENTS];

static const struct config_keys keys = {
    .count = 1, .domains_count = 1, .domains = {"d"}, .keys = {{.id = "k", .secret = "fuzz"}}};

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

static void send_frame(struct fixture *f, uint32_t client, struct script *script)
{
    static uint8_t bytes[WIRE_HEADER_BYTES + 4096 + 16];
    memset(bytes, 0, WIRE_HEADER_BYTES);
    memcpy(bytes, "AGX1", 4);
    bytes[4] = next(script) & 0x0f;
    uint32_t count =
        next_bytes(script, bytes + WIRE_HEADER_BYTES, sizeof bytes - WIRE_HEADER_BYTES);
    memcpy(bytes + 8, &count, 4);
    uint32_t sum = wire_checksum(bytes, bytes + WIRE_HEADER_BYTES, count);
    memcpy(bytes + 12, &sum, 4);
    fake_client_send(&f->fake, peers[client], bytes, WIRE_HEADER_BYTES + count);
}

static void send_call(struct fixture *f, uint32_t client, struct script *script)
{
    static uint8_t bytes[512];
    struct wire_call call = fixture_wire_call(next(script) % 16);
    uint8_t which = next(script);
    call.max_tokens = 1 + next(script) % 62;
    call.flags = next(script) & WIRE_CALL_FLAGS_ALL;
    call.stop_texts_count = which % 3;
    for (uint32_t i = 0; i < call.stop_texts_count; i++) {
        call.stop_texts[i].length_bytes = 1;
        call.stop_texts[i].bytes[0] = (char)(next(script) & 0x7f);
    }
    call.prompt_count = (call.flags & WIRE_CALL_TEXT_PROMPT) != 0 ? 1 : 2;
    uint32_t count = wire_call_encode(&call, bytes, sizeof bytes);
    if (which < wire_call_ranges_count) {
        uint8_t *field = bytes + WIRE_HEADER_BYTES + wire_call_ranges[which].offset;
        for (uint32_t i = 0; i < 4; i++) {
            field[i] = next(script);
        }
        uint32_t sum = wire_checksum(bytes, bytes + WIRE_HEADER_BYTES, count - WIRE_HEADER_BYTES);
        memcpy(bytes + 12, &sum, 4);
    }
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

/* The client reads whole frames; fixture_receive() asserts that they are well formed. */
static void read_frames(struct fixture *f, uint32_t client)
{
    static uint32_t next_index[CLIENTS][16];
    if (peers[client] == FAKE_NONE || f->fake.peers[peers[client]].to_client.capacity == 0 ||
        !is_alive(f, client) || fake_client_is_closed(&f->fake, peers[client])) {
        return;
    }
    while (fixture_receive(f, peers[client], &got)) {
        if (got.type == WIRE_WELCOME) {
            welcomes[client] = got.welcome;
        } else if (got.type == WIRE_ACCEPT) {
            next_index[client][got.accept.call_id % 16] = 0;
        } else if (got.type == WIRE_TOKENS) {
            uint32_t *index = &next_index[client][got.tokens.call_id % 16];
            ASSERT(got.tokens.call_id >= 16 || got.tokens.first_index == *index);
            *index += got.tokens.tokens_count;
        }
    }
}

static void do_step(struct fixture *f, struct script *script)
{
    static uint8_t bytes[4200];
    uint8_t what = next(script);
    uint32_t client = (what >> 4) % CLIENTS;
    if (what % 16 == 0) {
        connect_client(f, client, (what & 0x80) == 0);
        return;
    }
    if (!is_alive(f, client)) {
        fixture_pass(f);
        return;
    }
    uint32_t count = 0;
    switch (what % 16) {
    case 1:
        count = next_bytes(script, bytes, sizeof bytes);
        fake_client_send(&f->fake, peers[client], bytes, count);
        break;
    case 2: send_frame(f, client, script); break;
    case 3:
        if ((what & 0x80) != 0) {
            fake_client_reset(&f->fake, peers[client]);
        } else {
            fake_client_finish(&f->fake, peers[client]);
        }
        break;
    case 4:
        fake_client_window(&f->fake, peers[client],
                           next(script) % 2 != 0 ? FAKE_QUEUE_BYTES : next(script));
        break;
    case 5: fixture_sleep(f, (uint64_t)(next(script) + 1) * 100000); break;
    case 6:
        f->generates = next(script) % 4 != 0;
        f->refuse_with = next(script) % 8 == 0 ? STATUS_BUSY_PROGRAMS : STATUS_OK;
        f->program_status = next(script) % 4 == 0 ? STATUS_BAD_PROGRAM_ACTIVE : STATUS_OK;
        f->fake.transfer_max = next(script);
        f->fake.again_every = (next(script) % 4) * 2;   /* never 1: then nothing would ever move */
        f->next_token = next(script) % 2 != 0 ? FIXTURE_TEXT_TOKEN : 0;
        break;
    case 8: send_call(f, client, script); break;
    case 9: send_auth(f, client, script); break;
    default: fixture_passes(f, 1 + next(script) % 8); break;
    }
    fixture_pass(f);
    read_frames(f, client);
}

static void end_all(struct fixture *f)
{
    f->fake.again_every = 0;
    f->fake.transfer_max = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (peers[i] != FAKE_NONE) {
            fake_client_reset(&f->fake, peers[i]);
        }
    }
    fixture_passes(f, 6);
    ASSERT(f->calls.free_count == f->calls.count);
    ASSERT(f->net.open_count == 0 && f->net.strangers_count == 0);
    ASSERT(net_is_flushed(&f->net));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script = {data, size};
    struct arena arena;
    arena_init(&arena, memory, sizeof memory);
    fixture_init_keyed(&fixture, &arena, &fixture_limits, &keys);
    fixture_token_texts[0] = "a token of text \xC3\xA9 and half \xE2\x82";
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
