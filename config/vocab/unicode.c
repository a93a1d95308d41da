/* SPDX-License-Identifier: MIT */
/*
 * What: UTF-8 for the tokenizers. The classes of code points are in build/unicode_classes.c.
 *
 * Invariant: decoding accepts exactly the well-formed sequences of the Unicode standard (table
 * 3-7), so two different byte strings never count as the same text.
 *
 * Bounds: constant.
 */
#include "config/vocab/unicode.h"

#include "config/base/assert.h"

/* Length that a leading byte announces; 0: none begins so. */
static uint32_t announced_bytes(uint8_t lead)
{
    if (lead < 0x80) {
        return 1;
    }
    if (lead < 0xc2 || lead > 0xf4) {
        return 0;
    }
    return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

uint32_t unicode_decode(const uint8_t *bytes, uint32_t count, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    ASSERT(count > 0);
    uint32_t length = announced_bytes(bytes[0]);
    *code = UNICODE_INVALID;
    if (length <= 1 || length > count) {
        *code = length == 1 ? bytes[0] : UNICODE_INVALID;
        return 1;
    }
    uint32_t value = bytes[0] & (0x7fu >> length);
    for (uint32_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            return 1;
        }
        value = value << 6 | (bytes[i] & 0x3f);
    }
    if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) {
        return 1;
    }
    *code = value;
    return length;
}

bool unicode_is_valid(const uint8_t *bytes, uint64_t count)
{
    for (uint64_t at = 0; at < count;) {
        uint32_t code = 0;
        uint32_t left = count - at < 4 ? (uint32_t)(count - at) : 4;
        at += unicode_decode(bytes + at, left, &code);
        if (code == UNICODE_INVALID) {
            return false;
        }
    }
    return true;
}
