/* SPDX-License-Identifier: MIT */
/*
 * What: the vocabulary of a model file, read with the appliance's own code.
 * Bounds: a text takes about 50 bytes of memory for each of its bytes, most of it never touched.
 */
#include "tools/agx/vocabulary.h"

#include <stdio.h>
#include <stdlib.h>

#define HEADER_BYTES_MAX (UINT64_C(1) << 30)

bool vocabulary_load(struct vocabulary *vocabulary, const char *path, const char *command)
{
    static struct gguf gguf;
    struct gguf_source source;
    struct config_error error = {{0}};
    struct memory_plan plan = {0};
    struct arena arena;
    enum status status = gguf_source_open(&source, path, &error);
    if (status == STATUS_OK) {
        status = gguf_scan(&gguf, &source, HEADER_BYTES_MAX, &error);
    }
    if (status == STATUS_OK) {
        vocab_plan_memory(&plan, &gguf.vocab);
        status = arena_map(&arena, memory_plan_bytes(&plan, MEMORY_MODEL), false);
    }
    if (status == STATUS_OK) {
        status = vocab_load(&vocabulary->vocab, &gguf, &source, &arena, &error);
    }
    gguf_source_close(&source);
    vocabulary->chat = &gguf.chat;
    if (status != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", command,
                error.text[0] != '\0' ? error.text : status_text(status));
    }
    return status == STATUS_OK;
}

/* At worst each byte, and a space mark of three bytes before it, is a token. */
bool vocabulary_encode(const struct vocabulary *vocabulary, const struct vocab_input *input,
                       struct vocabulary_tokens *tokens, const char *command)
{
    uint64_t ids_max = 4 * ((uint64_t)input->bytes + 1);
    void *memory = malloc(vocab_scratch_bytes(input->bytes));
    tokens->ids = ids_max < UINT32_MAX ? malloc(ids_max * sizeof *tokens->ids) : NULL;
    struct vocab_output output = {.tokens = tokens->ids, .max = (uint32_t)ids_max};
    bool fits = memory != NULL && tokens->ids != NULL && input->bytes <= VOCAB_TEXT_BYTES_MAX;
    if (fits) {
        struct vocab_scratch scratch;
        vocab_scratch_init(&scratch, memory, input->bytes);
        fits = vocab_encode(&vocabulary->vocab, &scratch, input, &output) == STATUS_OK;
    }
    if (!fits) {
        fprintf(stderr, "%s: not enough memory for %u bytes of text\n", command, input->bytes);
    }
    tokens->count = fits ? output.count : 0;
    free(memory);
    return fits;
}
