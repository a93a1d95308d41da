/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the vocabulary of a model file, for commands that need no appliance. */
#include <stdbool.h>

#include "config/vocab/vocab.h"

struct vocabulary {
    struct vocab vocab;
    const struct gguf_chat *chat;       /* of the same file */
};

/* Reads the vocabulary; false after a message that begins with `command`. To be called once. */
bool vocabulary_load(struct vocabulary *vocabulary, const char *path, const char *command);
/* Tokens of a text: room for them is from the heap and the caller's. False after a message. */
struct vocabulary_tokens { uint32_t *ids; uint32_t count; };
bool vocabulary_encode(const struct vocabulary *vocabulary, const struct vocab_input *input,
                       struct vocabulary_tokens *tokens, const char *command);
