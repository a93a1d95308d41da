/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a GGUF file in memory, written piece by piece, for tests: the smallest good files, and
 * places in them to break.
 */
#include <stdbool.h>
#include <stdint.h>

#define GGUF_FILE_BYTES_MAX 49152

struct gguf_file {
    uint8_t bytes[GGUF_FILE_BYTES_MAX];
    uint32_t count;
    uint64_t keys, tensors;         /* written into the preamble by gguf_file_end() */
};

/* In this order: begin, keys, tensors, end. */
void gguf_file_begin(struct gguf_file *file);
void gguf_file_u32(struct gguf_file *file, const char *key, uint32_t value);
void gguf_file_f32(struct gguf_file *file, const char *key, float value);
void gguf_file_flag(struct gguf_file *file, const char *key, bool value);
void gguf_file_text(struct gguf_file *file, const char *key, const char *value);
void gguf_file_texts(struct gguf_file *file, const char *key, const char *const *values,
                     uint32_t count);
void gguf_file_f32s(struct gguf_file *file, const char *key, const float *values, uint32_t count);
void gguf_file_i32s(struct gguf_file *file, const char *key, const int32_t *values, uint32_t count);
struct gguf_file_tensor {
    uint32_t type;                  /* of ggml; 0: F32 */
    uint64_t columns, rows, offset;
};
void gguf_file_tensor(struct gguf_file *file, const char *name,
                      const struct gguf_file_tensor *tensor);
/* Pads the header and adds `data_bytes` of zeros. */
void gguf_file_end(struct gguf_file *file, uint32_t data_bytes);
/* Writes any bytes. */
void gguf_file_raw(struct gguf_file *file, const void *bytes, uint32_t count);

/* A model of one layer, F32: dim 8, 2 heads, 1 KV head, ffn 8, the vocabulary below; 18 keys. */
void gguf_file_model(struct gguf_file *file);
/* The same of another family: qwen2, or qwen3 with heads of 2 channels. */
void gguf_file_family(struct gguf_file *file, const char *family);
/* A predictor of the classes "chat", "code" and "search", 100 samples each: log C is 8 to 12 and 10
 * in the mean. The weights are 0, but for the last of a class, which is 9, 10 and 11. */
#define GGUF_FILE_CLASSES 3
#define GGUF_FILE_CLASS_WEIGHTS 1026
void gguf_file_predictor(struct gguf_file *file);
/* Keys of the smallest vocabularies: SPM <unk> <s> </s> a b ab; BPE a b ab and U+0120 a. */
void gguf_file_spm_keys(struct gguf_file *file);
void gguf_file_bpe_keys(struct gguf_file *file);

/* The bytes after a key's name: its type (u32), then the value. */
uint8_t *gguf_file_after_key(struct gguf_file *file, const char *key);
/* The bytes after a tensor's name: number of dimensions (u32), 2 of them (u64), type (u32),
 * offset. */
uint8_t *gguf_file_after_tensor(struct gguf_file *file, const char *name);
