/* SPDX-License-Identifier: MIT */
/*
 * What: writes a GGUF v3 file with random weights, of any family that the engine runs, for tests
 * and for benchmarks of real shapes; `mkmodel --help` tells how. It is built alone, before there is
 * a library to link.
 *
 * --head-dim is DIM / HEADS unless it is given. --rope linear divides positions by 4; llama3 is a
 * rope_freqs.weight of factors that rise from 1 towards 8, which is where Llama 3.1's end.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/command_line.h"
#include "tools/mkmodel/quants.h"
#include "tools/mkmodel/tensors.h"

#define DIM_MAX     (1 << 20)
#define ROPE_SCALE  4.0f
#define TEMPLATE_BYTES_MAX 32768

static const struct family families[] = {
#define FAMILY(name, pairs, qkv_bias, qk_norm) {#name, qkv_bias, qk_norm},
#include "config/model/family.def"
#undef FAMILY
};
static const char *const family_words[] = {
#define FAMILY(name, pairs, qkv_bias, qk_norm) #name,
#include "config/model/family.def"
#undef FAMILY
    NULL};
static const char *const rope_words[] = {"plain", "linear", "llama3", NULL};    /* enum rope */
enum { FAMILIES = sizeof families / sizeof families[0] };   /* as a choice: the preset's */
enum family_index {
#define FAMILY(name, pairs, qkv_bias, qk_norm) FAMILY_##name,
#include "config/model/family.def"
#undef FAMILY
};
static const char *const preset_words[] = {
#define PRESET(name, ...) name,
#include "tools/mkmodel/presets.def"
#undef PRESET
    NULL};
static const struct preset {
    enum family_index family;
    struct shape shape;
    bool tied;
    enum rope rope;
    uint32_t rope_base;
} presets[] = {
#define PRESET(name, family, layers, dim, heads, kv_heads, head_dim, ffn, context, vocab, tied, \
               rope, base)                                                                     \
    {FAMILY_##family, {layers, dim, heads, kv_heads, ffn, context, vocab, head_dim}, tied,     \
     ROPE_##rope, base},
#include "tools/mkmodel/presets.def"
#undef PRESET
};

/* ---- the file -------------------------------------------------------------------------------- */

/* FAMILY.NAME */
static const char *family_key(const struct settings *settings, const char *name)
{
    static char key[64];
    snprintf(key, sizeof key, "%s.%s", settings->family->name, name);
    return key;
}

static void put_shape(const struct settings *settings, struct writer *writer)
{
    const struct shape *shape = &settings->shape;
    const struct {
        const char *name;
        uint32_t value;
    } counts[] = {
        {"block_count", shape->layers},
        {"context_length", shape->context},
        {"embedding_length", shape->dim},
        {"feed_forward_length", shape->ffn},
        {"attention.head_count", shape->heads},
        {"attention.head_count_kv", shape->kv_heads},
        {"rope.dimension_count", head_dim_of(shape)},
        {"vocab_size", shape->vocab},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        put_key_u32(writer, family_key(settings, counts[i].name), counts[i].value);
    }
    if (shape->head_dim != 0) {
        put_key_u32(writer, family_key(settings, "attention.key_length"), shape->head_dim);
        put_key_u32(writer, family_key(settings, "attention.value_length"), shape->head_dim);
    }
    put_key_f32(writer, family_key(settings, "attention.layer_norm_rms_epsilon"), 1e-5f);
    put_key_f32(writer, family_key(settings, "rope.freq_base"),
                (float)settings->rope_base);
    if (settings->rope == ROPE_LINEAR) {
        put_key_text(writer, family_key(settings, "rope.scaling.type"), "linear");
        put_key_f32(writer, family_key(settings, "rope.scaling.factor"), ROPE_SCALE);
    }
}

static void put_template(const char *path, struct writer *writer)
{
    static char text[TEMPLATE_BYTES_MAX + 1];
    FILE *file = fopen(path, "rb");
    size_t count = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (count == 0 || fclose(file) != 0) {
        fail("%s: cannot be read", path);
    }
    put_key_text(writer, "tokenizer.chat_template", text);
}

static void put_metadata(const struct settings *settings, struct writer *writer)
{
    char name[64];
    snprintf(name, sizeof name, "random weights, %s, seed %llu", settings->preset,
             (unsigned long long)settings->seed);
    put_key_text(writer, "general.architecture", settings->family->name);
    put_key_text(writer, "general.name", name);
    put_key_u32(writer, "general.alignment", GGUF_ALIGNMENT);
    put_shape(settings, writer);
    if (settings->chat_template != NULL) {
        put_template(settings->chat_template, writer);
    }
}

static void write_model(const struct settings *settings, struct writer *writer)
{
    struct vocabulary vocabulary;
    struct tensors tensors;
    vocabulary_build(&vocabulary, settings->shape.vocab);
    vocabulary_control(&vocabulary, &settings->control);
    tensors_list(&tensors, settings);
    put(writer, "GGUF", 4);
    put_u32(writer, 3);
    put_u64(writer, tensors.count);
    put_u64(writer, 0);             /* number of keys: known at the end */
    put_metadata(settings, writer);
    vocabulary_put(&vocabulary, writer);
    tensors_put_infos(&tensors, writer);
    put_padding(writer);
    tensors_put_weights(&tensors, &vocabulary, settings, writer);
    if (fseek(writer->file, 16, SEEK_SET) != 0) {
        fail("cannot seek");
    }
    put_u64(writer, writer->keys);
}

/* ---- the command line ------------------------------------------------------------------------ */

