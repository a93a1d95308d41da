/* SPDX-License-Identifier: MIT */
#include "tools/agx/printable.h"

#include <stdbool.h>
#include <string.h>

#include "net/utf8.h"

/* What: a pass over the characters, linear in the text. */

/* Length of the next character of `text` (not empty); `is_good`: it may be shown as it is. */
static uint32_t next(const char *text, bool *is_good)
{
    const unsigned char *at = (const unsigned char *)text;
    int32_t length = utf8_sequence(text, (uint32_t)strnlen(text, 4));
    bool is_control = at[0] < 0x20 || at[0] == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);
    *is_good = length > 0 && !is_control;
    return length > 0 ? (uint32_t)length : length < 0 ? (uint32_t)-length : 1;
}

void printable_write(const char *text, FILE *out)
{
    while (*text != '\0') {
        bool is_good;
        uint32_t count = next(text, &is_good);
        if (is_good || *text == '\n') {
            fwrite(text, 1, count, out);
        } else {
            fputc('.', out);
        }
        text += count;
    }
}

void printable_line(const char *text, char *line, size_t line_bytes)
{
    size_t used = 0;
    while (*text != '\0') {
        bool is_good;
        uint32_t count = next(text, &is_good);
        if (used + (is_good ? count : 1) + 1 > line_bytes) {
            break;
        }
        if (is_good) {
            memcpy(line + used, text, count);
            used += count;
        } else {
            line[used++] = *text == '\n' ? ' ' : '.';
        }
        text += count;
    }
    line[used] = '\0';
}
