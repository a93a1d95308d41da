/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a bounded reader over a source, from an offset to an end, through a small buffer. All that
 * is read from a model's header passes through here. Private to config, BOOT_ONLY.
 *
 * Every verb takes `what` is being read, for the message when the bytes are not there.
 */
#include "config/model/gguf.h"

#define GGUF_CURSOR_BYTES 16384

struct gguf_cursor {
    const struct gguf_source *source;
    struct config_error *error;
    uint64_t offset;                /* of the next byte; <= end */
    uint64_t end;                   /* <= size of the source */
    /* private: only gguf_cursor.c */
    uint64_t buffer_first;          /* offset of buffer[0] */
    uint32_t buffer_count;
    uint8_t buffer[GGUF_CURSOR_BYTES];
};

/* Reads from `offset` up to `end`, which is cut to the size of the source. */
void gguf_cursor_init(struct gguf_cursor *cursor, const struct gguf_source *source,
                      uint64_t offset, uint64_t end, struct config_error *error);
MUST_CHECK enum status gguf_cursor_bytes(struct gguf_cursor *cursor, void *bytes, uint64_t count,
                                         const char *what);
MUST_CHECK enum status gguf_cursor_skip(struct gguf_cursor *cursor, uint64_t count,
                                        const char *what);
MUST_CHECK enum status gguf_cursor_u32(struct gguf_cursor *cursor, uint32_t *value,
                                       const char *what);
MUST_CHECK enum status gguf_cursor_u64(struct gguf_cursor *cursor, uint64_t *value,
                                       const char *what);
static inline uint64_t gguf_cursor_left(const struct gguf_cursor *cursor)
{
    return cursor->end - cursor->offset;
}

/* Writes `NAME: offset N: text`, what is not printable ASCII as '?'; returns CONFIG_MODEL. Of the
 * file as a whole, GGUF_WHOLE: `NAME: text`. */
#define GGUF_WHOLE UINT64_MAX
enum status gguf_error(const struct gguf_source *source, uint64_t offset,
                       struct config_error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
