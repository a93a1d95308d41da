/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the vocabulary, and text <-> tokens, bounded and without allocation. SentencePiece (scores,
 * byte fallback) and byte-level BPE (merges; five pre-tokenizers: split.c).
 * Used by net (prompts in, text out) and by the client's `tokenize`.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/model/gguf.h"

#define VOCAB_TEXT_BYTES_MAX (1u << 30)     /* longest text: indices of its parts are 32 bits */

enum vocab_token_kind {             /* as in tokenizer.ggml.token_type */
    VOCAB_TOKEN_NORMAL = 1, VOCAB_TOKEN_UNKNOWN, VOCAB_TOKEN_CONTROL, VOCAB_TOKEN_USER,
    VOCAB_TOKEN_UNUSED, VOCAB_TOKEN_BYTE
};

/* Tokens that are found in a text before it is tokenized: longest first. */
struct vocab_specials {
    uint8_t *starts;                /* bitmap over the first two bytes of a text */
    uint64_t lengths[GGUF_TOKEN_BYTES_MAX / 64 + 1];    /* bitmap: there is one of this length */
    uint32_t bytes_max;             /* of the longest; 0: there are none */
};

struct vocab_rule { uint32_t left, right, into; };     /* a merge of BPE: three tokens */

struct vocab {
    struct gguf_vocab_info info;
    /* private: only vocab*.c; all arrays lie in the model arena */
    uint32_t *text_first;           /* (tokens + 1) offsets into text */
    uint8_t *text;
    uint8_t *kinds;                 /* (tokens) enum vocab_token_kind */
    uint32_t *hash;                 /* open addressing: text -> id + 1 */
    uint32_t hash_mask;
    uint32_t *orders;               /* (tokens), SPM: the smaller, the higher the score */
    uint8_t *bridges;               /* SPM, bitmap: pairs of characters that some token joins */
    struct vocab_rule *rules;       /* (merges), BPE, by rank */
    uint32_t *merge_hash;           /* open addressing: (left, right) -> rank + 1 */
    uint32_t merge_hash_mask;
    uint32_t byte_token[256];       /* or GGUF_NO_TOKEN; SPM: byte fallback, BPE: first symbols */
    struct vocab_specials user;     /* user-defined tokens: always found */
    struct vocab_specials special;  /* these, control and unknown tokens: with parse_special */
};

void vocab_plan_memory(struct memory_plan *plan, const struct gguf_vocab_info *info);
/* BOOT_ONLY. Reads the arrays that the scan has measured; checks duplicates, UTF-8, merges. */
MUST_CHECK enum status vocab_load(struct vocab *vocab, const struct gguf *gguf,
                                  const struct gguf_source *source, struct arena *arena,
                                  struct config_error *error);

/* Scratch memory of the tokenizer, for texts of at most `text_bytes_max` (VOCAB_TEXT_BYTES_MAX). */
struct vocab_scratch {
    uint32_t text_bytes_max;
    /* private */
    void *memory;
    uint64_t memory_bytes;
};
/* The longest text that may have as few as `tokens_max` tokens: none of them covers more than the
 * longest one has bytes. 0 without a vocabulary. */
static inline uint64_t vocab_text_bytes_max(const struct gguf_vocab_info *info, uint32_t tokens_max)
{
    return (uint64_t)info->token_bytes_max * tokens_max;
}

uint64_t vocab_scratch_bytes(uint32_t text_bytes_max);
void vocab_scratch_init(struct vocab_scratch *scratch, void *memory, uint32_t text_bytes_max);

struct vocab_input {
    const char *text;
    uint32_t bytes;
    bool parse_special;             /* control tokens written in the text are found */
    bool no_space_prefix;           /* SPM: the text goes on another one; after special tokens in it
                                       a text begins as ever */
    /* The text's parts, if there are any: their lengths (u32, little-endian, not aligned), which
     * add up to `bytes`. The second, fourth, ... are quoted: see below. */
    const uint8_t *parts;
    uint32_t parts_count;
};
struct vocab_output {
    uint32_t *tokens;               /* [max] */
    uint32_t max;
    uint32_t count;                 /* of the text, also those beyond `max` */
};

/*
 * Text to tokens. Control tokens are plain text unless `parse_special`: plain text never gives one.
 * User-defined tokens are words of the vocabulary, not commands, and are always found, as the
 * models' own tokenizers do. In a quoted part neither control tokens are found nor user-defined
 * ones that look like markup, <...> or [...]: a format may give them a meaning. Text is not
 * divided where a quoted part begins or ends, only at tokens that were found. No BOS is added. SPM
 * adds its space prefix (when the file says so) to a text that is not empty.
 * BUSY_SPACE: more than `output->max` tokens, or, with a count of 0, the text is longer than the
 * scratch.
 * Invalid UTF-8 is data: its bytes become byte tokens. A byte that has no token becomes the unknown
 * token, or nothing where the vocabulary has none. Cost: O(n log n).
 */
MUST_CHECK enum status vocab_encode(const struct vocab *vocab, struct vocab_scratch *scratch,
                                    const struct vocab_input *input, struct vocab_output *output);
/* Of all that makes tokens of texts and texts of tokens: equal digests, the same tokens. Linear in
 * the vocabulary. */
uint64_t vocab_digest(const struct vocab *vocab);
/* The text that stands for a token in the vocabulary, not terminated; NULL: none, or empty. */
static inline const char *vocab_token_text(const struct vocab *vocab, uint32_t token,
                                           uint32_t *bytes)
{
    bool is_one = token < vocab->info.tokens;
    *bytes = is_one ? vocab->text_first[token + 1] - vocab->text_first[token] : 0;
    return *bytes > 0 ? (const char *)vocab->text + vocab->text_first[token] : NULL;
}
/*
 * The bytes that one generated token adds to the text (control tokens add none); `first` says that
 * it is the first of the output, where SPM drops the leading space after BOS alone. Returns how
 * many, at most info.token_bytes_max, which `max` must be at least: nothing is ever cut.
 */
uint32_t vocab_decode(const struct vocab *vocab, uint32_t token, bool first, char *bytes,
                      uint32_t max);
/* The text of a control token that a model may write into an answer, such as [TOOL_CALLS]; NULL: it
 * is no control token, or BOS, EOS or end-of-turn. */
const char *vocab_control_text(const struct vocab *vocab, uint32_t token, uint32_t *bytes);
