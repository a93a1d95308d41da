/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the parts of the tokenizers that are not for others: the word under work, its merge loop,
 * the word cache, the output, and the steps of vocab_encode(). Private to config.
 */
#include <string.h>

#include "config/vocab/vocab.h"

#define VOCAB_END UINT32_MAX        /* no symbol */

/* A part of a word that is one token (or will be bytes). Symbols form a list in text order; those
 * that were merged into another are not in it any more. */
struct vocab_symbol {
    uint32_t first;                 /* in the word's text */
    uint32_t prev, next;
    uint32_t token;                 /* GGUF_NO_TOKEN: not known */
    uint32_t into;                  /* what it becomes together with the next one */
};

struct vocab_word {
    const uint8_t *text;
    uint32_t bytes;
    struct vocab_symbol *symbols;   /* [0] is always the first of the list */
    uint32_t symbols_count;
    uint32_t *orders;               /* (vocab_orders_count(symbols)): private to the merge loop */
};
/* Merges until no pair is left. O(n log n) for n symbols. */
void vocab_merge(const struct vocab *vocab, struct vocab_word *word);
uint64_t vocab_orders_count(uint32_t symbols);

static inline uint32_t vocab_symbol_end(const struct vocab_word *word,
                                        const struct vocab_symbol *symbol)
{
    return symbol->next == VOCAB_END ? word->bytes : word->symbols[symbol->next].first;
}

static inline void vocab_output_push(struct vocab_output *output, uint32_t token)
{
    if (output->count < output->max) {
        output->tokens[output->count] = token;
    }
    output->count++;
}

/* A byte that no token covers: its own token, else the unknown one; dropped if there is neither. */
static inline void vocab_output_push_byte(struct vocab_output *output, const struct vocab *vocab,
                                          uint8_t byte)
{
    uint32_t own = vocab->byte_token[byte];
    uint32_t token = own != GGUF_NO_TOKEN ? own : vocab->info.unk_id;
    if (token != GGUF_NO_TOKEN) {
        vocab_output_push(output, token);
    }
}

/* The scratch, laid out (scratch.c). */
struct vocab_work {
    struct vocab_symbol *symbols;   /* (n + 1) */
    uint32_t *orders;               /* (vocab_orders_count(n + 1)) */
    uint32_t *spans;                /* (n): where special tokens lie, see special.c */
    uint8_t *text;                  /* (3 * (n + 1)): a word as the vocabulary writes it */
    bool no_space_prefix;           /* of the text that is encoded next */
};
void vocab_work_init(struct vocab_work *work, const struct vocab_scratch *scratch);

/* The token whose string this is, or GGUF_NO_TOKEN. */
uint32_t vocab_find(const struct vocab *vocab, const uint8_t *text, uint32_t bytes);
/* Tokens that text may become without being asked for: not control, unknown or byte tokens. */
static inline bool vocab_is_plain(const struct vocab *vocab, uint32_t token)
{
    uint8_t kind = vocab->kinds[token];
    return kind == VOCAB_TOKEN_NORMAL || kind == VOCAB_TOKEN_USER || kind == VOCAB_TOKEN_UNUSED;
}
/* Hashes of the vocabulary's own tables, which do not change: what collides, collides for ever. */
static inline uint64_t vocab_hash_mix(uint64_t value)
{
    value *= UINT64_C(0x9e3779b97f4a7c15);
    return value ^ value >> 32;
}
/* Of at least one byte: eight at a time, the last ones once more. */
static inline uint32_t vocab_hash(const uint8_t *text, uint32_t bytes)
{
    uint64_t hash = bytes, word = 0;
    uint32_t half = 0;
    for (uint32_t at = 0; at + 8 < bytes; at += 8) {
        memcpy(&word, text + at, 8);
        hash = vocab_hash_mix(hash ^ word);
    }
    if (bytes >= 8) {
        memcpy(&word, text + bytes - 8, 8);
    } else if (bytes >= 4) {
        memcpy(&word, text, 4);
        memcpy(&half, text + bytes - 4, 4);
        word |= (uint64_t)half << 32;
    } else {
        word = (uint64_t)text[0] << 16 | (uint64_t)text[bytes / 2] << 8 | text[bytes - 1];
    }
    return (uint32_t)vocab_hash_mix(vocab_hash_mix(hash ^ word));
}
static inline uint32_t vocab_pair_hash(uint32_t left, uint32_t right)
{
    return (uint32_t)vocab_hash_mix((uint64_t)left << 32 | right);
}
static inline bool vocab_bit(const uint8_t *bitmap, uint32_t bit)
{
    return (bitmap[bit >> 3] >> (bit & 7) & 1) != 0;
}
static inline void vocab_bit_set(uint8_t *bitmap, uint32_t bit)
{
    bitmap[bit >> 3] |= (uint8_t)(1u << (bit & 7));
}
#define VOCAB_PAIR_BITMAP_BYTES 8192    /* 2^16 bits */

/* special.c: marks the special tokens of a text, or of its parts, in `spans` (one entry for
 * each byte of the text): token + 1 where one begins, VOCAB_SPAN_INSIDE in the rest of it, 0
 * elsewhere. False: there are none, and what `spans` holds means nothing. */
#define VOCAB_SPAN_INSIDE UINT32_MAX
bool vocab_special_mark(const struct vocab *vocab, const struct vocab_input *input,
                        uint32_t *spans);
void vocab_special_add(struct vocab_specials *specials, const uint8_t *text, uint32_t bytes);

/* A text without special tokens in it. */
void vocab_spm_encode(const struct vocab *vocab, struct vocab_work *work, const uint8_t *text,
                      uint32_t bytes, struct vocab_output *output);
void vocab_bpe_encode(const struct vocab *vocab, struct vocab_work *work, const uint8_t *text,
                      uint32_t bytes, struct vocab_output *output);
/* spm.c: which characters the tokens join; at load, for each plain token. */
void vocab_spm_bridge(uint8_t *bridges, const uint8_t *text, uint32_t bytes);

/* bpe.c: bytes are written as printable characters; the code point of a byte, the byte of a
 * code point (or -1). */
uint32_t vocab_bpe_code(uint8_t byte);
int32_t vocab_bpe_byte(uint32_t code);

/* split.c: length of the first word of a text of at least one byte. */
uint32_t vocab_split(enum vocab_pre pre, const uint8_t *text, uint32_t bytes);
