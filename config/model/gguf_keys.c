/* SPDX-License-Identifier: MIT */
/*
 * What: reads the key-value section of a header. The table below says which keys we use and what
 * type each must have; all others are walked over, so that a damaged file is noticed even there.
 *
 * Invariants: no value is used before its type is checked; no count from the file is multiplied or
 * added before it is compared with what is left of the file. Arrays of arrays are refused: no
 * converter writes them, and walking them would need recursion.
 *
 * Bounds: time is linear in the header, which is at most limits.vocabulary_bytes.
 */
#include "config/model/gguf_keys.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "config/base/assert.h"

/* Types of values, as in the file. */
enum value {
    VALUE_U8, VALUE_I8, VALUE_U16, VALUE_I16, VALUE_U32, VALUE_I32, VALUE_F32, VALUE_BOOL,
    VALUE_TEXT, VALUE_ARRAY, VALUE_U64, VALUE_I64, VALUE_F64, VALUE_COUNT
};

static const struct {
    const char *name;
    uint32_t bytes;                 /* 0: not of fixed size */
} values[VALUE_COUNT] = {
    [VALUE_U8] = {"u8", 1},     [VALUE_I8] = {"i8", 1},   [VALUE_U16] = {"u16", 2},
    [VALUE_I16] = {"i16", 2},   [VALUE_U32] = {"u32", 4}, [VALUE_I32] = {"i32", 4},
    [VALUE_F32] = {"f32", 4},   [VALUE_BOOL] = {"bool", 1}, [VALUE_TEXT] = {"text", 0},
    [VALUE_ARRAY] = {"array", 0}, [VALUE_U64] = {"u64", 8}, [VALUE_I64] = {"i64", 8},
    [VALUE_F64] = {"f64", 8},
};

/* What a key must be. */
enum want {
    WANT_COUNT, WANT_REAL, WANT_FLAG, WANT_TEXT, WANT_TEXTS, WANT_F32S, WANT_I32S, WANT_SPAN
};
static const char *const want_names[] = {"an integer of 0 to 4294967295", "a finite f32", "a bool",
                                         "a text", "an array of texts", "an array of f32",
                                         "an array of i32", "a text"};

struct row {
    const char *key;
    enum want want;
    uint32_t text_bytes_max;        /* of an element of TEXTS */
    size_t place;                   /* in struct gguf_keys */
    bool of_family;                 /* in the file its name, a dot, and then `key` */
};
#define KEY(name, want, field) {name, want, 0, offsetof(struct gguf_keys, field), false}
#define OF_FAMILY(name, want, field) {name, want, 0, offsetof(struct gguf_keys, field), true}
static const struct row rows[] = {
    KEY("general.architecture", WANT_TEXT, architecture),
    KEY("general.name", WANT_TEXT, name),
    KEY("general.alignment", WANT_COUNT, alignment),
    OF_FAMILY("block_count", WANT_COUNT, layers),
    OF_FAMILY("context_length", WANT_COUNT, context),
    OF_FAMILY("embedding_length", WANT_COUNT, dim),
    OF_FAMILY("feed_forward_length", WANT_COUNT, ffn_dim),
    OF_FAMILY("attention.head_count", WANT_COUNT, heads),
    OF_FAMILY("attention.head_count_kv", WANT_COUNT, kv_heads),
    OF_FAMILY("attention.key_length", WANT_COUNT, key_dim),
    OF_FAMILY("attention.value_length", WANT_COUNT, value_dim),
    OF_FAMILY("attention.layer_norm_rms_epsilon", WANT_REAL, norm_epsilon),
    OF_FAMILY("rope.dimension_count", WANT_COUNT, rope_dim),
    OF_FAMILY("rope.freq_base", WANT_REAL, rope_base),
    OF_FAMILY("rope.scaling.type", WANT_TEXT, rope_scaling),
    OF_FAMILY("rope.scaling.factor", WANT_REAL, rope_factor),
    OF_FAMILY("rope.scaling.attn_factor", WANT_REAL, rope_attention),
    OF_FAMILY("rope.scale_linear", WANT_REAL, rope_scale_linear),
    OF_FAMILY("vocab_size", WANT_COUNT, vocab_size),
    OF_FAMILY("expert_count", WANT_COUNT, experts),
    OF_FAMILY("attention.sliding_window", WANT_COUNT, sliding_window),
    OF_FAMILY("attention.causal", WANT_FLAG, causal),
    KEY("tokenizer.ggml.model", WANT_TEXT, vocab_model),
    KEY("tokenizer.ggml.pre", WANT_TEXT, vocab_pre),
    {"tokenizer.ggml.tokens", WANT_TEXTS, GGUF_TOKEN_BYTES_MAX, offsetof(struct gguf_keys, tokens),
     false},
    KEY("tokenizer.ggml.scores", WANT_F32S, scores),
    KEY("tokenizer.ggml.token_type", WANT_I32S, types),
    {"tokenizer.ggml.merges", WANT_TEXTS, GGUF_MERGE_BYTES_MAX, offsetof(struct gguf_keys, merges),
     false},
    KEY("tokenizer.ggml.bos_token_id", WANT_COUNT, bos),
    KEY("tokenizer.ggml.eos_token_id", WANT_COUNT, eos),
    KEY("tokenizer.ggml.unknown_token_id", WANT_COUNT, unknown),
    KEY("tokenizer.ggml.eot_token_id", WANT_COUNT, eot),
    KEY("tokenizer.ggml.add_bos_token", WANT_FLAG, add_bos),
    KEY("tokenizer.ggml.add_space_prefix", WANT_FLAG, add_space_prefix),
    KEY("tokenizer.chat_template", WANT_SPAN, chat_template),
    KEY("predictor.version", WANT_COUNT, predictor_version),
    KEY("predictor.buckets", WANT_COUNT, predictor_buckets),
    KEY("predictor.tokens", WANT_COUNT, predictor_tokens),
    {"predictor.classes", WANT_TEXTS, GGUF_TOKEN_BYTES_MAX,
     offsetof(struct gguf_keys, predictor_classes), false},
    KEY("predictor.samples", WANT_I32S, predictor_samples),
    KEY("predictor.means", WANT_F32S, predictor_means),
    KEY("predictor.lows", WANT_F32S, predictor_lows),
    KEY("predictor.highs", WANT_F32S, predictor_highs),
};
#undef OF_FAMILY
#undef KEY

