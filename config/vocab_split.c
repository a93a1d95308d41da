/* SPDX-License-Identifier: MIT */
/*
 * What: pre-tokenizers of byte-level BPE: where the first word of a text ends. Merges never cross
 * the end of a word. The two that we know are regular expressions, written out as scanners:
 *
 *   gpt-2      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *   llama-bpe  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
 *              ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+          (one expression)
 *
 * The alternatives are tried in this order, as functions that say how long the word would be, 0 for
 * no match. Only ASCII letters fold in the contractions of llama-bpe, as in the models' reference.
 *
 * Invariant: every byte belongs to some word; an invalid byte is a character of class OTHER.
 *
 * Bounds: each character is looked at a constant number of times, but for a run of white space
 * before a word, which is looked at twice.
 */
#include "appliance/base/assert.h"
#include "config/unicode.h"
#include "config/vocab_merge.h"

struct text {
    const uint8_t *bytes;
    uint32_t count;
};

/* One character; at the end of the text `bytes` is 0 and no predicate holds. */
struct glyph {
    uint32_t code, bytes;
    enum unicode_class class;
};

static inline struct glyph glyph_at(const struct text *text, uint32_t at)
{
    struct glyph glyph = {.code = UNICODE_INVALID};
    if (at < text->count) {
        glyph.bytes = unicode_decode(text->bytes + at, text->count - at, &glyph.code);
        glyph.class = unicode_class(glyph.code);
    }
    return glyph;
}

static inline bool is_class(struct glyph glyph, enum unicode_class class)
{
    return glyph.bytes > 0 && glyph.class == class;
}

static inline bool is_newline(struct glyph glyph)
{
    return glyph.code == '\r' || glyph.code == '\n';
}

/* The end of the run of `class` that begins at `at`. */
static uint32_t run_end(const struct text *text, uint32_t at, enum unicode_class class)
{
    for (;;) {
        struct glyph glyph = glyph_at(text, at);
        if (!is_class(glyph, class)) {
            return at;
        }
        at += glyph.bytes;
    }
}

static uint32_t match_contraction(const struct text *text, bool fold)
{
    uint8_t letters[2] = {0, 0};
    if (text->count < 2 || text->bytes[0] != '\'') {
        return 0;
    }
    for (uint32_t i = 0; i < 2 && i + 1 < text->count; i++) {
        uint8_t letter = text->bytes[i + 1];
        letters[i] = fold && letter >= 'A' && letter <= 'Z' ? (uint8_t)(letter | 0x20) : letter;
    }
    if (letters[0] == 's' || letters[0] == 't' || letters[0] == 'm' || letters[0] == 'd') {
        return 2;
    }
    bool two = ((letters[0] == 'r' || letters[0] == 'v') && letters[1] == 'e') ||
               (letters[0] == 'l' && letters[1] == 'l');
    return two ? 3 : 0;
}

/* ` ?` and a run of one class. */
static uint32_t match_spaced_run(const struct text *text, enum unicode_class class)
{
    uint32_t first = text->bytes[0] == ' ' ? 1 : 0;
    uint32_t end = run_end(text, first, class);
    return end > first ? end : 0;
}

/* `\s+(?!\S)|\s+`: all white space, but the last before a word is left to the word. */
static uint32_t match_space(const struct text *text)
{
    uint32_t at = 0, last = 0;
    struct glyph glyph = glyph_at(text, 0);
    while (is_class(glyph, UNICODE_SPACE)) {
        last = at;
        at += glyph.bytes;
        glyph = glyph_at(text, at);
    }
    return at < text->count && last > 0 ? last : at;
}

static uint32_t split_gpt2(const struct text *text)
{
    static const enum unicode_class classes[] = {UNICODE_LETTER, UNICODE_NUMBER, UNICODE_OTHER};
    uint32_t end = match_contraction(text, false);
    for (uint32_t i = 0; end == 0 && i < 3; i++) {
        end = match_spaced_run(text, classes[i]);
    }
    return end > 0 ? end : match_space(text);
}

/* `[^\r\n\p{L}\p{N}]?\p{L}+` */
static uint32_t match_llama_letters(const struct text *text)
{
    struct glyph glyph = glyph_at(text, 0);
    uint32_t first = 0;
    if (glyph.class != UNICODE_LETTER && glyph.class != UNICODE_NUMBER && !is_newline(glyph)) {
        first = glyph.bytes;
    }
    uint32_t end = run_end(text, first, UNICODE_LETTER);
    return end > first ? end : 0;
}

/* `\p{N}{1,3}` */
static uint32_t match_llama_number(const struct text *text)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < 3; i++) {
        struct glyph glyph = glyph_at(text, at);
        at += is_class(glyph, UNICODE_NUMBER) ? glyph.bytes : 0;
    }
    return at;
}

/* ` ?[^\s\p{L}\p{N}]+[\r\n]*` */
static uint32_t match_llama_other(const struct text *text)
{
    uint32_t end = match_spaced_run(text, UNICODE_OTHER);
    while (end > 0 && end < text->count && (text->bytes[end] == '\r' || text->bytes[end] == '\n')) {
        end++;
    }
    return end;
}

/* `\s*[\r\n]+`: white space up to its last newline. */
static uint32_t match_llama_newlines(const struct text *text)
{
    uint32_t at = 0, end = 0;
    struct glyph glyph = glyph_at(text, 0);
    while (is_class(glyph, UNICODE_SPACE)) {
        at += glyph.bytes;
        end = is_newline(glyph) ? at : end;
        glyph = glyph_at(text, at);
    }
    return end;
}

static uint32_t split_llama(const struct text *text)
{
    static uint32_t (*const matches[])(const struct text *) = {
        match_llama_letters, match_llama_number, match_llama_other, match_llama_newlines,
        match_space,
    };
    uint32_t end = match_contraction(text, true);
    for (uint32_t i = 0; end == 0 && i < sizeof matches / sizeof matches[0]; i++) {
        end = matches[i](text);
    }
    return end;
}

uint32_t vocab_split(enum vocab_pre pre, const uint8_t *bytes, uint32_t count)
{
    struct text text = {.bytes = bytes, .count = count};
    ASSERT(count > 0);
    uint32_t end = pre == VOCAB_PRE_GPT2 ? split_gpt2(&text) : split_llama(&text);
    ASSERT(end > 0 && end <= count);
    return end;
}
