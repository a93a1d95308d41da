/* SPDX-License-Identifier: MIT */
#pragma once
/* What: replies of ended calls, by (domain, program id, call id). Only net/ includes this. */
#include "net/net.h"

struct net_reply {
    uint64_t domain;
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];  /* the key, with domain and done.call_id */
    uint64_t request;               /* net_reply_request() of its CALL */
    struct wire_done done;          /* as it was framed for the client */
    uint64_t number;                /* counted since boot, from 1; 0: free */
    uint32_t chunk;                 /* of its first tokens, or CALL_NONE */
    uint32_t chain_next;            /* record with the same hash, or CALL_NONE */
    uint32_t next;                  /* the next one of its account, or of the free ones */
};

void net_replies_plan_memory(struct memory_plan *plan, const struct limits *limits);
void net_replies_init(struct net *net, struct arena *arena);
/* A digest of the payload of a CALL. A second CALL with the same ids must have the same. */
uint64_t net_reply_request(const uint8_t *payload, uint32_t payload_bytes);
/* How the call with these ids ended, or NULL. */
const struct net_reply *net_reply_find(const struct net *net, uint64_t domain,
                                           const uint8_t *program_id, uint64_t call_id);
/* Keeps the reply of a call; the oldest ones make room, first of the account that has most beyond
 * its minimum. A call that failed is not kept; nor is one for which there is no room beside what
 * others have as minimums. */
void net_reply_keep(struct net *net, const struct call *call, const struct wire_done *done);
/* Its done.generated_tokens tokens. */
void net_reply_tokens(const struct net *net, const struct net_reply *reply,
                        uint32_t *tokens);
void net_replies_check(const struct net *net);