#define KEY_SHOWN_BYTES 64          /* longer than every key that we use */

/* One pair under the cursor. */
struct pair {
    char key[KEY_SHOWN_BYTES + 1];
    uint64_t offset;                /* of the pair */
    uint32_t type;                  /* enum value */
    uint32_t element;               /* enum value, of an ARRAY */
    uint64_t count;                 /* of an ARRAY */
};

static const char *type_name(uint32_t type)
{
    return type < VALUE_COUNT ? values[type].name : "unknown";
}

static enum status refuse_type(const struct gguf_cursor *cursor, const struct pair *pair,
                               const char *expected)
{
    bool array = pair->type == VALUE_ARRAY;
    return gguf_error(cursor->source, pair->offset, cursor->error, "%s is %s%s, expected %s",
                      pair->key, array ? "an array of " : "",
                      type_name(array ? pair->element : pair->type), expected);
}

/* ---- walking over values --------------------------------------------------------------------- */

/* Walks over a text; `bytes` is its length. */
static enum status skip_text(struct gguf_cursor *cursor, const char *key, uint64_t *bytes)
{
    TRY(gguf_cursor_u64(cursor, bytes, key));
    return gguf_cursor_skip(cursor, *bytes, key);
}

static enum status skip_array(struct gguf_cursor *cursor, const struct pair *pair)
{
    uint64_t bytes = 0;
    if (pair->element != VALUE_TEXT) {
        ASSERT(values[pair->element].bytes > 0);
        /* The count is at most what is left of the file: the product cannot wrap. */
        return gguf_cursor_skip(cursor, pair->count * values[pair->element].bytes, pair->key);
    }
    for (uint64_t i = 0; i < pair->count; i++) {
        TRY(skip_text(cursor, pair->key, &bytes));
    }
    return STATUS_OK;
}

static enum status skip_value(struct gguf_cursor *cursor, const struct pair *pair)
{
    uint64_t bytes = 0;
    switch (pair->type) {
    case VALUE_TEXT:
        return skip_text(cursor, pair->key, &bytes);
    case VALUE_ARRAY:
        return skip_array(cursor, pair);
    default:
        return gguf_cursor_skip(cursor, values[pair->type].bytes, pair->key);
    }
}

/* ---- values that we use ---------------------------------------------------------------------- */

static bool type_is_integer(uint32_t type)
{
    return type <= VALUE_I32 || type == VALUE_U64 || type == VALUE_I64;
}

static enum status read_count(struct gguf_count *count, struct gguf_cursor *cursor,
                              const struct pair *pair)
{
    if (!type_is_integer(pair->type)) {
        return refuse_type(cursor, pair, want_names[WANT_COUNT]);
    }
    uint32_t bytes = values[pair->type].bytes;
    uint8_t raw[8] = {0};
    TRY(gguf_cursor_bytes(cursor, raw, bytes, pair->key));
    bool negative = (pair->type == VALUE_I8 || pair->type == VALUE_I16 ||
                     pair->type == VALUE_I32 || pair->type == VALUE_I64) &&
                    (raw[bytes - 1] & 0x80) != 0;
    uint64_t value = 0;
    memcpy(&value, raw, sizeof value);
    if (negative || value > UINT32_MAX) {
        return gguf_error(cursor->source, pair->offset, cursor->error,
                          "%s is out of range, expected %s", pair->key, want_names[WANT_COUNT]);
    }
    count->value = (uint32_t)value;
    return STATUS_OK;
}

