/* SPDX-License-Identifier: MIT */
/*
 * What: finds special tokens in a text: the longest ones first over the whole text, each from left
 * to right; what is found is not searched again. So "<|a|><|b|>" beats "|><|" wherever they lie.
 * A text in parts is searched part by part: no token lies across the end of one.
 *
 * How: a bitmap over the first two bytes dismisses nearly every position; then, for each length
 * that some special token has, a lookup in the vocabulary's hash.
 *
 * Bounds: lengths * n positions; a vocabulary has a handful of lengths.
 */
#include <string.h>

#include "config/base/assert.h"
#include "config/vocab/merge.h"

/* The last byte of a text stands alone; tokens of one byte are listed under all second bytes. */
static bool may_start(const struct vocab_specials *specials, const uint8_t *text, uint32_t left)
{
    return vocab_bit(specials->starts, (uint32_t)text[0] << 8 | (left > 1 ? text[1] : 0));
}

void vocab_special_add(struct vocab_specials *specials, const uint8_t *text, uint32_t bytes)
{
    ASSERT(bytes > 0 && bytes <= GGUF_TOKEN_BYTES_MAX);
    uint32_t low = bytes > 1 ? text[1] : 0, high = bytes > 1 ? text[1] : 255;
    for (uint32_t second = low; second <= high; second++) {
        vocab_bit_set(specials->starts, (uint32_t)text[0] << 8 | second);
    }
    specials->lengths[bytes / 64] |= UINT64_C(1) << (bytes % 64);
    specials->bytes_max = bytes > specials->bytes_max ? bytes : specials->bytes_max;
}

/* What is looked for in a text. */
enum sought { SOUGHT_WORDS, SOUGHT_USER, SOUGHT_ALL };

static bool looks_like_markup(const uint8_t *text, uint32_t bytes)
{
    uint8_t first = text[0], last = text[bytes - 1];
    return (first == '<' && last == '>') || (first == '[' && last == ']');
}

static const struct vocab_specials *specials_of(const struct vocab *vocab, enum sought sought)
{
    return sought == SOUGHT_ALL ? &vocab->special : &vocab->user;
}

/* The token that these bytes are, if it is sought, or GGUF_NO_TOKEN. */
static uint32_t find_special(const struct vocab *vocab, enum sought sought, const uint8_t *text,
                             uint32_t bytes)
{
    uint32_t token = vocab_find(vocab, text, bytes);
    uint8_t kind = token != GGUF_NO_TOKEN ? vocab->kinds[token] : VOCAB_TOKEN_NORMAL;
    bool command = kind == VOCAB_TOKEN_CONTROL || kind == VOCAB_TOKEN_UNKNOWN;
    bool is_sought = (command && sought == SOUGHT_ALL) ||
                     (kind == VOCAB_TOKEN_USER &&
                      (sought != SOUGHT_WORDS || !looks_like_markup(text, bytes)));
    return is_sought ? token : GGUF_NO_TOKEN;
}

struct part {
    const uint8_t *text;
    uint32_t bytes;
    uint32_t *spans;
    enum sought sought;
};

/* Marks all of one length. Those found before are not shorter, so one that reaches into a window
 * covers its first or its last byte. */
static void mark_length(const struct vocab *vocab, const struct part *part, uint32_t length)
{
    const struct vocab_specials *specials = specials_of(vocab, part->sought);
    for (uint32_t at = 0; length <= part->bytes - at; at++) {
        if (!may_start(specials, part->text + at, part->bytes - at) || part->spans[at] != 0 ||
            part->spans[at + length - 1] != 0) {
            continue;
        }
        uint32_t token = find_special(vocab, part->sought, part->text + at, length);
        if (token != GGUF_NO_TOKEN) {
            for (uint32_t i = 0; i < length; i++) {
                part->spans[at + i] = i == 0 ? token + 1 : VOCAB_SPAN_INSIDE;
            }
            at += length - 1;
        }
    }
}

/* Moves to the first byte at which a token may begin; false: there is none. */
static bool skip_to_start(const struct vocab *vocab, struct part *part)
{
    const struct vocab_specials *specials = specials_of(vocab, part->sought);
    while (specials->bytes_max > 0 && part->bytes > 0 &&
           !may_start(specials, part->text, part->bytes)) {
        part->text++;
        part->spans++;
        part->bytes--;
    }
    return specials->bytes_max > 0 && part->bytes > 0;
}

/* The spans of the part are 0 before. */
static void mark_part(const struct vocab *vocab, const struct part *part)
{
    const struct vocab_specials *specials = specials_of(vocab, part->sought);
    for (uint32_t length = specials->bytes_max; length > 0; length--) {
        if ((specials->lengths[length / 64] >> (length % 64) & 1) != 0 && length <= part->bytes) {
            mark_length(vocab, part, length);
        }
    }
}

/* The next part of the input; the first is a text as it would be without parts. */
static struct part part_at(const struct vocab_input *input, uint32_t index, uint32_t first)
{
    struct part part = {.text = (const uint8_t *)input->text + first, .bytes = input->bytes,
                        .sought = input->parse_special ? SOUGHT_ALL : SOUGHT_USER};
    if (input->parts_count > 0) {
        memcpy(&part.bytes, input->parts + index * sizeof part.bytes, sizeof part.bytes);
    }
    if (index % 2 == 1) {
        part.sought = SOUGHT_WORDS;
    }
    ASSERT(part.bytes <= input->bytes - first);
    return part;
}

bool vocab_special_mark(const struct vocab *vocab, const struct vocab_input *input,
                        uint32_t *spans)
{
    uint32_t count = input->parts_count > 0 ? input->parts_count : 1, first = 0;
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        struct part part = part_at(input, i, first);
        first += part.bytes;
        part.spans = spans + (first - part.bytes);
        if (skip_to_start(vocab, &part)) {
            if (!found) {
                memset(spans, 0, (size_t)input->bytes * sizeof *spans);
            }
            found = true;
            mark_part(vocab, &part);
        }
    }
    ASSERT(first == input->bytes);
    return found;
}
