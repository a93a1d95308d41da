/* SPDX-License-Identifier: MIT */
/*
 * What: protocol version 1 in bytes; docs/protocol.md is normative.
 *
 * How: one function for each payload, layout_NAME(), states the order of its fields once and runs
 * in both directions (config/base/bytes.h); check_NAME() says what a received frame may hold.
 * CALL, which has the most to check, is in net/wire_call.c.
 *
 * Invariants: nothing is read beyond `count`; a refusal changes only `fault`; wire lengths enter
 * arithmetic only as 64-bit values, after the checks of wire_header_decode().
 *
 * Bounds: time and stack are linear in the frame and constant; no state; no assertion and no
 * reference but to memcpy, memset and status.c: the client library is built from this file.
 * Proofs, which need BearSSL, are in net/wire_auth.c.
 */
#include "net/wire.h"

#include <string.h>

#include "config/base/bytes.h"
#include "config/base/fnv.h"
#include "net/wire_frame.h"

/* ---- header, checksum, digest ---------------------------------------------------------------- */

/* Type, name, smallest payload, largest payload (0: the limit of the connection). */
struct frame_row {
    uint8_t type;
    const char *name;
    uint32_t min_bytes, max_bytes;
};

static const struct frame_row frames[] = {
    {WIRE_HELLO, "HELLO", WIRE_HELLO_BYTES, WIRE_HELLO_BYTES},
    {WIRE_AUTH, "AUTH", WIRE_AUTH_BYTES, WIRE_AUTH_BYTES},
    {WIRE_PROGRAM_START, "PROGRAM_START", 16, 16},
    {WIRE_PROGRAM_END, "PROGRAM_END", 16, 16},
    {WIRE_CALL, "CALL", WIRE_CALL_BYTES_MIN, 0},
    {WIRE_CANCEL, "CANCEL", 24, 24},
    {WIRE_PING, "PING", 8, 8},
    {WIRE_WELCOME, "WELCOME", 144, 144},
    {WIRE_AUTH_REPLY, "AUTH_REPLY", 32, 32},
    {WIRE_PROGRAM_OK, "PROGRAM_OK", 40, 40},
    {WIRE_ACCEPT, "ACCEPT", 16, 16},
    {WIRE_TOKENS, "TOKENS", WIRE_TOKENS_BYTES_MIN, 0},
    {WIRE_DONE, "DONE", 64, 64},
    {WIRE_PONG, "PONG", 8, 8},
    {WIRE_ERROR, "ERROR", 136, 136},
};

