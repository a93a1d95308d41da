/* SPDX-License-Identifier: MIT */
/*
 * What: writes small GGUF files into a fixed buffer. It follows the format's description, not our
 * reader, so that each checks the other.
 */
#include "selftest/fake/gguf_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_U32 = 4, TYPE_I32 = 5, TYPE_F32 = 6, TYPE_BOOL = 7, TYPE_TEXT = 8, TYPE_ARRAY = 9 };

#define ALIGNMENT 32

void gguf_file_raw(struct gguf_file *file, const void *bytes, uint32_t count)
{
    if (count > sizeof file->bytes - file->count) {
        abort();
    }
    memcpy(file->bytes + file->count, bytes, count);
    file->count += count;
}

static void put_u32(struct gguf_file *file, uint32_t value) { gguf_file_raw(file, &value, 4); }
static void put_u64(struct gguf_file *file, uint64_t value) { gguf_file_raw(file, &value, 8); }

static void put_text(struct gguf_file *file, const char *text)
{
    put_u64(file, strlen(text));
    gguf_file_raw(file, text, (uint32_t)strlen(text));
}

static void put_key(struct gguf_file *file, const char *key, uint32_t type)
{
    put_text(file, key);
    put_u32(file, type);
    file->keys++;
}

static void put_array(struct gguf_file *file, const char *key, uint32_t type, uint32_t count)
{
    put_key(file, key, TYPE_ARRAY);
    put_u32(file, type);
    put_u64(file, count);
}

void gguf_file_begin(struct gguf_file *file)
{
    memset(file, 0, sizeof *file);
    gguf_file_raw(file, "GGUF", 4);
    put_u32(file, 3);
    put_u64(file, 0);
    put_u64(file, 0);
}

void gguf_file_u32(struct gguf_file *file, const char *key, uint32_t value)
{
    put_key(file, key, TYPE_U32);
    put_u32(file, value);
}

void gguf_file_f32(struct gguf_file *file, const char *key, float value)
{
    put_key(file, key, TYPE_F32);
    gguf_file_raw(file, &value, sizeof value);
}

void gguf_file_flag(struct gguf_file *file, const char *key, bool value)
{
    uint8_t byte = value;
    put_key(file, key, TYPE_BOOL);
    gguf_file_raw(file, &byte, 1);
}

void gguf_file_text(struct gguf_file *file, const char *key, const char *value)
{
    put_key(file, key, TYPE_TEXT);
    put_text(file, value);
}

void gguf_file_texts(struct gguf_file *file, const char *key, const char *const *values,
                     uint32_t count)
{
    put_array(file, key, TYPE_TEXT, count);
    for (uint32_t i = 0; i < count; i++) {
        put_text(file, values[i]);
    }
}

void gguf_file_f32s(struct gguf_file *file, const char *key, const float *values, uint32_t count)
{
    put_array(file, key, TYPE_F32, count);
    gguf_file_raw(file, values, count * 4);
}

void gguf_file_i32s(struct gguf_file *file, const char *key, const int32_t *values, uint32_t count)
{
    put_array(file, key, TYPE_I32, count);
    gguf_file_raw(file, values, count * 4);
}

void gguf_file_tensor(struct gguf_file *file, const char *name,
                      const struct gguf_file_tensor *tensor)
{
    put_text(file, name);
    put_u32(file, 2);
    put_u64(file, tensor->columns);
    put_u64(file, tensor->rows);
    put_u32(file, tensor->type);
    put_u64(file, tensor->offset);
    file->tensors++;
}

void gguf_file_end(struct gguf_file *file, uint32_t data_bytes)
{
    uint32_t padding = (ALIGNMENT - file->count % ALIGNMENT) % ALIGNMENT;
    if (data_bytes > 0) {
        file->count += padding + data_bytes;
    }
    if (file->count > sizeof file->bytes) {
        abort();
    }
    memcpy(file->bytes + 8, &file->tensors, 8);
    memcpy(file->bytes + 16, &file->keys, 8);
}

