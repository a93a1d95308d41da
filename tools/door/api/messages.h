/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: conversations. Every API's messages and tools become those of Hugging Face's templates
 * (tools/agx/chat/conversation.h), and these the prompt in the model's own form.
 */
#include "tools/door/api/choices.h"

struct talk {
    struct request *request;
    json_t *messages, *tools;           /* arrays; the talk's own */
    bool no_thinking;
    enum { TALK_MAY_CALL, TALK_CALLS_NONE, TALK_MUST_CALL } calls;
    const char *called;                 /* MUST_CALL: this tool, the body's text; NULL: any */
    char place[32];                     /* what is read, such as messages[3]; empty: no list */
};

/* False: out of memory, and refused. Whatever follows, talk_end(). */
bool talk_begin(struct talk *talk, struct request *request);
void talk_end(struct talk *talk);
/* What is read from here on is this item of a list of the body; NULL: of none. */
void talk_at(struct talk *talk, const char *list, size_t index);
/* Refuses, and says which item it is. */
bool talk_refuse(struct talk *talk, const char *param, const char *text);
/* A message; `content` is a text, or a list of parts of which each has a `type` and a `text`. Other
 * parts, such as images, are refused by their type. `param` is what the API calls it. */
bool talk_say(struct talk *talk, const char *role, const json_t *content, const char *param);
bool talk_say_text(struct talk *talk, const char *role, const char *text, size_t bytes);
/* A call of a tool that the assistant has made, in its last message; a new one if need be.
 * `arguments` is an object, or a text that is one. */
bool talk_call(struct talk *talk, const char *id, const char *name, const json_t *arguments);
/* What the tool said. */
bool talk_tool_said(struct talk *talk, const char *call_id, const json_t *content);
/* Refuses what is there and is no list. */
bool talk_may_list(struct talk *talk, const json_t *list, const char *param);
/* A tool that the assistant may call. */
bool talk_tool(struct talk *talk, const char *name, const char *description,
               const json_t *parameters);
/* A conversation that is the answer alone, as a later request will have it. */
json_t *talk_answer(const struct choice *choice);
/* The messages and tools of OpenAI's chat API. */
bool talk_read_openai(struct talk *talk, const json_t *messages, const json_t *tools);
/* The prompt that asks for the next answer, and the end of an answer, where the model's form has
 * one. Reads the conversation's program, too. */
bool talk_prompt(struct talk *talk, struct wish *wish, struct prompt_source *source);
