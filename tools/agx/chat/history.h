/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what was said so far, and the prompt that follows from it. Texts are copied to the heap.
 * The first message may be the system's; it is never dropped.
 */
#include <stdbool.h>

#include "config/chat/chat.h"

struct history {
    struct chat_message *messages;
    uint32_t count, room;
    char *text;                     /* the prompt, and its parts */
    uint32_t *parts;
    uint32_t text_max, parts_max;
};

/* True when the conversation has a system message. */
bool history_has_system(const struct history *history);
/* Adds a message at the end. False: out of memory. */
bool history_add(struct history *history, enum chat_role role, const char *text, uint32_t bytes);
/* Sets the system message; an empty text removes it. */
bool history_set_system(struct history *history, const char *text);
/* Takes the last message back. */
void history_take_back(struct history *history);
/* Drops the oldest question and what was said on it; false: only the last question is left. */
bool history_drop_oldest(struct history *history);
/* All but the system message. */
void history_clear(struct history *history);
/* The prompt for the next answer; `chat` has everything but the messages. On CHAT_OK `output` is
 * valid until the history changes. */
enum chat_result history_render(struct history *history, const struct chat_format *format,
                                struct chat chat, struct chat_output *output);
void history_free(struct history *history);
