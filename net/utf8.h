/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: strict UTF-8 (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above
 * U+10FFFF), one sequence at a time. It serves input (prompts, stop strings) and output, where a
 * character may still lack bytes that the next token will bring.
 */
#include <stdbool.h>
#include <stdint.h>

#define UTF8_REPLACEMENT       "\xEF\xBF\xBD"   /* U+FFFD */
#define UTF8_REPLACEMENT_BYTES 3

/* The length of the character at the beginning of `text` (1..4); 0: a valid beginning that ends too
 * soon; -n: n bytes that begin no character, to be replaced as one (the maximal subpart). */
static inline int32_t utf8_sequence(const char *text, uint32_t count)
{
    const uint8_t *at = (const uint8_t *)text;
    uint32_t need = 0;
    uint8_t low = 0x80, high = 0xBF;            /* of the second byte */
    if (count == 0) {
        return 0;
    }
    if (at[0] < 0x80) {
        return 1;
    }
    if (at[0] >= 0xC2 && at[0] <= 0xDF) {
        need = 2;
    } else if (at[0] >= 0xE0 && at[0] <= 0xEF) {
        need = 3;
        low = at[0] == 0xE0 ? 0xA0 : 0x80;
        high = at[0] == 0xED ? 0x9F : 0xBF;
    } else if (at[0] >= 0xF0 && at[0] <= 0xF4) {
        need = 4;
        low = at[0] == 0xF0 ? 0x90 : 0x80;
        high = at[0] == 0xF4 ? 0x8F : 0xBF;
    } else {
        return -1;
    }
    for (uint32_t i = 1; i < need; i++) {
        if (i >= count) {
            return 0;
        }
        if (at[i] < low || at[i] > high) {
            return -(int32_t)i;
        }
        low = 0x80;
        high = 0xBF;
    }
    return (int32_t)need;
}

static inline bool utf8_is_valid(const char *text, uint32_t count)
{
    for (uint32_t at = 0; at < count;) {
        int32_t length = utf8_sequence(text + at, count - at);
        if (length <= 0) {
            return false;
        }
        at += (uint32_t)length;
    }
    return true;
}
