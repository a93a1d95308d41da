/* SPDX-License-Identifier: MIT */
/*
 * What: the formats of Mistral that know turns: [INST] ... [/INST]. They differ in spaces, in the
 * place of the system message, and in tools. (Those with [SYSTEM_PROMPT]: turns.c.)
 */
#include "config/chat/render.h"

#define CALL_ID_BYTES 9

enum system_place { SYSTEM_NOWHERE, SYSTEM_IN_FIRST, SYSTEM_IN_LAST };

static const struct row {
    const char *before, *after;         /* of a question */
    const char *answer, *answer_end;    /* around an answer */
    enum system_place place;
    bool strips;                        /* answers are stripped */
    const char *space;                  /* between a tool's mark and what it marks */
} rows[CHAT_FORMATS] = {
    [CHAT_MISTRAL_0_1] = {"[INST] ", " [/INST]", "", CHAT_EOS " ", SYSTEM_NOWHERE, false, ""},
    [CHAT_MISTRAL_0_2] = {"[INST] ", " [/INST]", "", CHAT_EOS, SYSTEM_NOWHERE, false, ""},
    [CHAT_MISTRAL_V1] = {" [INST] ", " [/INST]", " ", CHAT_EOS, SYSTEM_IN_FIRST, false, ""},
    [CHAT_MISTRAL_V2] = {"[INST] ", "[/INST]", " ", CHAT_EOS, SYSTEM_IN_LAST, false, ""},
    [CHAT_MISTRAL_V3] = {"[INST] ", "[/INST]", " ", CHAT_EOS, SYSTEM_IN_LAST, true, " "},
    [CHAT_MISTRAL_NEMO] = {"[INST]", "[/INST]", "", CHAT_EOS, SYSTEM_IN_LAST, false, ""},
};

/* ---- what is not written --------------------------------------------------------------------- */

static enum chat_result admit(const struct chat_turns *turns, const struct row *row)
{
    uint32_t turn = 0;
    if (turns->system != NULL && row->place == SYSTEM_NOWHERE) {
        return CHAT_ERROR_SYSTEM;
    }
    for (uint32_t i = 0; i < turns->count; i++) {
        const struct chat_message *message = &turns->messages[i];
        for (uint32_t call = 0; call < message->calls_count; call++) {
            if (message->calls[call].id.count != CALL_ID_BYTES) {
                return CHAT_ERROR_CALL_ID;
            }
        }
        if (message->role == CHAT_TOOL && message->call_id.count != CALL_ID_BYTES) {
            return CHAT_ERROR_CALL_ID;
        }
        if (message->role == CHAT_SYSTEM) {
            return CHAT_ERROR_SYSTEM;
        }
        if (message->role != CHAT_TOOL && !chat_message_calls(message) &&
            (message->role == CHAT_USER) != (turn++ % 2 == 0)) {
            return CHAT_ERROR_ALTERNATION;
        }
    }
    return turns->count == 0 ? CHAT_ERROR_EMPTY : CHAT_OK;
}

/* ---- tools ----------------------------------------------------------------------------------- */

static void put_tool(struct chat_work *work, const struct chat_tool *tool)
{
    bool is_first = true;
    chat_say(work, "{\"type\": \"function\", \"function\": {");
    for (uint32_t i = 0; i < tool->members_count; i++) {
        const struct chat_member *member = &tool->members[i];
        if (chat_text_equals(member->key, CHAT_TEXT("return"))) {
            continue;
        }
        chat_say(work, is_first ? "\"" : ", \"");
        chat_put(work, member->key);
        chat_say(work, member->is_text ? "\": \"" : "\": ");
        chat_put(work, member->value);
        chat_say(work, member->is_text ? "\"" : "");
        is_first = false;
    }
    chat_say(work, "}}");
}

static void put_tools(struct chat_work *work, const struct row *row)
{
    const struct chat *chat = work->chat;
    chat_say(work, "[AVAILABLE_TOOLS]");
    chat_say(work, row->space);
    chat_say(work, "[");
    for (uint32_t i = 0; i < chat->tools_count; i++) {
        chat_say(work, i > 0 ? ", " : "");
        put_tool(work, &chat->tools[i]);
    }
    chat_say(work, "][/AVAILABLE_TOOLS]");
}

static void put_calls(struct chat_work *work, const struct chat_message *message,
                      const struct row *row)
{
    chat_say(work, "[TOOL_CALLS]");
    chat_say(work, row->space);
    chat_say(work, "[");
    for (uint32_t i = 0; i < message->calls_count; i++) {
        struct chat_text function = message->calls[i].function;
        function.count -= function.count > 0;           /* its closing brace comes after the id */
        chat_say(work, i > 0 ? ", " : "");
        chat_put(work, function);
        chat_say(work, ", \"id\": \"");
        chat_put(work, message->calls[i].id);
        chat_say(work, "\"}");
    }
    chat_say(work, "]" CHAT_EOS);
}

static void put_result(struct chat_work *work, const struct chat_message *message,
                       const struct row *row)
{
    chat_say(work, "[TOOL_RESULTS]");
    chat_say(work, row->space);
    chat_say(work, "{\"content\": ");
    chat_put(work, message->content);
    chat_say(work, ", \"call_id\": \"");
    chat_put(work, message->call_id);
    chat_say(work, "\"}[/TOOL_RESULTS]");
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* The last question; the template finds it by its text. */
static const struct chat_message *last_question(const struct chat_turns *turns)
{
    const struct chat_message *last = NULL;
    for (uint32_t i = 0; i < turns->count; i++) {
        last = turns->messages[i].role == CHAT_USER ? &turns->messages[i] : last;
    }
    return last;
}

static void put_question(struct chat_work *work, const struct chat_turns *turns, uint32_t index,
                         const struct row *row)
{
    const struct chat_message *message = &turns->messages[index];
    bool is_last = index + 1 == turns->count, is_first = index == 0;
    if (work->chat->tools_count > 0 &&
        chat_text_equals(message->content, last_question(turns)->content)) {
        put_tools(work, row);
    }
    chat_say(work, row->before);
    if (turns->system != NULL && ((row->place == SYSTEM_IN_FIRST && is_first) ||
                                  (row->place == SYSTEM_IN_LAST && is_last))) {
        chat_put(work, turns->system->content);
        chat_say(work, "\n\n");
    }
    chat_put(work, message->content);
    chat_say(work, row->after);
}

enum chat_result chat_render_mistral(struct chat_work *work)
{
    const struct row *row = &rows[work->format->id];
    struct chat_turns turns = chat_turns_of(work->chat);
    enum chat_result result = admit(&turns, row);
    if (result != CHAT_OK) {
        return result;
    }
    chat_say(work, CHAT_BOS);
    for (uint32_t i = 0; i < turns.count; i++) {
        const struct chat_message *message = &turns.messages[i];
        if (message->role == CHAT_USER) {
            put_question(work, &turns, i, row);
        } else if (chat_message_calls(message)) {
            put_calls(work, message, row);
        } else if (message->role == CHAT_TOOL) {
            put_result(work, message, row);
        } else {
            chat_say(work, row->answer);
            chat_put(work, row->strips ? chat_text_strip(message->content) : message->content);
            chat_say(work, row->answer_end);
        }
    }
    return CHAT_OK;
}
