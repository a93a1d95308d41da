/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what the files that write the formats share: the output, and the few operations on texts
 * that templates use, with the meaning that they have in Python. Private to config/chat.
 */
#include <string.h>

#include "config/chat/chat.h"

enum chat_trait {
    CHAT_TRAIT_NONE = 0,
    CHAT_TRAIT_BOS = 1,             /* the prompt begins with BOS */
    CHAT_TRAIT_TOOLS = 2,
    CHAT_TRAIT_DATE = 4,            /* the template asks for today */
    CHAT_TRAIT_THINKS = 8,          /* the answer begins with a thought */
};
uint32_t chat_format_traits(enum chat_id id);

/* A prompt that is being written. */
struct chat_work {
    const struct chat_format *format;
    const struct chat *chat;
    struct chat_output *output;
    bool fits;
};

/* In a text of the template: the texts of BOS and EOS. */
#define CHAT_BOS "\1"
#define CHAT_EOS "\2"

/* A text of the template. */
void chat_say(struct chat_work *work, const char *text);
/* A text of the conversation. */
void chat_put(struct chat_work *work, struct chat_text text);

#define CHAT_TEXT(literal) ((struct chat_text){(literal), (uint32_t)sizeof(literal) - 1})

bool chat_text_equals(struct chat_text a, struct chat_text b);
bool chat_text_starts(struct chat_text text, struct chat_text with);
bool chat_text_ends(struct chat_text text, struct chat_text with);
/* str.strip() */
struct chat_text chat_text_strip(struct chat_text text);
/* str.lstrip('\n'), str.rstrip('\n') */
struct chat_text chat_text_lstrip_lines(struct chat_text text);
struct chat_text chat_text_rstrip_lines(struct chat_text text);
/* str.split(mark)[0] and str.split(mark)[-1]: the whole text where the mark is not in it. */
struct chat_text chat_text_before(struct chat_text text, struct chat_text mark);
struct chat_text chat_text_after_last(struct chat_text text, struct chat_text mark);

/* True when the message calls tools. */
static inline bool chat_message_calls(const struct chat_message *message)
{
    return message->role == CHAT_ASSISTANT && message->calls_count > 0;
}

/* Messages but for a system message at the beginning; `system` is that message or NULL. */
struct chat_turns {
    const struct chat_message *system, *messages;
    uint32_t count;
};
struct chat_turns chat_turns_of(const struct chat *chat);

/* The formats: each writes the whole prompt, or says why it cannot be written. */
enum chat_result chat_render_turns(struct chat_work *work);
enum chat_result chat_render_plain(struct chat_work *work);
enum chat_result chat_render_qwen(struct chat_work *work);
enum chat_result chat_render_qwen3(struct chat_work *work);
enum chat_result chat_render_llama2(struct chat_work *work);
enum chat_result chat_render_llama3_1(struct chat_work *work);
enum chat_result chat_render_mistral(struct chat_work *work);
enum chat_result chat_render_deepseek(struct chat_work *work);

/* The parts that the Qwen formats have in common. */
void chat_qwen_tools(struct chat_work *work);
void chat_qwen_call(struct chat_work *work, const struct chat_call *call);
/* Any message but an assistant's; a system message that comes first is written elsewhere. */
void chat_qwen_turn(struct chat_work *work, uint32_t index);