static const uint32_t checksum_table[256] = {
    0x00000000, 0xf26b8303, 0xe13b70f7, 0x1350f3f4, 0xc79a971f, 0x35f1141c, 0x26a1e7e8, 0xd4ca64eb,
    0x8ad958cf, 0x78b2dbcc, 0x6be22838, 0x9989ab3b, 0x4d43cfd0, 0xbf284cd3, 0xac78bf27, 0x5e133c24,
    0x105ec76f, 0xe235446c, 0xf165b798, 0x030e349b, 0xd7c45070, 0x25afd373, 0x36ff2087, 0xc494a384,
    0x9a879fa0, 0x68ec1ca3, 0x7bbcef57, 0x89d76c54, 0x5d1d08bf, 0xaf768bbc, 0xbc267848, 0x4e4dfb4b,
    0x20bd8ede, 0xd2d60ddd, 0xc186fe29, 0x33ed7d2a, 0xe72719c1, 0x154c9ac2, 0x061c6936, 0xf477ea35,
    0xaa64d611, 0x580f5512, 0x4b5fa6e6, 0xb93425e5, 0x6dfe410e, 0x9f95c20d, 0x8cc531f9, 0x7eaeb2fa,
    0x30e349b1, 0xc288cab2, 0xd1d83946, 0x23b3ba45, 0xf779deae, 0x05125dad, 0x1642ae59, 0xe4292d5a,
    0xba3a117e, 0x4851927d, 0x5b016189, 0xa96ae28a, 0x7da08661, 0x8fcb0562, 0x9c9bf696, 0x6ef07595,
    0x417b1dbc, 0xb3109ebf, 0xa0406d4b, 0x522bee48, 0x86e18aa3, 0x748a09a0, 0x67dafa54, 0x95b17957,
    0xcba24573, 0x39c9c670, 0x2a993584, 0xd8f2b687, 0x0c38d26c, 0xfe53516f, 0xed03a29b, 0x1f682198,
    0x5125dad3, 0xa34e59d0, 0xb01eaa24, 0x42752927, 0x96bf4dcc, 0x64d4cecf, 0x77843d3b, 0x85efbe38,
    0xdbfc821c, 0x2997011f, 0x3ac7f2eb, 0xc8ac71e8, 0x1c661503, 0xee0d9600, 0xfd5d65f4, 0x0f36e6f7,
    0x61c69362, 0x93ad1061, 0x80fde395, 0x72966096, 0xa65c047d, 0x5437877e, 0x4767748a, 0xb50cf789,
    0xeb1fcbad, 0x197448ae, 0x0a24bb5a, 0xf84f3859, 0x2c855cb2, 0xdeeedfb1, 0xcdbe2c45, 0x3fd5af46,
    0x7198540d, 0x83f3d70e, 0x90a324fa, 0x62c8a7f9, 0xb602c312, 0x44694011, 0x5739b3e5, 0xa55230e6,
    0xfb410cc2, 0x092a8fc1, 0x1a7a7c35, 0xe811ff36, 0x3cdb9bdd, 0xceb018de, 0xdde0eb2a, 0x2f8b6829,
    0x82f63b78, 0x709db87b, 0x63cd4b8f, 0x91a6c88c, 0x456cac67, 0xb7072f64, 0xa457dc90, 0x563c5f93,
    0x082f63b7, 0xfa44e0b4, 0xe9141340, 0x1b7f9043, 0xcfb5f4a8, 0x3dde77ab, 0x2e8e845f, 0xdce5075c,
    0x92a8fc17, 0x60c37f14, 0x73938ce0, 0x81f80fe3, 0x55326b08, 0xa759e80b, 0xb4091bff, 0x466298fc,
    0x1871a4d8, 0xea1a27db, 0xf94ad42f, 0x0b21572c, 0xdfeb33c7, 0x2d80b0c4, 0x3ed04330, 0xccbbc033,
    0xa24bb5a6, 0x502036a5, 0x4370c551, 0xb11b4652, 0x65d122b9, 0x97baa1ba, 0x84ea524e, 0x7681d14d,
    0x2892ed69, 0xdaf96e6a, 0xc9a99d9e, 0x3bc21e9d, 0xef087a76, 0x1d63f975, 0x0e330a81, 0xfc588982,
    0xb21572c9, 0x407ef1ca, 0x532e023e, 0xa145813d, 0x758fe5d6, 0x87e466d5, 0x94b49521, 0x66df1622,
    0x38cc2a06, 0xcaa7a905, 0xd9f75af1, 0x2b9cd9f2, 0xff56bd19, 0x0d3d3e1a, 0x1e6dcdee, 0xec064eed,
    0xc38d26c4, 0x31e6a5c7, 0x22b65633, 0xd0ddd530, 0x0417b1db, 0xf67c32d8, 0xe52cc12c, 0x1747422f,
    0x49547e0b, 0xbb3ffd08, 0xa86f0efc, 0x5a048dff, 0x8ecee914, 0x7ca56a17, 0x6ff599e3, 0x9d9e1ae0,
    0xd3d3e1ab, 0x21b862a8, 0x32e8915c, 0xc083125f, 0x144976b4, 0xe622f5b7, 0xf5720643, 0x07198540,
    0x590ab964, 0xab613a67, 0xb831c993, 0x4a5a4a90, 0x9e902e7b, 0x6cfbad78, 0x7fab5e8c, 0x8dc0dd8f,
    0xe330a81a, 0x115b2b19, 0x020bd8ed, 0xf0605bee, 0x24aa3f05, 0xd6c1bc06, 0xc5914ff2, 0x37faccf1,
    0x69e9f0d5, 0x9b8273d6, 0x88d28022, 0x7ab90321, 0xae7367ca, 0x5c18e4c9, 0x4f48173d, 0xbd23943e,
    0xf36e6f75, 0x0105ec76, 0x12551f82, 0xe03e9c81, 0x34f4f86a, 0xc69f7b69, 0xd5cf889d, 0x27a40b9e,
    0x79b737ba, 0x8bdcb4b9, 0x988c474d, 0x6ae7c44e, 0xbe2da0a5, 0x4c4623a6, 0x5f16d052, 0xad7d5351,
};

