/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the forms in which models write calls of tools: marks that begin one, and the steps from a
 * mark to the call's end. A form is a row of form.c. Private to config/chat.
 */
#include "config/chat/chat.h"

#define CHAT_MARKS_MAX 4u
#define CHAT_STEPS_MAX 9u

enum chat_place { CHAT_ANYWHERE, CHAT_AT_START, CHAT_AT_LINE, CHAT_AFTER_CALL };

struct chat_mark {
    const char *text;               /* NULL: no further mark */
    enum chat_place place;          /* of the answer, where it is a mark */
    bool is_call;                   /* a call begins; or it says nothing, and is left out */
    bool is_kept;                   /* the first step begins with it, not after it */
};

enum chat_step_kind {
    CHAT_STEP_END,
    CHAT_STEP_TEXT,                 /* this text */
    CHAT_STEP_MAYBE,                /* this text, or nothing */
    CHAT_STEP_SPACES,               /* any, or none */
    CHAT_STEP_NAME,                 /* the tool's, up to this text of one byte, and that */
    CHAT_STEP_JSON,                 /* of the call, of several, or of the arguments */
    CHAT_STEP_LINE,                 /* the argument as text, to the end of the line */
};
struct chat_step { enum chat_step_kind kind; const char *text; };

struct chat_form {
    struct chat_mark marks[CHAT_MARKS_MAX + 1];
    struct chat_step steps[CHAT_STEPS_MAX];
    /* What begins an answer with a call: text up to the name of the tool, the name, text up to its
     * arguments. It ends before a space, which belongs to the model's next token. */
    const char *begin, *before_name, *after_name;
    bool thinks;                    /* an answer may begin with <think> */
    bool knows_tools;               /* its marks are ordinary words: tools must be declared */
};

const struct chat_form *chat_form_of(enum chat_id id);
/* True when the prompt has begun a thought. */
bool chat_begins_in_thought(const struct chat_format *format, const struct chat *chat);
