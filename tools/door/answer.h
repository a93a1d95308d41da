/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a model says, as the pieces that APIs know: content, thoughts, calls of tools. The
 * answer of a chat is read in the model's own form (config/chat/answer.h), any other is content.
 */
#include "tools/door/door.h"

/* What reading needs of a conversation, which does not live as long: its tools, who spoke last, and
 * what of the answer is in the prompt. For request->context. False: out of memory. */
bool answer_keep_context(struct request *request, const struct chat *chat, struct chat_text begun);
/* Before the first text of a choice. False: out of memory. */
bool answer_begin(struct choice *choice);
/* Text has come: adds it to the choice, and gives each piece to `say`, with what has been added. */
typedef void answer_say(struct choice *choice, const struct piece *piece);
bool answer_hear(struct choice *choice, const char *text, size_t bytes, answer_say *say);
/* No more comes. */
bool answer_end(struct choice *choice, answer_say *say);
void answer_free(struct choice *choice);
