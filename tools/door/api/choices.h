/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the choices that a request asks for: `n` calls for each of its prompts, numbered prompt by
 * prompt. All are made before the first call is sent, so one wrong prompt costs nothing. Each
 * function is false after request_refuse().
 */
#include "tools/door/api/fields.h"

/* A prompt as the dialect has read it: a text, with parts in a chat; or token ids. */
struct prompt_source {
    struct buffer text;
    uint32_t *ids, ids_count;           /* NULL: it is a text */
    uint32_t *parts, parts_count;
    bool is_chat;
};

/* The tokens that the appliance will make of a text, BOS not counted; they stand until the next
 * text. False: it is too long. */
bool prompt_source_encode(struct model *model, const struct prompt_source *source,
                          const uint32_t **ids, uint32_t *count);
/* What was not taken over. */
void prompt_source_free(struct prompt_source *source);

/* How many a request may ask for. */
uint64_t choices_max(const struct door *door);
/* Room for `n` choices of each of so many prompts; the program is known. An answer has `max_tokens`
 * at most; 0: what fits the context. */
bool choices_begin(struct wish *wish, struct request *request, uint64_t prompts,
                   uint64_t max_tokens);
/* Those of the next prompt, which is taken over. */
bool choices_add(struct wish *wish, struct request *request, struct prompt_source *source);
/* Both, of a request that has one prompt. */
bool choices_make(struct wish *wish, struct request *request, struct prompt_source *source,
                  uint64_t max_tokens);
