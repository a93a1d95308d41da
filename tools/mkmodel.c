/* SPDX-License-Identifier: MIT */
/*
 * What: writes a GGUF v3 file with random weights, of any family that the engine runs, for tests
 * and for benchmarks of real shapes.
 *
 *     mkmodel --out F --preset tiny|15m|110m|1.1b [--type f32|f16|bf16|q8_0|q4_0|q4_k|q6_k]
 *             [--seed N] [--layers N] [--dim N] [--heads N] [--kv-heads N] [--head-dim N]
 *             [--ffn N] [--context N] [--vocab N] [--tied]
 *             [--family llama|qwen2|qwen3] [--rope plain|linear|llama3]
 *
 * --head-dim is DIM / HEADS unless it is given. --rope linear divides positions by 4; llama3 is a
 * rope_freqs.weight of factors that rise from 1 towards 8, which is where Llama 3.1's end.
 *
 * Invariants: the same arguments give the same bytes on every machine (no libm function but sqrt,
 * which is exact). Each tensor has a random stream of its own from (seed, tensor index), so that
 * the types hold the same weights, rounded differently.
 *
 * The vocabulary is SentencePiece-like: <unk> <s> </s>, 256 byte tokens, printable ASCII, frequent
 * English pieces, then made-up syllables. Each piece is the concatenation of two others, so that
 * merges reach it.
 *
 * Why the output is never tied by default: with random weights a tied model predicts its own input.
 * Byte and control tokens get small output rows, so that what is generated is printable text.
 *
 * style-waiver: one long file, because it is built alone, before there is a library to link.
 */
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/quants.h"

enum { TYPE_F32 = 0, TYPE_F16 = 1 };
enum { VALUE_U32 = 4, VALUE_I32 = 5, VALUE_F32 = 6, VALUE_BOOL = 7, VALUE_TEXT = 8,
       VALUE_ARRAY = 9 };
enum { TOKEN_NORMAL = 1, TOKEN_UNKNOWN = 2, TOKEN_CONTROL = 3, TOKEN_BYTE = 6 };

#define ALIGNMENT     32
#define ASCII_FIRST   259           /* first token after the byte tokens */
#define SPACE         "\xe2\x96\x81"
#define DIM_MAX       (1 << 20)

struct shape {
    uint32_t layers, dim, heads, kv_heads, ffn, context, vocab;
    uint32_t head_dim;              /* 0: not given */
};

static const struct family {
    const char *name;
    bool qkv_bias, qk_norm;
} families[] = {
#define FAMILY(name, pairs, qkv_bias, qk_norm) {#name, qkv_bias, qk_norm},
#include "config/model/family.def"
#undef FAMILY
};

enum rope { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3 };
static const char *const ropes[] = {"plain", "linear", "llama3"};
#define ROPE_SCALE      4.0f
#define ROPE_FACTOR_MAX 8.0f

struct settings {
    const char *out, *preset;
    const struct family *family;
    enum rope rope;
    uint32_t type;
    uint64_t seed;
    bool tied;
    struct shape shape;
};

static const struct {
    const char *name;
    struct shape shape;
} presets[] = {
    {"tiny", {2, 64, 4, 2, 172, 1024, 512, 0}},
    {"15m", {6, 288, 6, 6, 768, 1024, 32000, 0}},
    {"110m", {12, 768, 12, 12, 2048, 1024, 32000, 0}},
    {"1.1b", {22, 2048, 32, 4, 5632, 2048, 32000, 0}},
};

/* In order of their scores; `_` stands for U+2581. */
static const char pieces[] =
    "_t he _a in _s er on re _the _o _w at nd _b or _c en es it is al ar ou _f _m an ed _p "
    "ing _to _and _h st _d le ic _in ve as om _l _g _re ll ce ion _of _y me _n ver ent _be ur "
    "ro ow th _e _is _it ch ad _you _for ly _on id am se ut ig _st ay ra ac el il ter im _wh "
    "ot gh _that _he ke _we _if ers _as ul ir et _con ate _ma us pe tion _I _not un _or ess "
    "ight ation ol ther _do _ha _an ment est ity _with _was os ore all ir ab op ri one _have "
    "out _at _by _so _this ag oo ame ear ome _from _are _can ith og ood up _will _no _all my "
    "ally ink ind _one _go _up able _what";

