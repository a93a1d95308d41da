/* SPDX-License-Identifier: MIT */
/*
 * What: Qwen 2.5 and QwQ: <|im_start|> with tools. Signatures of tools are in the system message,
 * calls in the assistant's, and results in a user's.
 */
#include "config/chat/render.h"

#define AFTER_THOUGHT CHAT_TEXT("</think>")

void chat_qwen_tools(struct chat_work *work)
{
    const struct chat *chat = work->chat;
    chat_say(work, "# Tools\n\nYou may call one or more functions to assist with the user query."
                   "\n\nYou are provided with function signatures within <tools></tools> XML tags:"
                   "\n<tools>");
    for (uint32_t i = 0; i < chat->tools_count; i++) {
        chat_say(work, "\n");
        chat_put(work, chat->tools[i].json);
    }
    chat_say(work, "\n</tools>\n\nFor each function call, return a json object with function name "
                   "and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"
                   "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"
                   "<|im_end|>\n");
}

void chat_qwen_call(struct chat_work *work, const struct chat_call *call)
{
    chat_say(work, "<tool_call>\n{\"name\": \"");
    chat_put(work, call->name);
    chat_say(work, "\", \"arguments\": ");
    chat_put(work, call->arguments);
    chat_say(work, "}\n</tool_call>");
}

/* Results that follow each other are one message. */
static void tool_result(struct chat_work *work, uint32_t index)
{
    const struct chat *chat = work->chat;
    if (index == 0 || chat->messages[index - 1].role != CHAT_TOOL) {
        chat_say(work, "<|im_start|>user");
    }
    chat_say(work, "\n<tool_response>\n");
    chat_put(work, chat->messages[index].content);
    chat_say(work, "\n</tool_response>");
    if (index + 1 == chat->messages_count || chat->messages[index + 1].role != CHAT_TOOL) {
        chat_say(work, "<|im_end|>\n");
    }
}

void chat_qwen_turn(struct chat_work *work, uint32_t index)
{
    const struct chat_message *message = &work->chat->messages[index];
    if (message->role == CHAT_TOOL) {
        tool_result(work, index);
    } else if (message->role == CHAT_USER || index > 0) {
        chat_say(work, message->role == CHAT_USER ? "<|im_start|>user\n"
                                                  : "<|im_start|>system\n");
        chat_put(work, message->content);
        chat_say(work, "<|im_end|>\n");
    }
}

/* The system message, the model's own where the conversation has none. */
static void system_message(struct chat_work *work, bool thinks)
{
    const struct chat_message *system = chat_turns_of(work->chat).system;
    bool has_tools = work->chat->tools_count > 0;
    if (!has_tools && system == NULL && thinks) {
        return;
    }
    chat_say(work, "<|im_start|>system\n");
    if (system != NULL) {
        chat_put(work, system->content);
    } else {
        chat_say(work, work->format->system);
    }
    if (has_tools) {
        chat_say(work, "\n\n");
        chat_qwen_tools(work);
    } else {
        chat_say(work, "<|im_end|>\n");
    }
}

static void assistant_message(struct chat_work *work, const struct chat_message *message,
                              bool drops_thoughts)
{
    struct chat_text content = message->content;
    if (drops_thoughts) {
        content = chat_text_lstrip_lines(chat_text_after_last(content, AFTER_THOUGHT));
    }
    chat_say(work, "<|im_start|>assistant");
    if (message->calls_count == 0 || message->content.count > 0) {
        chat_say(work, "\n");
        chat_put(work, content);
    }
    for (uint32_t i = 0; i < message->calls_count; i++) {
        chat_say(work, "\n");
        chat_qwen_call(work, &message->calls[i]);
    }
    chat_say(work, "<|im_end|>\n");
}

enum chat_result chat_render_qwen(struct chat_work *work)
{
    const struct chat *chat = work->chat;
    bool thinks = (chat_format_traits(work->format->id) & CHAT_TRAIT_THINKS) != 0;
    system_message(work, thinks);
    for (uint32_t i = 0; i < chat->messages_count; i++) {
        const struct chat_message *message = &chat->messages[i];
        if (message->role == CHAT_ASSISTANT) {
            assistant_message(work, message, thinks && i + 1 < chat->messages_count);
        } else {
            chat_qwen_turn(work, i);
        }
    }
    chat_say(work, thinks ? "<|im_start|>assistant\n<think>\n" : "<|im_start|>assistant\n");
    return CHAT_OK;
}
