/* SPDX-License-Identifier: MIT */
/*
 * Goal: net/wire.c is docs/protocol.md, byte for byte, and refuses everything else.
 * Method: the vectors of selftest/vectors/frames.txt, which were not made by this codec: each good
 * frame is decoded, its fields compared, encoded again and compared; each bad one must be refused
 * with the status and field named there. Then every prefix and every single changed byte of each
 * good frame.
 */
#include "selftest/unit/test.h"

#include <stdio.h>

#include "net/wire.h"

#define FRAME_MAX 4096
#define FIELDS_MAX 24

struct vector {
    bool refuse;
    char type[24], status[32], field[32];
    uint32_t fields_count;
    char names[FIELDS_MAX][32], values[FIELDS_MAX][256];
    uint32_t count;
    uint8_t bytes[FRAME_MAX];
};

union any_frame {
#define LAYOUT(name, id, length) struct wire_##name name;
#include "net/frames.def"
};

/* ---- the codec as one pair of functions ------------------------------------------------------ */

static enum status decode_payload(uint8_t type, const uint8_t *bytes, uint32_t count,
                                  union any_frame *any, struct wire_fault *fault)
{
    switch (type) {
#define FRAME(id, type, from, layout, answer) \
    case WIRE_##id: return wire_##layout##_decode(bytes, count, &any->layout, fault);
#include "net/frames.def"
    default: return STATUS_BAD_FRAME_TYPE;
    }
}

/* A whole frame, as a receiver treats it. */
static enum status decode_frame(const uint8_t *bytes, uint32_t count, union any_frame *any,
                                struct wire_fault *fault)
{
    struct wire_header header;
    TRY(wire_header_decode(bytes, 65536, &header, fault));
    if (header.length_bytes != count - WIRE_HEADER_BYTES) {
        fault->field = WIRE_FIELD_LENGTH;
        return STATUS_BAD_FRAME_LENGTH;
    }
    if (wire_checksum(bytes, bytes + WIRE_HEADER_BYTES, header.length_bytes) != header.checksum) {
        fault->field = WIRE_FIELD_CHECKSUM;
        return STATUS_BAD_FRAME_CHECKSUM;
    }
    return decode_payload(header.type, bytes + WIRE_HEADER_BYTES, header.length_bytes, any, fault);
}

#define ENCODER(name, encode)                                                         \
    static uint32_t encode_##name(uint8_t type, const struct wire_##name *frame,      \
                                  uint8_t *bytes, uint32_t max)                       \
    {                                                                                 \
        return encode;                                                                \
    }
#define ENCODER_EXACT(name)  ENCODER(name, wire_##name##_encode(frame, bytes, max))
#define ENCODER_SHARED(name) ENCODER(name, wire_##name##_encode(frame, type, bytes, max))
#define ENCODER_OPEN(name)
#define ENCODER_PART(name)
#define LAYOUT(name, id, length) ENCODER_##length(name)
#include "net/frames.def"
ENCODER_EXACT(program_start)
ENCODER_EXACT(call)
ENCODER_EXACT(done)
ENCODER_EXACT(flow_open)
ENCODER_EXACT(flow_row)
ENCODER_EXACT(flow_answer)
ENCODER_EXACT(flow_ask)

static uint32_t encode_flow_value(uint8_t type, const struct wire_flow_value *frame,
                                  uint8_t *bytes, uint32_t max)
{
    uint32_t tokens[64];
    assert_true(frame->tokens_count <= 64);
    memcpy(tokens, frame->tokens, frame->tokens_count * sizeof(uint32_t));
    return wire_flow_value_encode(frame, tokens, bytes, max);
}

static uint32_t encode_tokens(uint8_t type, const struct wire_tokens *frame, uint8_t *bytes,
                              uint32_t max)
{
    uint32_t tokens[64];
    assert_true(frame->tokens_count <= 64);
    memcpy(tokens, frame->tokens, frame->tokens_count * sizeof(uint32_t));
    return wire_tokens_encode(frame, tokens, bytes, max);
}

