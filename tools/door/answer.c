/* SPDX-License-Identifier: MIT */
/*
 * What: what a model says, in pieces (tools/door/answer.h).
 *
 * A call of a tool comes out of the reader when it is whole, and is said as its begin, its
 * arguments and its end, so that a client sees the same events as of a model that streams them.
 * Bounds: an answer has at most DOOR_TOOL_CALLS_MAX calls; a further one is content. A call is at
 * most CALL_BYTES long.
 */
#include "tools/door/answer.h"

#include <stdio.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/chat/answer.h"

#define CALL_BYTES 65536u
#define MEMBERS    2                    /* of a tool, that a reader looks at */

/* ---- the context ----------------------------------------------------------------------------- */

struct context {
    struct chat chat;
    struct chat_message last;
    struct chat_text begun;
    struct chat_tool tools[];           /* then members, then texts */
};

static bool is_looked_at(const struct chat_member *member)
{
    static const char *const names[MEMBERS] = {"name", "parameters"};
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (member->key.count == strlen(names[i]) &&
            memcmp(member->key.bytes, names[i], member->key.count) == 0) {
            return true;
        }
    }
    return false;
}

static size_t text_bytes_of(const struct chat *chat)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < chat->tools_count; i++) {
        for (uint32_t m = 0; m < chat->tools[i].members_count; m++) {
            const struct chat_member *member = &chat->tools[i].members[m];
            bytes += is_looked_at(member) ? member->key.count + member->value.count : 0;
        }
    }
    return bytes;
}

static struct chat_text copy(char **texts, struct chat_text text)
{
    struct chat_text copied = {*texts, text.count};
    memcpy(*texts, text.bytes, text.count);
    *texts += text.count;
    return copied;
}

/* A JSON object may have a member once only, so there are MEMBERS at most. */
static void copy_tool(struct chat_tool *to, const struct chat_tool *from,
                      struct chat_member *members, char **texts)
{
    *to = (struct chat_tool){.members = members};
    for (uint32_t m = 0; m < from->members_count; m++) {
        const struct chat_member *member = &from->members[m];
        if (is_looked_at(member)) {
            members[to->members_count++] = (struct chat_member){
                .key = copy(texts, member->key), .value = copy(texts, member->value),
                .is_text = member->is_text};
        }
    }
}

bool answer_keep_context(struct request *request, const struct chat *chat, struct chat_text begun)
{
    uint32_t count = chat->tools_count;
    struct context *context = memory_take(
        sizeof *context + text_bytes_of(chat) + begun.count +
        count * (sizeof(struct chat_tool) + MEMBERS * sizeof(struct chat_member)));
    request->context = context;
    if (context == NULL) {
        return false;
    }
    struct chat_member *members = (struct chat_member *)(context->tools + count);
    char *texts = (char *)(members + (size_t)MEMBERS * count);
    context->last = (struct chat_message){.role = chat->messages[chat->messages_count - 1].role};
    context->chat = (struct chat){.messages = &context->last, .messages_count = 1,
                                  .tools = context->tools, .tools_count = count};
    for (uint32_t i = 0; i < count; i++) {
        copy_tool(&context->tools[i], &chat->tools[i], members + (size_t)MEMBERS * i, &texts);
    }
    context->begun = copy(&texts, begun);
    return true;
}

/* ---- the reader ------------------------------------------------------------------------------ */

struct reader {
    struct chat_answer answer;
    char memory[];
};

bool answer_begin(struct choice *choice)
{
    const struct context *context = choice->request->context;
    if (context == NULL) {
        return true;                    /* no chat: all is content */
    }
    uint32_t bytes = context->chat.tools_count > 0 ? CALL_BYTES : CHAT_ANSWER_BYTES_MIN;
    choice->reader = memory_take(sizeof *choice->reader + bytes);
    if (choice->reader != NULL) {
        chat_answer_init(&choice->reader->answer, &choice->request->door->model.format,
                         &context->chat, choice->reader->memory, bytes);
        ASSERT(context->begun.count < bytes);
        (void)chat_answer_feed(&choice->reader->answer, context->begun.bytes,
                               context->begun.count);
    }
    return choice->reader != NULL;
}

