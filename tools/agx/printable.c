/* SPDX-License-Identifier: MIT */
#include "tools/agx/printable.h"

#include <string.h>
#include <unistd.h>

#include "net/utf8.h"

/*
 * What: a pass over the characters, linear in the text. A character is whole before it is judged,
 * so the same text gives the same output however it is cut into parts.
 *
 * Assumed: the terminal reads UTF-8. One that reads Latin-1 takes bytes within characters for
 * controls; so do all programs that print UTF-8.
 */

/* What a terminal does not get. '\n' and '\t' are exceptions. */
static const struct { uint32_t first, last; } stopped[] = {
    {0x0000, 0x001F}, {0x007F, 0x009F},     /* controls: C0, DEL, C1 */
    {0x00AD, 0x00AD},                       /* soft hyphen: not seen */
    {0x061C, 0x061C},                       /* Arabic letter mark: direction */
    {0x115F, 0x1160}, {0x3164, 0x3164}, {0xFFA0, 0xFFA0},   /* Hangul fillers: not seen */
    {0x180E, 0x180E},                       /* Mongolian vowel separator: not seen */
    {0x200B, 0x200B},                       /* zero width space; 200C and 200D join, and live */
    {0x200E, 0x200F}, {0x2028, 0x202E},     /* direction; line and paragraph separators */
    {0x2060, 0x206F},                       /* word joiner, not seen; direction */
    {0xFDD0, 0xFDEF},                       /* no characters */
    {0xFEFF, 0xFEFF},                       /* byte order mark: not seen */
    {0xFFF0, 0xFFFB},                       /* annotations: not seen */
    {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, /* shorthand, music: formats, not seen */
    {0xE0000, 0xE0FFF},                     /* tags and more selectors: text that is not seen */
};

/* `length` bytes of valid UTF-8. */
static uint32_t code_point(const char *text, uint32_t length)
{
    static const uint8_t first_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t code = (uint8_t)text[0] & first_bits[length];
    for (uint32_t i = 1; i < length; i++) {
        code = code << 6 | ((uint8_t)text[i] & 0x3F);
    }
    return code;
}

static bool is_stopped(uint32_t code)
{
    if (code == '\n' || code == '\t') {
        return false;
    }
    for (uint32_t i = 0; i < sizeof stopped / sizeof stopped[0]; i++) {
        if (code >= stopped[i].first && code <= stopped[i].last) {
            return true;
        }
    }
    return (code & 0xFFFE) == 0xFFFE;       /* no characters, in each plane */
}

/* Bytes of the next character of `text` (not empty), or of what is to be replaced as one; 0: the
 * text ends within a character. `is_good`: the terminal gets it. */
static uint32_t next(const char *text, size_t bytes, bool *is_good)
{
    int32_t length = utf8_sequence(text, bytes < 4 ? (uint32_t)bytes : 4);
    *is_good = length > 0 && !is_stopped(code_point(text, (uint32_t)length));
    return (uint32_t)(length < 0 ? -length : length);
}

/* Writes all whole characters; returns the bytes of an unfinished one at the end. */
static uint32_t write_whole(const char *text, size_t bytes, FILE *out)
{
    while (bytes > 0) {
        bool is_good;
        uint32_t count = next(text, bytes, &is_good);
        if (count == 0) {
            break;
        }
        if (is_good) {
            fwrite(text, 1, count, out);
        } else {
            fputc('.', out);
        }
        text += count;
        bytes -= count;
    }
    return (uint32_t)bytes;
}

void printable_begin(struct printable *stream, FILE *out)
{
    *stream = (struct printable){.out = out, .is_raw = !isatty(fileno(out))};
}

void printable_add(struct printable *stream, const char *text, size_t bytes)
{
    if (stream->is_raw) {
        fwrite(text, 1, bytes, stream->out);
        return;
    }
    while (stream->kept_bytes > 0 && bytes > 0) {   /* at most three times */
        stream->kept[stream->kept_bytes++] = *text++;
        bytes--;
        uint32_t left = write_whole(stream->kept, stream->kept_bytes, stream->out);
        memmove(stream->kept, stream->kept + stream->kept_bytes - left, left);
        stream->kept_bytes = left;
    }
    if (bytes > 0) {
        stream->kept_bytes = write_whole(text, bytes, stream->out);
        memcpy(stream->kept, text + bytes - stream->kept_bytes, stream->kept_bytes);
    }
}

void printable_end(struct printable *stream)
{
    if (stream->kept_bytes > 0) {
        fputc('.', stream->out);
        stream->kept_bytes = 0;
    }
}

void printable_write(const char *text, FILE *out)
{
    struct printable stream = {.out = out};
    printable_add(&stream, text, strlen(text));
    printable_end(&stream);
}

void printable_line(const char *text, char *line, size_t line_bytes)
{
    size_t used = 0, bytes = strlen(text);
    while (bytes > 0) {
        bool is_good;
        uint32_t count = next(text, bytes, &is_good);
        count = count > 0 ? count : (uint32_t)bytes;
        if (used + (is_good ? count : 1) + 1 > line_bytes) {
            break;
        }
        if (*text == '\n' || *text == '\t') {
            line[used++] = ' ';
        } else if (is_good) {
            memcpy(line + used, text, count);
            used += count;
        } else {
            line[used++] = '.';
        }
        text += count;
        bytes -= count;
    }
    line[used] = '\0';
}
