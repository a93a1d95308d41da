/* SPDX-License-Identifier: MIT */
/*
 * What: pre-tokenizers of byte-level BPE: where the first word of a text ends. Merges never cross
 * the end of a word. Those that we know are regular expressions, written out as scanners:
 *
 *   gpt-2      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *   llama-bpe  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
 *              ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+          (one expression)
 *   qwen2      that of llama-bpe, but \p{N} for \p{N}{1,3}
 *
 *   deepseek-coder   [\r\n]   then \s?\p{L}+   then \s?\p{P}+
 *                    then [U+0800-U+9FA5 U+AC00-U+D7FF]+   then \p{N}
 *   falcon           [\p{P}$+<=>^~|`]+   then that of gpt-2   then [0-9][0-9][0-9]
 *
 * The last two are split by one expression after the other: what one matches, and what lies between
 * its matches, are texts of their own for the next. All of them forget: how the rest of a text is
 * split does not depend on the words before it.
 *
 * Only ASCII letters fold in contractions, as in the models' reference.
 *
 * Invariant: every byte belongs to some word; an invalid byte is a character of class OTHER.
 *
 * Bounds: no rule looks further than one character past the end of a word, except in a run of
 * white space, which is read three times at most. So a text costs O(n), whatever it contains.
 */
#include "config/base/assert.h"
#include "config/vocab/unicode.h"
#include "config/vocab/merge.h"

/* Sets of classes. */
#define SET(class) (1u << (class))
#define LETTERS    SET(UNICODE_LETTER)
#define NUMBERS    SET(UNICODE_NUMBER)
#define SPACES     SET(UNICODE_SPACE)
#define SIGNS      SET(UNICODE_PUNCTUATION)
#define OTHERS     SET(UNICODE_OTHER)
#define REST       (SIGNS | OTHERS)         /* [^\s\p{L}\p{N}] */

struct text {
    const uint8_t *bytes;
    uint32_t count;
};

/* One character; at the end of the text `bytes` and `set` are 0. */
struct glyph {
    uint32_t code, bytes;
    uint32_t set;                   /* of its class alone */
};

static inline struct glyph glyph_at(const struct text *text, uint32_t at)
{
    struct glyph glyph = {.code = UNICODE_INVALID};
    if (at < text->count) {
        glyph.bytes = 1;
        glyph.code = text->bytes[at];
        if (glyph.code >= 0x80) {
            glyph.bytes = unicode_decode(text->bytes + at, text->count - at, &glyph.code);
        }
        glyph.set = SET(unicode_class(glyph.code));
    }
    return glyph;
}

static inline bool is_newline(struct glyph glyph)
{
    return glyph.code == '\r' || glyph.code == '\n';
}

/* The end of the run of characters in `set` that begins at `at`. */
static uint32_t run_end(const struct text *text, uint32_t at, uint32_t set)
{
    for (;;) {
        struct glyph glyph = glyph_at(text, at);
        if ((glyph.set & set) == 0) {
            return at;
        }
        at += glyph.bytes;
    }
}

/* ---- gpt-2, llama-bpe, qwen2: how long each alternative would be; 0: no match ---------------- */

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

/* `\s+(?!\S)|\s+`: all white space, but the last before a word is left to the word. */
static uint32_t match_space(const struct text *text)
{
    uint32_t at = 0, last = 0;
    struct glyph glyph = glyph_at(text, 0);
    while ((glyph.set & SPACES) != 0) {
        last = at;
        at += glyph.bytes;
        glyph = glyph_at(text, at);
    }
    return at < text->count && last > 0 ? last : at;
}

static uint32_t split_gpt2(const struct text *text)
{
    uint32_t end = match_contraction(text, false);
    if (end > 0) {
        return end;
    }
    uint32_t first = text->bytes[0] == ' ' ? 1 : 0;
    uint32_t set = glyph_at(text, first).set;
    if (set == 0 || set == SPACES) {
        return match_space(text);
    }
    return run_end(text, first, (set & REST) != 0 ? REST : set);
}

/* `[^\r\n\p{L}\p{N}]?\p{L}+` */
static uint32_t match_llama_letters(const struct text *text)
{
    struct glyph glyph = glyph_at(text, 0);
    bool alone = (glyph.set & (LETTERS | NUMBERS)) != 0 || is_newline(glyph);
    uint32_t first = alone ? 0 : glyph.bytes;
    uint32_t end = run_end(text, first, LETTERS);
    return end > first ? end : 0;
}

/* `\p{N}{1,max}` */
static uint32_t match_llama_number(const struct text *text, uint32_t max)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < max; i++) {
        struct glyph glyph = glyph_at(text, at);
        at += (glyph.set & NUMBERS) != 0 ? glyph.bytes : 0;
    }
    return at;
}

/* ` ?[^\s\p{L}\p{N}]+[\r\n]*` */
static uint32_t match_llama_rest(const struct text *text)
{
    uint32_t first = text->bytes[0] == ' ' ? 1 : 0;
    uint32_t end = run_end(text, first, REST);
    if (end == first) {
        return 0;
    }
    while (end < text->count && (text->bytes[end] == '\r' || text->bytes[end] == '\n')) {
        end++;
    }
    return end;
}