static enum status read_real(struct gguf_real *real, struct gguf_cursor *cursor,
                             const struct pair *pair)
{
    if (pair->type != VALUE_F32) {
        return refuse_type(cursor, pair, want_names[WANT_REAL]);
    }
    TRY(gguf_cursor_bytes(cursor, &real->value, sizeof real->value, pair->key));
    if (!isfinite(real->value)) {
        return gguf_error(cursor->source, pair->offset, cursor->error,
                          "%s is not a number, expected %s", pair->key, want_names[WANT_REAL]);
    }
    return STATUS_OK;
}

static enum status read_flag(struct gguf_flag *flag, struct gguf_cursor *cursor,
                             const struct pair *pair)
{
    uint8_t byte = 0;
    if (pair->type != VALUE_BOOL) {
        return refuse_type(cursor, pair, want_names[WANT_FLAG]);
    }
    TRY(gguf_cursor_bytes(cursor, &byte, 1, pair->key));
    if (byte > 1) {
        return gguf_error(cursor->source, pair->offset, cursor->error,
                          "%s is the byte %u, expected 0 or 1", pair->key, byte);
    }
    flag->value = byte == 1;
    return STATUS_OK;
}

static enum status read_text(struct gguf_text *text, struct gguf_cursor *cursor,
                             const struct pair *pair)
{
    uint64_t bytes = 0;
    if (pair->type != VALUE_TEXT) {
        return refuse_type(cursor, pair, want_names[WANT_TEXT]);
    }
    TRY(gguf_cursor_u64(cursor, &bytes, pair->key));
    uint64_t kept = bytes < GGUF_TEXT_BYTES - 1 ? bytes : GGUF_TEXT_BYTES - 1;
    TRY(gguf_cursor_bytes(cursor, text->value, kept, pair->key));
    text->value[kept] = '\0';
    return gguf_cursor_skip(cursor, bytes - kept, pair->key);
}

/* Any other type is left as it is, with no bytes: a model serves without a template. */
static enum status read_span(struct gguf_span *span, struct gguf_cursor *cursor,
                             const struct pair *pair)
{
    if (pair->type != VALUE_TEXT) {
        return skip_value(cursor, pair);
    }
    TRY(gguf_cursor_u64(cursor, &span->bytes, pair->key));
    span->key.offset = cursor->offset;
    return gguf_cursor_skip(cursor, span->bytes, pair->key);
}

static enum status read_texts(struct gguf_array *array, struct gguf_cursor *cursor,
                              const struct pair *pair, uint32_t bytes_max)
{
    for (uint64_t i = 0; i < pair->count; i++) {
        uint64_t offset = cursor->offset, bytes = 0;
        TRY(skip_text(cursor, pair->key, &bytes));
        if (bytes > bytes_max) {
            return gguf_error(cursor->source, offset, cursor->error,
                              "%s[%llu] has %llu bytes, expected at most %u", pair->key,
                              (unsigned long long)i, (unsigned long long)bytes, bytes_max);
        }
        array->text_bytes += bytes;
        array->text_bytes_max =
            bytes > array->text_bytes_max ? (uint32_t)bytes : array->text_bytes_max;
    }
    return STATUS_OK;
}

static enum status read_array(struct gguf_array *array, struct gguf_cursor *cursor,
                              const struct pair *pair, const struct row *row)
{
    uint32_t element = row->want == WANT_TEXTS  ? VALUE_TEXT
                       : row->want == WANT_F32S ? VALUE_F32
                                                : VALUE_I32;
    if (pair->type != VALUE_ARRAY || pair->element != element) {
        return refuse_type(cursor, pair, want_names[row->want]);
    }
    if (pair->count > GGUF_TOKENS_MAX) {
        return gguf_error(cursor->source, pair->offset, cursor->error,
                          "%s has %llu elements, expected at most %u", pair->key,
                          (unsigned long long)pair->count, GGUF_TOKENS_MAX);
    }
    array->key.offset = cursor->offset;
    array->count = (uint32_t)pair->count;
    return row->want == WANT_TEXTS ? read_texts(array, cursor, pair, row->text_bytes_max)
                                   : skip_array(cursor, pair);
}

