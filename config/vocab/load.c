/* SPDX-License-Identifier: MIT */
/*
 * What: the vocabulary's memory, planned and filled. Pass 2 over the arrays that gguf_scan() has
 * measured; all BOOT_ONLY.
 *
 * Invariants afterwards: token strings are valid UTF-8 and all different (an empty one, which some
 * files use as padding, is found by nothing); each merge joins two tokens into a third, plain one.
 * So encoding has no error but lack of room, and merging ends: what a merge makes is longer than
 * its parts.
 *
 * Why everything is measured again: the file may have changed since the scan.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/model/gguf_keys.h"
#include "config/vocab/unicode.h"
#include "config/vocab/merge.h"

/* A power of two, at most half full, so that a search for what is not there ends soon. */
static uint32_t hash_slots(uint32_t entries)
{
    uint32_t slots = 16;
    ASSERT(entries <= GGUF_TOKENS_MAX);
    while (slots < 2 * entries) {
        slots *= 2;
    }
    return slots;
}

void vocab_plan_memory(struct memory_plan *plan, const struct gguf_vocab_info *info)
{
    uint64_t tokens = info->tokens, merges = info->merges;
    if (info->kind == VOCAB_NONE) {
        return;
    }
    memory_plan_add(plan, MEMORY_MODEL, "vocabulary offsets", tokens + 1, sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_MODEL, "vocabulary text", info->text_bytes, 1);
    memory_plan_add(plan, MEMORY_MODEL, "vocabulary kinds", tokens, 1);
    memory_plan_add(plan, MEMORY_MODEL, "vocabulary hash", hash_slots(info->tokens),
                    sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_MODEL, "vocabulary special tokens", 2, VOCAB_PAIR_BITMAP_BYTES);
    if (info->kind == VOCAB_SPM) {
        memory_plan_add(plan, MEMORY_MODEL, "vocabulary orders", tokens, sizeof(uint32_t));
        memory_plan_add(plan, MEMORY_MODEL, "vocabulary bridges", 1, VOCAB_PAIR_BITMAP_BYTES);
    } else {
        memory_plan_add(plan, MEMORY_MODEL, "vocabulary merges", merges, sizeof(struct vocab_rule));
        memory_plan_add(plan, MEMORY_MODEL, "vocabulary merge hash", hash_slots(info->merges),
                 sizeof(uint32_t));
    }
}

/* Takes what vocab_plan_memory() has stated, in the same order. */
static void take_memory(struct vocab *vocab, struct arena *arena)
{
    const struct gguf_vocab_info *info = &vocab->info;
    vocab->hash_mask = hash_slots(info->tokens) - 1;
    vocab->text_first = arena_take(arena, (uint64_t)info->tokens + 1, sizeof(uint32_t));
    vocab->text = arena_take(arena, info->text_bytes, 1);
    vocab->kinds = arena_take(arena, info->tokens, 1);
    vocab->hash = arena_take(arena, (uint64_t)vocab->hash_mask + 1, sizeof(uint32_t));
    vocab->user.starts = arena_take(arena, 2, VOCAB_PAIR_BITMAP_BYTES);
    vocab->special.starts = vocab->user.starts + VOCAB_PAIR_BITMAP_BYTES;
    if (info->kind == VOCAB_SPM) {
        vocab->orders = arena_take(arena, info->tokens, sizeof(uint32_t));
        vocab->bridges = arena_take(arena, 1, VOCAB_PAIR_BITMAP_BYTES);
        return;
    }
    vocab->merge_hash_mask = hash_slots(info->merges) - 1;
    vocab->rules = arena_take(arena, info->merges, sizeof(struct vocab_rule));
    vocab->merge_hash = arena_take(arena, (uint64_t)vocab->merge_hash_mask + 1, sizeof(uint32_t));
}

/* What the steps below share. */
struct loading {
    struct vocab *vocab;
    const struct gguf_source *source;
    struct config_error *error;
    struct gguf_cursor cursor;
};

/* Reads an array of the header; it ends somewhere before the end of the file. */
static void seek_array(struct loading *loading, uint64_t offset)
{
    gguf_cursor_init(&loading->cursor, loading->source, offset, UINT64_MAX, loading->error);
}

