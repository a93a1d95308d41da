/* SPDX-License-Identifier: MIT */
/* What: the formats of Llama 2, and of Llama 3.1 and later with tools. (Llama 3: turns.c.) */
#include "config/chat/render.h"

/* ---- Llama 2 --------------------------------------------------------------------------------- */

static void llama2_question(struct chat_work *work, const struct chat_message *system,
                            struct chat_text content)
{
    chat_say(work, CHAT_BOS "[INST] ");
    if (system != NULL) {
        /* The template strips the whole, so of the question only its end. */
        struct chat_text end = chat_text_strip(content);
        content.count = end.count > 0 ? (uint32_t)(end.bytes + end.count - content.bytes) : 0;
        chat_say(work, "<<SYS>>\n");
        chat_put(work, system->content);
        chat_say(work, content.count > 0 ? "\n<</SYS>>\n\n" : "\n<</SYS>>");
        chat_put(work, content);
    } else {
        chat_put(work, chat_text_strip(content));
    }
    chat_say(work, " [/INST]");
}

enum chat_result chat_render_llama2(struct chat_work *work)
{
    struct chat_turns turns = chat_turns_of(work->chat);
    for (uint32_t i = 0; i < turns.count; i++) {
        const struct chat_message *message = &turns.messages[i];
        if (message->role == CHAT_SYSTEM) {
            return CHAT_ERROR_SYSTEM;
        }
        if ((message->role == CHAT_USER) != (i % 2 == 0)) {
            return CHAT_ERROR_ALTERNATION;
        }
        if (message->role == CHAT_USER) {
            llama2_question(work, i == 0 ? turns.system : NULL, message->content);
        } else {
            chat_say(work, " ");
            chat_put(work, chat_text_strip(message->content));
            chat_say(work, " " CHAT_EOS);
        }
    }
    return turns.count == 0 ? CHAT_ERROR_EMPTY : CHAT_OK;
}

/* ---- Llama 3.1 ------------------------------------------------------------------------------- */

#define HEADER(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"

static void llama3_system(struct chat_work *work, const struct chat_message *system)
{
    const struct chat *chat = work->chat;
    chat_say(work, CHAT_BOS HEADER("system"));
    if (chat->tools_count > 0) {
        chat_say(work, "Environment: ipython\n");
    }
    chat_say(work, "Cutting Knowledge Date: December 2023\nToday Date: ");
    chat_put(work, chat->date.count > 0 ? chat->date : CHAT_TEXT(CHAT_DATE_UNKNOWN));
    chat_say(work, "\n\n");
    if (system != NULL) {
        chat_put(work, chat_text_strip(system->content));
    }
    chat_say(work, "<|eot_id|>");
}

/* The first question carries the signatures of the tools. */
static void llama3_tools(struct chat_work *work, struct chat_text question)
{
    const struct chat *chat = work->chat;
    chat_say(work, HEADER("user") "Given the following functions, please respond with a JSON for a "
                   "function call with its proper arguments that best answers the given prompt.\n\n"
                   "Respond in the format {\"name\": function name, \"parameters\": dictionary of "
                   "argument name and its value}.Do not use variables.\n\n");
    for (uint32_t i = 0; i < chat->tools_count; i++) {
        chat_put(work, chat->tools[i].indented);
        chat_say(work, "\n\n");
    }
    chat_put(work, chat_text_strip(question));
    chat_say(work, "<|eot_id|>");
}

static void llama3_message(struct chat_work *work, const struct chat_message *message)
{
    static const char *const headers[] = {HEADER("system"), HEADER("user"), HEADER("assistant"),
                                          HEADER("ipython")};
    chat_say(work, headers[message->role]);
    if (chat_message_calls(message)) {
        chat_say(work, "{\"name\": \"");
        chat_put(work, message->calls[0].name);
        chat_say(work, "\", \"parameters\": ");
        chat_put(work, message->calls[0].arguments);
        chat_say(work, "}");
    } else if (message->role == CHAT_TOOL) {
        chat_put(work, message->content_json);      /* the template asks for JSON */
    } else {
        chat_put(work, chat_text_strip(message->content));
    }
    chat_say(work, "<|eot_id|>");
}

enum chat_result chat_render_llama3_1(struct chat_work *work)
{
    struct chat_turns turns = chat_turns_of(work->chat);
    bool has_tools = work->chat->tools_count > 0;
    llama3_system(work, turns.system);
    if (has_tools && turns.count == 0) {
        return CHAT_ERROR_EMPTY;
    }
    if (has_tools) {
        llama3_tools(work, turns.messages[0].content);
    }
    for (uint32_t i = has_tools; i < turns.count; i++) {
        if (turns.messages[i].calls_count > 1) {
            return CHAT_ERROR_CALLS;
        }
        llama3_message(work, &turns.messages[i]);
    }
    chat_say(work, HEADER("assistant"));
    return CHAT_OK;
}
