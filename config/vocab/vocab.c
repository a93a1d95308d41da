/* SPDX-License-Identifier: MIT */
/*
 * What: text to tokens and back, over a loaded vocabulary (load.c).
 *
 *     text --special.c--> special tokens and the text between them
 *          --spm.c / bpe.c--> words --merge.c--> tokens
 *
 * Invariants: plain text never becomes a control token. Decoding what was encoded gives the same
 * bytes (but for the space prefix of SPM, and bytes that the vocabulary does not know).
 *
 * Bounds: no allocation; the caller's scratch is sized for its longest text. Owner: the vocabulary
 * is read-only after boot; a scratch belongs to one thread.
 */
#include "config/vocab/vocab.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/base/fnv.h"
#include "config/vocab/unicode.h"
#include "config/vocab/merge.h"

uint32_t vocab_find(const struct vocab *vocab, const uint8_t *text, uint32_t bytes)
{
    uint32_t at = vocab_hash(text, bytes) & vocab->hash_mask;
    for (;; at = (at + 1) & vocab->hash_mask) {
        if (vocab->hash[at] == 0) {
            return GGUF_NO_TOKEN;
        }
        uint32_t token = vocab->hash[at] - 1;
        uint32_t first = vocab->text_first[token];
        if (vocab->text_first[token + 1] - first == bytes &&
            memcmp(vocab->text + first, text, bytes) == 0) {
            return token;
        }
    }
}

/* ---- encode ---------------------------------------------------------------------------------- */

static void encode_plain(const struct vocab *vocab, struct vocab_work *work, const uint8_t *text,
                         uint32_t bytes, struct vocab_output *output)
{
    if (vocab->info.kind == VOCAB_SPM) {
        vocab_spm_encode(vocab, work, text, bytes, output);
    } else {
        vocab_bpe_encode(vocab, work, text, bytes, output);
    }
}

/* The text has special tokens, marked in work->spans; what lies between two of them is a text of
 * its own, also for the space prefix. */
static void encode_spans(const struct vocab *vocab, struct vocab_work *work, const uint8_t *text,
                         uint32_t bytes, struct vocab_output *output)
{
    for (uint32_t at = 0; at < bytes;) {
        uint32_t end = at + 1;
        if (work->spans[at] != 0) {
            ASSERT(work->spans[at] != VOCAB_SPAN_INSIDE);
            work->no_space_prefix = false;
            vocab_output_push(output, work->spans[at] - 1);
            while (end < bytes && work->spans[end] == VOCAB_SPAN_INSIDE) {
                end++;
            }
        } else {
            while (end < bytes && work->spans[end] == 0) {
                end++;
            }
            encode_plain(vocab, work, text + at, end - at, output);
        }
        at = end;
    }
}

enum status vocab_encode(const struct vocab *vocab, struct vocab_scratch *scratch,
                         const struct vocab_input *input, struct vocab_output *output)
{
    const uint8_t *bytes = (const uint8_t *)input->text;
    struct vocab_work work;
    ASSERT(vocab->info.kind != VOCAB_NONE);
    output->count = 0;
    if (input->bytes > scratch->text_bytes_max) {
        return STATUS_BUSY_SPACE;
    }
    if (input->bytes == 0) {
        return STATUS_OK;
    }
    vocab_work_init(&work, scratch);
    work.no_space_prefix = input->no_space_prefix;
    if (vocab_special_mark(vocab, input, work.spans)) {
        encode_spans(vocab, &work, bytes, input->bytes, output);
    } else {
        encode_plain(vocab, &work, bytes, input->bytes, output);
    }
    return output->count > output->max ? STATUS_BUSY_SPACE : STATUS_OK;
}

/* ---- identity -------------------------------------------------------------------------------- */

