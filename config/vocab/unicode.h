/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: UTF-8 decoding and the classes of code points that pre-tokenizers know: \p{L}, \p{N},
 * \p{P}, \s and the rest. Private to config.
 */
#include <stdbool.h>
#include <stdint.h>

enum unicode_class {
    UNICODE_OTHER, UNICODE_LETTER, UNICODE_NUMBER, UNICODE_PUNCTUATION, UNICODE_SPACE
};

#define UNICODE_INVALID UINT32_MAX

/* The first character of `bytes` (at least one): its length, 1 to 4, and its code point. A byte
 * that begins no valid character (overlong, surrogate, above U+10FFFF, cut) is one of length 1 and
 * code UNICODE_INVALID. */
uint32_t unicode_decode(const uint8_t *bytes, uint32_t count, uint32_t *code);
bool unicode_is_valid(const uint8_t *bytes, uint64_t count);

/* private: generated (config/vocab/mkunicode.py); pages of 256 code points, equal ones only once */
extern const uint8_t unicode_pages[0x1100];
extern const uint8_t unicode_classes[];

/* Invalid bytes are OTHER. */
static inline enum unicode_class unicode_class(uint32_t code)
{
    return code == UNICODE_INVALID
               ? UNICODE_OTHER
               : (enum unicode_class)unicode_classes[unicode_pages[code >> 8] << 8 | (code & 0xff)];
}
