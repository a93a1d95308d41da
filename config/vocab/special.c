/* SPDX-License-Identifier: MIT */
/*
 * What: finds special tokens in a text: the longest ones first over the whole text, each from left
 * to right; what is found is not searched again. So "<|a|><|b|>" beats "|><|" wherever they lie.
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

static bool is_special(const struct vocab *vocab, const struct vocab_specials *specials,
                       uint32_t token)
{
    uint8_t kind = vocab->kinds[token];
    bool command = kind == VOCAB_TOKEN_CONTROL || kind == VOCAB_TOKEN_UNKNOWN;
    return kind == VOCAB_TOKEN_USER || (specials == &vocab->special && command);
}

/* Marks all of one length. Those found before are not shorter, so one that reaches into a window
 * covers its first or its last byte. */
static void mark_length(const struct vocab *vocab, const struct vocab_specials *specials,
                        const struct vocab_input *input, uint32_t length, uint32_t *spans)
{
    const uint8_t *text = (const uint8_t *)input->text;
    for (uint32_t at = 0; length <= input->bytes - at; at++) {
        if (!may_start(specials, text + at, input->bytes - at) || spans[at] != 0 ||
            spans[at + length - 1] != 0) {
            continue;
        }
        uint32_t token = vocab_find(vocab, text + at, length);
        if (token != GGUF_NO_TOKEN && is_special(vocab, specials, token)) {
            for (uint32_t i = 0; i < length; i++) {
                spans[at + i] = i == 0 ? token + 1 : VOCAB_SPAN_INSIDE;
            }
            at += length - 1;
        }
    }
}

bool vocab_special_mark(const struct vocab *vocab, const struct vocab_specials *specials,
                        const uint8_t *text, uint32_t bytes, uint32_t *spans)
{
    uint32_t first = 0;
    while (specials->bytes_max > 0 && first < bytes &&
           !may_start(specials, text + first, bytes - first)) {
        first++;
    }
    if (specials->bytes_max == 0 || first == bytes) {
        return false;
    }
    memset(spans, 0, (size_t)bytes * sizeof *spans);
    for (uint32_t length = specials->bytes_max; length > 0; length--) {
        if ((specials->lengths[length / 64] >> (length % 64) & 1) != 0 && length <= bytes - first) {
            const struct vocab_input rest = {.text = (const char *)text + first,
                                             .bytes = bytes - first};
            mark_length(vocab, specials, &rest, length, spans + first);
        }
    }
    return true;
}