static _Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("mkmodel: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

/* ---- output ---------------------------------------------------------------------------------- */

static FILE *out;
static uint64_t out_bytes;

static void put(const void *bytes, size_t count)
{
    if (fwrite(bytes, 1, count, out) != count) {
        fail("cannot write");
    }
    out_bytes += count;
}

/* The hosts we build on are little-endian, as is the format. */
static void put_u32(uint32_t value) { put(&value, sizeof value); }
static void put_u64(uint64_t value) { put(&value, sizeof value); }
static void put_f32(float value) { put(&value, sizeof value); }

static void put_text(const char *text)
{
    put_u64(strlen(text));
    put(text, strlen(text));
}

static void put_padding(void)
{
    static const uint8_t zeros[ALIGNMENT];
    put(zeros, (size_t)(-out_bytes % ALIGNMENT));
}

static uint32_t keys_count;

static void put_key(const char *key, uint32_t type)
{
    put_text(key);
    put_u32(type);
    keys_count++;
}

static void put_key_u32(const char *key, uint32_t value)
{
    put_key(key, VALUE_U32);
    put_u32(value);
}

static void put_key_f32(const char *key, float value)
{
    put_key(key, VALUE_F32);
    put_f32(value);
}

static void put_key_text(const char *key, const char *value)
{
    put_key(key, VALUE_TEXT);
    put_text(value);
}

static void put_key_bool(const char *key, bool value)
{
    uint8_t byte = value;
    put_key(key, VALUE_BOOL);
    put(&byte, 1);
}

static void put_key_array(const char *key, uint32_t type, uint64_t count)
{
    put_key(key, VALUE_ARRAY);
    put_u32(type);
    put_u64(count);
}

/* ---- vocabulary ------------------------------------------------------------------------------ */

struct token {
    char text[24];
    uint32_t kind;
};

static struct token *tokens;
static uint32_t tokens_count, tokens_max;
static uint32_t pieces_end;         /* made-up tokens begin here */

/* Appends `text`, `_` written as U+2581, if there is room and no English piece is the same. */
static void add_token(const char *text, uint32_t kind)
{
    struct token token = {.kind = kind};
    for (size_t used = 0; *text != '\0'; text++) {
        bool space = kind == TOKEN_NORMAL && *text == '_';
        used += (size_t)snprintf(token.text + used, sizeof token.text - used, "%s",
                                 space ? SPACE : (char[]){*text, '\0'});
    }
    for (uint32_t i = 0; i < pieces_end; i++) {
        if (strcmp(tokens[i].text, token.text) == 0) {
            return;
        }
    }
    if (tokens_count < tokens_max) {
        tokens[tokens_count++] = token;
    }
}

static void add_ascii(void)
{
    for (char c = '!'; c <= '~'; c++) {
        struct token token = {.text = {c}, .kind = TOKEN_NORMAL};
        tokens[tokens_count++] = token;
    }
    add_token("_", TOKEN_NORMAL);
}

static void add_pieces(void)
{
    char copy[sizeof pieces];
    memcpy(copy, pieces, sizeof pieces);
    for (char *piece = strtok(copy, " "); piece != NULL; piece = strtok(NULL, " ")) {
        pieces_end = tokens_count;
        add_token(piece, TOKEN_NORMAL);
    }
    pieces_end = tokens_count;
}

/* Syllable i of 100: two letters. */
static void copy_syllable(char *text, uint32_t i)
{
    text[0] = "bcdfghjklmnprstvwxyz"[i / 5 % 20];
    text[1] = "aeiou"[i % 5];
}

/* `count` syllables in all combinations, behind an optional space; shorter ones came before. */
static void add_syllables(uint32_t count, bool space)
{
    uint32_t combinations = count == 1 ? 100 : count == 2 ? 10000 : 1000000;
    for (uint32_t i = 0; i < combinations && tokens_count < tokens_max; i++) {
        char text[8] = {0};
        uint32_t used = 0, rest = i;
        if (space) {
            text[used++] = '_';
        }
        for (uint32_t k = 0; k < count; k++, rest /= 100) {
            copy_syllable(text + used + 2 * k, rest % 100);
        }
        add_token(text, TOKEN_NORMAL);
    }
}

static void build_vocabulary(uint32_t count)
{
    tokens = calloc(count, sizeof *tokens);
    if (tokens == NULL) {
        fail("no memory");
    }
    tokens_max = count;
    add_token("<unk>", TOKEN_UNKNOWN);
    add_token("<s>", TOKEN_CONTROL);
    add_token("</s>", TOKEN_CONTROL);
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        add_token(text, TOKEN_BYTE);
    }
    add_ascii();
    add_pieces();
    for (uint32_t syllables = 1; syllables <= 3; syllables++) {
        add_syllables(syllables, false);
        add_syllables(syllables, true);
    }
    if (tokens_count != count) {
        fail("cannot make %u different tokens", count);
    }
}

