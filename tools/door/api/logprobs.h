/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: log probabilities in the forms of OpenAI's APIs, and the fields that ask for them or act on
 * logits. In a stream the entries of tokens go with the next piece, which may be that of a later
 * token: text that is held back comes later than its tokens.
 */
#include "tools/door/api/fields.h"

/* presence_penalty, frequency_penalty, logit_bias. */
bool logits_read(struct wish *wish, const struct fields *fields);
/* Of chat: `logprobs` is true or false, and `top_logprobs` a number. */
bool logprobs_read_chat(struct wish *wish, const struct fields *fields);
/* Of completions: `logprobs` is a number. */
bool logprobs_read_completion(struct wish *wish, const struct fields *fields);

/* Tokens have come with their log probabilities: adds these to the choice. */
void logprobs_add(struct choice *choice, const struct agx_event *event);
/* All entries that were not taken yet, as chat has them: {"content": [...]}, or null. */
json_t *logprobs_take_chat(struct choice *choice);
/* The same as completions have them: lists of tokens and numbers. */
json_t *logprobs_take_completion(struct choice *choice);