static enum status refuse_token(struct loading *loading, uint32_t token, uint64_t offset,
                                const char *problem)
{
    return gguf_error(loading->source, offset, loading->error, "tokenizer.ggml.tokens[%u] %s",
                      token, problem);
}

/* ---- strings --------------------------------------------------------------------------------- */

static enum status read_token(struct loading *loading, uint32_t token, uint32_t *used)
{
    struct vocab *vocab = loading->vocab;
    uint64_t offset = loading->cursor.offset, bytes = 0;
    TRY(gguf_cursor_u64(&loading->cursor, &bytes, "a token"));
    if (bytes > vocab->info.token_bytes_max || bytes > vocab->info.text_bytes - *used) {
        return refuse_token(loading, token, offset, "has changed since the file was checked");
    }
    TRY(gguf_cursor_bytes(&loading->cursor, vocab->text + *used, bytes, "a token"));
    if (!unicode_is_valid(vocab->text + *used, bytes)) {
        return refuse_token(loading, token, offset, "is not UTF-8, expected text");
    }
    vocab->text_first[token] = *used;
    *used += (uint32_t)bytes;
    vocab->text_first[token + 1] = *used;
    return STATUS_OK;
}

static enum status hash_token(struct loading *loading, uint32_t token)
{
    struct vocab *vocab = loading->vocab;
    const uint8_t *text = vocab->text + vocab->text_first[token];
    uint32_t bytes = vocab->text_first[token + 1] - vocab->text_first[token];
    if (bytes == 0) {
        return STATUS_OK;
    }
    if (vocab_find(vocab, text, bytes) != GGUF_NO_TOKEN) {
        return refuse_token(loading, token, loading->cursor.offset,
                            "has the same text as another token, expected its own");
    }
    uint32_t at = vocab_hash(text, bytes) & vocab->hash_mask;
    while (vocab->hash[at] != 0) {
        at = (at + 1) & vocab->hash_mask;
    }
    vocab->hash[at] = token + 1;
    return STATUS_OK;
}

static enum status load_strings(struct loading *loading)
{
    uint32_t used = 0;
    if (loading->vocab->info.text_bytes > UINT32_MAX) {
        return gguf_error(loading->source, loading->vocab->info.tokens_offset, loading->error,
                          "tokenizer.ggml.tokens is larger than 4 GiB, expected less");
    }
    seek_array(loading, loading->vocab->info.tokens_offset);
    for (uint32_t token = 0; token < loading->vocab->info.tokens; token++) {
        TRY(read_token(loading, token, &used));
        TRY(hash_token(loading, token));
    }
    return STATUS_OK;
}

/* ---- kinds and scores ------------------------------------------------------------------------ */

static bool is_byte_text(const uint8_t *text, uint32_t bytes)
{
    static const char digits[] = "0123456789ABCDEF";
    return bytes == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>' && text[3] != '\0' &&
           text[4] != '\0' && strchr(digits, text[3]) != NULL && strchr(digits, text[4]) != NULL;
}

/* A token that the header names as a command is one, whatever its type says. */
static bool is_named(const struct gguf_vocab_info *info, uint32_t token)
{
    return token == info->bos_id || token == info->eos_id || token == info->eot_id;
}

static enum status set_kind(struct loading *loading, uint32_t token, uint32_t kind)
{
    struct vocab *vocab = loading->vocab;
    const uint8_t *text = vocab->text + vocab->text_first[token];
    uint32_t bytes = vocab->text_first[token + 1] - vocab->text_first[token];
    if (kind > VOCAB_TOKEN_BYTE) {
        return gguf_error(loading->source, loading->cursor.offset, loading->error,
                          "tokenizer.ggml.token_type[%u] is %u, expected 0 to %d", token, kind,
                          VOCAB_TOKEN_BYTE);
    }
    if (kind == VOCAB_TOKEN_BYTE && !is_byte_text(text, bytes)) {
        return refuse_token(loading, token, loading->cursor.offset,
                            "is a byte token, expected the form <0x0A>");
    }
    if (kind == 0) {
        kind = VOCAB_TOKEN_NORMAL;  /* "undefined": some converters' ordinary tokens */
    }
    if (kind == VOCAB_TOKEN_USER && is_named(&vocab->info, token)) {
        kind = VOCAB_TOKEN_CONTROL;
    }
    vocab->kinds[token] = (uint8_t)kind;
    if (bytes > 0 && kind == VOCAB_TOKEN_USER) {
        vocab_special_add(&vocab->user, text, bytes);
    }
    if (bytes > 0 && (kind == VOCAB_TOKEN_USER || kind == VOCAB_TOKEN_CONTROL ||
                      kind == VOCAB_TOKEN_UNKNOWN)) {
        vocab_special_add(&vocab->special, text, bytes);
    }
    return STATUS_OK;
}

