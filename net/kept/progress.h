/* SPDX-License-Identifier: MIT */
#pragma once
/* What: how far the client of each open call has been told its tokens, for the successor of a core
 * that dies. Only net/ includes this. */
#include "net/net.h"

struct net_progress {               /* of the call in this slot */
    uint64_t domain;
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];
    uint64_t call_id, request;      /* as in struct net_reply */
    uint32_t prompt_tokens;
    uint64_t check;                 /* digest of all above; 0: no call */
    uint32_t tokens;                /* generated ones that are framed */
    uint64_t tokens_check;          /* their digest, for this call: with `check` */
};

void net_progress_plan_memory(struct memory_plan *plan, const struct limits *limits);
void net_progress_init(struct net *net, struct arena *kept);
/* Makes what a core has left of its open calls into parts of replies. */
void net_progress_take_up(struct net *net);
/* The call is open from now on; its tokens may be taken up, unless log probabilities go with them,
 * which are not kept. */
void net_progress_begin(struct net *net, const struct call *call);
/* More of its tokens have been framed. */
static inline void net_progress_note(struct net *net, const struct call *call)
{
    struct net_progress *progress = &net->progress[call->slot];
    progress->tokens_check = call->emit.digest ^ progress->check;
    progress->tokens = call->emit.sent_tokens;
}
void net_progress_check(const struct net *net);
static inline void net_progress_end(struct net *net, uint32_t call)
{
    net->progress[call].check = 0;
}