static void check_shape(const struct shape *shape)
{
    if (shape->layers < 1 || shape->layers > 256 || shape->dim < 1 || shape->dim > DIM_MAX ||
        shape->heads < 1 || (shape->head_dim == 0 && shape->dim % shape->heads != 0) ||
        head_dim_of(shape) % 2 != 0 || head_dim_of(shape) < 2 || shape->head_dim > DIM_MAX ||
        shape->kv_heads < 1 || shape->heads % shape->kv_heads != 0 || shape->ffn < 1 ||
        shape->ffn > DIM_MAX || shape->context < 1 || shape->vocab < 512 ||
        shape->vocab > 1000000) {
        fail("this shape is no model: layers 1..256, dim a multiple of heads, head-dim even, heads "
             "a multiple of kv-heads, vocab 512..1000000");
    }
}

/* What was not given is the preset's; a number 0 means not given. */
static void complete(struct settings *settings, const struct preset *preset)
{
    const struct shape *other = &preset->shape;
    struct shape *shape = &settings->shape;
    /* Another width or number of heads has heads of another size. */
    bool is_other = shape->dim != 0 || shape->heads != 0;
    uint32_t *const numbers[] = {&shape->layers, &shape->dim, &shape->heads, &shape->kv_heads,
                                 &shape->ffn, &shape->context, &shape->vocab, &shape->head_dim};
    const uint32_t defaults[] = {other->layers, other->dim, other->heads, other->kv_heads,
                                 other->ffn, other->context, other->vocab,
                                 is_other ? 0 : other->head_dim};
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) {
        *numbers[i] = *numbers[i] != 0 ? *numbers[i] : defaults[i];
    }
    settings->tied = settings->tied || preset->tied;
    settings->rope_base = preset->rope_base;
}

static void choose_type(struct settings *settings, const char *name)
{
    const struct quant *quant = quant_named(name);
    if (quant == NULL) {
        fail("unknown type '%s': %s", name, quant_names());
    }
    settings->type = quant->type;
}

/* ARGUMENT_GO_ON, or an exit code. */
static int parse(struct settings *settings, int argc, char **argv)
{
    struct argument_choice preset = {preset_words, 0}, family = {family_words, FAMILIES};
    struct argument_choice rope = {rope_words, ROPES};
    const char *type = "f32";
    struct shape *shape = &settings->shape;
    const struct argument rows[] = {
        {"--out", "FILE", ARGUMENT_TEXT, &settings->out, 0, 0, "the model"},
        {"--preset", "NAME", ARGUMENT_CHOICE, &preset, 0, 0,
         "tiny (default), 15m, 110m, 1.1b, qwen3-0.6b, ...: tools/mkmodel/presets.def"},
        {"--type", "NAME", ARGUMENT_TEXT, &type, 0, 0,
         "f32 (default), f16, bf16, q8_0, q4_0, q4_k, q6_k"},
        {"--seed", "N", ARGUMENT_U64, &settings->seed, 0, 0, "of the weights (default 1)"},
        {"--layers", "N", ARGUMENT_U32, &shape->layers, 1, 256, "the preset's, unless given"},
        {"--dim", "N", ARGUMENT_U32, &shape->dim, 1, DIM_MAX, ""},
        {"--heads", "N", ARGUMENT_U32, &shape->heads, 1, DIM_MAX, ""},
        {"--kv-heads", "N", ARGUMENT_U32, &shape->kv_heads, 1, DIM_MAX, ""},
        {"--head-dim", "N", ARGUMENT_U32, &shape->head_dim, 2, DIM_MAX, "even"},
        {"--ffn", "N", ARGUMENT_U32, &shape->ffn, 1, DIM_MAX, ""},
        {"--context", "N", ARGUMENT_U32, &shape->context, 1, UINT32_MAX, ""},
        {"--vocab", "N", ARGUMENT_U32, &shape->vocab, 512, 1000000, ""},
        {"--tied", "", ARGUMENT_FLAG, &settings->tied, 0, 0, "no output matrix of its own"},
        {"--family", "NAME", ARGUMENT_CHOICE, &family, 0, 0, "llama, qwen2, qwen3"},
        {"--rope", "NAME", ARGUMENT_CHOICE, &rope, 0, 0, "plain, linear, llama3"},
        {"--template", "FILE", ARGUMENT_TEXT, &settings->chat_template, 0, 0, "of conversations"},
        {"--control", "TEXT", ARGUMENT_TEXTS, &settings->control, 0, ARGUMENT_TEXTS_MAX,
         "of a control token; may be repeated"},
        {"--sparse", "", ARGUMENT_FLAG, &settings->sparse, 0, 0,
         "matrices of zeros, as holes of the file: for tests of plans"},
    };
    const struct command_line line = {
        .program = "mkmodel", .usage = "--out FILE [OPTION]...",
        .purpose = "Writes a GGUF file with random weights.",
        .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    int code = command_line_parse(&line, argc, argv);
    const struct preset *of = &presets[preset.chosen];
    settings->preset = preset_words[preset.chosen];
    settings->family = &families[family.chosen == FAMILIES ? of->family : family.chosen];
    settings->rope = rope.chosen == ROPES ? of->rope : (enum rope)rope.chosen;
    complete(settings, of);
    choose_type(settings, type);
    return code;
}

int main(int argc, char **argv)
{
    struct settings settings = {.seed = 1};
    int code = parse(&settings, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    check_shape(&settings.shape);
    if (settings.out == NULL) {
        fail("--out FILE is missing");
    }
    struct writer writer = {.file = fopen(settings.out, "wb")};
    if (writer.file == NULL) {
        fail("%s: cannot be created", settings.out);
    }
    write_model(&settings, &writer);
    if (fclose(writer.file) != 0) {
        fail("%s: cannot write", settings.out);
    }
    return 0;
}
