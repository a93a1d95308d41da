/* SPDX-License-Identifier: MIT */
/*
 * What: the bounded reader of a model's header, and the one place where its errors are worded.
 *
 * Invariant: offset <= end <= size of the source. A length from the file is compared with what is
 * left before anything is added to an offset, so no sum of file values can wrap.
 *
 * Bounds: one read of 16 KiB at a time; skipping reads nothing.
 */
#include "config/model/gguf_cursor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/base/assert.h"

enum status gguf_error(const struct gguf_source *source, uint64_t offset,
                       struct config_error *error, const char *format, ...)
{
    int used = offset == GGUF_WHOLE
                   ? snprintf(error->text, sizeof error->text, "%.255s: ", source->name)
                   : snprintf(error->text, sizeof error->text, "%.255s: offset %llu: ",
                              source->name, (unsigned long long)offset);
    ASSERT(used > 0 && (size_t)used < sizeof error->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text + used, sizeof error->text - (size_t)used, format, arguments);
    va_end(arguments);
    /* Names out of the file are quoted in messages: nothing in them may reach a terminal. */
    for (char *c = error->text; *c != '\0'; c++) {
        *c = *c >= ' ' && *c <= '~' ? *c : '?';
    }
    return STATUS_CONFIG_MODEL;
}

void gguf_cursor_init(struct gguf_cursor *cursor, const struct gguf_source *source,
                      uint64_t offset, uint64_t end, struct config_error *error)
{
    cursor->source = source;
    cursor->error = error;
    cursor->end = end < source->size_bytes ? end : source->size_bytes;
    cursor->offset = offset < cursor->end ? offset : cursor->end;
    cursor->buffer_first = 0;
    cursor->buffer_count = 0;
}

static enum status check_left(const struct gguf_cursor *cursor, uint64_t count, const char *what)
{
    ASSERT(cursor->offset <= cursor->end);
    if (count <= gguf_cursor_left(cursor)) {
        return STATUS_OK;
    }
    if (cursor->end < cursor->source->size_bytes) {
        return gguf_error(cursor->source, cursor->offset, cursor->error,
                          "%s needs %llu bytes and reaches beyond the limit for a header, "
                          "expected at most %llu bytes (limits.vocabulary_bytes)",
                          what, (unsigned long long)count, (unsigned long long)cursor->end);
    }
    return gguf_error(cursor->source, cursor->offset, cursor->error,
                      "the file ends within %s, expected %llu more bytes, found %llu", what,
                      (unsigned long long)count, (unsigned long long)gguf_cursor_left(cursor));
}

/* Makes the buffer begin at the offset. */
static enum status fill(struct gguf_cursor *cursor)
{
    uint64_t left = gguf_cursor_left(cursor);
    uint32_t count = left < GGUF_CURSOR_BYTES ? (uint32_t)left : GGUF_CURSOR_BYTES;
    cursor->buffer_count = 0;
    TRY(gguf_read(cursor->source, cursor->offset, cursor->buffer, count, cursor->error));
    cursor->buffer_first = cursor->offset;
    cursor->buffer_count = count;
    return STATUS_OK;
}

enum status gguf_cursor_bytes(struct gguf_cursor *cursor, void *bytes, uint64_t count,
                              const char *what)
{
    TRY(check_left(cursor, count, what));
    for (uint8_t *to = bytes; count > 0;) {
        /* Before the buffer this wraps to a large number, which is as far outside. */
        uint64_t at = cursor->offset - cursor->buffer_first;
        if (at >= cursor->buffer_count) {
            TRY(fill(cursor));
            at = 0;
        }
        uint64_t part = cursor->buffer_count - at < count ? cursor->buffer_count - at : count;
        ASSERT(part > 0);
        memcpy(to, cursor->buffer + at, part);
        to += part;
        count -= part;
        cursor->offset += part;
    }
    return STATUS_OK;
}

enum status gguf_cursor_skip(struct gguf_cursor *cursor, uint64_t count, const char *what)
{
    TRY(check_left(cursor, count, what));
    cursor->offset += count;
    return STATUS_OK;
}

enum status gguf_cursor_u32(struct gguf_cursor *cursor, uint32_t *value, const char *what)
{
    return gguf_cursor_bytes(cursor, value, sizeof *value, what);
}

enum status gguf_cursor_u64(struct gguf_cursor *cursor, uint64_t *value, const char *what)
{
    return gguf_cursor_bytes(cursor, value, sizeof *value, what);
}