/* `\s*[\r\n]+`: white space up to its last newline. */
static uint32_t match_llama_newlines(const struct text *text)
{
    uint32_t at = 0, end = 0;
    struct glyph glyph = glyph_at(text, 0);
    while ((glyph.set & SPACES) != 0) {
        at += glyph.bytes;
        end = is_newline(glyph) ? at : end;
        glyph = glyph_at(text, at);
    }
    return end;
}

static uint32_t split_llama(const struct text *text, uint32_t digits_max)
{
    uint32_t end = match_contraction(text, true);
    end = end > 0 ? end : match_llama_letters(text);
    end = end > 0 ? end : match_llama_number(text, digits_max);
    end = end > 0 ? end : match_llama_rest(text);
    end = end > 0 ? end : match_llama_newlines(text);
    return end > 0 ? end : match_space(text);
}

/* ---- deepseek-coder -------------------------------------------------------------------------- */

/* What neither letters nor punctuation have taken goes on: white space before them is theirs. */
static bool is_between(const struct text *text, uint32_t at, struct glyph glyph)
{
    if ((glyph.set & (OTHERS | SPACES)) == 0 || is_newline(glyph)) {
        return false;
    }
    return glyph.set == OTHERS || (glyph_at(text, at + glyph.bytes).set & (LETTERS | SIGNS)) == 0;
}

static bool is_ideograph(struct glyph glyph)
{
    return (glyph.code >= 0x800 && glyph.code <= 0x9fa5) ||
           (glyph.code >= 0xac00 && glyph.code <= 0xd7ff);
}

/* The five expressions at once: a word ends where the first of them ends one. */
static uint32_t split_deepseek_coder(const struct text *text)
{
    struct glyph first = glyph_at(text, 0), glyph = glyph_at(text, first.bytes);
    uint32_t at = first.bytes, run = (LETTERS | SIGNS);
    if (is_newline(first) || first.set == NUMBERS) {
        return at;
    }
    run &= first.set == SPACES ? glyph.set : first.set;
    while ((run != 0 ? (glyph.set & run) != 0 : is_between(text, at, glyph)) &&
           is_ideograph(glyph) == is_ideograph(first)) {
        at += glyph.bytes;
        glyph = glyph_at(text, at);
    }
    return at;
}

/* ---- falcon ---------------------------------------------------------------------------------- */

/* `[\p{P}$+<=>^~|`]`: of ASCII all that prints and is no letter or digit. */
static bool is_falcon_mark(struct glyph glyph)
{
    return glyph.set == SIGNS || (glyph.set == OTHERS && glyph.code > ' ' && glyph.code < 0x7f);
}

/* The end of the run of marks, or of other characters that are none. */
static uint32_t falcon_rest_end(const struct text *text, uint32_t at, bool marks)
{
    for (;;) {
        struct glyph glyph = glyph_at(text, at);
        if ((glyph.set & REST) == 0 || is_falcon_mark(glyph) != marks) {
            return at;
        }
        at += glyph.bytes;
    }
}

/* ` ?\p{N}+`, which ends before, or is, the first three ASCII digits in a row. */
static uint32_t falcon_number_end(const struct text *text, uint32_t at)
{
    uint32_t digits = 0;
    for (;;) {
        struct glyph glyph = glyph_at(text, at);
        if (glyph.set != NUMBERS) {
            return at;
        }
        at += glyph.bytes;
        digits = glyph.code < 0x80 ? digits + 1 : 0;
        if (digits == 3) {
            return at > 3 ? at - 3 : 3;
        }
    }
}

/* White space before a mark is at the end of its text: nothing of it is left to the mark. */
static uint32_t falcon_space_end(const struct text *text)
{
    uint32_t end = run_end(text, 0, SPACES);
    return is_falcon_mark(glyph_at(text, end)) ? end : match_space(text);
}

/* Contractions need no rule: an apostrophe is a mark. */
static uint32_t split_falcon(const struct text *text)
{
    uint32_t first = text->bytes[0] == ' ' ? 1 : 0;
    struct glyph glyph = glyph_at(text, first);
    bool mark = is_falcon_mark(glyph);
    if (glyph.set == LETTERS) {
        return run_end(text, first, LETTERS);
    }
    if (glyph.set == NUMBERS) {
        return falcon_number_end(text, first);
    }
    if ((glyph.set & REST) != 0 && !(mark && first > 0)) {
        return falcon_rest_end(text, first, mark);
    }
    return falcon_space_end(text);
}

uint32_t vocab_split(enum vocab_pre pre, const uint8_t *bytes, uint32_t count)
{
    struct text text = {.bytes = bytes, .count = count};
    uint32_t end = 0;
    ASSERT(count > 0);
    switch (pre) {
    case VOCAB_PRE_GPT2:
        end = split_gpt2(&text);
        break;
    case VOCAB_PRE_LLAMA_BPE:
        end = split_llama(&text, 3);
        break;
    case VOCAB_PRE_QWEN2:
        end = split_llama(&text, 1);
        break;
    case VOCAB_PRE_DEEPSEEK_CODER:
        end = split_deepseek_coder(&text);
        break;
    case VOCAB_PRE_FALCON:
        end = split_falcon(&text);
        break;
    }
    ASSERT(end > 0 && end <= count);
    return end;
}
