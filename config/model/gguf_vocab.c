/* SPDX-License-Identifier: MIT */
/*
 * What: from a header's keys to the vocabulary's kind and sizes, so that its memory can be planned
 * before it is read. Two kinds are understood: SentencePiece ("llama") and byte-level BPE ("gpt2")
 * with one of five pre-tokenizers. Everything else is refused by name: a tokenizer that is nearly
 * right gives a model that is nearly sane.
 *
 * Values that a file leaves out are those of the kind's first model (Llama 2: <unk> 0, <s> 1,
 * </s> 2).
 */
#include <string.h>

#include "config/base/assert.h"
#include "config/model/gguf_keys.h"

/* Names of pre-tokenizers, as converters write them. */
static const struct {
    const char *name;
    enum vocab_pre pre;
} pre_names[] = {
    {"gpt-2", VOCAB_PRE_GPT2},          {"phi-2", VOCAB_PRE_GPT2},
    {"jina-es", VOCAB_PRE_GPT2},        {"jina-de", VOCAB_PRE_GPT2},
    {"jina-v1-en", VOCAB_PRE_GPT2},     {"jina-v2-es", VOCAB_PRE_GPT2},
    {"jina-v2-de", VOCAB_PRE_GPT2},     {"jina-v2-code", VOCAB_PRE_GPT2},
    {"roberta-bpe", VOCAB_PRE_GPT2},    {"modern-bert", VOCAB_PRE_GPT2},
    {"gigachat", VOCAB_PRE_GPT2},       {"mellum", VOCAB_PRE_GPT2},
    {"a.x-4.0", VOCAB_PRE_GPT2},        {"llama-bpe", VOCAB_PRE_LLAMA_BPE},
    {"llama3", VOCAB_PRE_LLAMA_BPE},    {"llama-v3", VOCAB_PRE_LLAMA_BPE},
    {"falcon3", VOCAB_PRE_LLAMA_BPE},   {"falcon-h1", VOCAB_PRE_LLAMA_BPE},
    {"pixtral", VOCAB_PRE_LLAMA_BPE},   {"midm-2.0", VOCAB_PRE_LLAMA_BPE},
    {"lfm2", VOCAB_PRE_LLAMA_BPE},      {"qwen2", VOCAB_PRE_QWEN2},
    {"deepseek-r1-qwen", VOCAB_PRE_QWEN2}, {"kormo", VOCAB_PRE_QWEN2},
    {"deepseek-coder", VOCAB_PRE_DEEPSEEK_CODER}, {"falcon", VOCAB_PRE_FALCON},
};

struct derivation {
    struct gguf_vocab_info *info;
    const struct gguf_keys *keys;
    const struct gguf_source *source;
    struct config_error *error;
};

static enum status take_pre(const struct derivation *d)
{
    const struct gguf_text *pre = &d->keys->vocab_pre;
    for (size_t i = 0; pre->key.present && i < sizeof pre_names / sizeof pre_names[0]; i++) {
        if (strcmp(pre->value, pre_names[i].name) == 0) {
            d->info->pre = pre_names[i].pre;
            return STATUS_OK;
        }
    }
    return gguf_error(d->source, pre->key.offset, d->error,
                      "tokenizer.ggml.pre is '%s', expected 'gpt-2', 'llama-bpe', 'qwen2', "
                      "'deepseek-coder' or 'falcon'",
                      pre->key.present ? pre->value : "missing");
}

static enum status take_kind(const struct derivation *d)
{
    const struct gguf_text *model = &d->keys->vocab_model;
    if (model->key.present && strcmp(model->value, "llama") == 0) {
        d->info->kind = VOCAB_SPM;
        return STATUS_OK;
    }
    if (model->key.present && strcmp(model->value, "gpt2") == 0) {
        d->info->kind = VOCAB_BPE;
        return take_pre(d);
    }
    return gguf_error(d->source, model->key.offset, d->error,
                      "tokenizer.ggml.model is '%s', expected 'llama' or 'gpt2'",
                      model->key.present ? model->value : "missing");
}

