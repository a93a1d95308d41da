/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: open workflows, in memory that outlives the core: what FLOW_OPEN said, the rows, and how
 * much of them their clients have been sent. Columns lie in the workflow's values, which outlive
 * the core, too, as do the values of instances and how these ended (sched/workflow/kept_end.h).
 * Calls that were open are made again. Only net/ includes this.
 *
 * Rows on record are kept, too: a client that sends one again is answered, and nothing is done
 * twice. Workflows that have ended are not.
 */
#include "net/kept/connections.h"
#include "net/net.h"

struct net_kept_row {               /* written once, when the row is given */
    uint64_t life;                  /* counted for each place */
    uint64_t request;               /* as in struct workflow_row, down to `heads` */
    uint32_t number, nodes_first;
    struct workflow_span values;
    struct workflow_span columns[WORKFLOW_INPUTS_MAX];
    struct workflow_span heads[WORKFLOW_INPUTS_MAX];
    uint64_t check;                 /* digest of all above, and of the columns' tokens */
};

struct net_kept_told {              /* what the client has been told of a row */
    uint64_t row;                   /* check word of that row's record; 0: there is no row */
    uint64_t digest;
    uint64_t outputs_sent[WORKFLOW_OUTPUTS_MAX / 64];
    uint64_t asked[WORKFLOW_NODES_MAX / 64];
    uint32_t arrival;
    uint16_t is_awaited, failed_as;
};

struct net_kept_flow_version {      /* what a pass has made of the workflow */
    uint64_t turn;                  /* counted for each slot: the newer one has the larger */
    uint64_t number;                /* of that pass of its connection */
    uint64_t domain;
    uint64_t request;               /* digest of FLOW_OPEN's payload, */
    uint32_t request_bytes;         /* so long */
    uint32_t connection;            /* CALL_NONE: the client is away, and this holds at once */
    uint32_t gid;
    bool is_there, is_closed;       /* not there: the slot has no workflow that is kept */
    char key_id[WIRE_KEY_ID_BYTES];
    uint64_t key_print;             /* as in struct net_kept_peer */
    struct workflow_emit emit;
    uint64_t check;                 /* digest of all above, and of `told` */
    struct net_kept_told told[WORKFLOW_ROWS_MAX];
};

struct net_kept_flow {
    struct net_kept_flow_version versions[2];
};

void net_kept_flows_plan_memory(struct memory_plan *plan, const struct limits *limits);
void net_kept_flows_init(struct net *net, struct arena *kept);

/* ---- while the core lives -------------------------------------------------------------------- */

/* Notes the payload of the FLOW_OPEN that has filled this slot. */
void net_kept_flow_begin(struct net *net, uint32_t index, const uint8_t *payload, uint32_t bytes);
/* Notes the row that was given in this place. */
void net_kept_flow_row(struct net *net, uint32_t index, uint32_t place);
/* Notes that the workflow has changed. Counts from the next commit of its connection on. O(1). */
void net_kept_flow_note(struct net *net, uint32_t index);
/* Writes what was noted of the connection's workflows, for its version that is written next. */
void net_kept_flows_write(struct net *net, uint32_t connection);
/* Notes that the client is away and may come back. Counts at once. */
void net_kept_flow_leave(struct net *net, uint32_t index);
/* Notes that the workflow is over. Counts from the next commit of its connection on, or at once if
 * it has none. */
void net_kept_flow_end(struct net *net, uint32_t index);
/* The check words of all workflows of the connection, as one. */
uint64_t net_kept_flows_mark(const struct net *net, uint32_t connection);
void net_kept_flows_check(const struct net *net);

/* ---- for its successor (take_up_flows.c) ----------------------------------------------------- */

/* Restores workflows, after connections. `may_stay`: none of them is known to kill cores. */
void net_kept_flows_take_up(struct net *net, bool may_stay);
/* True while frames of the connection are not acted on: rows of its workflows have not begun. */
bool net_kept_flows_wait(const struct net *net, const struct net_connection *connection);
/* Once a pass, after frames were acted on: restored workflows whose rows have begun again may send
 * frames. O(workflows). */
void net_kept_flows_settle(struct net *net);
/* True when there is a workflow that may do so in the next pass. */
bool net_kept_flows_are_due(const struct net *net);

/* Which of the two versions was written last. */
static inline uint32_t net_kept_flow_last(const struct net_kept_flow *kept)
{
    return kept->versions[1].turn > kept->versions[0].turn;
}
bool net_kept_flow_is_whole(const struct net *net, const struct net_kept_flow_version *version);
struct net_kept_row *net_kept_row(const struct net *net, uint32_t index, uint32_t place);
/* True when the row's record, and the tokens of its columns, are as they were written. */
bool net_kept_row_is_whole(const struct net *net, uint32_t index, uint32_t place);
uint8_t *net_kept_flow_payload(const struct net *net, uint32_t index);
