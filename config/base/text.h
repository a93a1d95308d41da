/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a bounded builder of ASCII text in the caller's memory, for code that runs after the seal
 * and so has no stdio. A piece that does not fit is left out whole and sets `cut` for good, so a
 * page is checked once, at its end. Only text_terminate() writes a terminating zero.
 */
#include <stdbool.h>
#include <stdint.h>

struct text {
    char *bytes;
    uint32_t max;               /* room, in bytes */
    uint32_t length;
    bool cut;                   /* some piece did not fit */
};

void text_init(struct text *text, char *bytes, uint32_t max);
void text_add_bytes(struct text *text, const char *bytes, uint32_t count);
void text_add(struct text *text, const char *string);
void text_add_u64(struct text *text, uint64_t value);
/* At least `width` columns, right-aligned: padded with `pad` on the left. */
void text_add_u64_padded(struct text *text, uint64_t value, uint32_t width, char pad);
/* `value` in units of 10^-decimals: (12345, 3) is "12.345". decimals <= 9. */
void text_add_fixed(struct text *text, uint64_t value, uint32_t decimals);
/* Lower-case hexadecimal, two digits a byte. */
void text_add_hex(struct text *text, const uint8_t *bytes, uint32_t count);
/* A time of the wall clock, in UTC: "2026-11-24T12:03:07.123Z". Before 1970 there is none. */
void text_add_wall(struct text *text, uint64_t wall_us);
/* Spaces up to `column`, counted from offset `line_start`; none if the line is longer already. */
void text_pad_to(struct text *text, uint32_t line_start, uint32_t column);
/* Writes a zero after the text, over its last byte when there is no room. */
void text_terminate(struct text *text);
