/* SPDX-License-Identifier: MIT */
/*
 * What: protocol version 1 in bytes; docs/protocol.md is normative. Header, checksum, digest, and
 * the decoder and encoder of each frame.
 *
 * How: net/frames.def states the fields of each payload once, for both directions
 * (net/wire_table.c). Here is what it cannot say: the versions of HELLO, and what follows the fixed
 * parts of PROGRAM_START and TOKENS. CALL, which has the most to check, is in net/wire_call.c, and
 * the frames of workflows are in net/wire_workflow.c.
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

#include "net/bytes.h"
#include "config/base/fnv.h"
#include "net/wire_frame.h"

/* ---- header, checksum, digest ---------------------------------------------------------------- */

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
    const struct wire_layout *layout = wire_layout_of(got.type);
    if (layout == NULL) {
        return wire_refuse(fault, STATUS_BAD_FRAME_TYPE, WIRE_FIELD_TYPE, got.type);
    }
    if (in.dirty) {
        return wire_refuse(fault, STATUS_BAD_RESERVED, WIRE_FIELD_RESERVED, 1);
    }
    fault->min = layout->bytes;
    fault->max = layout->is_open ? frame_bytes_max : layout->bytes;
    if (got.length_bytes < fault->min || got.length_bytes > fault->max) {
        return wire_refuse(fault, STATUS_BAD_FRAME_LENGTH, WIRE_FIELD_LENGTH, got.length_bytes);
    }
    *header = got;
    return STATUS_OK;
}

/* ---- decoders -------------------------------------------------------------------------------- */

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

enum status wire_check_fixed(const struct wire_layout *layout, const struct bytes *in,
                             const void *frame, struct wire_fault *fault)
{
    if (in->failed) {
        return wire_check_end(in, fault);
    }
    if (in->dirty) {
        return wire_refuse(fault, STATUS_BAD_RESERVED, WIRE_FIELD_RESERVED, 1);
    }
    return wire_layout_check(layout, frame, fault);
}

/* The one rule that two fields make together. */
static enum status check_versions(const struct wire_hello *hello, struct wire_fault *fault)
{
    return hello->version_min >= 1 && hello->version_min <= hello->version_max
               ? STATUS_OK
               : wire_refuse_range(fault, WIRE_FIELD_VERSION, hello->version_min, 1,
                                   hello->version_max);
}

/* A payload of exact length: all fields, the end, the ranges. */
static enum status decode_exact(enum wire_type type, struct bytes in, void *frame,
                                struct wire_fault *fault)
{
    const struct wire_layout *layout = wire_layout_of((uint8_t)type);
    *fault = (struct wire_fault){.frame_type = (uint8_t)type};
    wire_layout_move(layout, &in, frame);
    TRY(wire_check_end(&in, fault));
    return type == WIRE_HELLO ? check_versions(frame, fault)
                              : wire_layout_check(layout, frame, fault);
}

