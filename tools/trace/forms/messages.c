/* SPDX-License-Identifier: MIT */
/* What: characters of messages in the OpenAI form, counted. Bounds: linear in the text. */
#include "tools/trace/forms/messages.h"

#define CHARACTERS_OF_TOKEN 4

static uint64_t characters(const char *text)
{
    uint64_t count = 0;
    for (; text != NULL && *text != '\0'; text++) {
        count += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return count;
}

static uint32_t tokens_of(uint64_t count)
{
    uint64_t tokens = (count + CHARACTERS_OF_TOKEN - 1) / CHARACTERS_OF_TOKEN;
    return tokens < TRACE_TOKENS_MAX ? (uint32_t)tokens : TRACE_TOKENS_MAX;
}

uint32_t messages_text_tokens(const char *text)
{
    return tokens_of(characters(text));
}

uint32_t messages_tokens(const json_t *messages)
{
    uint64_t count = 0;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *content = json_object_get(json_array_get(messages, i), "content");
        count += characters(json_string_value(content));
        for (size_t part = 0; part < json_array_size(content); part++) {
            const json_t *text = json_object_get(json_array_get(content, part), "text");
            count += characters(json_string_value(text));
        }
    }
    return tokens_of(count);
}
