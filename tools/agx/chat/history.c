/* SPDX-License-Identifier: MIT */
/*
 * What: the messages of a conversation, oldest first.
 * Bounds: a rendering is at most RENDERING_BYTES_MAX long; the appliance's context is far shorter.
 */
#include "tools/agx/chat/history.h"

#include <stdlib.h>
#include <string.h>

#define RENDERING_BYTES_MAX (1u << 28)

bool history_has_system(const struct history *history)
{
    return history->count > 0 && history->messages[0].role == CHAT_SYSTEM;
}

static bool make_room(struct history *history)
{
    if (history->count < history->room) {
        return true;
    }
    uint32_t room = history->room > 0 ? 2 * history->room : 16;
    struct chat_message *messages = realloc(history->messages, room * sizeof *messages);
    if (messages == NULL) {
        return false;
    }
    history->messages = messages;
    history->room = room;
    return true;
}

static bool insert(struct history *history, uint32_t at, enum chat_role role,
                   struct chat_text text)
{
    char *copy = make_room(history) ? malloc(text.count + 1) : NULL;
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, text.bytes, text.count);
    memmove(history->messages + at + 1, history->messages + at,
            (history->count - at) * sizeof *history->messages);
    history->messages[at] = (struct chat_message){.role = role, .content = {copy, text.count}};
    history->count++;
    return true;
}

/* Removes `count` messages. */
static void drop(struct history *history, uint32_t at, uint32_t count)
{
    for (uint32_t i = at; i < at + count; i++) {
        free((char *)(uintptr_t)history->messages[i].content.bytes);
    }
    history->count -= count;
    memmove(history->messages + at, history->messages + at + count,
            (history->count - at) * sizeof *history->messages);
}

bool history_add(struct history *history, enum chat_role role, const char *text, uint32_t bytes)
{
    return insert(history, history->count, role, (struct chat_text){text, bytes});
}

bool history_set_system(struct history *history, const char *text)
{
    if (history_has_system(history)) {
        drop(history, 0, 1);
    }
    return *text == '\0' ||
           insert(history, 0, CHAT_SYSTEM, (struct chat_text){text, (uint32_t)strlen(text)});
}

void history_take_back(struct history *history)
{
    drop(history, history->count - 1, 1);
}

bool history_drop_oldest(struct history *history)
{
    uint32_t first = history_has_system(history), next = first + 1;
    while (next < history->count && history->messages[next].role != CHAT_USER) {
        next++;
    }
    if (next >= history->count) {
        return false;
    }
    drop(history, first, next - first);
    return true;
}

void history_clear(struct history *history)
{
    uint32_t first = history_has_system(history);
    drop(history, first, history->count - first);
}

/* Twice the room for the text and its parts. */
static bool grow(struct history *history)
{
    uint32_t text_max = history->text_max > 0 ? 2 * history->text_max : 16384;
    uint32_t parts_max = text_max / 32;
    char *text = text_max <= RENDERING_BYTES_MAX ? realloc(history->text, text_max) : NULL;
    history->text = text != NULL ? text : history->text;
    uint32_t *parts = text != NULL ? realloc(history->parts, parts_max * sizeof *parts) : NULL;
    if (parts == NULL) {
        return false;
    }
    history->parts = parts;
    history->text_max = text_max;
    history->parts_max = parts_max;
    return true;
}

enum chat_result history_render(struct history *history, const struct chat_format *format,
                                struct chat chat, struct chat_output *output)
{
    enum chat_result result;
    chat.messages = history->messages;
    chat.messages_count = history->count;
    do {
        *output = (struct chat_output){.text = history->text, .text_max = history->text_max,
                                       .parts = history->parts, .parts_max = history->parts_max};
        result = chat_render(format, &chat, output);
    } while (result == CHAT_ERROR_SPACE && grow(history));
    return result;
}

void history_free(struct history *history)
{
    drop(history, 0, history->count);
    free(history->messages);
    free(history->text);
    free(history->parts);
    *history = (struct history){0};
}
