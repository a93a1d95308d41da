/* SPDX-License-Identifier: MIT */
/*
 * What: SentencePiece by scores. White space is the character U+2581, pairs of neighbours that are
 * a token are merged, best score first (merge.c), and what is no token in the end becomes
 * byte tokens.
 *
 * Why pieces: merging a whole text at once is O(n log n) over megabytes. But two neighbouring
 * characters that stand next to each other in no token are never merged, so the text falls apart
 * there, and each piece can be merged alone with the same result. `bridges` knows, from the
 * vocabulary, which neighbours some token joins; it looks at the last byte of one character and the
 * first of the next, which is coarse for other scripts and exact enough for any. In the usual
 * vocabularies a piece is a word.
 *
 * Bounds: O(n log n) for a piece of n characters.
 */
#include <string.h>

#include "config/base/assert.h"
#include "config/vocab/unicode.h"
#include "config/vocab/merge.h"

static const uint8_t space_mark[3] = {0xe2, 0x96, 0x81};    /* U+2581 */

#define SPACE_MARK_CODE 0x2581
#define SPACE_MARK_BYTE 0xff        /* stands for it in bridges: no other character has this byte */

/* The bit of `bridges` for a character that ends with `last`, then one that begins with `first`. */
static uint32_t bridge_bit(uint8_t last, uint8_t first) { return (uint32_t)last << 8 | first; }

/* One character of a text, as the vocabulary writes it. */
struct letter {
    const uint8_t *bytes;
    uint32_t count;                 /* of `bytes` */
    uint32_t taken;                 /* bytes of the text */
    uint8_t first, last;            /* for bridges */
};

static struct letter letter_at(const uint8_t *text, uint32_t left)
{
    uint32_t code = 0, count = unicode_decode(text, left, &code);
    if (code == ' ' || code == SPACE_MARK_CODE) {
        return (struct letter){space_mark, 3, count, SPACE_MARK_BYTE, SPACE_MARK_BYTE};
    }
    return (struct letter){text, count, count, text[0], text[count - 1]};
}

void vocab_spm_bridge(uint8_t *bridges, const uint8_t *text, uint32_t bytes)
{
    uint8_t last = 0;
    for (uint32_t at = 0; at < bytes;) {
        struct letter letter = letter_at(text + at, bytes - at);
        if (at > 0) {
            vocab_bit_set(bridges, bridge_bit(last, letter.first));
        }
        last = letter.last;
        at += letter.taken;
    }
}

/* ---- a piece --------------------------------------------------------------------------------- */

struct piece {
    const struct vocab *vocab;
    struct vocab_work *work;
    struct vocab_output *output;
    uint32_t bytes, symbols;        /* so far, in work->text and work->symbols */
    uint8_t last;                   /* for bridges */
};

static void push_symbol(const struct piece *piece, const struct vocab_word *word,
                        const struct vocab_symbol *symbol)
{
    const uint8_t *bytes = word->text + symbol->first;
    uint32_t count = vocab_symbol_end(word, symbol) - symbol->first;
    uint32_t token = symbol->token != GGUF_NO_TOKEN ? symbol->token
                                                    : vocab_find(piece->vocab, bytes, count);
    if (token != GGUF_NO_TOKEN && vocab_is_plain(piece->vocab, token)) {
        vocab_output_push(piece->output, token);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        vocab_output_push_byte(piece->output, piece->vocab, bytes[i]);
    }
}

/* Merges the piece, writes its tokens and begins a new one. */
static void finish_piece(struct piece *piece)
{
    struct vocab_symbol *symbols = piece->work->symbols;
    ASSERT(piece->symbols > 0);
    symbols[piece->symbols - 1].next = VOCAB_END;
    struct vocab_word word = {.text = piece->work->text, .bytes = piece->bytes, .symbols = symbols,
                              .symbols_count = piece->symbols, .orders = piece->work->orders};
    vocab_merge(piece->vocab, &word);
    for (uint32_t i = 0; i != VOCAB_END; i = symbols[i].next) {
        push_symbol(piece, &word, &symbols[i]);
    }
    piece->symbols = 0;
    piece->bytes = 0;
}

static void add_letter(struct piece *piece, struct letter letter)
{
    if (piece->symbols > 0 &&
        !vocab_bit(piece->vocab->bridges, bridge_bit(piece->last, letter.first))) {
        finish_piece(piece);
    }
    uint32_t index = piece->symbols++;
    piece->work->symbols[index] =
        (struct vocab_symbol){.first = piece->bytes, .prev = index - 1, .next = index + 1,
                              .token = GGUF_NO_TOKEN};
    memcpy(piece->work->text + piece->bytes, letter.bytes, letter.count);
    piece->bytes += letter.count;
    piece->last = letter.last;
}

void vocab_spm_encode(const struct vocab *vocab, struct vocab_work *work, const uint8_t *text,
                      uint32_t bytes, struct vocab_output *output)
{
    struct piece piece = {.vocab = vocab, .work = work, .output = output};
    ASSERT(vocab->info.kind == VOCAB_SPM);
    ASSERT(bytes > 0);
    if (vocab->info.add_space_prefix && !work->no_space_prefix) {
        add_letter(&piece, (struct letter){space_mark, 3, 0, SPACE_MARK_BYTE, SPACE_MARK_BYTE});
    }
    for (uint32_t at = 0; at < bytes;) {
        struct letter letter = letter_at(text + at, bytes - at);
        add_letter(&piece, letter);
        at += letter.taken;
    }
    finish_piece(&piece);
}
