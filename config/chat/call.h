/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a call of a tool within an answer, from its mark to its end. Private to config/chat. */
#include "config/chat/answer.h"

enum chat_call_verdict { CHAT_CALL_MORE, CHAT_CALL_WHOLE, CHAT_CALL_BROKEN };

/* A call begins at the start of what is held, and its first step after so many bytes: spaces and
 * a mark. */
void chat_call_begin(struct chat_answer *answer, uint32_t bytes);
/* Goes on in what is held. WHOLE: answer->at bytes are calls; chat_call_next() gives them out.
 * BROKEN: as many are none. MORE: the text is not enough. */
enum chat_call_verdict chat_call_go_on(struct chat_answer *answer);
/* False: there is no further one. */
bool chat_call_next(struct chat_answer *answer, struct chat_piece *piece);
