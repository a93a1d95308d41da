/* SPDX-License-Identifier: MIT */
#pragma once
/* What: one answer of a chat: its call, its words as they come, and how it ended. */
#include "tools/agx/chat/line.h"
#include "tools/agx/dial.h"
#include "tools/agx/pace.h"
#include "tools/agx/printable.h"

struct answer {
    char *text;                     /* [bytes]; from the heap, and used again */
    uint32_t bytes, room;
    struct pace pace;
    struct agx_event done;          /* ANSWER_DONE */
    struct printable out;           /* begun by the caller */
};
enum answer_kind {
    ANSWER_DONE,                    /* with `done`, also when it was cancelled */
    ANSWER_REFUSED,                 /* agx_fault() says why */
    ANSWER_BROKEN,                  /* the connection has ended; a message was printed */
};

/* Sends the call and prints the answer until it ends; Ctrl-C cancels it. `*code` is the exit code
 * of ANSWER_BROKEN. */
enum answer_kind answer_take(struct answer *answer, struct dial *dial, const struct agx_call *call,
                             struct line *line, int *code);
