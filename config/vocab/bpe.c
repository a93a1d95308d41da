/* SPDX-License-Identifier: MIT */
/*
 * What: byte-level BPE. A text is split into words (split.c); a word begins as its bytes, and
 * pairs are merged by rank (merge.c). With the llama-bpe pre-tokenizer a word that is a token
 * as a whole is taken as it is, whatever the merges say ("ignore_merges").
 *
 * The vocabulary writes bytes as printable characters: those that print stand for themselves, the
 * others are U+0100, U+0101, ... in order.
 *
 * Bounds: O(n log n) for a word of n bytes; words share one scratch.
 */
#include "config/base/assert.h"
#include "config/vocab/merge.h"

static bool stands_for_itself(uint32_t code)
{
    return (code >= '!' && code <= '~') || (code >= 0xa1 && code <= 0xac) ||
           (code >= 0xae && code <= 0xff);
}

uint32_t vocab_bpe_code(uint8_t byte)
{
    if (stands_for_itself(byte)) {
        return byte;
    }
    /* In order: 0x00..0x20, 0x7f..0xa0, 0xad. */
    return byte <= 0x20 ? 0x100u + byte : byte == 0xad ? 0x143u : 0x121u + (byte - 0x7fu);
}

int32_t vocab_bpe_byte(uint32_t code)
{
    if (stands_for_itself(code)) {
        return (int32_t)code;
    }
    if (code < 0x100 || code > 0x143) {
        return -1;
    }
    return (int32_t)(code <= 0x120 ? code - 0x100 : code == 0x143 ? 0xad : code - 0x121 + 0x7f);
}

/* The word as the vocabulary writes it; returns its length. */
static uint32_t write_word(uint8_t *text, const uint8_t *bytes, uint32_t count)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t code = vocab_bpe_code(bytes[i]);
        if (code < 0x80) {
            text[used++] = (uint8_t)code;
        } else {
            text[used++] = (uint8_t)(0xc0 | code >> 6);
            text[used++] = (uint8_t)(0x80 | (code & 0x3f));
        }
    }
    ASSERT(used <= 2 * count);
    return used;
}

static bool take_whole_word(const struct vocab *vocab, struct vocab_work *work,
                            const uint8_t *bytes, uint32_t count, struct vocab_output *output)
{
    if (vocab->info.pre != VOCAB_PRE_LLAMA_BPE || count > vocab->info.token_bytes_max) {
        return false;
    }
    uint32_t written = write_word(work->text, bytes, count);
    uint32_t token = vocab_find(vocab, work->text, written);
    if (token == GGUF_NO_TOKEN || !vocab_is_plain(vocab, token)) {
        return false;
    }
    vocab_output_push(output, token);
    return true;
}

static void merge_word(const struct vocab *vocab, struct vocab_work *work, const uint8_t *bytes,
                       uint32_t count, struct vocab_output *output)
{
    struct vocab_word word = {.text = bytes, .bytes = count, .symbols = work->symbols,
                              .symbols_count = count, .orders = work->orders};
    for (uint32_t i = 0; i < count; i++) {
        work->symbols[i] = (struct vocab_symbol){
            .first = i, .prev = i - 1, .next = i + 1 < count ? i + 1 : VOCAB_END,
            .token = vocab->byte_token[bytes[i]]};
    }
    STATIC_ASSERT(VOCAB_END == (uint32_t)-1, "the first symbol has no one before it");
    vocab_merge(vocab, &word);
    for (uint32_t i = 0; i != VOCAB_END; i = work->symbols[i].next) {
        if (work->symbols[i].token != GGUF_NO_TOKEN) {
            vocab_output_push(output, work->symbols[i].token);
        } else {
            vocab_output_push_byte(output, vocab, bytes[work->symbols[i].first]);
        }
    }
}

void vocab_bpe_encode(const struct vocab *vocab, struct vocab_work *work, const uint8_t *text,
                      uint32_t bytes, struct vocab_output *output)
{
    ASSERT(vocab->info.kind == VOCAB_BPE);
    for (uint32_t at = 0; at < bytes;) {
        uint32_t count = vocab_split(vocab->info.pre, text + at, bytes - at);
        if (!take_whole_word(vocab, work, text + at, count, output)) {
            merge_word(vocab, work, text + at, count, output);
        }
        at += count;
    }
}