static uint32_t checksum_add(uint32_t sum, const uint8_t *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sum = (sum >> 8) ^ checksum_table[(sum ^ bytes[i]) & 0xff];
    }
    return sum;
}

uint32_t wire_checksum(const uint8_t *header, const uint8_t *payload, uint32_t payload_bytes)
{
    uint32_t sum = checksum_add(UINT32_MAX, header, 12);
    return ~checksum_add(sum, payload, payload_bytes);
}

uint64_t wire_digest(uint64_t digest, const uint32_t *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t token = tokens[i];
        const uint8_t bytes[4] = {(uint8_t)token, (uint8_t)(token >> 8), (uint8_t)(token >> 16),
                                  (uint8_t)(token >> 24)};
        digest = fnv_add(digest, bytes, sizeof bytes);
    }
    return digest;
}

static const struct frame_row *frame_find(uint8_t type)
{
    for (uint32_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        if (frames[i].type == type) {
            return &frames[i];
        }
    }
    return NULL;
}

const char *wire_type_name(uint8_t type)
{
    const struct frame_row *row = frame_find(type);
    return row != NULL ? row->name : "unknown";
}

const char *wire_field_name(enum wire_field field)
{
    static const char *const names[WIRE_FIELD_COUNT] = {
        "none", "magic", "type", "length", "checksum", "reserved", "version", "flags", "call_id",
        "program_id", "thread", "max_tokens", "temperature", "top_k", "top_p", "min_p",
        "repeat_penalty", "seed", "deadline", "stop_ids", "stop_texts", "prompt", "kind", "name",
        "connection", "queue", "key_id",
    };
    return (uint32_t)field < WIRE_FIELD_COUNT ? names[field] : "unknown";
}

enum status wire_refuse(struct wire_fault *fault, enum status status, enum wire_field field,
                        uint64_t found)
{
    fault->status = status;
    fault->field = field;
    fault->found = found;
    return status;
}

enum status wire_refuse_range(struct wire_fault *fault, enum wire_field field, uint64_t found,
                              uint64_t min, uint64_t max)
{
    fault->min = min;
    fault->max = max;
    return wire_refuse(fault, STATUS_BAD_FIELD, field, found);
}

/* The layout of a header; `magic` apart, because it is judged before anything else. */
static void layout_header(struct bytes *bytes, uint32_t *magic, struct wire_header *header)
{
    bytes_u32(bytes, magic);
    bytes_u8(bytes, &header->type);
    bytes_zero(bytes, 3);
    bytes_u32(bytes, &header->length_bytes);
    bytes_u32(bytes, &header->checksum);
}

enum status wire_header_decode(const uint8_t *bytes, uint32_t frame_bytes_max,
                               struct wire_header *header, struct wire_fault *fault)
{
    struct bytes in = bytes_reader(bytes, WIRE_HEADER_BYTES);
    struct wire_header got = {0};
    uint32_t magic = 0;
    layout_header(&in, &magic, &got);
    *fault = (struct wire_fault){.frame_type = got.type};
    if (magic != WIRE_MAGIC) {
        fault->min = fault->max = WIRE_MAGIC;
        return wire_refuse(fault, STATUS_BAD_MAGIC, WIRE_FIELD_MAGIC, magic);
    }
    const struct frame_row *row = frame_find(got.type);
    if (row == NULL) {
        return wire_refuse(fault, STATUS_BAD_FRAME_TYPE, WIRE_FIELD_TYPE, got.type);
    }
    if (in.dirty) {
        return wire_refuse(fault, STATUS_BAD_RESERVED, WIRE_FIELD_RESERVED, 1);
    }
    fault->min = row->min_bytes;
    fault->max = row->max_bytes != 0 ? row->max_bytes : frame_bytes_max;
    if (got.length_bytes < fault->min || got.length_bytes > fault->max) {
        return wire_refuse(fault, STATUS_BAD_FRAME_LENGTH, WIRE_FIELD_LENGTH, got.length_bytes);
    }
    *header = got;
    return STATUS_OK;
}

/* ---- layouts: the order of the fields, for both directions ----------------------------------- */

static void layout_hello(struct bytes *bytes, struct wire_hello *frame)
{
    bytes_u16(bytes, &frame->version_min);
    bytes_u16(bytes, &frame->version_max);
    bytes_name(bytes, frame->name, WIRE_NAME_BYTES);
}

