/* SPDX-License-Identifier: MIT */
/*
 * What: the tensors of a family, and weights with which a random model gives varied text.
 *
 * Invariant: the same settings give the same bytes on every machine (no libm function but sqrt,
 * which is exact).
 * Why the output is never tied by default: with random weights a tied model predicts its own input.
 * Byte and control tokens get small output rows, so that what is generated is printable text.
 */
#include "tools/mkmodel/tensors.h"

#include <math.h>
#include <stdlib.h>

#include "config/base/splitmix.h"
#include "tools/mkmodel/quants.h"

#define TYPE_F32        0
#define TYPE_F16        1
#define ROPE_FACTOR_MAX 8.0f

enum role {
    ROLE_WEIGHT, ROLE_MATCH, ROLE_OUTPUT,
    ROLE_NORM, ROLE_MATCH_NORM, ROLE_BIAS, ROLE_FACTORS     /* vectors */
};

struct tensor {
    char name[48];
    uint32_t type, dims_count;
    uint64_t columns, rows;
    enum role role;
};

struct part {                       /* of the model or of a layer */
    const char *name;
    enum role role;
    uint64_t columns, rows;         /* rows = 0: a vector, which stays F32 */
    bool absent;
};

/* `type` is that of matrices. Rows that its blocks do not divide become F16. */
static void add_tensor(struct tensors *tensors, uint32_t type, const char *prefix,
                       const struct part *part)
{
    struct tensor *tensor = &tensors->list[tensors->count++];
    bool is_vector = part->rows == 0;
    type = is_vector ? TYPE_F32 : type;
    if (part->columns % quant_of(type)->values != 0) {
        type = TYPE_F16;
    }
    *tensor = (struct tensor){.type = type, .dims_count = is_vector ? 1 : 2,
                              .columns = part->columns, .rows = is_vector ? 1 : part->rows,
                              .role = part->role};
    snprintf(tensor->name, sizeof tensor->name, "%s%s", prefix, part->name);
}

static void add_layer(struct tensors *tensors, const struct settings *settings, uint32_t layer)
{
    const struct shape *shape = &settings->shape;
    uint64_t dim = shape->dim, ffn = shape->ffn, head = head_dim_of(shape);
    uint64_t q_dim = head * shape->heads, kv_dim = head * shape->kv_heads;
    bool bias = settings->family->qkv_bias, norm = settings->family->qk_norm;
    const struct part parts[] = {
        {"attn_norm.weight", ROLE_NORM, dim, 0, false},
        {"attn_q.weight", ROLE_MATCH, dim, q_dim, false},
        {"attn_k.weight", ROLE_MATCH, dim, kv_dim, false},
        {"attn_v.weight", ROLE_WEIGHT, dim, kv_dim, false},
        {"attn_q.bias", ROLE_BIAS, q_dim, 0, !bias},
        {"attn_k.bias", ROLE_BIAS, kv_dim, 0, !bias},
        {"attn_v.bias", ROLE_BIAS, kv_dim, 0, !bias},
        {"attn_q_norm.weight", ROLE_MATCH_NORM, head, 0, !norm},
        {"attn_k_norm.weight", ROLE_MATCH_NORM, head, 0, !norm},
        {"attn_output.weight", ROLE_WEIGHT, q_dim, dim, false},
        {"ffn_norm.weight", ROLE_NORM, dim, 0, false},
        {"ffn_gate.weight", ROLE_WEIGHT, dim, ffn, false},
        {"ffn_up.weight", ROLE_WEIGHT, dim, ffn, false},
        {"ffn_down.weight", ROLE_WEIGHT, ffn, dim, false},
    };
    char prefix[16];
    snprintf(prefix, sizeof prefix, "blk.%u.", layer);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!parts[i].absent) {
            add_tensor(tensors, settings->type, prefix, &parts[i]);
        }
    }
}

void tensors_list(struct tensors *tensors, const struct settings *settings)
{
    const struct shape *shape = &settings->shape;
    const struct part first = {"token_embd.weight", ROLE_WEIGHT, shape->dim, shape->vocab, false};
    const struct part last[] = {
        {"output_norm.weight", ROLE_NORM, shape->dim, 0, false},
        {"output.weight", ROLE_OUTPUT, shape->dim, shape->vocab, settings->tied},
        {"rope_freqs.weight", ROLE_FACTORS, head_dim_of(shape) / 2, 0,
         settings->rope != ROPE_LLAMA3},
    };
    *tensors = (struct tensors){calloc((size_t)shape->layers * 14 + 4, sizeof *tensors->list), 0};
    if (tensors->list == NULL) {
        fail("no memory");
    }
    add_tensor(tensors, settings->type, "", &first);
    for (uint32_t layer = 0; layer < shape->layers; layer++) {
        add_layer(tensors, settings, layer);
    }
    for (size_t i = 0; i < sizeof last / sizeof last[0]; i++) {
        if (!last[i].absent) {
            add_tensor(tensors, settings->type, "", &last[i]);
        }
    }
}

