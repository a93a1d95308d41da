/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the one bounded cursor for little-endian bytes, in both directions. The same call reads a
 * field into `*value` or writes it from there, so a layout is stated once and encoder and decoder
 * cannot drift apart.
 *
 * Invariants: at <= count. Failure is sticky: after the first field that does not fit, the cursor
 * stays and reads give zero; the caller checks `failed` once, at the end. `dirty` is set when a
 * byte that must be zero was not (reserved fields, padding of names).
 *
 * Header only, no assertion: the client library is built from it too.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const uint8_t *source;      /* reading; NULL when writing */
    uint8_t *target;            /* writing; NULL when reading */
    uint32_t at, count;
    bool failed, dirty;
};

static inline struct bytes bytes_reader(const uint8_t *source, uint32_t count)
{
    return (struct bytes){.source = source, .count = count};
}
static inline struct bytes bytes_writer(uint8_t *target, uint32_t count)
{
    return (struct bytes){.target = target, .count = count};
}
static inline bool bytes_writing(const struct bytes *bytes) { return bytes->target != NULL; }
static inline uint32_t bytes_left(const struct bytes *bytes) { return bytes->count - bytes->at; }
/* True when everything was read and nothing was missing. */
static inline bool bytes_at_end(const struct bytes *bytes)
{
    return !bytes->failed && bytes->at == bytes->count;
}

static inline bool bytes_fits(struct bytes *bytes, uint32_t count)
{
    bytes->failed = bytes->failed || count > bytes_left(bytes);
    return !bytes->failed;
}

static inline void bytes_block(struct bytes *bytes, void *block, uint32_t count)
{
    if (count == 0) {
        return;
    }
    if (!bytes_fits(bytes, count)) {
        if (!bytes_writing(bytes)) {
            memset(block, 0, count);
        }
        return;
    }
    if (bytes_writing(bytes)) {
        memcpy(bytes->target + bytes->at, block, count);
    } else {
        memcpy(block, bytes->source + bytes->at, count);
    }
    bytes->at += count;
}

/* The widest integer field; the narrower ones are its first bytes. */
static inline void bytes_integer(struct bytes *bytes, uint64_t *value, uint32_t count)
{
    uint8_t raw[8] = {0};
    for (uint32_t i = 0; i < count; i++) {
        raw[i] = (uint8_t)(*value >> (8 * i));
    }
    bytes_block(bytes, raw, count);
    *value = 0;
    for (uint32_t i = 0; i < count; i++) {
        *value |= (uint64_t)raw[i] << (8 * i);
    }
}

#define BYTES_FIELD(name, type, width)                                   \
    static inline void bytes_##name(struct bytes *bytes, type *value)    \
    {                                                                    \
        uint64_t wide = *value;                                          \
        bytes_integer(bytes, &wide, width);                              \
        *value = (type)wide;                                             \
    }
BYTES_FIELD(u8, uint8_t, 1)
BYTES_FIELD(u16, uint16_t, 2)
BYTES_FIELD(u32, uint32_t, 4)
BYTES_FIELD(u64, uint64_t, 8)
#undef BYTES_FIELD

/* A reserved field: written as zeros, `dirty` when read otherwise. */
static inline void bytes_zero(struct bytes *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint8_t byte = 0;
        bytes_u8(bytes, &byte);
        bytes->dirty = bytes->dirty || byte != 0;
    }
}

/* A text in a field of fixed size. It ends at the first zero; all bytes after that are zero, and so
 * is the last byte in any case. */
static inline void bytes_name(struct bytes *bytes, char *name, uint32_t count)
{
    bool ended = false;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t byte = bytes_writing(bytes) && !ended && i + 1 < count ? (uint8_t)name[i] : 0;
        bytes_u8(bytes, &byte);
        bytes->dirty = bytes->dirty || (byte != 0 && (ended || i + 1 == count));
        ended = ended || byte == 0;
        if (!bytes_writing(bytes)) {
            name[i] = (char)byte;
        }
    }
}