static void put_vocabulary(void)
{
    put_key_text("tokenizer.ggml.model", "llama");
    put_key_text("tokenizer.ggml.pre", "default");
    put_key_array("tokenizer.ggml.tokens", VALUE_TEXT, tokens_count);
    for (uint32_t i = 0; i < tokens_count; i++) {
        put_text(tokens[i].text);
    }
    put_key_array("tokenizer.ggml.scores", VALUE_F32, tokens_count);
    for (uint32_t i = 0; i < tokens_count; i++) {
        put_f32(i < ASCII_FIRST ? 0.0f : -(float)(i - ASCII_FIRST));
    }
    put_key_array("tokenizer.ggml.token_type", VALUE_I32, tokens_count);
    for (uint32_t i = 0; i < tokens_count; i++) {
        put_u32(tokens[i].kind);
    }
    put_key_u32("tokenizer.ggml.unknown_token_id", 0);
    put_key_u32("tokenizer.ggml.bos_token_id", 1);
    put_key_u32("tokenizer.ggml.eos_token_id", 2);
    put_key_bool("tokenizer.ggml.add_bos_token", true);
    put_key_bool("tokenizer.ggml.add_eos_token", false);
    put_key_bool("tokenizer.ggml.add_space_prefix", true);
}

/* ---- tensors --------------------------------------------------------------------------------- */

enum role {
    ROLE_WEIGHT, ROLE_MATCH, ROLE_OUTPUT,
    ROLE_NORM, ROLE_MATCH_NORM, ROLE_BIAS, ROLE_FACTORS     /* these are vectors */
};

struct tensor {
    char name[48];
    uint32_t type, dims_count;
    uint64_t columns, rows;
    enum role role;
};

static struct tensor *tensors;
static uint32_t tensors_count;

/* rows = 0: a vector, which stays F32. Rows that no block divides become F16. */
static void add_tensor(const struct settings *settings, enum role role, const char *name,
                       uint64_t columns, uint64_t rows)
{
    struct tensor *tensor = &tensors[tensors_count++];
    uint32_t type = rows == 0 ? TYPE_F32 : settings->type;
    if (columns % quant_of(type)->values != 0) {
        type = TYPE_F16;
    }
    *tensor = (struct tensor){.type = type, .dims_count = rows == 0 ? 1 : 2, .columns = columns,
                              .rows = rows == 0 ? 1 : rows, .role = role};
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
}

static uint32_t head_dim_of(const struct shape *shape)
{
    return shape->head_dim != 0 ? shape->head_dim : shape->dim / shape->heads;
}

static void add_layer(const struct settings *settings, uint32_t layer)
{
    const struct shape *shape = &settings->shape;
    uint64_t dim = shape->dim, ffn = shape->ffn, head = head_dim_of(shape);
    uint64_t q_dim = head * shape->heads, kv_dim = head * shape->kv_heads;
    bool bias = settings->family->qkv_bias, norm = settings->family->qk_norm;
    const struct {
        const char *name;
        enum role role;
        uint64_t columns, rows;
        bool absent;
    } parts[] = {
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
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[40];
        snprintf(name, sizeof name, "blk.%u.%s", layer, parts[i].name);
        if (!parts[i].absent) {
            add_tensor(settings, parts[i].role, name, parts[i].columns, parts[i].rows);
        }
    }
}

static void list_tensors(const struct settings *settings)
{
    const struct shape *shape = &settings->shape;
    tensors = calloc((size_t)shape->layers * 14 + 4, sizeof *tensors);
    if (tensors == NULL) {
        fail("no memory");
    }
    add_tensor(settings, ROLE_WEIGHT, "token_embd.weight", shape->dim, shape->vocab);
    for (uint32_t layer = 0; layer < shape->layers; layer++) {
        add_layer(settings, layer);
    }
    add_tensor(settings, ROLE_NORM, "output_norm.weight", shape->dim, 0);
    if (!settings->tied) {
        add_tensor(settings, ROLE_OUTPUT, "output.weight", shape->dim, shape->vocab);
    }
    if (settings->rope == ROPE_LLAMA3) {
        add_tensor(settings, ROLE_FACTORS, "rope_freqs.weight", head_dim_of(shape) / 2, 0);
    }
}

