/* SPDX-License-Identifier: MIT */
/*
 * What: from a header's keys and tensors to a model that the engine can run: a plain Llama. Every
 * relation between two numbers is checked here and named when it does not hold; every tensor of the
 * architecture must be there with the right dimensions, and no other may be: a bias or an expert
 * that we ignored would change what the model says.
 *
 * Bounds: tensors are looked up by name, at most 12 * 256 lookups among as many, a few ms.
 */
#include <stdio.h>
#include <string.h>

#include "appliance/base/assert.h"
#include "config/gguf_keys.h"

#define DIM_MAX      65536
#define FFN_MAX      1048576
#define HEADS_MAX    1024
#define HEAD_DIM_MAX 1024
#define CONTEXT_MAX  (1u << 24)

/* What the checks below share. */
struct derivation {
    struct gguf *gguf;
    const struct gguf_keys *keys;
    const struct gguf_source *source;
    struct config_error *error;
    bool known[GGUF_TENSORS_MAX];   /* tensors that the architecture has asked for */
};

/* ---- keys ------------------------------------------------------------------------------------ */

static enum status take_count(const struct derivation *d, const struct gguf_count *count,
                              const char *key, uint32_t max, uint32_t *value)
{
    if (!count->key.present) {
        return gguf_error(d->source, d->gguf->header_bytes, d->error,
                          "%s is missing, expected 1 to %u", key, max);
    }
    if (count->value < 1 || count->value > max) {
        return gguf_error(d->source, count->key.offset, d->error, "%s is %u, expected 1 to %u", key,
                          count->value, max);
    }
    *value = count->value;
    return STATUS_OK;
}

static enum status take_sizes(const struct derivation *d)
{
    struct model_shape *shape = &d->gguf->shape;
    const struct gguf_keys *keys = d->keys;
    TRY(take_count(d, &keys->layers, "llama.block_count", GGUF_LAYERS_MAX, &shape->layers));
    TRY(take_count(d, &keys->dim, "llama.embedding_length", DIM_MAX, &shape->dim));
    TRY(take_count(d, &keys->ffn_dim, "llama.feed_forward_length", FFN_MAX, &shape->ffn_dim));
    TRY(take_count(d, &keys->context, "llama.context_length", CONTEXT_MAX,
                   &shape->context_tokens));
    return take_count(d, &keys->heads, "llama.attention.head_count", HEADS_MAX, &shape->heads);
}

static enum status take_heads(const struct derivation *d)
{
    struct model_shape *shape = &d->gguf->shape;
    const struct gguf_keys *keys = d->keys;
    shape->kv_heads = keys->kv_heads.key.present ? keys->kv_heads.value : shape->heads;
    if (shape->kv_heads == 0 || shape->heads % shape->kv_heads != 0) {
        return gguf_error(d->source, keys->kv_heads.key.offset, d->error,
                          "llama.attention.head_count_kv is %u, expected a divisor of the %u heads",
                          shape->kv_heads, shape->heads);
    }
    if (!keys->key_dim.key.present && shape->dim % shape->heads != 0) {
        return gguf_error(d->source, keys->heads.key.offset, d->error,
                          "llama.attention.head_count is %u, expected a divisor of the embedding "
                          "length %u",
                          shape->heads, shape->dim);
    }
    shape->head_dim = keys->key_dim.key.present ? keys->key_dim.value : shape->dim / shape->heads;
    if (shape->head_dim < 2 || shape->head_dim > HEAD_DIM_MAX) {
        return gguf_error(d->source, keys->key_dim.key.offset, d->error,
                          "a head has %u dimensions, expected 2 to %d", shape->head_dim,
                          HEAD_DIM_MAX);
    }
    if (keys->value_dim.key.present && keys->value_dim.value != shape->head_dim) {
        return gguf_error(d->source, keys->value_dim.key.offset, d->error,
                          "llama.attention.value_length is %u, expected %u as for keys",
                          keys->value_dim.value, shape->head_dim);
    }
    return STATUS_OK;
}