void gguf_file_spm_keys(struct gguf_file *file)
{
    static const char *const tokens[] = {"<unk>", "<s>", "</s>", "a", "b", "ab"};
    static const float scores[] = {0, 0, 0, -2, -3, -1};
    static const int32_t types[] = {2, 3, 3, 1, 1, 1};
    gguf_file_text(file, "tokenizer.ggml.model", "llama");
    gguf_file_texts(file, "tokenizer.ggml.tokens", tokens, 6);
    gguf_file_f32s(file, "tokenizer.ggml.scores", scores, 6);
    gguf_file_i32s(file, "tokenizer.ggml.token_type", types, 6);
    gguf_file_u32(file, "tokenizer.ggml.bos_token_id", 1);
    gguf_file_u32(file, "tokenizer.ggml.eos_token_id", 2);
}

void gguf_file_bpe_keys(struct gguf_file *file)
{
    static const char *const tokens[] = {"a", "b", "ab", "\xc4\xa0", "\xc4\xa0\x61", "<|end|>"};
    static const int32_t types[] = {1, 1, 1, 1, 1, 3};
    static const char *const merges[] = {"\xc4\xa0 a", "a b"};
    gguf_file_text(file, "tokenizer.ggml.model", "gpt2");
    gguf_file_text(file, "tokenizer.ggml.pre", "gpt-2");
    gguf_file_texts(file, "tokenizer.ggml.tokens", tokens, 6);
    gguf_file_i32s(file, "tokenizer.ggml.token_type", types, 6);
    gguf_file_texts(file, "tokenizer.ggml.merges", merges, 2);
    gguf_file_u32(file, "tokenizer.ggml.eos_token_id", 5);
}

/* Returns the offset after it. */
static uint64_t add_f32_tensor(struct gguf_file *file, const char *name, uint64_t columns,
                               uint64_t rows, uint64_t offset)
{
    uint64_t bytes = columns * rows * 4;
    gguf_file_tensor(file, name, &(struct gguf_file_tensor){
        .columns = columns, .rows = rows, .offset = offset});
    return offset + bytes + (ALIGNMENT - bytes % ALIGNMENT) % ALIGNMENT;
}

/* FAMILY.NAME */
static const char *family_key(const char *family, const char *name)
{
    static char key[64];
    snprintf(key, sizeof key, "%s.%s", family, name);
    return key;
}

static void add_family_keys(struct gguf_file *file, const char *family)
{
    static const struct {
        const char *name;
        uint32_t value;
    } counts[] = {
        {"block_count", 1},          {"context_length", 32},       {"embedding_length", 8},
        {"feed_forward_length", 8},  {"attention.head_count", 2},  {"attention.head_count_kv", 1},
    };
    bool is_qwen3 = strcmp(family, "qwen3") == 0;
    for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        gguf_file_u32(file, family_key(family, counts[i].name), counts[i].value);
    }
    gguf_file_f32(file, family_key(family, "attention.layer_norm_rms_epsilon"), 1e-5f);
    if (is_qwen3) {
        gguf_file_u32(file, family_key(family, "attention.key_length"), 2);
        gguf_file_u32(file, family_key(family, "attention.value_length"), 2);
    } else {
        gguf_file_u32(file, family_key(family, "rope.dimension_count"), 4);
    }
    gguf_file_f32(file, family_key(family, "rope.freq_base"), 10000);
}