void answer_free(struct choice *choice)
{
    memory_give(choice->reader);
    choice->reader = NULL;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* The form `plain` ends a prompt with a colon, and the answer begins with a space. */
static bool drops_spaces(const struct choice *choice)
{
    return choice->reader != NULL && choice->content.count == 0 &&
           choice->request->door->model.format.id == CHAT_PLAIN;
}

static bool say_text(struct choice *choice, enum piece_kind kind, struct chat_text text,
                     answer_say *say)
{
    struct buffer *whole = kind == PIECE_REASONING ? &choice->reasoning : &choice->content;
    if (kind == PIECE_CONTENT && drops_spaces(choice)) {
        for (; text.count > 0 && text.bytes[0] == ' '; text.count--) {
            text.bytes++;
        }
    }
    if (text.count == 0) {
        return true;
    }
    if (!buffer_add(whole, text.bytes, text.count)) {
        return false;
    }
    say(choice, &(struct piece){.kind = kind, .text = text.bytes, .bytes = text.count});
    return true;
}

/* Of nine letters and digits, because some formats take no other. */
static void make_id(char id[DOOR_ID_BYTES])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    uint8_t random[AGX_ID_BYTES] = {0};
    (void)agx_unique_id(random);
    for (uint32_t i = 0; i < 9; i++) {
        id[i] = letters[random[i] % (sizeof letters - 1)];
    }
    id[9] = '\0';
}

static bool say_call(struct choice *choice, const struct chat_piece *piece, answer_say *say)
{
    uint32_t index = choice->tool_calls_count;
    struct tool_call *call = &choice->tool_calls[index];
    *call = (struct tool_call){0};
    choice->tool_calls_count++;
    if (piece->id.count > 0 && piece->id.count < sizeof call->id) {
        memcpy(call->id, piece->id.bytes, piece->id.count);
    } else {
        make_id(call->id);
    }
    if (!buffer_add(&call->name, piece->name.bytes, piece->name.count)) {
        return false;
    }
    say(choice, &(struct piece){PIECE_CALL_BEGIN, call->name.at, call->name.count, index});
    if (!buffer_add(&call->arguments, piece->text.bytes, piece->text.count)) {
        return false;
    }
    say(choice, &(struct piece){PIECE_CALL_ARGUMENTS, call->arguments.at, call->arguments.count,
                                index});
    say(choice, &(struct piece){.kind = PIECE_CALL_END, .call = index});
    return true;
}

static bool say_all(struct choice *choice, answer_say *say)
{
    struct chat_piece piece;
    bool has_room = true;
    while (has_room && chat_answer_next(&choice->reader->answer, &piece)) {
        bool is_call = piece.kind == CHAT_PIECE_CALL &&
                       choice->tool_calls_count < DOOR_TOOL_CALLS_MAX;
        has_room = is_call ? say_call(choice, &piece, say)
                           : say_text(choice, piece.kind == CHAT_PIECE_REASONING
                                      ? PIECE_REASONING : PIECE_CONTENT, piece.text, say);
    }
    return has_room;
}

bool answer_hear(struct choice *choice, const char *text, size_t bytes, answer_say *say)
{
    if (choice->reader == NULL) {
        return say_text(choice, PIECE_CONTENT, (struct chat_text){text, (uint32_t)bytes}, say);
    }
    while (bytes > 0) {
        uint32_t taken = chat_answer_feed(&choice->reader->answer, text, (uint32_t)bytes);
        text += taken;
        bytes -= taken;
        if (!say_all(choice, say)) {
            return false;
        }
    }
    return true;
}

bool answer_end(struct choice *choice, answer_say *say)
{
    if (choice->reader == NULL) {
        return true;
    }
    chat_answer_end(&choice->reader->answer);
    return say_all(choice, say);
}