static uint32_t encode_frame(uint8_t type, const union any_frame *any, uint8_t *bytes,
                             uint32_t max)
{
    switch (type) {
#define FRAME(id, type_, from, layout, answer) \
    case WIRE_##id: return encode_##layout(type, &any->layout, bytes, max);
#include "net/frames.def"
    default: return 0;
    }
}

/* ---- fields by name -------------------------------------------------------------------------- */

/* The vectors name the members of the structs; the last ones are what follows a fixed part. */
enum kind { U8, U16, U32, U64, F32, BOOL, STATUS, BYTES, NAME, POINTER };
#define BYTES(n) BYTES
#define NAME(n)  NAME
#define ROW(layout, member, kind) \
    {#layout, #member, kind, offsetof(struct wire_##layout, member), \
     sizeof(((struct wire_##layout *)0)->member)}
static const struct field_row {
    const char *layout, *member;
    enum kind kind;
    size_t offset, size;
} field_rows[] = {
#define FIELD(layout, name, type, member, error, range, help) ROW(layout, member, type),
#include "net/frames.def"
    ROW(program_start, class_name, NAME), ROW(call, parts, POINTER), ROW(call, prompt, POINTER),
    ROW(call, sampling.presence_penalty, F32), ROW(call, sampling.frequency_penalty, F32),
    ROW(call, sampling.biases_count, U8), ROW(call, sampling.wants_logprobs, U8),
    ROW(call, sampling.top_logprobs, U8),
    ROW(done, has_drafts, BOOL), ROW(done, drafts.draft_tokens, U32),
    ROW(done, drafts.draft_tokens_agreed, U32),
    ROW(tokens, tokens, POINTER), ROW(tokens, text, POINTER),
    ROW(tokens, entries, U32), ROW(tokens, logprobs, POINTER),
    ROW(flow_open, nodes, POINTER), ROW(flow_open, outputs, POINTER),
    ROW(flow_open, texts, POINTER), ROW(flow_row, columns, POINTER),
    ROW(flow_answer, text, POINTER), ROW(flow_value, tokens, POINTER),
    ROW(flow_value, text, POINTER), ROW(flow_ask, text, POINTER),
};

static const char *layout_of(const char *type)
{
#define FRAME(id, type_, from, layout, answer) \
    if (strcmp(type, #id) == 0) {              \
        return #layout;                        \
    }
#include "net/frames.def"
    return "";
}

/* "sampling.seed" is seed there. */
static const char *leaf_of(const char *member)
{
    const char *dot = strrchr(member, '.');
    return dot != NULL ? dot + 1 : member;
}

static void hex_of(const uint8_t *bytes, size_t count, char *text, size_t max)
{
    assert_true(count * 2 < max);
    for (size_t i = 0; i < count; i++) {
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    text[2 * count] = '\0';
}

static uint64_t number_at(const uint8_t *at, size_t size)
{
    uint8_t u8; uint16_t u16; uint32_t u32; uint64_t u64;
    switch (size) {
    case 1: memcpy(&u8, at, 1); return u8;
    case 2: memcpy(&u16, at, 2); return u16;
    case 4: memcpy(&u32, at, 4); return u32;
    default: memcpy(&u64, at, 8); return u64;
    }
}

static void field_text(const struct field_row *row, const union any_frame *any,
                       const char *expected, char *text, size_t max)
{
    const uint8_t *at = (const uint8_t *)any + row->offset;
    float f32; const uint8_t *pointer; enum status status;
    text[0] = '\0';
    switch (row->kind) {
    case F32: memcpy(&f32, at, 4); snprintf(text, max, "%g", (double)f32); break;
    case STATUS:
        memcpy(&status, at, sizeof status);
        snprintf(text, max, "%u", status_wire(status));
        break;
    case BYTES: hex_of(at, row->size, text, max); break;
    case NAME: hex_of(at, strnlen((const char *)at, row->size), text, max); break;
    case POINTER:
        memcpy(&pointer, at, sizeof pointer);
        hex_of(pointer, strlen(expected) / 2, text, max);
        break;
    default: snprintf(text, max, "%llu", (unsigned long long)number_at(at, row->size)); break;
    }
}

static void check_field(const struct vector *vector, uint32_t i, const union any_frame *any)
{
    for (size_t r = 0; r < sizeof field_rows / sizeof field_rows[0]; r++) {
        const struct field_row *row = &field_rows[r];
        if (strcmp(row->layout, layout_of(vector->type)) == 0 &&
            strcmp(leaf_of(row->member), vector->names[i]) == 0) {
            char text[256];
            field_text(row, any, vector->values[i], text, sizeof text);
            assert_string_equal(text, vector->values[i]);
            return;
        }
    }
    fail_msg("%s has no field %s", vector->type, vector->names[i]);
}

/* ---- the vectors file ------------------------------------------------------------------------ */

static FILE *open_vectors(void)
{
    FILE *file = fopen("selftest/vectors/frames.txt", "r");
    if (file == NULL) {
        fail_msg("selftest/vectors/frames.txt: run the tests from the root of the repository");
    }
    return file;
}

static void add_bytes(struct vector *vector, const char *hex)
{
    unsigned byte = 0;
    for (; sscanf(hex, "%2x", &byte) == 1; hex += 2) {
        assert_true(vector->count < FRAME_MAX);
        vector->bytes[vector->count++] = (uint8_t)byte;
    }
}

static bool next_vector(FILE *file, struct vector *vector)
{
    char line[256], word[32], value[256];
    memset(vector, 0, sizeof *vector);
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#') {
            continue;
        }
        if (line[0] == '\n') {
            if (vector->count > 0) {
                return true;
            }
            continue;
        }
        if (sscanf(line, "frame %23s", vector->type) == 1) {
            continue;
        }
        if (sscanf(line, "refuse %31s %31s", vector->status, vector->field) == 2) {
            vector->refuse = true;
            continue;
        }
        value[0] = '\0';
        assert_true(sscanf(line, " %31s %255s", word, value) >= 1);
        if (strcmp(word, "bytes") == 0) {
            add_bytes(vector, value);
            continue;
        }
        assert_true(vector->fields_count < FIELDS_MAX);
        snprintf(vector->names[vector->fields_count], 32, "%.31s", word);
        snprintf(vector->values[vector->fields_count++], 256, "%.255s", value);
    }
    return vector->count > 0;
}

static struct vector vector_;

static void test_decode_good_vector_gives_its_fields(void **state)
{
    FILE *file = open_vectors();
    uint32_t frames = 0;
    while (next_vector(file, &vector_)) {
        if (vector_.refuse) {
            continue;
        }
        union any_frame any;
        struct wire_fault fault;
        assert_status(STATUS_OK, decode_frame(vector_.bytes, vector_.count, &any, &fault));
        assert_string_equal(wire_type_name(vector_.bytes[4]), vector_.type);
        for (uint32_t i = 0; i < vector_.fields_count; i++) {
            check_field(&vector_, i, &any);
        }
        frames++;
    }
    fclose(file);
    assert_true(frames >= 20);
}

static void test_encode_decoded_vector_gives_its_bytes(void **state)
{
    FILE *file = open_vectors();
    while (next_vector(file, &vector_)) {
        uint8_t bytes[FRAME_MAX];
        union any_frame any;
        struct wire_fault fault;
        if (vector_.refuse) {
            continue;
        }
        assert_status(STATUS_OK, decode_frame(vector_.bytes, vector_.count, &any, &fault));
        assert_int_equal(encode_frame(vector_.bytes[4], &any, bytes, sizeof bytes), vector_.count);
        assert_memory_equal(bytes, vector_.bytes, vector_.count);
        assert_int_equal(encode_frame(vector_.bytes[4], &any, bytes, vector_.count), vector_.count);
        for (uint32_t max = 0; max < vector_.count; max++) {
            assert_int_equal(encode_frame(vector_.bytes[4], &any, bytes, max), 0);
        }
    }
    fclose(file);
}

static void test_decode_bad_vector_is_refused_by_name(void **state)
{
    FILE *file = open_vectors();
    uint32_t refusals = 0;
    while (next_vector(file, &vector_)) {
        union any_frame any;
        struct wire_fault fault = {0};
        if (!vector_.refuse) {
            continue;
        }
        enum status status = decode_frame(vector_.bytes, vector_.count, &any, &fault);
        assert_string_equal(status_name(status), vector_.status);
        assert_string_equal(wire_field_name(fault.field), vector_.field);
        refusals++;
    }
    fclose(file);
    assert_true(refusals >= 60);
}

/* Of a TOKENS frame all but the log probabilities, of DONE all but what drafts brought, and any
 * other frame's payload. Only the client knows what of these it has asked for. */
static uint32_t whole_of(const struct vector *vector)
{
    union any_frame any;
    struct wire_fault fault;
    uint32_t payload = vector->count - WIRE_HEADER_BYTES;
    if (vector->bytes[4] != WIRE_TOKENS) {
        return vector->bytes[4] == WIRE_DONE ? wire_done_layout.bytes : payload;
    }
    assert_status(STATUS_OK, decode_frame(vector->bytes, vector->count, &any, &fault));
    return payload - any.tokens.entries * any.tokens.tokens_count * 8;
}

/* The payload ends early: every decoder must see it, and must not read beyond it (under ASan the
 * copy on the heap makes that an error). */
static void test_decode_every_prefix_is_refused(void **state)
{
    FILE *file = open_vectors();
    while (next_vector(file, &vector_)) {
        if (vector_.refuse) {
            continue;
        }
        /* The beginning of a name is a name, and that of an answer an answer. */
        bool is_text = vector_.bytes[4] == WIRE_PROGRAM_START || vector_.bytes[4] == WIRE_ANSWER;
        uint32_t payload = is_text ? wire_layout_of(vector_.bytes[4])->bytes
                                   : whole_of(&vector_);
        for (uint32_t count = 0; count < payload; count++) {
            union any_frame any;
            struct wire_fault fault;
            uint8_t *copy = malloc(count + 1);
            memcpy(copy, vector_.bytes + WIRE_HEADER_BYTES, count);
            assert_int_not_equal(decode_payload(vector_.bytes[4], copy, count, &any, &fault),
                                 STATUS_OK);
            free(copy);
        }
    }
    fclose(file);
}

static void test_decode_any_changed_byte_is_refused(void **state)
{
    FILE *file = open_vectors();
    while (next_vector(file, &vector_)) {
        for (uint32_t i = 0; i < vector_.count && !vector_.refuse; i++) {
            union any_frame any;
            struct wire_fault fault;
            vector_.bytes[i] ^= (uint8_t)(1u << (i % 8));
            assert_int_not_equal(decode_frame(vector_.bytes, vector_.count, &any, &fault),
                                 STATUS_OK);
            vector_.bytes[i] ^= (uint8_t)(1u << (i % 8));
        }
    }
    fclose(file);
}

/* ---- small things ---------------------------------------------------------------------------- */

static void test_checksum_of_known_text_is_crc32c(void **state)
{
    /* RFC 3720, B.4: 32 bytes of zeros, 32 bytes of ones. */
    uint8_t zeros[32] = {0}, ones[32];
    memset(ones, 0xff, sizeof ones);
    assert_int_equal(wire_checksum(zeros, zeros + 12, 20), 0x8a9136aa);
    assert_int_equal(wire_checksum(ones, ones + 12, 20), 0x62a8ab43);
}

static void test_digest_is_fnv1a_over_token_bytes(void **state)
{
    const uint32_t one = 0x61;     /* the bytes 61 00 00 00 */
    uint64_t expected = WIRE_DIGEST_START;
    const uint8_t bytes[4] = {0x61, 0, 0, 0};
    for (int i = 0; i < 4; i++) {
        expected = (expected ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    assert_true(wire_digest(WIRE_DIGEST_START, &one, 1) == expected);
    assert_true(wire_digest(WIRE_DIGEST_START, NULL, 0) == WIRE_DIGEST_START);
    const uint32_t both[2] = {7, 9};
    assert_true(wire_digest(wire_digest(WIRE_DIGEST_START, both, 1), both + 1, 1) ==
                wire_digest(WIRE_DIGEST_START, both, 2));
}

static void test_name_of_unknown_numbers_is_a_text(void **state)
{
    for (uint32_t i = 0; i < 256; i++) {
        assert_non_null(wire_type_name((uint8_t)i));
        assert_non_null(wire_field_name((enum wire_field)i));
    }
    assert_string_equal(wire_type_name(WIRE_CALL), "CALL");
    assert_string_equal(wire_field_name(WIRE_FIELD_TOP_P), "top_p");
    assert_string_equal(wire_field_name(WIRE_FIELD_CONNECTION), "connection");
    assert_string_equal(wire_field_name(WIRE_FIELD_QUEUE), "queue");
    assert_string_equal(wire_field_name(WIRE_FIELD_KEY_ID), "key_id");
    assert_true(wire_field_is_float(WIRE_FIELD_TOP_P));
    assert_false(wire_field_is_float(WIRE_FIELD_TOP_K));
    assert_false(wire_field_is_float(WIRE_FIELD_NONE));
}

/* A flag that the sum lacks would be refused. */
static void test_flags_of_a_frame_are_all_of_its_flags(void **state)
{
#define FLAGS(frame, all) uint32_t frame##_sum = 0;
#include "net/frames.def"
#define FLAG(frame, id, value, help) frame##_sum |= WIRE_##frame##_##id;
#include "net/frames.def"
#define FLAGS(frame, all) assert_int_equal(frame##_sum, WIRE_##frame##_FLAGS_ALL);
#include "net/frames.def"
}

/* ---- the normative page ---------------------------------------------------------------------- */

static char page[64 << 10];

static bool page_has(const char *format, uint32_t number, const char *name)
{
    char row[128];
    snprintf(row, sizeof row, format, number, name);
    return strstr(page, row) != NULL;
}

static void test_page_names_every_status_type_and_field(void **state)
{
    FILE *file = fopen("docs/protocol.md", "r");
    assert_non_null(file);
    size_t count = fread(page, 1, sizeof page - 1, file);
    fclose(file);
    page[count] = '\0';
    for (uint32_t i = 1; i < STATUS_COUNT; i++) {
        uint16_t code = status_wire((enum status)i);
        assert_true(code == 0 || page_has("\n| %u | %s |", code, status_name((enum status)i)));
    }
    for (uint32_t type = 0; type < 256; type++) {
        const char *name = wire_type_name((uint8_t)type);
        assert_true(strcmp(name, "unknown") == 0 || page_has("\n| 0x%02x | %s |", type, name));
    }
    for (uint32_t field = 0; field < WIRE_FIELD_COUNT; field++) {
        assert_true(page_has(" %u %s", field, wire_field_name((enum wire_field)field)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_good_vector_gives_its_fields),
        cmocka_unit_test(test_encode_decoded_vector_gives_its_bytes),
        cmocka_unit_test(test_decode_bad_vector_is_refused_by_name),
        cmocka_unit_test(test_decode_every_prefix_is_refused),
        cmocka_unit_test(test_decode_any_changed_byte_is_refused),
        cmocka_unit_test(test_checksum_of_known_text_is_crc32c),
        cmocka_unit_test(test_digest_is_fnv1a_over_token_bytes),
        cmocka_unit_test(test_name_of_unknown_numbers_is_a_text),
        cmocka_unit_test(test_flags_of_a_frame_are_all_of_its_flags),
        cmocka_unit_test(test_page_names_every_status_type_and_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