static uint64_t row_bytes(const struct tensor *tensor)
{
    const struct quant *quant = quant_of(tensor->type);
    return tensor->columns / quant->values * quant->bytes;
}

static void put_tensor_infos(void)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < tensors_count; i++) {
        const struct tensor *tensor = &tensors[i];
        put_text(tensor->name);
        put_u32(tensor->dims_count);
        put_u64(tensor->columns);
        if (tensor->dims_count == 2) {
            put_u64(tensor->rows);
        }
        put_u32(tensor->type);
        put_u64(offset);
        offset += row_bytes(tensor) * tensor->rows;
        offset += -offset % ALIGNMENT;
    }
}

/* ---- weights --------------------------------------------------------------------------------- */

/* splitmix64 */
static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* About normal, mean 0, deviation 1: the sum of four 16-bit uniforms, in integers, hence exact. */
static float random_normal(uint64_t *state)
{
    uint64_t bits = random_next(state);
    int64_t sum = (int64_t)(bits & 0xffff) + (int64_t)(bits >> 16 & 0xffff) +
                  (int64_t)(bits >> 32 & 0xffff) + (int64_t)(bits >> 48);
    return (float)(sum - 131070) * (1.0f / 37837.2f);   /* 65536 * sqrt(4 / 12) */
}

/* Deviation of a row's weights: 1/sqrt(columns) keeps activations near 1 from layer to layer. Twice
 * that spreads the logits, and in queries and keys, or the norms of their heads, it lets each
 * position look at a few others only; with flat attention greedy decoding soon repeats one token
 * for ever. */
static float row_deviation(const struct tensor *tensor, uint64_t row)
{
    float unit = 1.0f / sqrtf((float)tensor->columns);
    switch (tensor->role) {
    case ROLE_MATCH:
        return 2.0f * unit;
    case ROLE_OUTPUT:
        return tokens[row].kind == TOKEN_NORMAL ? 2.0f * unit : 0.02f * unit;
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

static void put_row(const struct tensor *tensor, const float *values, uint8_t *bytes)
{
    const struct quant *quant = quant_of(tensor->type);
    for (uint64_t i = 0; i < tensor->columns / quant->values; i++) {
        quant->put(values + i * quant->values, bytes + i * quant->bytes);
    }
    put(bytes, (size_t)row_bytes(tensor));
}

static void put_tensor(const struct tensor *tensor, uint64_t state)
{
    float *values = malloc(tensor->columns * sizeof *values);
    uint8_t *bytes = malloc(tensor->columns * sizeof *values);
    if (values == NULL || bytes == NULL) {
        fail("no memory");
    }
    for (uint64_t row = 0; row < tensor->rows; row++) {
        float deviation = row_deviation(tensor, row);
        for (uint64_t i = 0; i < tensor->columns; i++) {
            values[i] = value_mean(tensor, i) + deviation * random_normal(&state);
        }
        put_row(tensor, values, bytes);
    }
    free(values);
    free(bytes);
    put_padding();
}

/* ---- the file -------------------------------------------------------------------------------- */

/* FAMILY.NAME */
static const char *family_key(const struct settings *settings, const char *name)
{
    static char key[64];
    snprintf(key, sizeof key, "%s.%s", settings->family->name, name);
    return key;
}

static void put_shape(const struct settings *settings)
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
        put_key_u32(family_key(settings, counts[i].name), counts[i].value);
    }
    if (shape->head_dim != 0) {
        put_key_u32(family_key(settings, "attention.key_length"), shape->head_dim);
        put_key_u32(family_key(settings, "attention.value_length"), shape->head_dim);
    }
    put_key_f32(family_key(settings, "attention.layer_norm_rms_epsilon"), 1e-5f);
    put_key_f32(family_key(settings, "rope.freq_base"), 10000.0f);
    if (settings->rope == ROPE_LINEAR) {
        put_key_text(family_key(settings, "rope.scaling.type"), "linear");
        put_key_f32(family_key(settings, "rope.scaling.factor"), ROPE_SCALE);
    }
}

static void put_metadata(const struct settings *settings)
{
    char name[64];
    snprintf(name, sizeof name, "random weights, %s, seed %llu", settings->preset,
             (unsigned long long)settings->seed);
    put_key_text("general.architecture", settings->family->name);
    put_key_text("general.name", name);
    put_key_u32("general.alignment", ALIGNMENT);
    put_shape(settings);
    put_vocabulary();
}

