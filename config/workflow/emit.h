/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what the client of a workflow has been told, besides single rows. It is net's
 * (net/workflow/), and kept for the core's successor (net/kept/). */
#include <stdbool.h>
#include <stdint.h>

struct workflow_said {              /* what is being sent, in one or several frames */
    enum { WORKFLOW_SAYS_NOTHING, WORKFLOW_SAYS_VALUE, WORKFLOW_SAYS_ASK } kind;
    uint32_t row, index;            /* in `rows`; in `outputs`, or in `nodes` */
    uint32_t token, bytes;          /* sent so far */
    uint32_t piece, at;             /* where the next token is: piece of a node, and token in it */
    uint32_t held_bytes;            /* part of a character, whose rest may follow */
    char held[4];
};
struct workflow_emit {              /* what its client has been told */
    bool ok_sent, is_resumed, cancel_sent;
    bool is_noted;                  /* what has changed waits for the commit (net/kept) */
    bool is_taken_up;               /* from a core that died: until all rows have begun again no
                                       frame of the client is acted on, and nothing is said */
    uint64_t linger_until_us;       /* when a client that is away has lost it; 0: not known yet */
    struct workflow_said said;
    uint32_t ask_next;              /* the instance after the one that was asked last */
    uint32_t rows;                  /* sums over the rows that have got ROW_DONE */
    uint64_t calls, shared, fetched, digest;
    uint32_t next, prev;            /* circular list of the connection's workflows */
};
