/* SPDX-License-Identifier: MIT */
/*
 * What: from a header's keys and tensors to a model that the engine can run, of a family that
 * family.def has. Every relation between two numbers is checked here and named when it does not
 * hold; every tensor of the family must be there with the right dimensions, and no other may be: a
 * bias or an expert that we ignored would change what the model says.
 *
 * Bounds: the list of tensors (tensors.h), each looked up by name among as many, a few ms.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/model/gguf_keys.h"
#include "config/model/tensors.h"

#define DIM_MAX      65536
#define FFN_MAX      1048576
#define HEADS_MAX    1024
#define CONTEXT_MAX  (1u << 24)

/* What the checks below share. */
struct derivation {
    struct gguf *gguf;
    const struct gguf_keys *keys;
    const struct gguf_source *source;
    struct config_error *error;
    bool known[GGUF_TENSORS_MAX];   /* tensors that the family has asked for */
};

/* ---- keys ------------------------------------------------------------------------------------ */

/* "FAMILY.NAME " and then the text, at the place of the key. */
static enum status refuse(const struct derivation *d, const struct gguf_key *key, const char *name,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));
static enum status refuse(const struct derivation *d, const struct gguf_key *key, const char *name,
                          const char *format, ...)
{
    char text[CONFIG_ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return gguf_error(d->source, key->present ? key->offset : d->gguf->header_bytes, d->error,
                      "%s.%s %s", d->gguf->shape.family->name, name, text);
}

static enum status take_family(const struct derivation *d)
{
    const struct gguf_text *name = &d->keys->architecture;
    const struct model_family *family = model_family_find(name->value, strlen(name->value));
    if (family == NULL) {
        return gguf_error(d->source, name->key.offset, d->error,
                          "general.architecture is '%s', expected one of:%s", name->value,
                          model_family_names);
    }
    if (d->keys->family != NULL && d->keys->family != family) {
        return gguf_error(d->source, name->key.offset, d->error,
                          "general.architecture is '%s', expected '%s' as in the other keys",
                          name->value, d->keys->family->name);
    }
    d->gguf->shape.family = family;
    return STATUS_OK;
}

static enum status take_count(const struct derivation *d, const struct gguf_count *count,
                              const char *name, uint32_t max, uint32_t *value)
{
    if (!count->key.present) {
        return refuse(d, &count->key, name, "is missing, expected 1 to %u", max);
    }
    if (count->value < 1 || count->value > max) {
        return refuse(d, &count->key, name, "is %u, expected 1 to %u", count->value, max);
    }
    *value = count->value;
    return STATUS_OK;
}

static enum status take_sizes(const struct derivation *d)
{
    struct model_shape *shape = &d->gguf->shape;
    const struct gguf_keys *keys = d->keys;
    TRY(take_count(d, &keys->layers, "block_count", GGUF_LAYERS_MAX, &shape->layers));
    TRY(take_count(d, &keys->dim, "embedding_length", DIM_MAX, &shape->dim));
    TRY(take_count(d, &keys->ffn_dim, "feed_forward_length", FFN_MAX, &shape->ffn_dim));
    TRY(take_count(d, &keys->context, "context_length", CONTEXT_MAX, &shape->context_tokens));
    return take_count(d, &keys->heads, "attention.head_count", HEADS_MAX, &shape->heads);
}

static enum status take_heads(const struct derivation *d)
{
    struct model_shape *shape = &d->gguf->shape;
    const struct gguf_keys *keys = d->keys;
    shape->kv_heads = keys->kv_heads.key.present ? keys->kv_heads.value : shape->heads;
    if (shape->kv_heads == 0 || shape->heads % shape->kv_heads != 0) {
        return refuse(d, &keys->kv_heads.key, "attention.head_count_kv",
                      "is %u, expected a divisor of the %u heads", shape->kv_heads, shape->heads);
    }
    if (!keys->key_dim.key.present && shape->dim % shape->heads != 0) {
        return refuse(d, &keys->heads.key, "attention.head_count",
                      "is %u, expected a divisor of the embedding length %u", shape->heads,
                      shape->dim);
    }
    shape->head_dim = keys->key_dim.key.present ? keys->key_dim.value : shape->dim / shape->heads;
    if (shape->head_dim < 2 || shape->head_dim > GGUF_HEAD_DIM_MAX || shape->head_dim % 2 != 0) {
        return gguf_error(d->source, keys->key_dim.key.offset, d->error,
                          "a head has %u dimensions, expected an even number, 2 to %d",
                          shape->head_dim, GGUF_HEAD_DIM_MAX);
    }
    if (keys->value_dim.key.present && keys->value_dim.value != shape->head_dim) {
        return refuse(d, &keys->value_dim.key, "attention.value_length",
                      "is %u, expected %u as for keys", keys->value_dim.value, shape->head_dim);
    }
    return STATUS_OK;
}

/* A factor without a type is linear; of the factor's two names the older is read if it is alone;
 * 0 stands for none. All as in llama.cpp. */
static enum status take_rope_scale(const struct derivation *d)
{
    const struct gguf_keys *keys = d->keys;
    const char *type = keys->rope_scaling.key.present ? keys->rope_scaling.value : "linear";
    bool is_new = keys->rope_factor.key.present;
    const struct gguf_real *factor = is_new ? &keys->rope_factor : &keys->rope_scale_linear;
    if (strcmp(type, "none") != 0 && strcmp(type, "linear") != 0) {
        return refuse(d, &keys->rope_scaling.key, "rope.scaling.type",
                      "is '%s', expected 'none' or 'linear'", type);
    }
    if (factor->key.present && factor->value < 0) {
        return refuse(d, &factor->key, is_new ? "rope.scaling.factor" : "rope.scale_linear",
                      "is negative, expected more than 0");
    }
    bool scales = strcmp(type, "linear") == 0 && factor->key.present && factor->value != 0;
    d->gguf->shape.rope_scale = scales ? factor->value : 1.0f;
    return STATUS_OK;
}

static enum status take_rope(const struct derivation *d)
{
    struct model_shape *shape = &d->gguf->shape;
    const struct gguf_keys *keys = d->keys;
    shape->rope_dim = keys->rope_dim.key.present ? keys->rope_dim.value : shape->head_dim;
    if (shape->rope_dim == 0 || shape->rope_dim > shape->head_dim || shape->rope_dim % 2 != 0) {
        return refuse(d, &keys->rope_dim.key, "rope.dimension_count",
                      "is %u, expected an even number of 2 to %u", shape->rope_dim,
                      shape->head_dim);
    }
    shape->rope_base = keys->rope_base.key.present ? keys->rope_base.value : 10000.0f;
    if (shape->rope_base <= 0) {
        return refuse(d, &keys->rope_base.key, "rope.freq_base",
                      "is not positive, expected more than 0");
    }
    return take_rope_scale(d);
}

/* Keys of models that we do not run, unless they say what is so here anyway. */
static enum status refuse_extensions(const struct derivation *d)
{
    const struct gguf_keys *keys = d->keys;
    uint32_t window = keys->sliding_window.value, context = d->gguf->shape.context_tokens;
    if (keys->experts.value != 0) {
        return refuse(d, &keys->experts.key, "expert_count",
                      "is %u, expected 0: no mixture of experts", keys->experts.value);
    }
    if (window != 0 && window < context) {
        return refuse(d, &keys->sliding_window.key, "attention.sliding_window",
                      "is %u, expected none below the context of %u", window, context);
    }
    if (keys->causal.key.present && !keys->causal.value) {
        return refuse(d, &keys->causal.key, "attention.causal",
                      "is false, expected true: no token sees later ones");
    }
    if (keys->rope_attention.key.present && keys->rope_attention.value != 1.0f) {
        return refuse(d, &keys->rope_attention.key, "rope.scaling.attn_factor",
                      "is %g, expected 1", (double)keys->rope_attention.value);
    }
    return STATUS_OK;
}

static enum status take_norm(const struct derivation *d)
{
    const struct gguf_real *epsilon = &d->keys->norm_epsilon;
    if (!epsilon->key.present || epsilon->value <= 0 || epsilon->value >= 1) {
        return refuse(d, &epsilon->key, "attention.layer_norm_rms_epsilon",
                      "is %s, expected a number between 0 and 1",
                      epsilon->key.present ? "out of range" : "missing");
    }
    d->gguf->shape.norm_epsilon = epsilon->value;
    return STATUS_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The number of rows of the embedding is the model's vocabulary. */
static enum status take_vocabulary(struct derivation *d)
{
    struct model_shape *shape = &d->gguf->shape;
    const struct gguf_tensor *embedding = gguf_tensor_find(d->gguf, "token_embd.weight");
    uint64_t rows = embedding != NULL ? embedding->dims[1] : d->gguf->vocab.tokens;
    if (rows != d->gguf->vocab.tokens) {
        return gguf_error(d->source, embedding->offset, d->error,
                          "token_embd.weight has %llu rows, expected one for each of the %u tokens",
                          (unsigned long long)rows, d->gguf->vocab.tokens);
    }
    if (d->keys->vocab_size.key.present && d->keys->vocab_size.value != rows) {
        return refuse(d, &d->keys->vocab_size.key, "vocab_size",
                      "is %u, expected the %llu rows of token_embd.weight",
                      d->keys->vocab_size.value, (unsigned long long)rows);
    }
    shape->vocab_tokens = (uint32_t)rows;
    return STATUS_OK;
}

static enum status check_tensor(struct derivation *d, const struct model_tensor *wanted)
{
    const struct gguf_tensor *tensor = wanted->tensor;
    uint64_t columns = wanted->columns, rows = wanted->outputs > 0 ? wanted->outputs : 1;
    if (tensor == NULL) {
        return gguf_error(d->source, d->gguf->header_bytes, d->error,
                          "tensor %s is missing, expected %llu x %llu", wanted->name,
                          (unsigned long long)columns, (unsigned long long)rows);
    }
    d->known[tensor - d->gguf->tensors] = true;
    if (tensor->dims[0] != columns || tensor->dims[1] != rows || tensor->dims[2] != 1 ||
        tensor->dims[3] != 1) {
        return gguf_error(d->source, tensor->offset, d->error,
                          "tensor %s is %llu x %llu x %llu x %llu, expected %llu x %llu",
                          wanted->name, (unsigned long long)tensor->dims[0],
                          (unsigned long long)tensor->dims[1], (unsigned long long)tensor->dims[2],
                          (unsigned long long)tensor->dims[3], (unsigned long long)columns,
                          (unsigned long long)rows);
    }
    if (wanted->outputs == 0 && tensor->type != GGUF_F32) {
        return gguf_error(d->source, tensor->offset, d->error,
                          "tensor %s has type %s, expected F32", wanted->name,
                          gguf_type_name(tensor->type));
    }
    return STATUS_OK;
}

static enum status check_tensors(struct derivation *d)
{
    for (uint32_t i = 0; i < model_tensors_count(&d->gguf->shape); i++) {
        struct model_tensor wanted;
        if (model_tensor_find(&wanted, d->gguf, i)) {
            TRY(check_tensor(d, &wanted));
        }
    }
    return STATUS_OK;
}

static enum status refuse_unknown_tensors(const struct derivation *d)
{
    for (uint32_t i = 0; i < d->gguf->tensors_count; i++) {
        if (!d->known[i]) {
            return gguf_error(d->source, d->gguf->tensors[i].offset, d->error,
                              "tensor %s is unknown, expected those of a plain %s model of %u "
                              "layers",
                              d->gguf->tensors[i].name, d->gguf->shape.family->name,
                              d->gguf->shape.layers);
        }
    }
    return STATUS_OK;
}

enum status gguf_shape_derive(struct gguf *gguf, const struct gguf_keys *keys,
                              const struct gguf_source *source, struct config_error *error)
{
    struct derivation d = {.gguf = gguf, .keys = keys, .source = source, .error = error};
    ASSERT(gguf->tensors_count > 0);
    TRY(take_family(&d));
    TRY(take_sizes(&d));
    TRY(take_heads(&d));
    TRY(take_rope(&d));
    TRY(refuse_extensions(&d));
    TRY(take_norm(&d));
    TRY(take_vocabulary(&d));
    gguf->shape.tied_output = gguf_tensor_find(gguf, "output.weight") == NULL;
    gguf->shape.has_rope_factors = gguf_tensor_find(gguf, "rope_freqs.weight") != NULL;
    TRY(check_tensors(&d));
    return refuse_unknown_tensors(&d);
}
