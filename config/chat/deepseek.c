/* SPDX-License-Identifier: MIT */
/*
 * What: DeepSeek R1, as distilled into Qwen and Llama.
 *
 * The published template has two peculiarities, which are kept because models know it so: a list of
 * calls is closed only if it has a second one, and what begins a list of calls, or of results, is
 * written once in a conversation.
 */
#include "config/chat/render.h"

#define CALL_BEGIN   "<｜tool▁call▁begin｜>"
#define CALL_END     "<｜tool▁call▁end｜>"
#define CALLS_BEGIN  "<｜tool▁calls▁begin｜>"
#define CALLS_END    "<｜tool▁calls▁end｜>"
#define RESULT_BEGIN "<｜tool▁output▁begin｜>"
#define RESULT_END   "<｜tool▁output▁end｜>"
#define RESULTS_BEGIN "<｜tool▁outputs▁begin｜>"
#define RESULTS_END  "<｜tool▁outputs▁end｜>"
#define END          "<｜end▁of▁sentence｜>"
#define ANSWER       "<｜Assistant｜>"

struct state {
    bool has_called, has_result;    /* so far */
    bool in_results;                /* the last message was one */
};

static void put_calls(struct chat_work *work, const struct chat_message *message,
                      struct state *state)
{
    for (uint32_t i = 0; i < message->calls_count; i++) {
        const struct chat_call *call = &message->calls[i];
        bool was_first = !state->has_called;
        chat_say(work, was_first ? ANSWER CALLS_BEGIN : "\n");
        chat_say(work, CALL_BEGIN "function<｜tool▁sep｜>");
        chat_put(work, call->name);
        chat_say(work, "\n```json\n");
        chat_put(work, call->arguments);
        chat_say(work, "\n```" CALL_END);
        chat_say(work, was_first ? "" : CALLS_END END);
        state->has_called = true;
    }
}

static void put_answer(struct chat_work *work, struct chat_text content, struct state *state)
{
    if (state->in_results) {
        chat_say(work, RESULTS_END);
    } else {
        chat_say(work, ANSWER);
        content = chat_text_after_last(content, CHAT_TEXT("</think>"));
    }
    chat_put(work, content);
    chat_say(work, END);
}

static void put_message(struct chat_work *work, const struct chat_message *message,
                        struct state *state)
{
    switch (message->role) {
    case CHAT_SYSTEM:
        return;                                 /* it stands before all others */
    case CHAT_USER:
        chat_say(work, "<｜User｜>");
        chat_put(work, message->content);
        break;
    case CHAT_ASSISTANT:
        if (chat_message_calls(message) && message->content.count == 0) {
            put_calls(work, message, state);
        } else {
            put_answer(work, message->content, state);
        }
        break;
    case CHAT_TOOL:
        chat_say(work, !state->has_result ? RESULTS_BEGIN RESULT_BEGIN : "\n" RESULT_BEGIN);
        chat_put(work, message->content);
        chat_say(work, RESULT_END);
        state->has_result = true;
        break;
    }
    state->in_results = message->role == CHAT_TOOL;
}

enum chat_result chat_render_deepseek(struct chat_work *work)
{
    const struct chat *chat = work->chat;
    struct state state = {.has_called = false};
    struct chat_text system = {"", 0};
    for (uint32_t i = 0; i < chat->messages_count; i++) {
        system = chat->messages[i].role == CHAT_SYSTEM ? chat->messages[i].content : system;
    }
    chat_say(work, CHAT_BOS);
    chat_put(work, system);
    for (uint32_t i = 0; i < chat->messages_count; i++) {
        put_message(work, &chat->messages[i], &state);
    }
    if (state.in_results) {
        chat_say(work, RESULTS_END);
    } else {
        bool thinks = (chat_format_traits(work->format->id) & CHAT_TRAIT_THINKS) != 0;
        chat_say(work, thinks ? ANSWER "<think>\n" : ANSWER);
    }
    return CHAT_OK;
}
