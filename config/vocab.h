/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the vocabulary, and text <-> tokens, bounded and without allocation. SentencePiece (scores,
 * byte fallback) and byte-level BPE (merges; pre-tokenizers of gpt-2 and llama-bpe).
 * Used by net (prompts in, text out) and by the client's `tokenize`.
 */
#include <stdbool.h>
#include <stdint.h>

#include "appliance/base/arena.h"
#include "config/gguf.h"

enum vocab_token_kind {             /* as in tokenizer.ggml.token_type */
    VOCAB_TOKEN_NORMAL = 1, VOCAB_TOKEN_UNKNOWN, VOCAB_TOKEN_CONTROL, VOCAB_TOKEN_USER,
    VOCAB_TOKEN_UNUSED, VOCAB_TOKEN_BYTE
};

struct vocab {
    struct gguf_vocab_info info;
    /* private: only vocab.c and its tokenizers; all arrays lie in the model arena */
    uint32_t *text_first;           /* (tokens + 1) offsets into text */
    char *text;
    float *scores;                  /* (tokens), SPM */
    uint8_t *kinds;                 /* (tokens) */
    uint32_t *hash;                 /* open addressing: text -> id + 1 */
    uint32_t hash_mask;
    uint32_t *merge_left, *merge_right, *merge_into;    /* (merges), BPE, by rank */
    uint32_t *merge_hash;           /* open addressing: (left, right) -> rank + 1 */
    uint32_t merge_hash_mask;
    uint32_t byte_token[256];       /* byte fallback (SPM), single bytes (BPE) */
};

void vocab_plan(struct plan *plan, const struct gguf_vocab_info *info);
/* BOOT_ONLY. Reads the arrays that the scan has measured; checks duplicates, UTF-8, merges. */
MUST_CHECK enum status vocab_load(struct vocab *vocab, const struct gguf *gguf,
                                  const struct gguf_source *source, struct arena *arena,
                                  struct config_error *error);

/* Scratch memory of the tokenizer, for texts of at most `text_bytes_max`. */
struct vocab_scratch {
    uint32_t text_bytes_max;
    /* private */
    void *memory;
    uint64_t memory_bytes;
};
uint64_t vocab_scratch_bytes(uint32_t text_bytes_max);
void vocab_scratch_init(struct vocab_scratch *scratch, void *memory, uint32_t text_bytes_max);

/*
 * Text to tokens; special tokens are plain text unless `parse_special`. No BOS is added.
 * SPM adds its space prefix (when the file says so) if the text is not empty.
 * BUSY_SPACE: more than `tokens_max` tokens, or the text is longer than the scratch.
 * Invalid UTF-8 is data: its bytes become byte tokens. Cost: O(n log n) time for SPM, O(n * longest
 * word) bounded for BPE.
 */
MUST_CHECK enum status vocab_encode(const struct vocab *vocab, struct vocab_scratch *scratch,
                                    const char *text, uint32_t text_bytes, bool parse_special,
                                    uint32_t *tokens, uint32_t tokens_max, uint32_t *tokens_count);
/*
 * The bytes that one generated token adds to the text (control tokens add none); `first` says that it
 * is the first of the output, where SPM drops the leading space after BOS alone. Returns the count,
 * at most info.token_bytes_max (+ nothing is cut: `max` must be at least that).
 */
uint32_t vocab_decode(const struct vocab *vocab, uint32_t token, bool first, char *bytes,
                      uint32_t max);