static void layout_welcome(struct bytes *bytes, struct wire_welcome *frame)
{
    bytes_u16(bytes, &frame->version);
    bytes_u16(bytes, &frame->auth);
    bytes_block(bytes, frame->boot_id, WIRE_BOOT_ID_BYTES);
    bytes_u32(bytes, &frame->frame_bytes_max);
    bytes_u32(bytes, &frame->context_tokens_max);
    bytes_u32(bytes, &frame->vocab_tokens);
    bytes_u32(bytes, &frame->calls_per_connection_max);
    bytes_u32(bytes, &frame->programs_max);
    bytes_u32(bytes, &frame->bos_id);
    bytes_u32(bytes, &frame->eos_id);
    bytes_name(bytes, frame->model, WIRE_NAME_BYTES);
    bytes_block(bytes, frame->nonce, WIRE_NONCE_BYTES);
}

static void layout_auth(struct bytes *bytes, struct wire_auth *frame)
{
    bytes_name(bytes, frame->key_id, WIRE_KEY_ID_BYTES);
    bytes_block(bytes, frame->nonce, WIRE_NONCE_BYTES);
    bytes_block(bytes, frame->mac, WIRE_MAC_BYTES);
}

static void layout_auth_reply(struct bytes *bytes, struct wire_auth_reply *frame)
{
    bytes_block(bytes, frame->mac, WIRE_MAC_BYTES);
}

static void layout_program(struct bytes *bytes, struct wire_program *frame)
{
    bytes_block(bytes, frame->program_id, CALL_PROGRAM_ID_BYTES);
}

static void layout_program_ok(struct bytes *bytes, struct wire_program_ok *frame)
{
    bytes_block(bytes, frame->program_id, CALL_PROGRAM_ID_BYTES);
    bytes_u32(bytes, &frame->kind);
    bytes_u32(bytes, &frame->calls);
    bytes_u64(bytes, &frame->service_us);
    bytes_u64(bytes, &frame->wait_us);
}

static void layout_cancel(struct bytes *bytes, struct wire_cancel *frame)
{
    bytes_u64(bytes, &frame->call_id);
    bytes_block(bytes, frame->program_id, CALL_PROGRAM_ID_BYTES);
}

static void layout_ping(struct bytes *bytes, struct wire_ping *frame)
{
    bytes_u64(bytes, &frame->nonce);
}

static void layout_accept(struct bytes *bytes, struct wire_accept *frame)
{
    bytes_u64(bytes, &frame->call_id);
    bytes_u32(bytes, &frame->prompt_tokens);
    bytes_u32(bytes, &frame->flags);
}

/* The fixed part of TOKENS; the token ids and the text follow. */
static void layout_tokens(struct bytes *bytes, struct wire_tokens *frame)
{
    bytes_u64(bytes, &frame->call_id);
    bytes_u32(bytes, &frame->first_index);
    bytes_u32(bytes, &frame->tokens_count);
    bytes_u32(bytes, &frame->text_bytes);
    bytes_u32(bytes, &frame->queue);
}

static void layout_status(struct bytes *bytes, enum status *status)
{
    uint16_t code = status_wire(*status);
    bytes_u16(bytes, &code);
    *status = status_from_wire(code);
}

static void layout_done(struct bytes *bytes, struct wire_done *frame)
{
    bytes_u64(bytes, &frame->call_id);
    bytes_u32(bytes, &frame->finish);
    layout_status(bytes, &frame->status);
    bytes_u16(bytes, &frame->queue);
    bytes_u32(bytes, &frame->prompt_tokens);
    bytes_u32(bytes, &frame->cached_tokens);
    bytes_u32(bytes, &frame->generated_tokens);
    bytes_u32(bytes, &frame->preemptions);
    bytes_u64(bytes, &frame->wait_us);
    bytes_u64(bytes, &frame->service_us);
    bytes_u64(bytes, &frame->total_us);
    bytes_u64(bytes, &frame->digest);
}

static void layout_error(struct bytes *bytes, struct wire_error *frame)
{
    uint8_t field = (uint8_t)frame->fault.field, closes = frame->closes ? 1 : 0;
    layout_status(bytes, &frame->fault.status);
    bytes_u8(bytes, &field);
    bytes_u8(bytes, &frame->fault.frame_type);
    bytes_u8(bytes, &closes);
    bytes_zero(bytes, 1);
    bytes_u16(bytes, &frame->retry_ms);
    bytes_u64(bytes, &frame->fault.call_id);
    bytes_u64(bytes, &frame->fault.found);
    bytes_u64(bytes, &frame->fault.min);
    bytes_u64(bytes, &frame->fault.max);
    bytes_name(bytes, frame->text, sizeof frame->text);
    frame->fault.field = (enum wire_field)field;
    frame->closes = closes != 0;
}

