/* SPDX-License-Identifier: MIT */
/* What: little-endian bytes in a row; the hosts we build on are little-endian, as is the format. */
#include "tools/mkmodel/writer.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("mkmodel: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void put(struct writer *writer, const void *bytes, size_t count)
{
    if (fwrite(bytes, 1, count, writer->file) != count) {
        fail("cannot write");
    }
    writer->bytes += count;
}

void put_u32(struct writer *writer, uint32_t value) { put(writer, &value, sizeof value); }
void put_u64(struct writer *writer, uint64_t value) { put(writer, &value, sizeof value); }
void put_f32(struct writer *writer, float value) { put(writer, &value, sizeof value); }

void put_text(struct writer *writer, const char *text)
{
    put_u64(writer, strlen(text));
    put(writer, text, strlen(text));
}

void put_padding(struct writer *writer)
{
    static const uint8_t zeros[GGUF_ALIGNMENT];
    put(writer, zeros, (size_t)(-writer->bytes % GGUF_ALIGNMENT));
}

void put_hole(struct writer *writer, uint64_t count)
{
    if (fseeko(writer->file, (off_t)count - 1, SEEK_CUR) != 0) {
        fail("cannot seek");
    }
    writer->bytes += count - 1;
    put(writer, "", 1);             /* the last one gives the file its size */
    put_padding(writer);
}

static void put_key(struct writer *writer, const char *key, enum value_type type)
{
    put_text(writer, key);
    put_u32(writer, type);
    writer->keys++;
}

void put_key_u32(struct writer *writer, const char *key, uint32_t value)
{
    put_key(writer, key, VALUE_U32);
    put_u32(writer, value);
}

void put_key_f32(struct writer *writer, const char *key, float value)
{
    put_key(writer, key, VALUE_F32);
    put_f32(writer, value);
}

void put_key_text(struct writer *writer, const char *key, const char *value)
{
    put_key(writer, key, VALUE_TEXT);
    put_text(writer, value);
}

void put_key_bool(struct writer *writer, const char *key, bool value)
{
    uint8_t byte = value;
    put_key(writer, key, VALUE_BOOL);
    put(writer, &byte, 1);
}

void put_key_array(struct writer *writer, const char *key, enum value_type type, uint64_t count)
{
    put_key(writer, key, VALUE_ARRAY);
    put_u32(writer, type);
    put_u64(writer, count);
}
