/* SPDX-License-Identifier: MIT */
#include "config/base/text.h"

#include <string.h>

#include "config/base/assert.h"

/*
 * What: numbers and strings to ASCII without stdio, locale or allocation.
 * Invariant: length <= max; bytes [0, length) are whole pieces in the order they were added.
 * Bounds: O(bytes added); 20 bytes of stack for a number.
 */

#define U64_DIGITS_MAX 20

void text_init(struct text *text, char *bytes, uint32_t max)
{
    ASSERT(bytes != NULL || max == 0);
    *text = (struct text){.bytes = bytes, .max = max};
}

void text_add_bytes(struct text *text, const char *bytes, uint32_t count)
{
    ASSERT(text->length <= text->max);
    if (count > text->max - text->length) {
        text->cut = true;
        return;
    }
    if (count > 0) {
        memcpy(text->bytes + text->length, bytes, count);
        text->length += count;
    }
}

void text_add(struct text *text, const char *string)
{
    ASSERT(string != NULL);
    size_t count = strlen(string);
    text_add_bytes(text, string, count < UINT32_MAX ? (uint32_t)count : UINT32_MAX);
}

/* Decimal digits of `value` at the end of `digits`; returns how many. */
static uint32_t u64_digits(uint64_t value, char digits[U64_DIGITS_MAX])
{
    uint32_t count = 0;
    do {
        ASSERT(count < U64_DIGITS_MAX);
        digits[U64_DIGITS_MAX - ++count] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return count;
}

void text_add_u64(struct text *text, uint64_t value)
{
    char digits[U64_DIGITS_MAX];
    uint32_t count = u64_digits(value, digits);
    text_add_bytes(text, digits + U64_DIGITS_MAX - count, count);
}

void text_add_u64_padded(struct text *text, uint64_t value, uint32_t width, char pad)
{
    char digits[U64_DIGITS_MAX];
    uint32_t count = u64_digits(value, digits);
    for (uint32_t column = count; column < width; column++) {
        text_add_bytes(text, &pad, 1);
    }
    text_add_bytes(text, digits + U64_DIGITS_MAX - count, count);
}

void text_add_fixed(struct text *text, uint64_t value, uint32_t decimals)
{
    ASSERT(decimals <= 9);
    uint64_t scale = 1;
    for (uint32_t i = 0; i < decimals; i++) {
        scale *= 10;
    }
    text_add_u64(text, value / scale);
    if (decimals > 0) {
        text_add(text, ".");
        text_add_u64_padded(text, value % scale, decimals, '0');
    }
}

void text_add_hex(struct text *text, const uint8_t *bytes, uint32_t count)
{
    static const char digits[] = "0123456789abcdef";
    ASSERT(bytes != NULL || count == 0);
    for (uint32_t i = 0; i < count; i++) {
        char pair[2] = {digits[bytes[i] >> 4], digits[bytes[i] & 15]};
        text_add_bytes(text, pair, 2);
    }
}

/* Years begin in March here, so that the leap day is the last one of a year (civil_from_days of
 * Hinnant's). */
void text_add_wall(struct text *text, uint64_t wall_us)
{
    uint64_t seconds = wall_us / 1000000, days = seconds / 86400 + 719468, second = seconds % 86400;
    uint64_t era = days / 146097, day = days % 146097;
    uint64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    uint64_t rest = day - (365 * year + year / 4 - year / 100);
    uint64_t month = (5 * rest + 2) / 153;
    const struct { uint64_t value; char after[2]; } parts[] = {
        {month < 10 ? month + 3 : month - 9, "-"}, {rest - (153 * month + 2) / 5 + 1, "T"},
        {second / 3600, ":"}, {second / 60 % 60, ":"}, {second % 60, "."}};
    text_add_u64_padded(text, 400 * era + year + (month < 10 ? 0 : 1), 4, '0');
    text_add(text, "-");
    for (uint32_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        text_add_u64_padded(text, parts[i].value, 2, '0');
        text_add(text, parts[i].after);
    }
    text_add_u64_padded(text, wall_us / 1000 % 1000, 3, '0');
    text_add(text, "Z");
}

void text_pad_to(struct text *text, uint32_t line_start, uint32_t column)
{
    ASSERT(line_start <= text->length);
    while (text->length - line_start < column && !text->cut) {
        text_add_bytes(text, " ", 1);
    }
}

void text_terminate(struct text *text)
{
    ASSERT(text->max > 0);
    uint32_t at = text->length < text->max ? text->length : text->max - 1;
    text->bytes[at] = '\0';
}
