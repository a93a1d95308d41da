/* SPDX-License-Identifier: MIT */
/*
 * What: a template into its canonical form: one pass, tag by tag.
 *
 *   text --put_raw--> {{'...'}}      {{ }} and {% %} --put_inside--> words      {# #} --> nothing
 *
 * Invariants: nothing is read beyond the template or written beyond the scratch. `at` grows with
 * each step, so hostile bytes cost no more than others.
 *
 * Why not a parser: only marks are looked for in the result. What is not understood stays as it is
 * and matches no mark.
 */
#include "config/chat/canonical.h"

#include <string.h>

struct reader {
    struct chat_scratch *scratch;
    const char *text;
    uint32_t bytes, at;
    bool fits;
    bool dash, block;               /* of the last tag: it ended with '-', it was {% or {# */
    bool line_starts;               /* nothing precedes on this line */
};

static void put(struct reader *r, char byte)
{
    if (r->scratch->bytes == sizeof r->scratch->canonical) {
        r->fits = false;
        return;
    }
    r->scratch->canonical[r->scratch->bytes++] = byte;
}

static void put_text(struct reader *r, const char *text, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        put(r, text[i]);
    }
}

static bool is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static bool is_word(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
           (byte >= '0' && byte <= '9');
}

/* ---- text outside of tags -------------------------------------------------------------------- */

/* The next tag at or after `at`; the end of the template if there is none. */
static uint32_t find_tag(const struct reader *r)
{
    for (uint32_t i = r->at; i + 1 < r->bytes; i++) {
        if (r->text[i] == '{' && strchr("{%#", r->text[i + 1]) != NULL && r->text[i + 1] != '\0') {
            return i;
        }
    }
    return r->bytes;
}

/* Where the text before the tag at `end` ends, when blanks before a block are stripped. */
static uint32_t strip_end(const struct reader *r, uint32_t first, uint32_t end)
{
    if (end == r->bytes) {                      /* one line end at the end of all is dropped */
        return end > first && r->text[end - 1] == '\n' ? end - 1 : end;
    }
    bool dash = end + 2 < r->bytes && r->text[end + 2] == '-';
    uint32_t at = end;
    while (dash && at > first && is_space(r->text[at - 1])) {
        at--;
    }
    if (dash || r->text[end + 1] == '{') {
        return at;
    }
    while (at > first && (r->text[at - 1] == ' ' || r->text[at - 1] == '\t')) {
        at--;
    }
    bool whole_line = at > first ? r->text[at - 1] == '\n' : r->line_starts;
    return whole_line ? at : end;
}

static void put_raw(struct reader *r)
{
    uint32_t end = find_tag(r), first = r->at;
    while (r->dash && first < end && is_space(r->text[first])) {
        first++;
    }
    if (!r->dash && r->block && first < end && r->text[first] == '\n') {
        first++;
    }
    if (first > r->at) {
        r->line_starts = r->text[first - 1] == '\n';
    }
    uint32_t last = strip_end(r, first, end);
    if (last > first) {
        put_text(r, "{{'", 3);
        put_text(r, r->text + first, last - first);
        put_text(r, "'}}", 3);
    }
    r->at = end;
}

/* ---- tags ------------------------------------------------------------------------------------ */

static char unescape(char byte)
{
    return byte == 'n' ? '\n' : byte == 't' ? '\t' : byte == 'r' ? '\r' : byte;
}

/* The literal at `at`; leaves `at` behind it, or at the end of the template. */
static void put_literal(struct reader *r)
{
    char quote = r->text[r->at++];
    put(r, '\'');
    for (; r->at < r->bytes && r->text[r->at] != quote; r->at++) {
        bool escaped = r->text[r->at] == '\\' && r->at + 1 < r->bytes;
        r->at += escaped;
        put(r, escaped ? unescape(r->text[r->at]) : r->text[r->at]);
    }
    put(r, '\'');
    r->at += r->at < r->bytes;
}

/* ['name'] as .name; false: it is something else. */
static bool put_member(struct reader *r)
{
    uint32_t first = r->at + 2, last = first;
    if (first >= r->bytes || (r->text[r->at + 1] != '\'' && r->text[r->at + 1] != '"')) {
        return false;
    }
    while (last < r->bytes && is_word(r->text[last])) {
        last++;
    }
    if (last == first || last + 1 >= r->bytes || r->text[last] != r->text[r->at + 1] ||
        r->text[last + 1] != ']') {
        return false;
    }
    put(r, '.');
    put_text(r, r->text + first, last - first);
    r->at = last + 2;
    return true;
}

static bool is_at(const struct reader *r, const char *two)
{
    return r->at + 1 < r->bytes && r->text[r->at] == two[0] && r->text[r->at + 1] == two[1];
}

/* What lies between the ends of a tag; false: it has no end. */
static bool put_inside(struct reader *r, const char *close)
{
    while (r->at < r->bytes) {
        char byte = r->text[r->at];
        bool dash = byte == '-' && r->at + 1 < r->bytes && r->text[r->at + 1] == close[0];
        r->at += dash;
        if (is_at(r, close)) {
            r->dash = dash;
            r->at += 2;
            return true;
        }
        r->at -= dash;
        if (byte == '\'' || byte == '"') {
            put_literal(r);
        } else if (byte != '[' || !put_member(r)) {
            if (!is_space(byte)) {
                put(r, byte);
            }
            r->at++;
        }
    }
    return false;
}

static bool skip_comment(struct reader *r)
{
    for (; r->at + 1 < r->bytes; r->at++) {
        if (is_at(r, "#}")) {
            r->dash = r->text[r->at - 1] == '-';
            r->at += 2;
            return true;
        }
    }
    return false;
}

/* The tag at `at`; false: it has no end. */
static bool put_tag(struct reader *r)
{
    char kind = r->text[r->at + 1];
    char open[2] = {'{', kind}, close[3] = {kind == '{' ? '}' : kind, '}', '\0'};
    r->at += 2;
    r->at += r->at < r->bytes && r->text[r->at] == '-';
    r->block = kind != '{';
    r->line_starts = false;
    if (kind == '#') {
        return skip_comment(r);
    }
    put_text(r, open, sizeof open);
    bool ends = put_inside(r, close);
    put_text(r, close, 2);
    return ends;
}

bool chat_canonical(struct chat_scratch *scratch, const char *source, uint32_t bytes)
{
    struct reader r = {.scratch = scratch, .text = source, .bytes = bytes, .fits = true,
                       .line_starts = true};
    scratch->bytes = 0;
    if (bytes > CHAT_TEMPLATE_BYTES_MAX) {
        return false;
    }
    for (;;) {
        put_raw(&r);
        if (r.at == r.bytes) {
            return r.fits;
        }
        if (!put_tag(&r)) {
            return false;
        }
    }
}
