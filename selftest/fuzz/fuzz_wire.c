/* SPDX-License-Identifier: MIT */
/*
 * Goal: no payload makes a decoder read beyond it, change the frame that it refuses, or report a
 * fault that no ERROR frame can carry. An accepted frame gives the same bytes when it is encoded
 * again, and no encoder writes beyond its room.
 * Method: the input is the second word of a header (type, reserved) and a payload. Magic, length
 * and checksum are made right, so that the fuzzer gets past them. Where that is refused, the input
 * is a header as it stands. libFuzzer passes a copy of the exact size, so reading one byte too far
 * is a report.
 */
#include "selftest/fuzz/wire_words.h"

#define FRAME_MAX   8192
#define PAYLOAD_MAX 4096
#define CANARY      0x5a

/* A payload, decoded and encoded again. */
struct trip {
    enum wire_type type;
    enum status status;
    struct wire_fault fault;
    uint32_t count;                 /* bytes of `frame` */
    uint8_t *frame;                 /* [FRAME_MAX], header included */
};

static uint8_t cramped[FRAME_MAX];

/* Payload -> struct -> frame, which fits room of its own length and no less. */
#define TRIP(name, ...)                                                                       \
    static void trip_##name(const uint8_t *payload, uint32_t count, struct trip *trip)        \
    {                                                                                         \
        struct wire_##name got, before;                                                       \
        memset(&got, 0xa5, sizeof got);                                                       \
        memcpy(&before, &got, sizeof got);                                                    \
        trip->status = wire_##name##_decode(payload, count, &got, &trip->fault);              \
        if (trip->status != STATUS_OK) {                                                      \
            ASSERT(memcmp(&got, &before, sizeof got) == 0);                                   \
            return;                                                                           \
        }                                                                                     \
        trip->count = wire_##name##_encode(&got, __VA_ARGS__ trip->frame, FRAME_MAX);         \
        ASSERT(trip->count > 0);                                                              \
        ASSERT(wire_##name##_encode(&got, __VA_ARGS__ cramped, trip->count) == trip->count);  \
        cramped[trip->count - 1] = CANARY;                                                    \
        ASSERT(wire_##name##_encode(&got, __VA_ARGS__ cramped, trip->count - 1) == 0);        \
        ASSERT(cramped[trip->count - 1] == CANARY);                                           \
    }

/* The encoders of TOKENS and VALUE take ids as host integers, and must read no others. */
static const uint32_t *host_ids(const uint8_t *tokens, uint32_t count)
{
    static uint32_t ids[PAYLOAD_MAX / sizeof(uint32_t)];
    memcpy(ids, tokens, count * sizeof ids[0]);
    return ids;
}

#define TRIP_EXACT(name)  TRIP(name,)
#define TRIP_SHARED(name) TRIP(name, trip->type,)
#define TRIP_OPEN(name)
#define TRIP_PART(name)
#define LAYOUT(name, id, length) TRIP_##length(name)
#include "net/frames.def"
TRIP(program_start,)
TRIP(call,)
TRIP(done,)
TRIP(tokens, host_ids(got.tokens, got.tokens_count),)
TRIP(flow_open,)
TRIP(flow_row,)
TRIP(flow_answer,)
TRIP(flow_value, host_ids(got.tokens, got.tokens_count),)
TRIP(flow_ask,)

static void (*const trips[256])(const uint8_t *payload, uint32_t count, struct trip *trip) = {
#define FRAME(id, type, from, layout, answer) [type] = trip_##layout,
#include "net/frames.def"
};

/* An ERROR frame must be able to carry it. */
static void check_fault(const struct wire_fault *fault)
{
    ASSERT(status_class(fault->status) == STATUS_CLASS_BAD);
    ASSERT(strcmp(wire_field_name(fault->field), "unknown") != 0);
}

static void check_header(const struct trip *trip)
{
    struct wire_header header;
    struct wire_fault fault;
    ASSERT(wire_header_decode(trip->frame, PAYLOAD_MAX, &header, &fault) == STATUS_OK);
    ASSERT(header.type == trip->type);
    ASSERT(header.length_bytes == trip->count - WIRE_HEADER_BYTES);
    ASSERT(header.checksum == wire_checksum(trip->frame, trip->frame + WIRE_HEADER_BYTES,
                                            header.length_bytes));
}

static void check_payload(enum wire_type type, const uint8_t *payload, uint32_t count)
{
    static uint8_t bytes[FRAME_MAX], bytes_again[FRAME_MAX];
    struct trip trip = {.type = type, .frame = bytes};
    struct trip again = {.type = type, .frame = bytes_again};
    trips[type](payload, count, &trip);
    if (trip.status != STATUS_OK) {
        ASSERT(trip.fault.status == trip.status);
        check_fault(&trip.fault);
        return;
    }
    ASSERT(trip.count == WIRE_HEADER_BYTES + count);
    check_header(&trip);
    /* An unknown status code becomes a known one: the bytes change, but only once. */
    bool has_status = type == WIRE_DONE || type == WIRE_ERROR ||
                      type == WIRE_ROW_DONE || type == WIRE_FLOW_DONE;
    ASSERT(has_status || memcmp(bytes + WIRE_HEADER_BYTES, payload, count) == 0);
    trips[type](bytes + WIRE_HEADER_BYTES, count, &again);
    ASSERT(again.status == STATUS_OK && again.count == trip.count);
    ASSERT(memcmp(bytes, bytes_again, trip.count) == 0);
}

/* Any bytes: every value of every field of a header. */
static void check_raw_header(const uint8_t *bytes, size_t count)
{
    uint8_t head[WIRE_HEADER_BYTES] = {0};
    struct wire_header header;
    struct wire_fault fault;
    memcpy(head, bytes, count < sizeof head ? count : sizeof head);
    if (wire_header_decode(head, PAYLOAD_MAX, &header, &fault) != STATUS_OK) {
        check_fault(&fault);
    } else {
        ASSERT(header.length_bytes <= PAYLOAD_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct wire_header header;
    struct wire_fault fault;
    uint8_t head[WIRE_HEADER_BYTES] = {'A', 'G', 'X', '1'};
    if (count < 4 || count - 4 > PAYLOAD_MAX) {
        return 0;
    }
    uint32_t payload_bytes = (uint32_t)count - 4;
    memcpy(head + 4, bytes, 4);
    memcpy(head + 8, &payload_bytes, sizeof payload_bytes);
    if (wire_header_decode(head, PAYLOAD_MAX, &header, &fault) != STATUS_OK) {
        check_raw_header(bytes, count);
    } else if (trips[header.type] != NULL) {
        check_payload(header.type, bytes + 4, payload_bytes);
    }
    return 0;
}

void dictionary_write(void)
{
#define FRAME(id, type, from, layout, answer) dictionary_number((type), 4);
#include "net/frames.def"
    wire_words_write();
}