static enum status load_kinds(struct loading *loading)
{
    const struct gguf_vocab_info *info = &loading->vocab->info;
    seek_array(loading, info->types_offset);
    for (uint32_t token = 0; token < info->tokens; token++) {
        uint32_t kind = VOCAB_TOKEN_NORMAL;
        if (info->types_offset != 0) {
            TRY(gguf_cursor_u32(&loading->cursor, &kind, "tokenizer.ggml.token_type"));
        }
        TRY(set_kind(loading, token, kind));
    }
    return STATUS_OK;
}

/* A number that is smaller the higher the score: IEEE 754 bits order like integers once negative
 * numbers are turned around. */
static uint32_t order_from_score(float score)
{
    uint32_t bits = 0;
    score += 0.0f;                  /* -0 and 0 are equal */
    memcpy(&bits, &score, sizeof bits);
    return (bits & 0x80000000u) != 0 ? bits : ~(bits | 0x80000000u);
}

static enum status load_scores(struct loading *loading)
{
    struct vocab *vocab = loading->vocab;
    seek_array(loading, vocab->info.scores_offset);
    for (uint32_t token = 0; token < vocab->info.tokens; token++) {
        float score = 0;
        uint64_t offset = loading->cursor.offset;
        TRY(gguf_cursor_bytes(&loading->cursor, &score, sizeof score, "tokenizer.ggml.scores"));
        if (!isfinite(score)) {
            return gguf_error(loading->source, offset, loading->error,
                              "tokenizer.ggml.scores[%u] is not a number, expected a finite one",
                              token);
        }
        vocab->orders[token] = order_from_score(score);
        if (vocab_is_plain(vocab, token)) {
            vocab_spm_bridge(vocab->bridges, vocab->text + vocab->text_first[token],
                             vocab->text_first[token + 1] - vocab->text_first[token]);
        }
    }
    return STATUS_OK;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* A command is no byte, whatever it is called. Nor is a user-defined token: it is found before
 * bytes are looked for, and its text is not in the vocabulary's writing. */
static uint32_t find_byte(const struct vocab *vocab, const void *text, uint32_t bytes)
{
    uint32_t token = vocab_find(vocab, text, bytes);
    uint8_t kind = token != GGUF_NO_TOKEN ? vocab->kinds[token] : VOCAB_TOKEN_UNKNOWN;
    bool is_byte = kind == VOCAB_TOKEN_NORMAL || kind == VOCAB_TOKEN_UNUSED ||
                   kind == VOCAB_TOKEN_BYTE;
    return is_byte ? token : GGUF_NO_TOKEN;
}

/* "<0x0A>", else the byte itself as a character. */
static uint32_t find_spm_byte(const struct vocab *vocab, uint8_t byte)
{
    char text[8];
    snprintf(text, sizeof text, "<0x%02X>", byte);
    uint32_t token = find_byte(vocab, text, 6);
    return token != GGUF_NO_TOKEN ? token : find_byte(vocab, &byte, 1);
}

static uint32_t find_bpe_byte(const struct vocab *vocab, uint8_t byte)
{
    uint32_t code = vocab_bpe_code(byte);
    uint8_t text[2] = {(uint8_t)code};
    if (code < 0x80) {
        return find_byte(vocab, text, 1);
    }
    text[0] = (uint8_t)(0xc0 | code >> 6);
    text[1] = (uint8_t)(0x80 | (code & 0x3f));
    return find_byte(vocab, text, 2);
}

/* A byte without a token is unknown, and dropped where nothing stands for unknown. */
static void load_bytes(struct vocab *vocab)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        vocab->byte_token[byte] = vocab->info.kind == VOCAB_SPM
                                      ? find_spm_byte(vocab, (uint8_t)byte)
                                      : find_bpe_byte(vocab, (uint8_t)byte);
    }
}

