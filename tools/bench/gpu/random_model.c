/* SPDX-License-Identifier: MIT */
/*
 * What: a model of random weights; see random_model.h. The source is one mapping: vectors first,
 * then as many bytes as the largest matrix has. These are one piece of memory, mapped again and
 * again: whole pages, and whole quantisation blocks.
 */
#include "tools/bench/gpu/random_model.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/model/tensors.h"

#define PAGE_BYTES   4096u
#define PIECE_BYTES  (UINT64_C(8) << 20)    /* about */
#define VECTOR_BYTES (UINT64_C(1) << 20)    /* a MiB of ones, then one of the last norm */
#define LAST_NORM    6.0f

/* Factors of RoPE change no time: a model has none here. */
struct preset {
    const char *name, *family;
    struct model_shape shape;
};

static const struct preset presets[] = {
#define PRESET(name_, family_, layers_, dim_, heads_, kv_heads_, head_dim_, ffn_, context_,    \
               vocab_, tied_, rope_, base_)                                                    \
    {name_, #family_,                                                                          \
     {.layers = layers_, .dim = dim_, .heads = heads_, .kv_heads = kv_heads_,                  \
      .head_dim = (head_dim_) > 0 ? (head_dim_) : (dim_) / (heads_), .ffn_dim = ffn_,          \
      .vocab_tokens = vocab_, .context_tokens = context_, .rope_base = base_, .rope_scale = 1, \
      .norm_epsilon = 1e-5f, .tied_output = tied_}},
#include "tools/mkmodel/presets.def"
#undef PRESET
};

static const struct preset *preset_named(const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        if (strcmp(presets[i].name, name) == 0) {
            return &presets[i];
        }
    }
    return NULL;
}

/* Tensors share what the source has of their kind. */
static void add_tensor(struct gguf *gguf, const struct model_tensor *what, enum gguf_type type)
{
    struct gguf_tensor *tensor = &gguf->tensors[gguf->tensors_count++];
    bool is_vector = what->outputs == 0, is_last = what->layer == MODEL_LAYER_NONE;
    snprintf(tensor->name, sizeof tensor->name, "%s", what->name);
    tensor->type = is_vector ? GGUF_F32 : type;
    tensor->dims_count = is_vector ? 1 : 2;
    tensor->dims[0] = what->columns;
    tensor->dims[1] = is_vector ? 1 : what->outputs;
    tensor->dims[2] = tensor->dims[3] = 1;
    tensor->offset = !is_vector ? 2 * VECTOR_BYTES : is_last ? VECTOR_BYTES : 0;
    tensor->bytes = tensor->dims[1] * gguf_row_bytes(tensor->type, what->columns);
}

static uint64_t largest_matrix(const struct gguf *gguf)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < gguf->tensors_count; i++) {
        bool is_larger = gguf->tensors[i].dims_count == 2 && gguf->tensors[i].bytes > most;
        most = is_larger ? gguf->tensors[i].bytes : most;
    }
    return most;
}

static void fill_vectors(float *ones)
{
    const uint64_t count = VECTOR_BYTES / sizeof(float);
    for (uint64_t i = 0; i < count; i++) {
        ones[i] = 1;
        ones[count + i] = LAST_NORM;
    }
}

static uint64_t piece_bytes(enum gguf_type type)
{
    uint64_t least = (uint64_t)gguf_type_block(type).bytes * PAGE_BYTES;
    return (PIECE_BYTES + least - 1) / least * least;
}

/* Sign and fraction at random; the exponent is that of 2^-7. */
static void fill_halves(uint16_t *halves, enum gguf_type type)
{
    const uint16_t exponent = type == GGUF_F16 ? 8 << 10 : 120 << 7;
    const uint16_t others = type == GGUF_F16 ? 0x83ff : 0x807f;
    uint64_t state = 1;
    for (uint64_t i = 0; i < piece_bytes(type) / sizeof *halves; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        halves[i] = (uint16_t)(exponent | ((uint16_t)(state >> 48) & others));
    }
}

