/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: replies of ended calls, by (domain, program id, call id), and the parts of replies of calls
 * that were open when the core before this one died. Only net/ includes this.
 */
#include "net/auth/owner.h"
#include "net/net.h"

struct net_reply {                  /* up to `number` it is written once, and `check` is of that */
    struct net_owner owner;         /* its trust domain, as it is named after a restart */
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];  /* the key, with domain and done.call_id */
    uint64_t request;               /* net_reply_request() of its CALL */
    struct wire_done done;          /* as it was framed for the client, but for the status; of a
                                       part: finish is 0 */
    uint32_t chunk;                 /* of its first tokens, or CALL_NONE */
    uint32_t status_code;           /* of `done`, as on the wire: the next version's enum status may
                                       have other numbers */
    uint64_t number;                /* counted since boot, from 1; 0: free */
    uint64_t check;                 /* digest of all above */
    uint64_t domain;                /* the owner's number in this core */
    uint32_t chain_next;            /* record with the same hash, or CALL_NONE */
    uint32_t next;                  /* the next one of its account, or of the free ones */
};

void net_replies_plan_memory(struct memory_plan *plan, const struct limits *limits);
void net_replies_init(struct net *net, struct arena *arena);
/* Restores the replies in kept memory that are whole. */
void net_replies_take_up(struct net *net);
/* A digest of the payload of a CALL. A second CALL with the same ids must have the same. */
uint64_t net_reply_request(const uint8_t *payload, uint32_t payload_bytes);
/* How the call with these ids ended, or NULL. */
const struct net_reply *net_reply_find(const struct net *net, uint64_t domain,
                                           const uint8_t *program_id, uint64_t call_id);
/* Keeps the reply of a call, and returns its number. The oldest replies make room, first those of
 * the account that is furthest above its minimum. Returns 0, and keeps nothing, if the call has
 * failed, or if there is no room beside the minimums of other accounts. */
uint64_t net_reply_keep(struct net *net, const struct call *call, const struct wire_done *done);
/* A part of a reply: the first tokens of a call that is to go on when its client sends it again. */
struct net_reply_part {
    uint64_t domain;
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];
    uint64_t call_id, request;
    const uint32_t *tokens;         /* [tokens_count] */
    uint32_t prompt_tokens, tokens_count;
};
/* Keeps it as net_reply_keep() does, if there is room. No call waits for it to be on disk. */
void net_reply_keep_part(struct net *net, const struct net_reply_part *part);
static inline bool net_reply_is_part(const struct net_reply *reply)
{
    return reply->done.finish == CALL_FINISH_NONE;
}
/* As it was framed for the client. */
struct wire_done net_reply_done(const struct net_reply *reply);
void net_reply_forget(struct net *net, const struct net_reply *reply);
/* Its done.generated_tokens tokens. */
void net_reply_tokens(const struct net *net, const struct net_reply *reply,
                        uint32_t *tokens);
void net_replies_check(const struct net *net);
