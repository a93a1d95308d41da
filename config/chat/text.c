/* SPDX-License-Identifier: MIT */
/*
 * What: the operations on texts that templates use, as Python has them. The texts are views: none
 * is copied.
 *
 * Bounds: linear, but for a search for a mark of m bytes in n: n * m, with m at most 8.
 */
#include "config/chat/render.h"

bool chat_text_equals(struct chat_text a, struct chat_text b)
{
    return a.count == b.count && (a.count == 0 || memcmp(a.bytes, b.bytes, a.count) == 0);
}

bool chat_text_starts(struct chat_text text, struct chat_text with)
{
    return text.count >= with.count && memcmp(text.bytes, with.bytes, with.count) == 0;
}

bool chat_text_ends(struct chat_text text, struct chat_text with)
{
    return text.count >= with.count &&
           memcmp(text.bytes + text.count - with.count, with.bytes, with.count) == 0;
}

/* ---- spaces ---------------------------------------------------------------------------------- */

/* The bytes of all that str.isspace() says of one character; longer ones first. */
static const char *const spaces[] = {
    "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81", "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84",
    "\xe2\x80\x85", "\xe2\x80\x86", "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a",
    "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80", "\xc2\x85",
    "\xc2\xa0", " ", "\t", "\n", "\v", "\f", "\r", "\x1c", "\x1d", "\x1e", "\x1f",
};
#define SPACES_COUNT (sizeof spaces / sizeof spaces[0])

/* Bytes of the space at the beginning, or at the end; 0: there is none. */
static uint32_t space_at(struct chat_text text, bool at_end)
{
    for (uint32_t i = 0; i < SPACES_COUNT; i++) {
        struct chat_text space = {spaces[i], (uint32_t)strlen(spaces[i])};
        if (at_end ? chat_text_ends(text, space) : chat_text_starts(text, space)) {
            return space.count;
        }
    }
    return 0;
}

static struct chat_text skip(struct chat_text text, uint32_t count)
{
    return (struct chat_text){text.bytes + count, text.count - count};
}

struct chat_text chat_text_strip(struct chat_text text)
{
    for (uint32_t count = 1; text.count > 0 && count > 0;) {
        count = space_at(text, false);
        text = skip(text, count);
    }
    for (uint32_t count = 1; text.count > 0 && count > 0;) {
        count = space_at(text, true);
        text.count -= count;
    }
    return text;
}

struct chat_text chat_text_lstrip_lines(struct chat_text text)
{
    while (text.count > 0 && text.bytes[0] == '\n') {
        text = skip(text, 1);
    }
    return text;
}

struct chat_text chat_text_rstrip_lines(struct chat_text text)
{
    while (text.count > 0 && text.bytes[text.count - 1] == '\n') {
        text.count--;
    }
    return text;
}

/* ---- marks ----------------------------------------------------------------------------------- */

struct chat_text chat_text_before(struct chat_text text, struct chat_text mark)
{
    for (uint32_t at = 0; at + mark.count <= text.count; at++) {
        if (chat_text_starts(skip(text, at), mark)) {
            return (struct chat_text){text.bytes, at};
        }
    }
    return text;
}

/* From left to right: marks do not overlap. */
struct chat_text chat_text_after_last(struct chat_text text, struct chat_text mark)
{
    uint32_t first = 0;
    for (uint32_t at = 0; at + mark.count <= text.count;) {
        bool found = chat_text_starts(skip(text, at), mark);
        at += found ? mark.count : 1;
        first = found ? at : first;
    }
    return skip(text, first);
}