/* ---- checks of what was received ------------------------------------------------------------- */

enum status wire_check_end(const struct bytes *in, struct wire_fault *fault)
{
    if (!bytes_at_end(in)) {
        return wire_refuse(fault, STATUS_BAD_FRAME_LENGTH, WIRE_FIELD_LENGTH, in->count);
    }
    if (in->dirty) {
        return wire_refuse(fault, STATUS_BAD_RESERVED, WIRE_FIELD_RESERVED, 1);
    }
    return STATUS_OK;
}

static enum status check_hello(const struct wire_hello *frame, struct wire_fault *fault)
{
    if (frame->version_min == 0 || frame->version_min > frame->version_max) {
        return wire_refuse_range(fault, WIRE_FIELD_VERSION, frame->version_min, 1,
                                 frame->version_max);
    }
    return STATUS_OK;
}

static enum status check_program_ok(const struct wire_program_ok *frame, struct wire_fault *fault)
{
    if (frame->kind != WIRE_PROGRAM_START && frame->kind != WIRE_PROGRAM_END) {
        return wire_refuse_range(fault, WIRE_FIELD_KIND, frame->kind, WIRE_PROGRAM_START,
                                 WIRE_PROGRAM_END);
    }
    return STATUS_OK;
}

static enum status check_accept(const struct wire_accept *frame, struct wire_fault *fault)
{
    fault->call_id = frame->call_id;
    return frame->flags <= WIRE_ACCEPT_FLAGS_ALL
               ? STATUS_OK
               : wire_refuse_range(fault, WIRE_FIELD_FLAGS, frame->flags, 0, WIRE_ACCEPT_FLAGS_ALL);
}

static enum status check_queue(uint32_t queue, struct wire_fault *fault)
{
    return queue < WIRE_QUEUES_MAX
               ? STATUS_OK
               : wire_refuse_range(fault, WIRE_FIELD_QUEUE, queue, 0, WIRE_QUEUES_MAX - 1);
}

static enum status check_done(const struct wire_done *frame, struct wire_fault *fault)
{
    fault->call_id = frame->call_id;
    if (frame->finish < CALL_FINISH_LENGTH || frame->finish > CALL_FINISH_FAILED) {
        return wire_refuse_range(fault, WIRE_FIELD_KIND, frame->finish, CALL_FINISH_LENGTH,
                                 CALL_FINISH_FAILED);
    }
    return check_queue(frame->queue, fault);
}

/* ---- decoders -------------------------------------------------------------------------------- */

/* A payload of fixed length: all fields, the end, then `check`. */
#define DECODE_FIXED(name, frame_type_, check)                                                \
    enum status wire_##name##_decode(const uint8_t *bytes, uint32_t count,                    \
                                     struct wire_##name *frame, struct wire_fault *fault)     \
    {                                                                                         \
        struct bytes in = bytes_reader(bytes, count);                                         \
        struct wire_##name got;                                                               \
        memset(&got, 0, sizeof got);                                                          \
        *fault = (struct wire_fault){.frame_type = (frame_type_)};                            \
        layout_##name(&in, &got);                                                             \
        TRY(wire_check_end(&in, fault));                                                      \
        TRY(check);                                                                           \
        *frame = got;                                                                         \
        return STATUS_OK;                                                                     \
    }
DECODE_FIXED(hello, WIRE_HELLO, check_hello(&got, fault))
DECODE_FIXED(welcome, WIRE_WELCOME, STATUS_OK)
DECODE_FIXED(auth, WIRE_AUTH, STATUS_OK)
DECODE_FIXED(auth_reply, WIRE_AUTH_REPLY, STATUS_OK)
DECODE_FIXED(program, WIRE_PROGRAM_START, STATUS_OK)
DECODE_FIXED(program_ok, WIRE_PROGRAM_OK, check_program_ok(&got, fault))
DECODE_FIXED(cancel, WIRE_CANCEL, STATUS_OK)
DECODE_FIXED(ping, WIRE_PING, STATUS_OK)
DECODE_FIXED(accept, WIRE_ACCEPT, check_accept(&got, fault))
DECODE_FIXED(done, WIRE_DONE, check_done(&got, fault))
DECODE_FIXED(error, WIRE_ERROR, STATUS_OK)