static enum status read_wanted(struct gguf_keys *keys, struct gguf_cursor *cursor,
                               const struct pair *pair, const struct row *row)
{
    void *place = (uint8_t *)keys + row->place;
    struct gguf_key *key = place;
    if (key->present) {
        return gguf_error(cursor->source, pair->offset, cursor->error,
                          "%s appears twice, expected once", pair->key);
    }
    *key = (struct gguf_key){.present = true, .offset = cursor->offset};
    switch (row->want) {
    case WANT_COUNT:
        return read_count(place, cursor, pair);
    case WANT_REAL:
        return read_real(place, cursor, pair);
    case WANT_FLAG:
        return read_flag(place, cursor, pair);
    case WANT_TEXT:
        return read_text(place, cursor, pair);
    case WANT_SPAN:
        return read_span(place, cursor, pair);
    case WANT_TEXTS:
    case WANT_F32S:
    case WANT_I32S:
        break;
    }
    return read_array(place, cursor, pair, row);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static enum status read_key(struct pair *pair, struct gguf_cursor *cursor)
{
    uint64_t bytes = 0;
    pair->offset = cursor->offset;
    TRY(gguf_cursor_u64(cursor, &bytes, "the length of a key"));
    if (bytes > GGUF_KEY_BYTES_MAX) {
        return gguf_error(cursor->source, pair->offset, cursor->error,
                          "a key has %llu bytes, expected at most %d", (unsigned long long)bytes,
                          GGUF_KEY_BYTES_MAX);
    }
    uint64_t kept = bytes < KEY_SHOWN_BYTES ? bytes : KEY_SHOWN_BYTES;
    TRY(gguf_cursor_bytes(cursor, pair->key, kept, "a key"));
    pair->key[kept] = '\0';
    return gguf_cursor_skip(cursor, bytes - kept, "a key");
}

static enum status read_type(struct pair *pair, struct gguf_cursor *cursor)
{
    TRY(gguf_cursor_u32(cursor, &pair->type, pair->key));
    if (pair->type >= VALUE_COUNT) {
        return gguf_error(cursor->source, pair->offset, cursor->error,
                          "%s has type %u, expected 0 to %d", pair->key, pair->type,
                          VALUE_COUNT - 1);
    }
    if (pair->type != VALUE_ARRAY) {
        return STATUS_OK;
    }
    TRY(gguf_cursor_u32(cursor, &pair->element, pair->key));
    TRY(gguf_cursor_u64(cursor, &pair->count, pair->key));
    if (pair->element >= VALUE_COUNT || pair->element == VALUE_ARRAY) {
        return gguf_error(cursor->source, pair->offset, cursor->error,
                          "%s is an array of type %u, expected numbers, bools or texts",
                          pair->key, pair->element);
    }
    uint64_t least = pair->element == VALUE_TEXT ? 8 : values[pair->element].bytes;
    if (pair->count > gguf_cursor_left(cursor) / least) {
        return gguf_error(cursor->source, pair->offset, cursor->error,
                          "%s has %llu elements, expected at most %llu in the bytes that follow",
                          pair->key, (unsigned long long)pair->count,
                          (unsigned long long)(gguf_cursor_left(cursor) / least));
    }
    return STATUS_OK;
}

/* NULL: not a key that we use. `family` is the one that it belongs to; NULL: to none. */
static const struct row *find_row(const char *key, const struct model_family **family)
{
    const char *dot = strchr(key, '.');
    *family = dot != NULL ? model_family_find(key, (size_t)(dot - key)) : NULL;
    const char *name = *family != NULL ? dot + 1 : key;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].of_family == (*family != NULL) && strcmp(rows[i].key, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* The general.architecture may come after its keys, so these only have to agree here. */
static enum status take_family(struct gguf_keys *keys, const struct gguf_cursor *cursor,
                               const struct pair *pair, const struct model_family *family)
{
    if (keys->family != NULL && keys->family != family) {
        return gguf_error(cursor->source, pair->offset, cursor->error,
                          "%s stands beside keys of %s, expected those of one family", pair->key,
                          keys->family->name);
    }
    keys->family = family;
    return STATUS_OK;
}

static enum status read_pair(struct gguf_keys *keys, struct gguf_cursor *cursor)
{
    struct pair pair = {.count = 0};
    const struct model_family *family = NULL;
    TRY(read_key(&pair, cursor));
    TRY(read_type(&pair, cursor));
    const struct row *row = find_row(pair.key, &family);
    if (row == NULL) {
        return skip_value(cursor, &pair);
    }
    if (family != NULL) {
        TRY(take_family(keys, cursor, &pair, family));
    }
    return read_wanted(keys, cursor, &pair, row);
}

enum status gguf_keys_read(struct gguf_keys *keys, struct gguf_cursor *cursor, uint64_t count)
{
    *keys = (struct gguf_keys){0};
    ASSERT(count <= GGUF_KEYS_MAX);
    for (uint64_t i = 0; i < count; i++) {
        TRY(read_pair(keys, cursor));
    }
    return STATUS_OK;
}
