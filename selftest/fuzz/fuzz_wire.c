/* SPDX-License-Identifier: MIT */
/*
 * What: the decoders alone, fast. Input: a frame; its magic, length and checksum are put right, so
 * that the fuzzer gets behind them.
 *
 * Oracle: no sanitizer report (the payload is copied to the heap, so reading one byte too far is
 * one); what was decoded, encoded and decoded again is the same.
 *
 * Build:  clang -g -O2 -std=gnu11 -I. -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined \
 *             selftest/fuzz/fuzz_wire.c net/wire*.c appliance/base/{status,assert}.c \
 *             -l:libbearssl.a
 * Run:    ./a.out -max_len=512 selftest/fuzz/corpus/wire
 */
#include <stdlib.h>
#include <string.h>

#include "appliance/base/assert.h"
#include "net/wire.h"

#define FRAME_MAX 8192

/* Whole frame -> payload decoded -> frame again; the bytes must be equal. */
#define ROUND_TRIP(name, ...)                                                     \
    do {                                                                          \
        struct wire_##name frame;                                                 \
        if (wire_##name##_decode(payload, count, &frame, &fault) == STATUS_OK) {  \
            again_count = wire_##name##_encode(&frame, __VA_ARGS__ again, FRAME_MAX); \
        }                                                                         \
    } while (0)

static uint32_t tokens_again(const uint8_t *payload, uint32_t count, uint8_t *again)
{
    struct wire_tokens frame;
    struct wire_fault fault;
    uint32_t tokens[FRAME_MAX / 4];
    if (wire_tokens_decode(payload, count, &frame, &fault) != STATUS_OK) {
        return 0;
    }
    memcpy(tokens, frame.tokens, frame.tokens_count * sizeof(uint32_t));
    return wire_tokens_encode(&frame, tokens, again, FRAME_MAX);
}

static uint32_t decode_and_encode(uint8_t type, const uint8_t *payload, uint32_t count,
                                  uint8_t *again)
{
    struct wire_fault fault;
    uint32_t again_count = 0;
    switch (type) {
    case WIRE_HELLO: ROUND_TRIP(hello,); break;
    case WIRE_WELCOME: ROUND_TRIP(welcome,); break;
    case WIRE_AUTH: ROUND_TRIP(auth,); break;
    case WIRE_AUTH_REPLY: ROUND_TRIP(auth_reply,); break;
    case WIRE_PROGRAM_START: ROUND_TRIP(program, WIRE_PROGRAM_START,); break;
    case WIRE_PROGRAM_END: ROUND_TRIP(program, WIRE_PROGRAM_END,); break;
    case WIRE_PROGRAM_OK: ROUND_TRIP(program_ok,); break;
    case WIRE_CALL: ROUND_TRIP(call,); break;
    case WIRE_CANCEL: ROUND_TRIP(cancel,); break;
    case WIRE_PING: ROUND_TRIP(ping, WIRE_PING,); break;
    case WIRE_PONG: ROUND_TRIP(ping, WIRE_PONG,); break;
    case WIRE_ACCEPT: ROUND_TRIP(accept,); break;
    case WIRE_DONE: ROUND_TRIP(done,); break;
    case WIRE_TOKENS: again_count = tokens_again(payload, count, again); break;
    default: break;
    }
    return again_count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t again[FRAME_MAX];
    struct wire_header header;
    struct wire_fault fault;
    uint8_t head[WIRE_HEADER_BYTES] = {'A', 'G', 'X', '1'};
    if (size < 4 || size > 4096) {
        return 0;
    }
    memcpy(head + 4, data, 4);
    uint32_t count = (uint32_t)size - 4;
    memcpy(head + 8, &count, sizeof count);
    if (wire_header_decode(head, 4096, &header, &fault) != STATUS_OK) {
        /* Undirected bytes too: every value of every header field. */
        memcpy(head, data, size < sizeof head ? size : sizeof head);
        (void)!wire_header_decode(head, 4096, &header, &fault);
        return 0;
    }
    uint8_t *payload = malloc(count + 1);
    memcpy(payload, data + 4, count);
    uint32_t again_count = decode_and_encode(header.type, payload, count, again);
    if (header.type == WIRE_ERROR) {
        struct wire_error error;
        (void)!wire_error_decode(payload, count, &error, &fault);
    }
    if (again_count > 0) {
        /* DONE maps status codes that it does not know to one that it does: not the same bytes. */
        ASSERT(again_count == WIRE_HEADER_BYTES + count);
        ASSERT(header.type == WIRE_DONE ||
               memcmp(again + WIRE_HEADER_BYTES, payload, count) == 0);
    }
    free(payload);
    return 0;
}
