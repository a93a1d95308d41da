/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a conversation as JSON, in the form that Hugging Face's apply_chat_template() takes:
 * {"messages": [{"role", "content", "tool_calls", "tool_call_id"}], "tools": [...], "date": "..."}.
 */
#include <jansson.h>

#include "config/chat/chat.h"

#define CONVERSATION_MESSAGES_MAX 1024
#define CONVERSATION_TOOLS_MAX    128
#define CONVERSATION_CALLS_MAX    1024      /* of all messages */
#define CONVERSATION_MEMBERS_MAX  1024      /* of all tools */
#define CONVERSATION_DUMPS_MAX \
    (CONVERSATION_MESSAGES_MAX + 2 * CONVERSATION_TOOLS_MAX + 2 * CONVERSATION_CALLS_MAX + \
     CONVERSATION_MEMBERS_MAX)

struct conversation {                       /* some 300 KiB: place it statically */
    struct chat chat;
    /* private */
    struct chat_message messages[CONVERSATION_MESSAGES_MAX];
    struct chat_tool tools[CONVERSATION_TOOLS_MAX];
    struct chat_call calls[CONVERSATION_CALLS_MAX];
    struct chat_member members[CONVERSATION_MEMBERS_MAX];
    uint32_t calls_count, members_count;
    char *dumps[CONVERSATION_DUMPS_MAX];    /* JSON that is written again */
    uint32_t dumps_count;
};

/* NULL, or what is wrong. Texts of the conversation point into `json`, which must stay. */
const char *conversation_read(struct conversation *conversation, json_t *json);
void conversation_drop(struct conversation *conversation);