void gguf_file_family(struct gguf_file *file, const char *family)
{
    bool is_qwen2 = strcmp(family, "qwen2") == 0, is_qwen3 = strcmp(family, "qwen3") == 0;
    uint64_t head = is_qwen3 ? 2 : 4;
    const struct {
        const char *name;
        uint64_t columns, rows;
        bool absent;
    } tensors[] = {
        {"token_embd.weight", 8, 6, false},
        {"output_norm.weight", 8, 1, false},
        {"output.weight", 8, 6, false},
        {"blk.0.attn_norm.weight", 8, 1, false},
        {"blk.0.attn_q.weight", 8, 2 * head, false},
        {"blk.0.attn_k.weight", 8, head, false},
        {"blk.0.attn_v.weight", 8, head, false},
        {"blk.0.attn_q.bias", 2 * head, 1, !is_qwen2},
        {"blk.0.attn_k.bias", head, 1, !is_qwen2},
        {"blk.0.attn_v.bias", head, 1, !is_qwen2},
        {"blk.0.attn_q_norm.weight", head, 1, !is_qwen3},
        {"blk.0.attn_k_norm.weight", head, 1, !is_qwen3},
        {"blk.0.attn_output.weight", 2 * head, 8, false},
        {"blk.0.ffn_norm.weight", 8, 1, false},
        {"blk.0.ffn_gate.weight", 8, 8, false},
        {"blk.0.ffn_up.weight", 8, 8, false},
        {"blk.0.ffn_down.weight", 8, 8, false},
    };
    uint64_t offset = 0;
    gguf_file_begin(file);
    gguf_file_text(file, "general.architecture", family);
    gguf_file_text(file, "general.name", "small");
    gguf_file_u32(file, "general.alignment", ALIGNMENT);
    add_family_keys(file, family);
    gguf_file_spm_keys(file);
    for (uint32_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        if (!tensors[i].absent) {
            offset = add_f32_tensor(file, tensors[i].name, tensors[i].columns, tensors[i].rows,
                                    offset);
        }
    }
    gguf_file_end(file, (uint32_t)offset);
}

void gguf_file_predictor(struct gguf_file *file)
{
    static const char *const names[GGUF_FILE_CLASSES] = {"chat", "code", "search"};
    static const int32_t samples[GGUF_FILE_CLASSES] = {100, 100, 100};
    static const float means[GGUF_FILE_CLASSES] = {10, 10, 10};
    static const float lows[GGUF_FILE_CLASSES] = {8, 8, 8};
    static const float highs[GGUF_FILE_CLASSES] = {12, 12, 12};
    gguf_file_begin(file);
    gguf_file_text(file, "general.architecture", "predictor");
    gguf_file_u32(file, "predictor.version", 1);
    gguf_file_u32(file, "predictor.buckets", 1024);
    gguf_file_u32(file, "predictor.tokens", 1024);
    gguf_file_texts(file, "predictor.classes", names, GGUF_FILE_CLASSES);
    gguf_file_i32s(file, "predictor.samples", samples, GGUF_FILE_CLASSES);
    gguf_file_f32s(file, "predictor.means", means, GGUF_FILE_CLASSES);
    gguf_file_f32s(file, "predictor.lows", lows, GGUF_FILE_CLASSES);
    gguf_file_f32s(file, "predictor.highs", highs, GGUF_FILE_CLASSES);
    uint32_t data_bytes = (uint32_t)add_f32_tensor(file, "predictor.weights",
                                                   GGUF_FILE_CLASS_WEIGHTS, GGUF_FILE_CLASSES, 0);
    uint32_t weights_bytes = GGUF_FILE_CLASSES * GGUF_FILE_CLASS_WEIGHTS * sizeof(float);
    gguf_file_end(file, data_bytes);
    uint8_t *weights = file->bytes + file->count - data_bytes;
    for (uint32_t i = 1; i <= GGUF_FILE_CLASSES; i++) {
        float last = 8 + (float)i;
        memcpy(weights + weights_bytes / GGUF_FILE_CLASSES * i - sizeof last, &last, sizeof last);
    }
}

void gguf_file_model(struct gguf_file *file)
{
    gguf_file_family(file, "llama");
}

/* The place after a text that has its length before it. */
static uint8_t *after_text(struct gguf_file *file, const char *text)
{
    uint8_t pattern[128];
    uint64_t bytes = strlen(text);
    memcpy(pattern, &bytes, 8);
    memcpy(pattern + 8, text, bytes);
    for (uint32_t at = 0; at + 8 + bytes <= file->count; at++) {
        if (memcmp(file->bytes + at, pattern, 8 + bytes) == 0) {
            return file->bytes + at + 8 + bytes;
        }
    }
    abort();
}

uint8_t *gguf_file_after_key(struct gguf_file *file, const char *key)
{
    return after_text(file, key);
}

uint8_t *gguf_file_after_tensor(struct gguf_file *file, const char *name)
{
    return after_text(file, name);
}