static uint64_t row_bytes(const struct tensor *tensor)
{
    const struct quant *quant = quant_of(tensor->type);
    return tensor->columns / quant->values * quant->bytes;
}

void tensors_put_infos(const struct tensors *tensors, struct writer *writer)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < tensors->count; i++) {
        const struct tensor *tensor = &tensors->list[i];
        put_text(writer, tensor->name);
        put_u32(writer, tensor->dims_count);
        put_u64(writer, tensor->columns);
        if (tensor->dims_count == 2) {
            put_u64(writer, tensor->rows);
        }
        put_u32(writer, tensor->type);
        put_u64(writer, offset);
        offset += row_bytes(tensor) * tensor->rows;
        offset += -offset % GGUF_ALIGNMENT;
    }
}

/* ---- weights --------------------------------------------------------------------------------- */

/* About normal, mean 0, deviation 1: the sum of four 16-bit uniforms, in integers, hence exact. */
static float random_normal(uint64_t *state)
{
    uint64_t bits = splitmix_next(state);
    int64_t sum = (int64_t)(bits & 0xffff) + (int64_t)(bits >> 16 & 0xffff) +
                  (int64_t)(bits >> 32 & 0xffff) + (int64_t)(bits >> 48);
    return (float)(sum - 131070) * (1.0f / 37837.2f);   /* 65536 * sqrt(4 / 12) */
}

/* Deviation of a row's weights: 1/sqrt(columns) keeps activations near 1 from layer to layer. Twice
 * that spreads the logits. In queries and keys, or the norms of their heads, it makes each position
 * attend to a few others only: with flat attention, greedy decoding soon repeats one token for
 * ever. */
static float row_deviation(const struct tensor *tensor, const struct vocabulary *vocabulary,
                           uint64_t row)
{
    float unit = 1.0f / sqrtf((float)tensor->columns);
    switch (tensor->role) {
    case ROLE_MATCH:
        return 2.0f * unit;
    case ROLE_OUTPUT:
        return vocabulary->tokens[row].kind == TOKEN_NORMAL ? 2.0f * unit : 0.02f * unit;
    case ROLE_NORM:
        return 0.05f;
    case ROLE_MATCH_NORM:
        return 0.1f;
    case ROLE_BIAS:
        return 0.5f;
    case ROLE_FACTORS:
        return 0;
    case ROLE_WEIGHT:
        break;
    }
    return unit;
}

static float value_mean(const struct tensor *tensor, uint64_t column)
{
    switch (tensor->role) {
    case ROLE_NORM:
        return 1;
    case ROLE_MATCH_NORM:
        return 2;
    case ROLE_FACTORS:
        return 1 + (ROPE_FACTOR_MAX - 1) * (float)column / (float)tensor->columns;
    case ROLE_WEIGHT:
    case ROLE_MATCH:
    case ROLE_OUTPUT:
    case ROLE_BIAS:
        break;
    }
    return 0;
}

static void put_row(const struct tensor *tensor, const float *values, uint8_t *bytes,
                    struct writer *writer)
{
    const struct quant *quant = quant_of(tensor->type);
    for (uint64_t i = 0; i < tensor->columns / quant->values; i++) {
        quant->put(values + i * quant->values, bytes + i * quant->bytes);
    }
    put(writer, bytes, (size_t)row_bytes(tensor));
}

static void put_tensor(const struct tensor *tensor, const struct vocabulary *vocabulary,
                       uint64_t state, struct writer *writer)
{
    float *values = malloc(tensor->columns * sizeof *values);
    uint8_t *bytes = malloc(tensor->columns * sizeof *values);
    if (values == NULL || bytes == NULL) {
        fail("no memory");
    }
    for (uint64_t row = 0; row < tensor->rows; row++) {
        float deviation = row_deviation(tensor, vocabulary, row);
        for (uint64_t i = 0; i < tensor->columns; i++) {
            values[i] = value_mean(tensor, i) + deviation * random_normal(&state);
        }
        put_row(tensor, values, bytes, writer);
    }
    free(values);
    free(bytes);
    put_padding(writer);
}

void tensors_put_weights(const struct tensors *tensors, const struct vocabulary *vocabulary,
                         const struct settings *settings, struct writer *writer)
{
    for (uint32_t i = 0; i < tensors->count; i++) {
        uint64_t state = settings->seed * UINT64_C(0xd1342543de82ef95) + i;
        if (settings->sparse && tensors->list[i].dims_count == 2) {
            put_hole(writer, row_bytes(&tensors->list[i]) * tensors->list[i].rows);
            continue;
        }
        put_tensor(&tensors->list[i], vocabulary, splitmix_next(&state), writer);
    }
}