static enum status take_rope(const struct derivation *d)
{
    struct model_shape *shape = &d->gguf->shape;
    const struct gguf_keys *keys = d->keys;
    shape->rope_dim = keys->rope_dim.key.present ? keys->rope_dim.value : shape->head_dim;
    if (shape->rope_dim == 0 || shape->rope_dim > shape->head_dim || shape->rope_dim % 2 != 0) {
        return gguf_error(d->source, keys->rope_dim.key.offset, d->error,
                          "llama.rope.dimension_count is %u, expected an even number of 2 to %u",
                          shape->rope_dim, shape->head_dim);
    }
    shape->rope_base = keys->rope_base.key.present ? keys->rope_base.value : 10000.0f;
    if (shape->rope_base <= 0) {
        return gguf_error(d->source, keys->rope_base.key.offset, d->error,
                          "llama.rope.freq_base is not positive, expected more than 0");
    }
    return STATUS_OK;
}

/* A factor without a type counts as linear scaling in other readers, so it is refused as well. */
static enum status refuse_extensions(const struct derivation *d)
{
    const struct gguf_keys *keys = d->keys;
    const char *scaling = keys->rope_scaling.key.present ? keys->rope_scaling.value : "none";
    if (strcmp(scaling, "none") != 0 && strcmp(scaling, "linear") != 0) {
        return gguf_error(d->source, keys->rope_scaling.key.offset, d->error,
                          "llama.rope.scaling.type is '%s', expected 'none'", scaling);
    }
    const struct gguf_real *factors[] = {&keys->rope_factor, &keys->rope_scale};
    for (size_t i = 0; i < 2; i++) {
        if (factors[i]->key.present && factors[i]->value != 1.0f && factors[i]->value != 0.0f) {
            return gguf_error(d->source, factors[i]->key.offset, d->error,
                              "rope is scaled by %g, expected no scaling",
                              (double)factors[i]->value);
        }
    }
    if (keys->experts.key.present && keys->experts.value != 0) {
        return gguf_error(d->source, keys->experts.key.offset, d->error,
                          "llama.expert_count is %u, expected 0: no mixture of experts",
                          keys->experts.value);
    }
    return STATUS_OK;
}

