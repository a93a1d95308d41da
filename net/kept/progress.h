/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what each open call has asked for, and which of its tokens its client has been sent, in
 * memory that outlives the core. Only net/ includes this. */
#include "net/kept/connections.h"
#include "net/net.h"

struct net_progress_version {          /* what a pass of its connection has made of it */
    uint64_t number;                /* of that pass */
    uint64_t digest;                /* of the tokens that are framed, */
    uint32_t tokens;                /* so many */
    bool accept_sent, is_cancelled, is_closed;  /* closed: its terminal frame is framed */
    uint64_t text_bytes;            /* as in struct call_emit */
    uint32_t held_bytes;
    char held[CALL_HELD_BYTES];
    struct wire_done done;          /* how it has ended; finish is 0: it has not */
    uint64_t check;                 /* digest of all above, for this call */
};

struct net_progress {               /* of the call in this slot; up to `check` it is written once */
    uint64_t domain;
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];
    uint64_t call_id, request;      /* as in struct net_reply */
    uint64_t begun;                 /* in this version of its connection */
    uint64_t deadline_us, arrived_us;
    uint64_t prompt_digest;
    uint32_t connection;
    uint32_t prompt_tokens, max_tokens, thread;
    uint32_t eos_id_index_plus_1, stop_texts_count;
    bool want_text, want_control, want_drafts, eot_is_eos;
    struct call_sampling sampling;
    struct call_stop_text stop_texts[CALL_STOP_TEXTS_MAX];
    struct call_bias biases[CALL_BIASES_MAX];
    uint64_t check;                 /* digest of all above; 0: no call */
    struct net_progress_version versions[2];  /* the last, and the one before it */
};

void net_progress_plan_memory(struct memory_plan *plan, const struct limits *limits);
void net_progress_init(struct net *net, struct arena *kept);
/* Notes a call that is open from now on, and attached to its connection. */
void net_progress_begin(struct net *net, const struct call *call);
/* Notes that the call was accepted or cancelled, that more of its tokens are framed, or that it has
 * ended as `done` says (else NULL). Counts from the next commit of its connection on. */
void net_progress_note(struct net *net, const struct call *call, const struct wire_done *done);
/* Notes that its terminal frame is framed. Counts like the others. */
void net_progress_close(struct net *net, const struct call *call);
/* Its connection is gone. */
static inline void net_progress_end(struct net *net, uint32_t call)
{
    net->progress[call].check = 0;
}
/* True when what the last core has left in this slot is as it was written: the record, the prompt,
 * the tokens of a version. */
bool net_progress_is_whole(const struct net *net, uint32_t slot);
bool net_progress_has_prompt(const struct net *net, uint32_t slot);
bool net_progress_has_tokens(const struct net *net, uint32_t slot,
                             const struct net_progress_version *version);
const struct net_progress_version *net_progress_last(const struct net_progress *progress);
void net_progress_check(const struct net *net);
