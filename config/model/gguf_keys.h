/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the keys of a model's header that we use, as read from the file and not yet judged: types
 * and array bounds are right, relations are not checked. Private to config, BOOT_ONLY.
 */
#include "config/model/gguf_cursor.h"

#define GGUF_KEYS_MAX         65536     /* keys of a file */
#define GGUF_KEY_BYTES_MAX    65535     /* as in the format's specification */
#define GGUF_TEXT_BYTES       64        /* kept of a text value */
#define GGUF_MERGE_BYTES_MAX  (2 * GGUF_TOKEN_BYTES_MAX + 1)
#define GGUF_TOKENS_MAX       (1u << 22)

/* Where the value of a key lies; the first member of all of them. */
struct gguf_key {
    bool present;
    uint64_t offset;
};
struct gguf_count { struct gguf_key key; uint32_t value; };
struct gguf_real  { struct gguf_key key; float value; };
struct gguf_flag  { struct gguf_key key; bool value; };
struct gguf_text  { struct gguf_key key; char value[GGUF_TEXT_BYTES]; };  /* cut, NUL-terminated */
struct gguf_span { struct gguf_key key; uint64_t bytes; };     /* a text, left where it is */
struct gguf_array {
    struct gguf_key key;            /* offset of the first element */
    uint32_t count;
    uint64_t text_bytes;            /* of all elements, for texts */
    uint32_t text_bytes_max;        /* of the longest */
};

struct gguf_keys {
    struct gguf_text architecture, name;
    struct gguf_count alignment;
    const struct model_family *family;  /* whose keys these are; NULL: there were none */
    struct gguf_count layers, context, dim, ffn_dim, heads, kv_heads, key_dim, value_dim, rope_dim;
    struct gguf_count vocab_size, experts, sliding_window;
    struct gguf_real norm_epsilon, rope_base, rope_factor, rope_scale_linear, rope_attention;
    struct gguf_text rope_scaling;
    struct gguf_flag causal;
    struct gguf_text vocab_model, vocab_pre;
    struct gguf_array tokens, scores, types, merges;
    struct gguf_count bos, eos, unknown, eot;
    struct gguf_flag add_bos, add_space_prefix;
    struct gguf_span chat_template;
    /* Of a file that holds a predictor instead of a model (predictor.h). */
    struct gguf_count predictor_version, predictor_buckets, predictor_tokens;
    struct gguf_array predictor_classes, predictor_samples;
    struct gguf_array predictor_means, predictor_lows, predictor_highs;
};

/* Reads `count` key-value pairs at the cursor. */
MUST_CHECK enum status gguf_keys_read(struct gguf_keys *keys, struct gguf_cursor *cursor,
                                      uint64_t count);

/* gguf.c: a whole header, up to `bytes_max`; judges tensors and alignment, nothing else. */
MUST_CHECK enum status gguf_header_read(struct gguf *gguf, struct gguf_keys *keys,
                                        const struct gguf_source *source, uint64_t bytes_max,
                                        struct config_error *error);
/* gguf_tensors.c: reads `count` tensor descriptions at the cursor; the data follows, aligned. */
MUST_CHECK enum status gguf_tensors_read(struct gguf *gguf, struct gguf_cursor *cursor,
                                         uint64_t count, uint32_t alignment);
/* gguf_shape.c: keys and tensors make a model that the engine can run. */
MUST_CHECK enum status gguf_shape_derive(struct gguf *gguf, const struct gguf_keys *keys,
                                         const struct gguf_source *source,
                                         struct config_error *error);
/* gguf_chat.c: which chat format the template is. No template is refused. */
MUST_CHECK enum status gguf_chat_derive(struct gguf_chat *chat, const struct gguf_keys *keys,
                                        const struct gguf_source *source,
                                        struct config_error *error);
/* gguf_vocab.c: the vocabulary's kind and sizes. */
MUST_CHECK enum status gguf_vocab_derive(struct gguf_vocab_info *info,
                                         const struct gguf_keys *keys,
                                         const struct gguf_source *source,
                                         struct config_error *error);