enum status wire_tokens_decode(const uint8_t *bytes, uint32_t count, struct wire_tokens *frame,
                               struct wire_fault *fault)
{
    struct bytes in = bytes_reader(bytes, count);
    struct wire_tokens got = {0};
    layout_tokens(&in, &got);
    *fault = (struct wire_fault){.frame_type = WIRE_TOKENS, .call_id = got.call_id};
    uint64_t ids_bytes = (uint64_t)got.tokens_count * sizeof(uint32_t);
    if (in.failed || ids_bytes + got.text_bytes != bytes_left(&in)) {
        return wire_refuse(fault, STATUS_BAD_FRAME_LENGTH, WIRE_FIELD_LENGTH, count);
    }
    TRY(check_queue(got.queue, fault));
    got.tokens = bytes + in.at;
    got.text = got.tokens + ids_bytes;
    *frame = got;
    return STATUS_OK;
}

/* ---- encoders -------------------------------------------------------------------------------- */

/* Room for the header, which wire_frame_close() writes last. */
struct bytes wire_frame_open(uint8_t *bytes, uint32_t max)
{
    struct bytes out = bytes_writer(bytes, max);
    bytes_zero(&out, WIRE_HEADER_BYTES);
    return out;
}

uint32_t wire_frame_close(struct bytes *out, uint8_t type)
{
    if (out->failed) {
        return 0;
    }
    struct wire_header header = {.type = type, .length_bytes = out->at - WIRE_HEADER_BYTES};
    uint32_t magic = WIRE_MAGIC;
    struct bytes head = bytes_writer(out->target, WIRE_HEADER_BYTES);
    layout_header(&head, &magic, &header);
    header.checksum =
        wire_checksum(out->target, out->target + WIRE_HEADER_BYTES, header.length_bytes);
    head = bytes_writer(out->target, WIRE_HEADER_BYTES);
    layout_header(&head, &magic, &header);
    return out->at;
}

/* The layouts take what they write as not const, because they also read: they get a copy. */
#define ENCODE_BODY(name, type_)                        \
    {                                                   \
        struct bytes out = wire_frame_open(bytes, max); \
        struct wire_##name copy = *frame;               \
        layout_##name(&out, &copy);                     \
        return wire_frame_close(&out, (uint8_t)(type_));\
    }
#define ENCODE_FIXED(name, type_) \
    uint32_t wire_##name##_encode(const struct wire_##name *frame, uint8_t *bytes, uint32_t max) \
    ENCODE_BODY(name, type_)
ENCODE_FIXED(hello, WIRE_HELLO)
ENCODE_FIXED(welcome, WIRE_WELCOME)
ENCODE_FIXED(auth, WIRE_AUTH)
ENCODE_FIXED(auth_reply, WIRE_AUTH_REPLY)
ENCODE_FIXED(program_ok, WIRE_PROGRAM_OK)
ENCODE_FIXED(cancel, WIRE_CANCEL)
ENCODE_FIXED(accept, WIRE_ACCEPT)
ENCODE_FIXED(done, WIRE_DONE)
ENCODE_FIXED(error, WIRE_ERROR)

uint32_t wire_program_encode(const struct wire_program *frame, enum wire_type type, uint8_t *bytes,
                             uint32_t max)
ENCODE_BODY(program, type)

uint32_t wire_ping_encode(const struct wire_ping *frame, enum wire_type type, uint8_t *bytes,
                          uint32_t max)
ENCODE_BODY(ping, type)

uint32_t wire_tokens_encode(const struct wire_tokens *frame, const uint32_t *tokens,
                            uint8_t *bytes, uint32_t max)
{
    struct bytes out = wire_frame_open(bytes, max);
    struct wire_tokens copy = *frame;
    layout_tokens(&out, &copy);
    for (uint32_t i = 0; i < copy.tokens_count && !out.failed; i++) {
        uint32_t token = tokens[i];
        bytes_u32(&out, &token);
    }
    if (copy.text_bytes > 0 && bytes_fits(&out, copy.text_bytes)) {
        memcpy(out.target + out.at, copy.text, copy.text_bytes);
        out.at += copy.text_bytes;
    }
    return wire_frame_close(&out, WIRE_TOKENS);
}