/* ---- merges ---------------------------------------------------------------------------------- */

/* "left right": the parts and what they make, or GGUF_NO_TOKEN. The space is at index 1 or later: a
 * part is never empty. */
static bool parse_merge(const struct vocab *vocab, uint8_t *text, uint32_t bytes, uint32_t rank)
{
    const uint8_t *space = bytes > 2 ? memchr(text + 1, ' ', bytes - 2) : NULL;
    if (space == NULL) {
        return false;
    }
    uint32_t left = (uint32_t)(space - text);
    struct vocab_rule *rule = &vocab->rules[rank];
    rule->left = vocab_find(vocab, text, left);
    rule->right = vocab_find(vocab, text + left + 1, bytes - left - 1);
    memmove(text + left, text + left + 1, bytes - left - 1);
    rule->into = vocab_find(vocab, text, bytes - 1);
    return rule->left != GGUF_NO_TOKEN && rule->right != GGUF_NO_TOKEN &&
           rule->into != GGUF_NO_TOKEN && vocab_is_plain(vocab, rule->into);
}

/* Of two merges of the same pair the first counts. */
static void hash_merge(struct vocab *vocab, uint32_t rank)
{
    const struct vocab_rule *rule = &vocab->rules[rank];
    uint32_t at = vocab_pair_hash(rule->left, rule->right) & vocab->merge_hash_mask;
    while (vocab->merge_hash[at] != 0) {
        const struct vocab_rule *other = &vocab->rules[vocab->merge_hash[at] - 1];
        if (other->left == rule->left && other->right == rule->right) {
            return;
        }
        at = (at + 1) & vocab->merge_hash_mask;
    }
    vocab->merge_hash[at] = rank + 1;
}

static enum status load_merges(struct loading *loading)
{
    struct vocab *vocab = loading->vocab;
    uint8_t text[GGUF_MERGE_BYTES_MAX];
    seek_array(loading, vocab->info.merges_offset);
    for (uint32_t rank = 0; rank < vocab->info.merges; rank++) {
        uint64_t offset = loading->cursor.offset, bytes = 0;
        TRY(gguf_cursor_u64(&loading->cursor, &bytes, "a merge"));
        if (bytes > sizeof text) {
            return gguf_error(loading->source, offset, loading->error,
                              "tokenizer.ggml.merges[%u] has changed since the file was checked",
                              rank);
        }
        TRY(gguf_cursor_bytes(&loading->cursor, text, bytes, "a merge"));
        if (!parse_merge(vocab, text, (uint32_t)bytes, rank)) {
            return gguf_error(loading->source, offset, loading->error,
                              "tokenizer.ggml.merges[%u] is not two tokens that make a third, "
                              "expected 'LEFT RIGHT'",
                              rank);
        }
        hash_merge(vocab, rank);
    }
    return STATUS_OK;
}

enum status vocab_load(struct vocab *vocab, const struct gguf *gguf,
                       const struct gguf_source *source, struct arena *arena,
                       struct config_error *error)
{
    struct loading loading = {.vocab = vocab, .source = source, .error = error};
    memset(vocab, 0, sizeof *vocab);
    vocab->info = gguf->vocab;
    if (vocab->info.kind == VOCAB_NONE) {
        return STATUS_OK;
    }
    ASSERT(vocab->info.tokens > 0);
    take_memory(vocab, arena);
    TRY(load_strings(&loading));
    TRY(load_kinds(&loading));
    if (vocab->info.kind == VOCAB_SPM) {
        TRY(load_scores(&loading));
    } else {
        TRY(load_merges(&loading));
    }
    load_bytes(vocab);
    return STATUS_OK;
}
