/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the bytes of a GGUF file: numbers, texts, padding, keys with values. Whatever cannot be
 * written ends the program with a message.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define GGUF_ALIGNMENT 32

enum value_type { VALUE_U32 = 4, VALUE_I32 = 5, VALUE_F32 = 6, VALUE_BOOL = 7, VALUE_TEXT = 8,
                  VALUE_ARRAY = 9 };
struct writer {
    FILE *file;
    uint64_t bytes;
    uint32_t keys;                  /* written so far */
};

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

void put(struct writer *writer, const void *bytes, size_t count);
void put_u32(struct writer *writer, uint32_t value);
void put_u64(struct writer *writer, uint64_t value);
void put_f32(struct writer *writer, float value);
void put_text(struct writer *writer, const char *text);
/* Zeros without a place on the disk, and padding. */
void put_hole(struct writer *writer, uint64_t count);
void put_padding(struct writer *writer);
void put_key_u32(struct writer *writer, const char *key, uint32_t value);
void put_key_f32(struct writer *writer, const char *key, float value);
void put_key_text(struct writer *writer, const char *key, const char *value);
void put_key_bool(struct writer *writer, const char *key, bool value);
/* `count` values of this type are to follow. */
void put_key_array(struct writer *writer, const char *key, enum value_type type, uint64_t count);
