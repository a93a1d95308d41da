/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: which program a request belongs to. A client may say so; where it does not, a conversation
 * that goes on from an earlier one is the same program (paper 000, section 5). In this order:
 *
 *   X-Agentix-Program; X-Session-ID, session_id, X-Claude-Code-Session-Id     headers
 *   prompt_cache_key; previous_response_id; metadata.user_id (Anthropic)      fields of the body
 *   the conversation: its messages, or all but those of the system, begin with those of an earlier
 *   request
 *
 * X-Agentix-Thread is the thread of the program, X-Agentix-Class its class, and X-Agentix-End ends
 * it with this request. A program without a request for door.program_idle is ended.
 */
#include "tools/door/door.h"

struct program {
    bool is_used;
    uint8_t id[AGX_ID_BYTES];
    uint32_t domain;
    uint32_t requests_open;
    bool has_called;                    /* what class it is of has been said, if ever it was */
    bool is_told;                       /* the appliance has heard of it, and is told of its end */
    uint64_t used_us;
};

MUST_CHECK enum status programs_begin(struct door *door);
/* Sets program, thread and class of a request. `name` is what the API's own fields say, or NULL.
 * False after request_refuse(). */
bool program_find(struct request *request, const char *name);
/* The same, of a program that is known by its id. */
bool program_join(struct request *request, const uint8_t id[AGX_ID_BYTES]);
/* The messages of a conversation, before program_find(). */
void program_read_conversation(struct request *request, const struct chat *chat);
/* The answer was this message: a request that goes on from there is of the same program. */
void program_note_answer(struct request *request, const struct chat_message *answer);
/* The request has ended. */
void program_leave(struct request *request);
/* The client names a program and says that it is over. False: it is not known, or in use. */
bool program_end(struct door *door, struct domain *domain, const char *name);
/* Ends some of those that are idle; called about once a second. */
void programs_run(struct door *door);
uint32_t programs_count(const struct door *door);