static enum status take_norm(const struct derivation *d)
{
    const struct gguf_real *epsilon = &d->keys->norm_epsilon;
    if (!epsilon->key.present || epsilon->value <= 0 || epsilon->value >= 1) {
        return gguf_error(d->source, epsilon->key.offset, d->error,
                          "llama.attention.layer_norm_rms_epsilon is %s, expected a number between "
                          "0 and 1",
                          epsilon->key.present ? "out of range" : "missing");
    }
    d->gguf->shape.norm_epsilon = epsilon->value;
    return STATUS_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* NULL if there is none; else its dimensions must be (columns, rows). */
static enum status find_tensor(struct derivation *d, const char *name, uint64_t columns,
                               uint64_t rows, const struct gguf_tensor **found)
{
    const struct gguf_tensor *tensor = gguf_tensor_find(d->gguf, name);
    *found = tensor;
    if (tensor == NULL) {
        return STATUS_OK;
    }
    d->known[tensor - d->gguf->tensors] = true;
    if (tensor->dims[0] != columns || tensor->dims[1] != rows || tensor->dims[2] != 1 ||
        tensor->dims[3] != 1) {
        return gguf_error(d->source, tensor->offset, d->error,
                          "tensor %s is %llu x %llu x %llu x %llu, expected %llu x %llu", name,
                          (unsigned long long)tensor->dims[0], (unsigned long long)tensor->dims[1],
                          (unsigned long long)tensor->dims[2], (unsigned long long)tensor->dims[3],
                          (unsigned long long)columns, (unsigned long long)rows);
    }
    return STATUS_OK;
}

static enum status need_tensor(struct derivation *d, const char *name, uint64_t columns,
                               uint64_t rows)
{
    const struct gguf_tensor *tensor = NULL;
    TRY(find_tensor(d, name, columns, rows, &tensor));
    if (tensor == NULL) {
        return gguf_error(d->source, d->gguf->header_bytes, d->error,
                          "tensor %s is missing, expected %llu x %llu", name,
                          (unsigned long long)columns, (unsigned long long)rows);
    }
    return STATUS_OK;
}

static enum status need_layer(struct derivation *d, uint32_t layer)
{
    const struct model_shape *shape = &d->gguf->shape;
    uint64_t dim = shape->dim, ffn_dim = shape->ffn_dim;
    uint64_t q_dim = (uint64_t)shape->heads * shape->head_dim;
    uint64_t kv_dim = (uint64_t)shape->kv_heads * shape->head_dim;
    const struct {
        const char *name;
        uint64_t columns, rows;
    } parts[] = {
        {"attn_norm", dim, 1},  {"attn_q", dim, q_dim},       {"attn_k", dim, kv_dim},
        {"attn_v", dim, kv_dim}, {"attn_output", q_dim, dim}, {"ffn_norm", dim, 1},
        {"ffn_gate", dim, ffn_dim}, {"ffn_up", dim, ffn_dim}, {"ffn_down", ffn_dim, dim},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[GGUF_NAME_BYTES];
        snprintf(name, sizeof name, "blk.%u.%s.weight", layer, parts[i].name);
        TRY(need_tensor(d, name, parts[i].columns, parts[i].rows));
    }
    return STATUS_OK;
}

/* The number of rows of the embedding is the model's vocabulary. */
static enum status take_vocabulary(struct derivation *d)
{
    struct model_shape *shape = &d->gguf->shape;
    const struct gguf_tensor *embedding = gguf_tensor_find(d->gguf, "token_embd.weight");
    uint64_t rows = embedding != NULL ? embedding->dims[1] : d->gguf->vocab.tokens;
    TRY(need_tensor(d, "token_embd.weight", shape->dim, rows));
    if (rows != d->gguf->vocab.tokens) {
        return gguf_error(d->source, embedding->offset, d->error,
                          "token_embd.weight has %llu rows, expected one for each of the %u tokens",
                          (unsigned long long)rows, d->gguf->vocab.tokens);
    }
    if (d->keys->vocab_size.key.present && d->keys->vocab_size.value != rows) {
        return gguf_error(d->source, d->keys->vocab_size.key.offset, d->error,
                          "llama.vocab_size is %u, expected the %llu rows of token_embd.weight",
                          d->keys->vocab_size.value, (unsigned long long)rows);
    }
    shape->vocab_tokens = (uint32_t)rows;
    return STATUS_OK;
}

static enum status take_options(struct derivation *d)
{
    struct model_shape *shape = &d->gguf->shape;
    const struct gguf_tensor *output = NULL, *factors = NULL;
    TRY(find_tensor(d, "output.weight", shape->dim, shape->vocab_tokens, &output));
    TRY(find_tensor(d, "rope_freqs.weight", shape->rope_dim / 2, 1, &factors));
    shape->tied_output = output == NULL;
    shape->has_rope_factors = factors != NULL;
    if (factors != NULL && factors->type != GGUF_F32) {
        return gguf_error(d->source, factors->offset, d->error,
                          "tensor rope_freqs.weight has type %s, expected F32",
                          gguf_type_name(factors->type));
    }
    return STATUS_OK;
}

static enum status refuse_unknown_tensors(const struct derivation *d)
{
    for (uint32_t i = 0; i < d->gguf->tensors_count; i++) {
        if (!d->known[i]) {
            return gguf_error(d->source, d->gguf->tensors[i].offset, d->error,
                              "tensor %s is unknown, expected those of a plain Llama model of %u "
                              "layers",
                              d->gguf->tensors[i].name, d->gguf->shape.layers);
        }
    }
    return STATUS_OK;
}

enum status gguf_shape_derive(struct gguf *gguf, const struct gguf_keys *keys,
                              const struct gguf_source *source, struct config_error *error)
{
    struct derivation d = {.gguf = gguf, .keys = keys, .source = source, .error = error};
    ASSERT(gguf->tensors_count > 0);
    if (strcmp(keys->architecture.value, "llama") != 0) {
        return gguf_error(source, keys->architecture.key.offset, error,
                          "general.architecture is '%s', expected 'llama'",
                          keys->architecture.value);
    }
    TRY(take_sizes(&d));
    TRY(take_heads(&d));
    TRY(take_rope(&d));
    TRY(refuse_extensions(&d));
    TRY(take_norm(&d));
    TRY(take_vocabulary(&d));
    TRY(need_tensor(&d, "output_norm.weight", gguf->shape.dim, 1));
    for (uint32_t layer = 0; layer < gguf->shape.layers; layer++) {
        TRY(need_layer(&d, layer));
    }
    TRY(take_options(&d));
    return refuse_unknown_tensors(&d);
}
