/* SPDX-License-Identifier: MIT */
/*
 * What: which format a template is: the first row of marks of which its canonical form has all, and
 * lacks all that it must not have.
 *
 * Invariants: a template with a special word that its row does not name is not recognised, nor one
 * whose own system message cannot be read. It is better to say that a template is unknown than to
 * write prompts that its model was not trained on.
 *
 * Bounds: marks are looked for one after the other: rows * marks * bytes of the template, at boot.
 *
 * Why not a digest of known templates: files carry templates that were reformatted.
 */
#include "config/chat/canonical.h"

#include <string.h>

struct marks {
    enum chat_id id;
    const char *system, *has, *lacks, *words;   /* lists: AND separates their texts */
};
static const struct marks rows[] = {
#define MARKS(id, system, has, lacks, words) {CHAT_##id, system, has, lacks, words},
#include "config/chat/formats.def"
};
#define ROWS_COUNT (sizeof rows / sizeof rows[0])

/* The next text of the list: its length; `*list` moves behind it. False: there is none. */
static bool next(const char **list, const char **text, uint32_t *bytes)
{
    *text = *list;
    *bytes = (uint32_t)strcspn(*list, AND);
    *list += *bytes + ((*list)[*bytes] != '\0');
    return *bytes > 0;
}

/* Where the text is at or after `at`; the template's end: nowhere. */
static uint32_t find(const struct chat_scratch *scratch, uint32_t at, const char *text,
                     uint32_t bytes)
{
    const char *found = memmem(scratch->canonical + at, scratch->bytes - at, text, bytes);
    return found != NULL ? (uint32_t)(found - scratch->canonical) : scratch->bytes;
}

/* True when the template has all texts of the list, or, with `wanted` false, none. */
static bool agrees(const struct chat_scratch *scratch, const char *list, bool wanted)
{
    const char *text;
    uint32_t bytes;
    while (next(&list, &text, &bytes)) {
        if ((find(scratch, 0, text, bytes) < scratch->bytes) != wanted) {
            return false;
        }
    }
    return true;
}

/* ---- special words --------------------------------------------------------------------------- */

#define WORD_BYTES_MAX 64

/* Characters that may be in a special word between its brackets. */
static bool is_inside(char open, char byte)
{
    bool is_lower = (byte >= 'a' && byte <= 'z') || byte == '-';
    bool is_upper = byte >= 'A' && byte <= 'Z';
    return byte == '_' || byte == '/' || is_upper ||
           (open == '<' && (is_lower || byte == '|' || (unsigned char)byte >= 0x80));
}

/* Length of the special word at `at`; 0: there is none. */
static uint32_t word_at(const struct chat_scratch *scratch, uint32_t at)
{
    char open = scratch->canonical[at], close = open == '<' ? '>' : ']';
    uint32_t end = at + 1;
    if (open != '<' && open != '[') {
        return 0;
    }
    while (end < scratch->bytes && end - at < WORD_BYTES_MAX &&
           is_inside(open, scratch->canonical[end])) {
        end++;
    }
    bool closes = end < scratch->bytes && scratch->canonical[end] == close;
    return closes && end - at > 2 ? end + 1 - at : 0;
}

static bool is_listed(const char *list, const char *word, uint32_t word_bytes)
{
    const char *text;
    uint32_t bytes;
    while (next(&list, &text, &bytes)) {
        if (bytes == word_bytes && memcmp(text, word, bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* SYS is Llama 2's and stands in two more brackets. */
static bool words_are_listed(const struct chat_scratch *scratch, const char *list)
{
    for (uint32_t at = 0; at < scratch->bytes; at++) {
        uint32_t bytes = word_at(scratch, at);
        const char *word = scratch->canonical + at;
        if (bytes > 0 && !is_listed(list, word, bytes) && !is_listed("<SYS>" AND "</SYS>", word,
                                                                     bytes)) {
            return false;
        }
    }
    return true;
}

/* ---- the model's own system message ---------------------------------------------------------- */

/* A literal ends at a quote: a text with one in it cannot be told from an expression. */
static bool take_system(const struct chat_scratch *scratch, const struct marks *row,
                        struct chat_format *format)
{
    const char *list = row->system, *before, *after;
    uint32_t before_bytes, after_bytes;
    if (list == NULL) {
        return true;
    }
    if (!next(&list, &before, &before_bytes) || !next(&list, &after, &after_bytes)) {
        return false;
    }
    uint32_t first = find(scratch, 0, before, before_bytes);
    if (first == scratch->bytes) {
        return false;
    }
    first += before_bytes;
    uint32_t bytes = find(scratch, first, after, after_bytes) - first;
    const char *text = scratch->canonical + first;
    if (first + bytes == scratch->bytes || bytes >= sizeof format->system ||
        memchr(text, '\'', bytes) != NULL || memchr(text, '\0', bytes) != NULL) {
        return false;
    }
    memcpy(format->system, text, bytes);
    return true;
}

static bool fits(const struct chat_scratch *scratch, const struct marks *row,
                 struct chat_format *format)
{
    memset(format->system, 0, sizeof format->system);
    return agrees(scratch, row->has, true) && agrees(scratch, row->lacks, false) &&
           words_are_listed(scratch, row->words) && take_system(scratch, row, format);
}

enum chat_verdict chat_recognise(const char *source, uint32_t bytes, struct chat_scratch *scratch,
                                 struct chat_format *format)
{
    if (chat_canonical(scratch, source, bytes)) {
        for (uint32_t i = 0; i < ROWS_COUNT; i++) {
            if (fits(scratch, &rows[i], format)) {
                format->id = rows[i].id;
                return CHAT_KNOWN;
            }
        }
    }
    memset(format->system, 0, sizeof format->system);
    format->id = CHAT_PLAIN;
    return CHAT_UNKNOWN;
}