static void write_model(const struct settings *settings)
{
    build_vocabulary(settings->shape.vocab);
    list_tensors(settings);
    put("GGUF", 4);
    put_u32(3);
    put_u64(tensors_count);
    put_u64(0);                     /* number of keys: known at the end */
    put_metadata(settings);
    put_tensor_infos();
    put_padding();
    for (uint32_t i = 0; i < tensors_count; i++) {
        uint64_t state = settings->seed * UINT64_C(0xd1342543de82ef95) + i;
        put_tensor(&tensors[i], random_next(&state));
    }
    if (fseek(out, 16, SEEK_SET) != 0) {
        fail("cannot seek");
    }
    put_u64(keys_count);
}

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

static void set_preset(struct settings *settings, const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        if (strcmp(presets[i].name, name) == 0) {
            settings->preset = name;
            settings->shape = presets[i].shape;
            return;
        }
    }
    fail("unknown preset '%s': tiny, 15m, 110m or 1.1b", name);
}

static uint32_t type_from_name(const char *name)
{
    const struct quant *quant = quant_named(name);
    if (quant == NULL) {
        fail("unknown type '%s': %s", name, quant_names());
    }
    return quant->type;
}

static const struct family *family_from_name(const char *name)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (strcmp(families[i].name, name) == 0) {
            return &families[i];
        }
    }
    fail("unknown family '%s'", name);
}

static enum rope rope_from_name(const char *name)
{
    for (size_t i = 0; i < sizeof ropes / sizeof ropes[0]; i++) {
        if (strcmp(ropes[i], name) == 0) {
            return (enum rope)i;
        }
    }
    fail("unknown rope '%s': plain, linear or llama3", name);
}

static uint64_t number_from_text(const char *key, const char *text)
{
    char *end = NULL;
    uint64_t number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0') {
        fail("%s: '%s' is not a number", key, text);
    }
    return number;
}

/* A number of the shape; the preset must come before it. */
static void set_shape(struct settings *settings, const char *key, const char *value)
{
    struct shape *shape = &settings->shape;
    const struct {
        const char *key;
        uint32_t *field;
    } fields[] = {{"--layers", &shape->layers}, {"--dim", &shape->dim},
                  {"--heads", &shape->heads},   {"--kv-heads", &shape->kv_heads},
                  {"--ffn", &shape->ffn},       {"--context", &shape->context},
                  {"--vocab", &shape->vocab},   {"--head-dim", &shape->head_dim}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(fields[i].key, key) == 0) {
            uint64_t number = number_from_text(key, value);
            *fields[i].field = number > UINT32_MAX ? 0 : (uint32_t)number;
            return;
        }
    }
    fail("unknown option '%s'", key);
}

static void parse_arguments(struct settings *settings, int argc, char **argv)
{
    set_preset(settings, "tiny");
    for (int i = 1; i < argc; i++) {
        const char *key = argv[i];
        if (strcmp(key, "--tied") == 0) {
            settings->tied = true;
            continue;
        }
        const char *value = i + 1 < argc ? argv[++i] : NULL;
        if (value == NULL) {
            fail("%s: a value is missing", key);
        } else if (strcmp(key, "--out") == 0) {
            settings->out = value;
        } else if (strcmp(key, "--preset") == 0) {
            set_preset(settings, value);
        } else if (strcmp(key, "--type") == 0) {
            settings->type = type_from_name(value);
        } else if (strcmp(key, "--family") == 0) {
            settings->family = family_from_name(value);
        } else if (strcmp(key, "--rope") == 0) {
            settings->rope = rope_from_name(value);
        } else if (strcmp(key, "--seed") == 0) {
            settings->seed = number_from_text(key, value);
        } else {
            set_shape(settings, key, value);
        }
    }
    check_shape(&settings->shape);
}

int main(int argc, char **argv)
{
    struct settings settings = {.type = TYPE_F32, .seed = 1, .family = &families[0]};
    parse_arguments(&settings, argc, argv);
    if (settings.out == NULL) {
        fail("--out FILE is missing");
    }
    out = fopen(settings.out, "wb");
    if (out == NULL) {
        fail("%s: cannot be created", settings.out);
    }
    write_model(&settings);
    if (fclose(out) != 0) {
        fail("%s: cannot write", settings.out);
    }
    return 0;
}
