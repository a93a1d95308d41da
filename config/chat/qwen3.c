/* SPDX-License-Identifier: MIT */
/*
 * What: Qwen 3: <|im_start|> with tools and thoughts. Of thoughts only those are kept that belong
 * to the turn in progress: after the last question of the user. Calls of tools do not end a turn.
 */
#include "config/chat/render.h"

#define THOUGHT       CHAT_TEXT("<think>")
#define AFTER_THOUGHT CHAT_TEXT("</think>")

static void system_message(struct chat_work *work)
{
    const struct chat_message *system = chat_turns_of(work->chat).system;
    bool has_tools = work->chat->tools_count > 0;
    if (system == NULL && !has_tools) {
        return;
    }
    chat_say(work, "<|im_start|>system\n");
    if (system != NULL) {
        chat_put(work, system->content);
        chat_say(work, has_tools ? "\n\n" : "<|im_end|>\n");
    }
    if (has_tools) {
        chat_qwen_tools(work);
    }
}

/* Index of the last message of the user that is no result of a tool. */
static uint32_t last_question(const struct chat *chat)
{
    for (uint32_t i = chat->messages_count; i-- > 0;) {
        struct chat_text content = chat->messages[i].content;
        bool is_result = chat_text_starts(content, CHAT_TEXT("<tool_response>")) &&
                         chat_text_ends(content, CHAT_TEXT("</tool_response>"));
        if (chat->messages[i].role == CHAT_USER && !is_result) {
            return i;
        }
    }
    return chat->messages_count - 1;
}

static void assistant_message(struct chat_work *work, const struct chat_message *message,
                              bool is_open, bool is_last)
{
    struct chat_text content = message->content, thought = {"", 0};
    struct chat_text before = chat_text_before(content, AFTER_THOUGHT);
    if (before.count < content.count) {
        content = chat_text_lstrip_lines(chat_text_after_last(content, AFTER_THOUGHT));
        thought = chat_text_after_last(chat_text_rstrip_lines(before), THOUGHT);
        thought = chat_text_rstrip_lines(chat_text_lstrip_lines(thought));
    }
    chat_say(work, "<|im_start|>assistant\n");
    if (is_open && (thought.count > 0 || is_last)) {
        content = chat_text_lstrip_lines(content);
        chat_say(work, "<think>\n");
        chat_put(work, thought);
        chat_say(work, "\n</think>\n\n");
    }
    chat_put(work, content);
    for (uint32_t i = 0; i < message->calls_count; i++) {
        if (i > 0 || content.count > 0) {
            chat_say(work, "\n");
        }
        chat_qwen_call(work, &message->calls[i]);
    }
    chat_say(work, "<|im_end|>\n");
}

enum chat_result chat_render_qwen3(struct chat_work *work)
{
    const struct chat *chat = work->chat;
    uint32_t question = last_question(chat);
    enum chat_id id = work->format->id;
    system_message(work);
    for (uint32_t i = 0; i < chat->messages_count; i++) {
        const struct chat_message *message = &chat->messages[i];
        if (message->role == CHAT_ASSISTANT) {
            assistant_message(work, message, i > question, i + 1 == chat->messages_count);
        } else {
            chat_qwen_turn(work, i);
        }
    }
    chat_say(work, "<|im_start|>assistant\n");
    if (id == CHAT_QWEN3_THINK) {
        chat_say(work, "<think>\n");
    } else if (id == CHAT_QWEN3 && chat->no_thinking) {
        chat_say(work, "<think>\n\n</think>\n\n");
    }
    return CHAT_OK;
}
