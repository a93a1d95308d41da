/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the GGUF v3 reader. Two passes over a source (a file descriptor or memory): gguf_scan()
 * checks the whole header and every tensor's extent and says how large things are; vocab_load() and
 * gguf_read() then fill memory that was planned. Nothing is mapped; the owner closes the file.
 *
 * Every length is checked against the source's size and the limits before it is used; a bad file is
 * an error `path: offset N: what was wrong, what was expected`, never an assertion.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/status.h"
#include "config/chat/chat.h"
#include "config/config.h"
#include "config/model/family.h"

#define GGUF_LAYERS_MAX   256
#define GGUF_TENSORS_MAX  (GGUF_LAYERS_MAX * 12 + 8)
#define GGUF_NAME_BYTES   64
#define GGUF_HEAD_DIM_MAX 1024
#define GGUF_NO_TOKEN     UINT32_MAX
#define GGUF_TOKEN_BYTES_MAX 1024        /* longest token string */

/* Types of tensors: GGUF_TYPE(name, number in the file, values of a block, bytes of a block). */
#define GGUF_TYPES                \
    GGUF_TYPE(F32, 0, 1, 4)       \
    GGUF_TYPE(F16, 1, 1, 2)       \
    GGUF_TYPE(Q4_0, 2, 32, 18)    \
    GGUF_TYPE(Q8_0, 8, 32, 34)    \
    GGUF_TYPE(Q4_K, 12, 256, 144) \
    GGUF_TYPE(Q6_K, 14, 256, 210) \
    GGUF_TYPE(BF16, 30, 1, 2)

enum gguf_type {
#define GGUF_TYPE(name, number, values, bytes) GGUF_##name = number,
    GGUF_TYPES
#undef GGUF_TYPE
};
struct gguf_block {
    uint32_t values, bytes;
};
const char *gguf_type_name(uint32_t type);      /* any ggml type number, known or not */
/* Of a type of the list; {0, 0}: it is none. */
struct gguf_block gguf_type_block(uint32_t type);
uint64_t gguf_row_bytes(enum gguf_type type, uint64_t columns);

/* Where the bytes are. For a file read() is pread() until complete; for memory a copy. */
struct gguf_source {
    int fd;                         /* -1: memory */
    const uint8_t *memory;
    uint64_t size_bytes;
    const char *name;               /* for messages */
};
MUST_CHECK enum status gguf_source_open(struct gguf_source *source, const char *path,
                                        struct config_error *error);    /* a regular file */
void gguf_source_memory(struct gguf_source *source, const void *bytes, uint64_t count,
                        const char *name);
void gguf_source_close(struct gguf_source *source);

/* head_dim * heads need not equal dim. */
struct model_shape {
    const struct model_family *family;
    uint32_t layers, dim, heads, kv_heads, head_dim, ffn_dim;
    uint32_t vocab_tokens;
    uint32_t context_tokens;        /* that the model was trained for */
    uint32_t rope_dim;              /* <= head_dim: channels of a head that turn */
    float rope_base;
    float rope_scale;               /* divides the positions; 1: they are as they are */
    float norm_epsilon;
    bool tied_output;               /* no output.weight: the embedding serves */
    bool has_rope_factors;          /* rope_freqs.weight (rope_dim / 2): divides the frequencies */
};

struct gguf_tensor {
    char name[GGUF_NAME_BYTES];
    uint32_t type;                  /* enum gguf_type */
    uint32_t dims_count;
    uint64_t dims[4];               /* dims[0] is the row length (columns) */
    uint64_t offset;                /* absolute, in the source */
    uint64_t bytes;
};

enum vocab_kind { VOCAB_NONE, VOCAB_SPM, VOCAB_BPE };
enum vocab_pre {                    /* pre-tokenizers of BPE */
    VOCAB_PRE_GPT2, VOCAB_PRE_LLAMA_BPE, VOCAB_PRE_QWEN2, VOCAB_PRE_DEEPSEEK_CODER, VOCAB_PRE_FALCON
};

struct gguf_vocab_info {            /* sizes, from the scan */
    enum vocab_kind kind;
    enum vocab_pre pre;
    uint32_t tokens, merges;
    uint64_t text_bytes;            /* all token strings */
    uint32_t bos_id, eos_id, unk_id, eot_id;    /* GGUF_NO_TOKEN: none */
    bool add_bos, add_space_prefix;
    uint32_t token_bytes_max;
    /* Of the arrays; 0: none. */
    uint64_t tokens_offset, scores_offset, types_offset, merges_offset;
};

struct gguf_chat {                  /* how the model wants a conversation to be written */
    enum chat_verdict verdict;
    uint32_t template_bytes;
    struct chat_format format;      /* its bos and eos are empty: the vocabulary has them */
    struct chat_scratch scratch;    /* of the scan */
};

struct gguf {                       /* what the scan found; about 560 KiB, place it statically */
    bool has_model;                 /* false: a vocabulary-only file */
    struct model_shape shape;
    struct gguf_vocab_info vocab;
    struct gguf_chat chat;
    char model_name[64];            /* general.name, cut, control characters replaced */
    uint32_t tensors_count;
    struct gguf_tensor tensors[GGUF_TENSORS_MAX];
    uint64_t data_offset;
    uint64_t header_bytes;
};

/* Pass 1. Checks everything about the header, refuses what the engine cannot run by name.
 * `vocabulary_bytes_max` bounds header work. */
MUST_CHECK enum status gguf_scan(struct gguf *gguf, const struct gguf_source *source,
                                 uint64_t vocabulary_bytes_max, struct config_error *error);
const struct gguf_tensor *gguf_tensor_find(const struct gguf *gguf, const char *name); /* or NULL */
/* Exactly `count` bytes at `offset`; EINTR and short reads are handled. */
MUST_CHECK enum status gguf_read(const struct gguf_source *source, uint64_t offset, void *bytes,
                                 uint64_t count, struct config_error *error);
