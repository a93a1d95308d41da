/* SPDX-License-Identifier: MIT */
/*
 * What: the format of models without a template. Without tools it is that of turns.c. With tools it
 * is what the embedded model was trained on (tools/model/tasks.py):
 *
 *     [system message]            such as a table
 *     Task: [question]
 *     [thoughts]
 *     Act: NAME[ ARGUMENT ]
 *     Obs: [result]
 *     Answer: [answer]
 *
 * The form has no place for signatures: the model knows its tools. A tool takes one argument, which
 * is written as text.
 */
#include "config/chat/json.h"
#include "config/chat/render.h"

/* ---- an argument, without JSON's escapes ----------------------------------------------------- */

static uint32_t utf8_of(uint32_t code, char bytes[4])
{
    if (code < 0x80) {
        bytes[0] = (char)code;
        return 1;
    }
    uint32_t count = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (uint32_t i = count; i-- > 0; code >>= 6) {
        bytes[i] = (char)(i > 0 ? 0x80 | (code & 0x3f) : marks[count] | code);
    }
    return count;
}

/* The number of \uXXXX at the beginning; UINT32_MAX: there is none. */
static uint32_t unit_at(struct chat_text text)
{
    uint32_t unit = 0;
    if (!chat_text_starts(text, CHAT_TEXT("\\u")) || text.count < 6) {
        return UINT32_MAX;
    }
    for (uint32_t i = 2; i < 6; i++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit = memchr(digits, text.bytes[i], sizeof digits - 1);
        if (digit == NULL) {
            return UINT32_MAX;
        }
        unit = unit << 4 | ((uint32_t)(digit - digits) & 15);
    }
    return unit;
}

/* Writes what an escape stands for; returns the bytes of the escape. */
static uint32_t put_escape(struct chat_work *work, struct chat_text text)
{
    static const char letters[] = "bfnrt", controls[] = "\b\f\n\r\t";
    uint32_t code = unit_at(text), used = code == UINT32_MAX ? 2 : 6;
    char bytes[4];
    if (code == UINT32_MAX) {
        const char *letter = text.count > 1 ? memchr(letters, text.bytes[1], 5) : NULL;
        code = letter != NULL ? (uint32_t)controls[letter - letters]
             : text.count > 1 ? (unsigned char)text.bytes[1] : '\\';
    } else if (code >= 0xd800 && code < 0xe000) {       /* the first of two units */
        uint32_t low = unit_at((struct chat_text){text.bytes + 6, text.count - 6});
        bool is_pair = code < 0xdc00 && low >= 0xdc00 && low < 0xe000;
        code = is_pair ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : 0xfffd;
        used = is_pair ? 12 : 6;
    }
    chat_put(work, (struct chat_text){bytes, utf8_of(code, bytes)});
    return used < text.count ? used : text.count;
}

static void put_string(struct chat_work *work, struct chat_text inside)
{
    while (inside.count > 0) {
        uint32_t run = chat_text_before(inside, CHAT_TEXT("\\")).count;
        chat_put(work, (struct chat_text){inside.bytes, run});
        inside = (struct chat_text){inside.bytes + run, inside.count - run};
        uint32_t used = inside.count > 0 ? put_escape(work, inside) : 0;
        inside = (struct chat_text){inside.bytes + used, inside.count - used};
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

/* The argument of a call; false: it has more or fewer than one. */
static bool argument_of(const struct chat_call *call, struct chat_text *value)
{
    struct chat_text rest = chat_json_inside(call->arguments), key, second;
    return chat_json_next(&rest, &key, value) && !chat_json_next(&rest, &key, &second);
}

static enum chat_result put_call(struct chat_work *work, const struct chat_message *message)
{
    struct chat_text thoughts = chat_text_rstrip_lines(message->content), argument, inside;
    if (message->calls_count > 1) {
        return CHAT_ERROR_CALLS;
    }
    if (!argument_of(&message->calls[0], &argument)) {
        return CHAT_ERROR_ARGUMENTS;
    }
    chat_put(work, thoughts);
    chat_say(work, thoughts.count > 0 ? "\nAct: " : "Act: ");
    chat_put(work, message->calls[0].name);
    chat_say(work, "[ ");
    if (chat_json_string(argument, &inside)) {
        put_string(work, inside);
    } else {
        chat_put(work, argument);
    }
    chat_say(work, " ]\n");
    return CHAT_OK;
}

static enum chat_result put_message(struct chat_work *work, const struct chat_message *message)
{
    static const char *const before[] = {[CHAT_SYSTEM] = "", [CHAT_USER] = "Task: ",
                                         [CHAT_ASSISTANT] = "Answer: ", [CHAT_TOOL] = "Obs: "};
    if (chat_message_calls(message)) {
        return put_call(work, message);
    }
    chat_say(work, before[message->role]);
    chat_put(work, chat_text_strip(message->content));
    chat_say(work, "\n");
    return CHAT_OK;
}

static bool has_tools(const struct chat *chat)
{
    bool has = chat->tools_count > 0;
    for (uint32_t i = 0; i < chat->messages_count; i++) {
        has = has || chat->messages[i].role == CHAT_TOOL || chat_message_calls(&chat->messages[i]);
    }
    return has;
}

enum chat_result chat_render_plain(struct chat_work *work)
{
    const struct chat *chat = work->chat;
    if (!has_tools(chat)) {
        return chat_render_turns(work);
    }
    enum chat_result result = CHAT_OK;
    chat_say(work, CHAT_BOS);
    for (uint32_t i = 0; i < chat->messages_count && result == CHAT_OK; i++) {
        result = put_message(work, &chat->messages[i]);
    }
    return result;
}
