/* SPDX-License-Identifier: MIT */
/*
 * What: pass 1 over a model file: the whole header, checked, and nothing of the data.
 *
 *     magic, version, counts   here
 *     key-value pairs          gguf_keys.c      bytes  -> struct gguf_keys, types checked
 *     tensor descriptions      gguf_tensors.c   bytes  -> extents in the file, none shared
 *     vocabulary               gguf_vocab.c     keys   -> kind and sizes
 *     chat template            gguf_chat.c      text   -> which of our formats it is
 *     model                    gguf_shape.c     keys and tensors -> a shape that the engine can run
 *     or a predictor           predictor.c      keys and tensors -> classes of programs
 *
 * Invariant: when gguf_scan() says OK, every number in struct gguf is in its range and every extent
 * lies in the file; later readers only have to expect that the file has changed since.
 *
 * Bounds: linear in the header. The stack holds a cursor of 16 KiB and the keys.
 */
#include "config/model/gguf.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/model/gguf_keys.h"

STATIC_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is read as it lies in memory");

#define ALIGNMENT_DEFAULT 32
#define ALIGNMENT_MAX     (1u << 20)

const char *gguf_type_name(uint32_t type)
{
    static const char *const names[] = {
        "F32",     "F16",     "Q4_0",   "Q4_1",    "Q4_2",  "Q4_3",    "Q5_0",   "Q5_1",
        "Q8_0",    "Q8_1",    "Q2_K",   "Q3_K",    "Q4_K",  "Q5_K",    "Q6_K",   "Q8_K",
        "IQ2_XXS", "IQ2_XS",  "IQ3_XXS", "IQ1_S",  "IQ4_NL", "IQ3_S",  "IQ2_S",  "IQ4_XS",
        "I8",      "I16",     "I32",    "I64",     "F64",   "IQ1_M",   "BF16",   "Q4_0_4_4",
        "Q4_0_4_8", "Q4_0_8_8", "TQ1_0", "TQ2_0",  "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8",
        "MXFP4",
    };
    return type < sizeof names / sizeof names[0] ? names[type] : "unknown";
}

struct gguf_block gguf_type_block(uint32_t type)
{
    switch (type) {
#define GGUF_TYPE(name, number, values, bytes)  \
    case number:                                \
        return (struct gguf_block){values, bytes};
    GGUF_TYPES
#undef GGUF_TYPE
    default:
        return (struct gguf_block){0, 0};
    }
}

uint64_t gguf_row_bytes(enum gguf_type type, uint64_t columns)
{
    struct gguf_block block = gguf_type_block(type);
    ASSERT(block.values > 0 && columns % block.values == 0);
    return columns / block.values * block.bytes;
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *gguf, const char *name)
{
    ASSERT(gguf->tensors_count <= GGUF_TENSORS_MAX);
    for (uint32_t i = 0; i < gguf->tensors_count; i++) {
        if (strcmp(gguf->tensors[i].name, name) == 0) {
            return &gguf->tensors[i];
        }
    }
    return NULL;
}

struct preamble {
    uint64_t tensors, keys;
};

static enum status read_version(struct gguf_cursor *cursor)
{
    char magic[4] = {0};
    uint32_t version = 0;
    TRY(gguf_cursor_bytes(cursor, magic, sizeof magic, "the magic"));
    if (memcmp(magic, "GGUF", sizeof magic) != 0) {
        return gguf_error(cursor->source, 0, cursor->error,
                          "begins with %02x %02x %02x %02x, expected 'GGUF'",
                          (unsigned char)magic[0], (unsigned char)magic[1],
                          (unsigned char)magic[2], (unsigned char)magic[3]);
    }
    TRY(gguf_cursor_u32(cursor, &version, "the version"));
    if (version == __builtin_bswap32(3)) {
        return gguf_error(cursor->source, 4, cursor->error,
                          "is big-endian, expected little-endian");
    }
    if (version != 3) {
        return gguf_error(cursor->source, 4, cursor->error, "has version %u, expected 3", version);
    }
    return STATUS_OK;
}

static enum status read_preamble(struct preamble *preamble, struct gguf_cursor *cursor)
{
    TRY(read_version(cursor));
    TRY(gguf_cursor_u64(cursor, &preamble->tensors, "the number of tensors"));
    if (preamble->tensors > GGUF_TENSORS_MAX) {
        return gguf_error(cursor->source, 8, cursor->error,
                          "has %llu tensors, expected at most %d",
                          (unsigned long long)preamble->tensors, GGUF_TENSORS_MAX);
    }
    TRY(gguf_cursor_u64(cursor, &preamble->keys, "the number of keys"));
    if (preamble->keys > GGUF_KEYS_MAX) {
        return gguf_error(cursor->source, 16, cursor->error, "has %llu keys, expected at most %d",
                          (unsigned long long)preamble->keys, GGUF_KEYS_MAX);
    }
    return STATUS_OK;
}

static enum status check_alignment(const struct gguf_keys *keys, const struct gguf_cursor *cursor,
                                   uint32_t *alignment)
{
    *alignment = keys->alignment.key.present ? keys->alignment.value : ALIGNMENT_DEFAULT;
    if (*alignment == 0 || (*alignment & (*alignment - 1)) != 0 || *alignment > ALIGNMENT_MAX) {
        return gguf_error(cursor->source, keys->alignment.key.offset, cursor->error,
                          "general.alignment is %u, expected a power of two of at most %u",
                          *alignment, ALIGNMENT_MAX);
    }
    return STATUS_OK;
}

/* Control characters and what is not ASCII become '?': the name is shown on the text port. */
static void copy_name(struct gguf *gguf, const struct gguf_keys *keys)
{
    STATIC_ASSERT(sizeof gguf->model_name == sizeof keys->name.value, "a name is copied whole");
    memcpy(gguf->model_name, keys->name.value, sizeof gguf->model_name);
    for (char *c = gguf->model_name; *c != '\0'; c++) {
        *c = *c >= ' ' && *c <= '~' ? *c : '?';
    }
}

enum status gguf_header_read(struct gguf *gguf, struct gguf_keys *keys,
                             const struct gguf_source *source, uint64_t bytes_max,
                             struct config_error *error)
{
    struct gguf_cursor cursor;
    struct preamble preamble = {0};
    uint32_t alignment = 0;
    memset(gguf, 0, sizeof *gguf);
    gguf_cursor_init(&cursor, source, 0, bytes_max, error);
    TRY(read_preamble(&preamble, &cursor));
    TRY(gguf_keys_read(keys, &cursor, preamble.keys));
    TRY(check_alignment(keys, &cursor, &alignment));
    return gguf_tensors_read(gguf, &cursor, preamble.tensors, alignment);
}

enum status gguf_scan(struct gguf *gguf, const struct gguf_source *source,
                      uint64_t vocabulary_bytes_max, struct config_error *error)
{
    struct gguf_keys keys;
    TRY(gguf_header_read(gguf, &keys, source, vocabulary_bytes_max, error));
    copy_name(gguf, &keys);
    TRY(gguf_vocab_derive(&gguf->vocab, &keys, source, error));
    TRY(gguf_chat_derive(&gguf->chat, &keys, source, error));
    gguf->has_model = gguf->tensors_count > 0;
    return gguf->has_model ? gguf_shape_derive(gguf, &keys, source, error) : STATUS_OK;
}
