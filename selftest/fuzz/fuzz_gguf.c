/* SPDX-License-Identifier: MIT */
/*
 * Goal: no bytes of a model file break the reader. It does not crash. A refusal is one line of
 * printable ASCII that names an offset in the file. An accepted file has all extents inside it, and
 * a vocabulary that encodes and decodes.
 * Method: the input is the file. A vocabulary that would not fit the arena is not loaded, as at
 * boot. The table of keys is private to its source, which is therefore included.
 */
#include <stdio.h>
#include <stdlib.h>

#include "config/model/gguf_keys.c"
#include "config/vocab/vocab.h"
#include "selftest/fuzz/dictionary.h"
#include "selftest/fuzz/message.h"

#define ARENA_BYTES      (1u << 20)
#define HEADER_BYTES_MAX 2560       /* the longest input is longer */
#define TEXT_BYTES       64
#define NAME             "fuzz.gguf"

static _Alignas(ARENA_ALIGN_BYTES) uint8_t memory[ARENA_BYTES];
static struct gguf gguf;
static struct vocab vocab;

/* Every refusal names an offset in the file, or its end. */
static void check_place(const struct config_error *error, size_t count)
{
    static const char start[] = NAME ": offset ";
    char *end = NULL;
    message_check(error);
    ASSERT(strncmp(error->text, start, sizeof start - 1) == 0);
    ASSERT(strtoull(error->text + sizeof start - 1, &end, 10) <= count);
    ASSERT(end[0] == ':' && end[1] == ' ');
}

static void check_model(const struct gguf_source *source)
{
    const struct model_shape *shape = &gguf.shape;
    for (uint32_t i = 0; i < gguf.tensors_count; i++) {
        const struct gguf_tensor *tensor = &gguf.tensors[i];
        ASSERT(tensor->offset >= gguf.header_bytes);
        ASSERT(tensor->bytes <= source->size_bytes);
        ASSERT(tensor->offset <= source->size_bytes - tensor->bytes);
    }
    ASSERT(model_family_find(shape->family->name, strlen(shape->family->name)) == shape->family);
    ASSERT(shape->heads % shape->kv_heads == 0);
    ASSERT(shape->rope_scale > 0);
    ASSERT(shape->rope_dim <= shape->head_dim && shape->rope_dim % 2 == 0);
    ASSERT(shape->vocab_tokens == gguf.vocab.tokens);
}

static void check_vocab(void)
{
    static const char text[] = "Hello, w\xc3\xb6rld's  12345\n<s>\xff";
    static uint64_t scratch_memory[64 * TEXT_BYTES];
    struct vocab_scratch scratch;
    uint32_t tokens[4 * TEXT_BYTES];
    ASSERT(vocab_scratch_bytes(TEXT_BYTES) <= sizeof scratch_memory);
    vocab_scratch_init(&scratch, scratch_memory, TEXT_BYTES);
    for (uint32_t parse = 0; parse < 2; parse++) {
        const struct vocab_input input = {
            .text = text, .bytes = sizeof text - 1, .parse_special = parse == 1};
        struct vocab_output output = {.tokens = tokens, .max = 4 * TEXT_BYTES};
        ASSERT(vocab_encode(&vocab, &scratch, &input, &output) == STATUS_OK);
        for (uint32_t i = 0; i < output.count; i++) {
            char bytes[GGUF_TOKEN_BYTES_MAX];
            ASSERT(tokens[i] < vocab.info.tokens);
            ASSERT(vocab_decode(&vocab, tokens[i], i == 0, bytes, sizeof bytes) <=
                   vocab.info.token_bytes_max);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct gguf_source source;
    struct config_error error = {{0}};
    struct memory_plan plan = {0};
    struct arena arena;
    gguf_source_memory(&source, bytes, count, NAME);
    if (gguf_scan(&gguf, &source, HEADER_BYTES_MAX, &error) != STATUS_OK) {
        check_place(&error, count);
        return 0;
    }
    if (gguf.has_model) {
        check_model(&source);
    }
    vocab_plan_memory(&plan, &gguf.vocab);
    if (plan.overflow || memory_plan_bytes(&plan, MEMORY_MODEL) > sizeof memory) {
        return 0;
    }
    arena = (struct arena){.base = memory, .size_bytes = memory_plan_bytes(&plan, MEMORY_MODEL)};
    memset(memory, 0, arena.size_bytes);
    if (vocab_load(&vocab, &gguf, &source, &arena, &error) != STATUS_OK) {
        check_place(&error, count);
        return 0;
    }
    ASSERT(arena.used_bytes == arena.size_bytes);
    check_vocab();
    return 0;
}

/* A key and the type of its value, as in a file. `family` is the beginning of the key, or empty. */
static void write_key(const char *family, const char *name, uint32_t type)
{
    uint8_t bytes[DICTIONARY_WORD_BYTES_MAX];
    char key[DICTIONARY_WORD_BYTES_MAX];
    snprintf(key, sizeof key, "%s%s%s", family, family[0] != '\0' ? "." : "", name);
    uint64_t count = strlen(key);
    ASSERT(sizeof count + count + sizeof type <= sizeof bytes);
    memcpy(bytes, &count, sizeof count);
    memcpy(bytes + sizeof count, key, count);
    memcpy(bytes + sizeof count + count, &type, sizeof type);
    dictionary_word(bytes, (uint32_t)(sizeof count + count + sizeof type));
}

void dictionary_write(void)
{
    static const uint32_t types[] = {
        [WANT_COUNT] = VALUE_U32,   [WANT_REAL] = VALUE_F32,    [WANT_FLAG] = VALUE_BOOL,
        [WANT_TEXT] = VALUE_TEXT,   [WANT_TEXTS] = VALUE_ARRAY, [WANT_F32S] = VALUE_ARRAY,
        [WANT_I32S] = VALUE_ARRAY,  [WANT_SPAN] = VALUE_TEXT,
    };
    STATIC_ASSERT(sizeof types / sizeof types[0] == sizeof want_names / sizeof want_names[0],
                  "a type for each kind of value");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!rows[i].of_family) {
            write_key("", rows[i].key, types[rows[i].want]);
        }
        for (uint32_t f = 0; rows[i].of_family && f < model_families_count; f++) {
            write_key(model_families[f].name, rows[i].key, types[rows[i].want]);
        }
    }
    for (uint32_t type = 0; type < VALUE_COUNT; type++) {
        dictionary_number(type, sizeof type);
    }
    dictionary_number(UINT32_MAX, 4);
    dictionary_number(UINT64_MAX, 8);
    dictionary_number(UINT64_MAX / 8 + 1, 8);       /* wraps when multiplied by an element's size */
}
