/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: how many tokens a text is, where a form gives the text and no count: a quarter of its
 * characters, rounded up. No tokenizer knows better without the model.
 */
#include "tools/trace/forms/document.h"

uint32_t messages_text_tokens(const char *text);
/* Of what the messages say: their `content`, and the `text` of its parts. */
uint32_t messages_tokens(const json_t *messages);