/* Random levels, and scales that make weights of about 2^-7 of them. */
static void fill_levels(uint8_t *blocks, enum gguf_type type)
{
    static const struct {
        enum gguf_type type;
        uint32_t at[2];                 /* of the scale, and of that of the minima, in a block */
        uint16_t halves[2];
    } scales[] = {{GGUF_Q8_0, {0, 0}, {0x0600, 0x0600}},        /* 2^-13.4 */
                  {GGUF_Q4_0, {0, 0}, {0x1800, 0x1800}},        /* 2^-9 */
                  {GGUF_Q4_K, {0, 2}, {0x0200, 0x0c00}},        /* 2^-15, 2^-12 */
                  {GGUF_Q6_K, {208, 208}, {0x0080, 0x0080}}};   /* 2^-17 */
    uint64_t bytes = piece_bytes(type), state = 1;
    for (uint64_t i = 0; i < bytes; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        blocks[i] = (uint8_t)(state >> 56);
    }
    for (uint32_t s = 0; s < sizeof scales / sizeof *scales; s++) {
        for (uint64_t i = 0; scales[s].type == type && i < bytes;
             i += gguf_type_block(type).bytes) {
            memcpy(blocks + i + scales[s].at[0], &scales[s].halves[0], sizeof(uint16_t));
            memcpy(blocks + i + scales[s].at[1], &scales[s].halves[1], sizeof(uint16_t));
        }
    }
}

static bool has_levels(enum gguf_type type)
{
    return gguf_type_block(type).values > 1;
}

/* The mapping, with `pieces` times the same memory behind the vectors; NULL: it fails. */
static uint8_t *map_source(uint64_t pieces, enum gguf_type type)
{
    const int access = PROT_READ | PROT_WRITE;
    uint64_t piece = piece_bytes(type), bytes = 2 * VECTOR_BYTES + pieces * piece;
    uint8_t *base = mmap(NULL, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int file = memfd_create("weights", MFD_CLOEXEC);
    if (base == MAP_FAILED || file < 0 || ftruncate(file, (off_t)piece) != 0) {
        return NULL;
    }
    for (uint64_t i = 0; i < pieces; i++) {
        if (mmap(base + 2 * VECTOR_BYTES + i * piece, piece, access,
                 MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
            return NULL;
        }
    }
    close(file);
    fill_vectors((float *)(void *)base);
    if (has_levels(type)) {
        fill_levels(base + 2 * VECTOR_BYTES, type);
    } else {
        fill_halves((uint16_t *)(void *)(base + 2 * VECTOR_BYTES), type);
    }
    return base;
}

bool random_model_init(struct random_model *model, uint32_t shape, enum gguf_type type)
{
    static const struct {
        const char *preset;
        uint32_t long_tokens;
    } shapes[] = {
#define RANDOM_SHAPE(name, preset, long_tokens) {preset, long_tokens},
        RANDOM_SHAPES
#undef RANDOM_SHAPE
    };
    const struct preset *preset = preset_named(shapes[shape].preset);
    struct gguf *gguf = &model->gguf;
    gguf->has_model = true;
    gguf->shape = preset->shape;
    gguf->shape.family = model_family_find(preset->family, strlen(preset->family));
    gguf->shape.rope_dim = gguf->shape.head_dim;
    for (uint32_t i = 0; i < model_tensors_count(&gguf->shape); i++) {
        struct model_tensor tensor;
        if (!model_tensor_find(&tensor, gguf, i)) {
            continue;
        }
        if (tensor.outputs > 0 && tensor.columns % gguf_type_block(type).values != 0) {
            return false;
        }
        add_tensor(gguf, &tensor, type);
    }
    uint64_t piece = piece_bytes(type), pieces = (largest_matrix(gguf) + piece - 1) / piece;
    const uint8_t *base = map_source(pieces, type);
    gguf_source_memory(&model->source, base, 2 * VECTOR_BYTES + pieces * piece, "random");
    model->long_tokens = shapes[shape].long_tokens;
    return base != NULL;
}