#define DECODE_EXACT(name, id)                                            \
    WIRE_DECODER(name)                                                    \
    {                                                                     \
        struct wire_##name got;                                           \
        memset(&got, 0, sizeof got);                                      \
        TRY(decode_exact(WIRE_##id, bytes_reader(bytes, count), &got, fault)); \
        *frame = got;                                                     \
        return STATUS_OK;                                                 \
    }
#define DECODE_SHARED(name, id) DECODE_EXACT(name, id)
#define DECODE_OPEN(name, id)
#define DECODE_PART(name, id)
#define LAYOUT(name, id, length) DECODE_##length(name, id)
#include "net/frames.def"

enum status wire_class_check(const uint8_t *name, uint32_t count, struct wire_fault *fault)
{
    if (count > CALL_CLASS_BYTES) {
        return wire_refuse_range(fault, WIRE_FIELD_CLASS, count, 0, CALL_CLASS_BYTES);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (name[i] <= ' ' || name[i] > '~') {
            return wire_refuse_range(fault, WIRE_FIELD_CLASS, name[i], ' ' + 1, '~');
        }
    }
    return STATUS_OK;
}

enum status wire_program_start_decode(const uint8_t *bytes, uint32_t count,
                                      struct wire_program_start *frame, struct wire_fault *fault)
{
    struct bytes in = bytes_reader(bytes, count);
    struct wire_program_start got = {0};
    wire_layout_move(&wire_program_start_layout, &in, &got);
    *fault = (struct wire_fault){.frame_type = WIRE_PROGRAM_START};
    if (in.failed) {
        return wire_check_end(&in, fault);
    }
    TRY(wire_class_check(bytes + in.at, bytes_left(&in), fault));
    memcpy(got.class_name, bytes + in.at, bytes_left(&in));
    *frame = got;
    return STATUS_OK;
}

/* What is left after ids and text are the entries, for each token as many. */
static bool find_entries(const struct wire_tokens *got, uint64_t bytes, uint32_t *entries)
{
    uint64_t of_one = got->tokens_count * (uint64_t)sizeof(struct wire_bytes_token_logprob);
    *entries = of_one > 0 && bytes / of_one <= WIRE_ENTRIES_MAX ? (uint32_t)(bytes / of_one) : 0;
    return *entries * of_one == bytes;
}

enum status wire_tokens_decode(const uint8_t *bytes, uint32_t count, struct wire_tokens *frame,
                               struct wire_fault *fault)
{
    struct bytes in = bytes_reader(bytes, count);
    struct wire_tokens got = {0};
    wire_layout_move(&wire_tokens_layout, &in, &got);
    *fault = (struct wire_fault){.frame_type = WIRE_TOKENS, .call_id = got.call_id};
    uint64_t ids_bytes = (uint64_t)got.tokens_count * sizeof(uint32_t);
    uint64_t known = ids_bytes + got.text_bytes;
    if (in.failed || known > bytes_left(&in) ||
        !find_entries(&got, bytes_left(&in) - known, &got.entries)) {
        return wire_refuse(fault, STATUS_BAD_FRAME_LENGTH, WIRE_FIELD_LENGTH, count);
    }
    TRY(wire_layout_check(&wire_tokens_layout, &got, fault));
    got.tokens = bytes + in.at;
    got.text = got.tokens + ids_bytes;
    got.logprobs = got.text + got.text_bytes;
    *frame = got;
    return STATUS_OK;
}

enum status wire_done_decode(const uint8_t *bytes, uint32_t count, struct wire_done *frame,
                             struct wire_fault *fault)
{
    struct bytes in = bytes_reader(bytes, count);
    struct wire_done got;
    memset(&got, 0, sizeof got);
    wire_layout_move(&wire_done_layout, &in, &got);
    *fault = (struct wire_fault){.frame_type = WIRE_DONE, .call_id = got.call_id};
    got.has_drafts = !in.failed && bytes_left(&in) > 0;
    if (got.has_drafts) {
        wire_layout_move(&wire_done_drafts_layout, &in, &got.drafts);
    }
    TRY(wire_check_end(&in, fault));
    TRY(wire_layout_check(&wire_done_layout, &got, fault));
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

void wire_put_block(struct bytes *out, const uint8_t *bytes, uint64_t count)
{
    if (out->failed || count > bytes_left(out)) {
        out->failed = true;
    } else if (count > 0) {
        memcpy(out->target + out->at, bytes, count);
        out->at += (uint32_t)count;
    }
}

/* Layouts take what they write as not const, because they also read: they get a copy. */
static uint32_t encode_exact(enum wire_type type, void *copy, uint8_t *bytes, uint32_t max)
{
    struct bytes out = wire_frame_open(bytes, max);
    wire_layout_move(wire_layout_of((uint8_t)type), &out, copy);
    return wire_frame_close(&out, (uint8_t)type);
}

#define ENCODE(name, type)                             \
    {                                                  \
        struct wire_##name copy = *frame;              \
        return encode_exact((type), &copy, bytes, max); \
    }
#define ENCODE_EXACT(name, id)  WIRE_ENCODER_EXACT(name) ENCODE(name, WIRE_##id)
#define ENCODE_SHARED(name, id) WIRE_ENCODER_SHARED(name) ENCODE(name, type)
#define ENCODE_OPEN(name, id)
#define ENCODE_PART(name, id)
#define LAYOUT(name, id, length) ENCODE_##length(name, id)
#include "net/frames.def"

uint32_t wire_program_start_encode(const struct wire_program_start *frame, uint8_t *bytes,
                                   uint32_t max)
{
    struct bytes out = wire_frame_open(bytes, max);
    struct wire_program_start copy = *frame;
    wire_layout_move(&wire_program_start_layout, &out, &copy);
    for (uint32_t i = 0; i < CALL_CLASS_BYTES && copy.class_name[i] != '\0'; i++) {
        bytes_block(&out, &copy.class_name[i], 1);
    }
    return wire_frame_close(&out, WIRE_PROGRAM_START);
}

uint32_t wire_tokens_encode(const struct wire_tokens *frame, const uint32_t *tokens,
                            uint8_t *bytes, uint32_t max)
{
    struct bytes out = wire_frame_open(bytes, max);
    struct wire_tokens copy = *frame;
    wire_layout_move(&wire_tokens_layout, &out, &copy);
    for (uint32_t i = 0; i < copy.tokens_count && !out.failed; i++) {
        uint32_t token = tokens[i];
        bytes_u32(&out, &token);
    }
    wire_put_block(&out, copy.text, copy.text_bytes);
    wire_put_block(&out, copy.logprobs, (uint64_t)copy.tokens_count * copy.entries *
                                            sizeof(struct wire_bytes_token_logprob));
    return wire_frame_close(&out, WIRE_TOKENS);
}

uint32_t wire_done_encode(const struct wire_done *frame, uint8_t *bytes, uint32_t max)
{
    struct bytes out = wire_frame_open(bytes, max);
    struct wire_done copy = *frame;
    wire_layout_move(&wire_done_layout, &out, &copy);
    if (copy.has_drafts) {
        wire_layout_move(&wire_done_drafts_layout, &out, &copy.drafts);
    }
    return wire_frame_close(&out, WIRE_DONE);
}