/* An array that has one element for each token, or is absent where that is allowed. */
static enum status take_parallel(const struct derivation *d, const struct gguf_array *array,
                                 const char *key, bool required, uint64_t *offset)
{
    if (!array->key.present && !required) {
        *offset = 0;
        return STATUS_OK;
    }
    if (array->count != d->info->tokens || !array->key.present) {
        return gguf_error(d->source, array->key.offset, d->error,
                          "%s has %u elements, expected one for each of the %u tokens", key,
                          array->count, d->info->tokens);
    }
    *offset = array->key.offset;
    return STATUS_OK;
}

static enum status take_arrays(const struct derivation *d)
{
    const struct gguf_keys *keys = d->keys;
    struct gguf_vocab_info *info = d->info;
    if (keys->tokens.count == 0) {
        return gguf_error(d->source, keys->tokens.key.offset, d->error,
                          "tokenizer.ggml.tokens is missing or empty, expected at least one token");
    }
    info->tokens = keys->tokens.count;
    info->tokens_offset = keys->tokens.key.offset;
    info->text_bytes = keys->tokens.text_bytes;
    info->token_bytes_max = keys->tokens.text_bytes_max;
    TRY(take_parallel(d, &keys->scores, "tokenizer.ggml.scores", info->kind == VOCAB_SPM,
                      &info->scores_offset));
    TRY(take_parallel(d, &keys->types, "tokenizer.ggml.token_type", info->kind == VOCAB_SPM,
                      &info->types_offset));
    if (info->kind == VOCAB_BPE && !keys->merges.key.present) {
        return gguf_error(d->source, keys->vocab_model.key.offset, d->error,
                          "tokenizer.ggml.merges is missing, expected an array of texts");
    }
    if (info->kind == VOCAB_BPE) {
        info->merges = keys->merges.count;
        info->merges_offset = keys->merges.key.offset;
    }
    return STATUS_OK;
}

/* Converters write 2^32 - 1 for "none". */
static enum status take_id(const struct derivation *d, const struct gguf_count *count,
                           const char *key, uint32_t fallback, uint32_t *id)
{
    *id = count->key.present ? count->value : fallback < d->info->tokens ? fallback : GGUF_NO_TOKEN;
    if (*id != GGUF_NO_TOKEN && *id >= d->info->tokens) {
        return gguf_error(d->source, count->key.offset, d->error,
                          "%s is %u, expected less than the %u tokens", key, *id, d->info->tokens);
    }
    return STATUS_OK;
}

static enum status take_ids(const struct derivation *d)
{
    const struct gguf_keys *keys = d->keys;
    struct gguf_vocab_info *info = d->info;
    bool spm = info->kind == VOCAB_SPM;
    TRY(take_id(d, &keys->bos, "tokenizer.ggml.bos_token_id", spm ? 1 : GGUF_NO_TOKEN,
                &info->bos_id));
    TRY(take_id(d, &keys->eos, "tokenizer.ggml.eos_token_id", spm ? 2 : GGUF_NO_TOKEN,
                &info->eos_id));
    TRY(take_id(d, &keys->unknown, "tokenizer.ggml.unknown_token_id", spm ? 0 : GGUF_NO_TOKEN,
                &info->unk_id));
    return take_id(d, &keys->eot, "tokenizer.ggml.eot_token_id", GGUF_NO_TOKEN, &info->eot_id);
}

enum status gguf_vocab_derive(struct gguf_vocab_info *info, const struct gguf_keys *keys,
                              const struct gguf_source *source, struct config_error *error)
{
    struct derivation d = {.info = info, .keys = keys, .source = source, .error = error};
    *info = (struct gguf_vocab_info){0};
    TRY(take_kind(&d));
    TRY(take_arrays(&d));
    TRY(take_ids(&d));
    bool spm = info->kind == VOCAB_SPM;
    bool bos = keys->add_bos.key.present ? keys->add_bos.value
                                         : spm || info->pre == VOCAB_PRE_LLAMA_BPE;
    info->add_bos = bos && info->bos_id != GGUF_NO_TOKEN;
    info->add_space_prefix =
        spm && (!keys->add_space_prefix.key.present || keys->add_space_prefix.value);
    ASSERT(info->kind != VOCAB_NONE && info->tokens > 0);
    return STATUS_OK;
}
