/* SPDX-License-Identifier: MIT */
/*
 * Goal: no bytes of a model file break the reader: no crash, no message that is not one line of
 * printable ASCII; what is accepted has extents inside the file and a vocabulary that encodes and
 * decodes.
 * Method: the input is the file. A vocabulary that would not fit the arena is left alone, as boot
 * does. Seeds lie in corpus/gguf.
 */
#include <stdlib.h>
#include <string.h>

#include "appliance/base/assert.h"
#include "config/gguf.h"
#include "config/vocab.h"

#define ARENA_BYTES (1u << 20)
#define TEXT_BYTES  64

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static _Alignas(ARENA_ALIGN_BYTES) uint8_t memory[ARENA_BYTES];
static struct gguf gguf;
static struct vocab vocab;

static void check_message(const struct config_error *error)
{
    size_t length = strnlen(error->text, sizeof error->text);
    ASSERT(length > 0 && length < sizeof error->text);
    ASSERT(strncmp(error->text, "fuzz.gguf: offset ", 18) == 0);
    for (size_t i = 0; i < length; i++) {
        ASSERT(error->text[i] >= 0x20 && error->text[i] <= 0x7e);
    }
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
    ASSERT(shape->heads % shape->kv_heads == 0);
    ASSERT(shape->rope_dim <= shape->head_dim && shape->rope_dim % 2 == 0);
    ASSERT(shape->vocab_tokens == gguf.vocab.tokens);
}

static void check_vocab(void)
{
    static const char text[] = "Hello, w\xc3\xb6rld's  12345\n<s>\xff";
    static uint64_t scratch_memory[64 * TEXT_BYTES];
    struct vocab_scratch scratch;
    uint32_t tokens[4 * TEXT_BYTES], count = 0;
    ASSERT(vocab_scratch_bytes(TEXT_BYTES) <= sizeof scratch_memory);
    vocab_scratch_init(&scratch, scratch_memory, TEXT_BYTES);
    for (uint32_t parse = 0; parse < 2; parse++) {
        ASSERT(vocab_encode(&vocab, &scratch, text, sizeof text - 1, parse == 1, tokens,
                            4 * TEXT_BYTES, &count) == STATUS_OK);
        for (uint32_t i = 0; i < count; i++) {
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
    struct plan plan = {0};
    struct arena arena;
    gguf_source_memory(&source, bytes, count, "fuzz.gguf");
    if (gguf_scan(&gguf, &source, 1 << 20, &error) != STATUS_OK) {
        check_message(&error);
        return 0;
    }
    if (gguf.has_model) {
        check_model(&source);
    }
    vocab_plan(&plan, &gguf.vocab);
    if (plan.overflow || plan_tier_bytes(&plan, TIER_MODEL) > sizeof memory) {
        return 0;
    }
    arena = (struct arena){.base = memory, .size_bytes = plan_tier_bytes(&plan, TIER_MODEL)};
    memset(memory, 0, arena.size_bytes);
    if (vocab_load(&vocab, &gguf, &source, &arena, &error) != STATUS_OK) {
        check_message(&error);
        return 0;
    }
    ASSERT(arena.used_bytes == arena.size_bytes);
    check_vocab();
    return 0;
}