uint64_t vocab_digest(const struct vocab *vocab)
{
    const struct gguf_vocab_info *info = &vocab->info;
    const uint32_t numbers[] = {info->kind, info->pre, info->tokens, info->merges, info->bos_id,
                                info->eos_id, info->unk_id, info->eot_id, info->add_bos,
                                info->add_space_prefix};
    uint64_t digest = fnv_add(FNV_START, numbers, sizeof numbers), tokens = info->tokens;
    if (info->kind == VOCAB_NONE) {
        return digest;
    }
    digest = fnv_add_words(digest, vocab->text_first, (tokens + 1) * sizeof *vocab->text_first);
    digest = fnv_add_words(digest, vocab->text, vocab->text_first[tokens]);
    digest = fnv_add_words(digest, vocab->kinds, tokens);
    return info->kind == VOCAB_SPM
               ? fnv_add_words(digest, vocab->orders, tokens * sizeof *vocab->orders)
               : fnv_add_words(digest, vocab->rules, info->merges * sizeof *vocab->rules);
}

/* ---- decode ---------------------------------------------------------------------------------- */

static int32_t hex_value(uint8_t digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* "<0x0A>" is one byte; loading has refused byte tokens of another form. */
static uint32_t decode_byte(const uint8_t *text, char *bytes)
{
    bytes[0] = (char)(hex_value(text[3]) << 4 | hex_value(text[4]));
    return 1;
}

/* U+2581 is a space. */
static uint32_t decode_spm(const uint8_t *text, uint32_t count, char *bytes)
{
    uint32_t used = 0;
    for (uint32_t at = 0; at < count;) {
        if (count - at >= 3 && memcmp(text + at, "\xe2\x96\x81", 3) == 0) {
            bytes[used++] = ' ';
            at += 3;
        } else {
            bytes[used++] = (char)text[at++];
        }
    }
    return used;
}

/* Characters stand for bytes; one that stands for none is kept. */
static uint32_t decode_bpe(const uint8_t *text, uint32_t count, char *bytes)
{
    uint32_t used = 0;
    for (uint32_t at = 0; at < count;) {
        uint32_t code = 0, length = unicode_decode(text + at, count - at, &code);
        int32_t byte = vocab_bpe_byte(code);
        if (byte >= 0) {
            bytes[used++] = (char)byte;
        } else {
            memcpy(bytes + used, text + at, length);
            used += length;
        }
        at += length;
    }
    return used;
}

uint32_t vocab_decode(const struct vocab *vocab, uint32_t token, bool first, char *bytes,
                      uint32_t max)
{
    ASSERT(token < vocab->info.tokens);
    ASSERT(max >= vocab->info.token_bytes_max);
    const uint8_t *text = vocab->text + vocab->text_first[token];
    uint32_t count = vocab->text_first[token + 1] - vocab->text_first[token];
    uint32_t used = 0;
    switch ((enum vocab_token_kind)vocab->kinds[token]) {
    case VOCAB_TOKEN_UNKNOWN:
    case VOCAB_TOKEN_CONTROL:
        return 0;
    case VOCAB_TOKEN_BYTE:
        return decode_byte(text, bytes);
    case VOCAB_TOKEN_USER:
        memcpy(bytes, text, count);
        return count;
    case VOCAB_TOKEN_NORMAL:
    case VOCAB_TOKEN_UNUSED:
        used = vocab->info.kind == VOCAB_SPM ? decode_spm(text, count, bytes)
                                             : decode_bpe(text, count, bytes);
        break;
    }
    if (first && vocab->info.add_space_prefix && used > 0 && bytes[0] == ' ') {
        memmove(bytes, bytes + 1, --used);
    }
    return used;
}

const char *vocab_control_text(const struct vocab *vocab, uint32_t token, uint32_t *bytes)
{
    const struct gguf_vocab_info *info = &vocab->info;
    bool is_shown = token < info->tokens && vocab->kinds[token] == VOCAB_TOKEN_CONTROL &&
                    token != info->bos_id && token != info->eos_id && token != info->eot_id;
    return is_shown ? vocab_token_text(vocab, token, bytes) : NULL;
}
