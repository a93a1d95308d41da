/* SPDX-License-Identifier: MIT */
/*
 * Goal: no bytes of an appliance make the client library read or write where it may not, stand
 * still, hand out a token that was not sent in order, or change its mind about a connection that
 * has ended.
 * Method: libFuzzer drives the pure session (tools/sdk/session.h). The input is a list of records:
 *
 *     kind u8, length u8, bytes     kind 0..127: a frame of type 128 + kind with this payload and
 *                                   a right header, because no fuzzer guesses checksums
 *                                   kind 128..253, 255: the bytes as they are
 *                                   kind 254: the connection breaks, and the client resumes
 *
 * Model: the indices of each call are counted again here, from the events alone.
 * Run: `make fuzz`.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/wire.h"
#include "tools/sdk/session.h"

#define CALLS 3

static uint8_t buffer[AGX_BUFFER_BYTES_MIN];

static void must(int condition)
{
    if (!condition) {
        abort();
    }
}

/* A header as the appliance would write it, in front of `count` bytes of payload. */
static uint32_t seal(uint8_t *frame, uint8_t type, uint32_t count)
{
    const uint8_t start[8] = {0x41, 0x47, 0x58, 0x31, type};
    memcpy(frame, start, sizeof start);
    for (uint32_t i = 0; i < 4; i++) {
        frame[8 + i] = (uint8_t)(count >> (8 * i));
    }
    uint32_t checksum = wire_checksum(frame, frame + WIRE_HEADER_BYTES, count);
    for (uint32_t i = 0; i < 4; i++) {
        frame[12 + i] = (uint8_t)(checksum >> (8 * i));
    }
    return WIRE_HEADER_BYTES + count;
}

static void feed(struct agx *agx, const uint8_t *bytes, uint32_t count)
{
    uint32_t room;
    uint8_t *at = agx_session_room(agx, &room);
    must(room > 0 || agx->broken != AGX_OK);
    count = count < room ? count : room;
    memcpy(at, bytes, count);
    agx_session_received(agx, count);
}

static void check_event(const struct agx *agx, const struct agx_event *event, uint32_t *counts)
{
    uint32_t sum = 0;
    if (event->kind == AGX_TOKENS) {
        must(event->call_id < CALLS);
        must(event->first_index == counts[event->call_id]);
        counts[event->call_id] += event->tokens_count;
        must(counts[event->call_id] <= 16);
        for (uint32_t i = 0; i < event->tokens_count; i++) {
            must(event->tokens[i] < agx->welcome.vocab_tokens);
        }
        for (uint32_t i = 0; i < event->text_bytes; i++) {
            sum += (uint8_t)event->text[i];     /* every byte can be read */
        }
        must(sum < UINT32_MAX);
    }
    if (event->kind == AGX_DONE) {
        must(event->generated_tokens == counts[event->call_id]);
    }
    if (event->kind == AGX_TOKENS || event->kind == AGX_DONE) {
        must(event->queue < WIRE_QUEUES_MAX);
    }
    if (event->kind == AGX_REFUSED) {
        must(agx->fault.field != NULL && agx->fault.frame != NULL && agx->fault.text != NULL);
    }
}

static void drain(struct agx *agx, uint32_t *counts)
{
    struct agx_event event;
    enum agx_result result;
    while ((result = agx_session_next(agx, &event)) == AGX_OK) {
        check_event(agx, &event, counts);
    }
    if (result != AGX_AGAIN) {
        must(agx_session_next(agx, &event) == result);
    }
}

static void greet(struct agx *agx)
{
    uint8_t frame[WIRE_REPLY_BYTES_MAX];
    struct wire_welcome welcome = {.version = 1, .frame_bytes_max = 60000, .vocab_tokens = 300,
                                   .context_tokens_max = 64, .bos_id = 1, .eos_id = 2};
    must(agx_session_hello(agx) == AGX_OK);
    feed(agx, frame, wire_welcome_encode(&welcome, frame, sizeof frame));
    must(agx_session_welcome(agx) == AGX_OK);
}

static void start_calls(struct agx *agx)
{
    static struct agx_call calls[CALLS];        /* they lie still: resuming looks at them */
    static const uint32_t prompt = 1;
    for (uint64_t id = 0; id < CALLS; id++) {
        calls[id] = (struct agx_call){.call_id = id, .max_tokens = 16, .prompt_ids = &prompt,
                                      .prompt_ids_count = 1};
        must(agx_session_call(agx, &calls[id]) == AGX_OK);
    }
}

/* What agx_resume() does, but for the socket: nothing but a break is resumed from. */
static void resume(struct agx *agx)
{
    if (agx_session_break(agx, AGX_ERROR_CLOSED) == AGX_ERROR_CLOSED) {
        agx_session_reset(agx);
        greet(agx);
        agx_session_resume(agx);
        must(agx_session_resend(agx) == AGX_OK && agx->calls_due == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct agx agx;
    uint32_t counts[CALLS] = {0};
    uint8_t frame[WIRE_HEADER_BYTES + 255];
    must(agx_session_init(&agx, buffer, sizeof buffer) == AGX_OK);
    if (size > 0 && data[0] == 255) {
        feed(&agx, data + 1, (uint32_t)(size < 4096 ? size - 1 : 4095));
        (void)agx_session_welcome(&agx);        /* a stranger greets */
        return 0;
    }
    greet(&agx);
    start_calls(&agx);
    for (size_t at = 0; at + 2 <= size;) {
        uint32_t count = data[at + 1];
        uint8_t kind = data[at];
        at += 2;
        count = count < size - at ? count : (uint32_t)(size - at);
        if (kind < 128) {
            memcpy(frame + WIRE_HEADER_BYTES, data + at, count);
            feed(&agx, frame, seal(frame, (uint8_t)(128 + kind), count));
        } else if (kind == 254) {
            resume(&agx);
        } else {
            feed(&agx, data + at, count);
        }
        at += count;
        drain(&agx, counts);
    }
    return 0;
}
