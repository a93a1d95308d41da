/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: net's side of the workflows (config/workflow/workflow.h has the record): frames into
 * records and commands, news into frames. Only net/ includes this.
 *
 *   open.c     FLOW_OPEN into a record       encoder.c  texts into tokens
 *   row.c      ROW, ANSWER                   room.c     the places of rows in workflow.values
 *   client.c   which connection has a workflow: breaks, KEEP, resumption, FLOW_CLOSE, FLOW_CANCEL
 *   emit.c     frames to the client          said.c     the text and tokens of one value
 */
#include "net/connection.h"
#include "net/intake.h"

/* ---- frames of a client ---------------------------------------------------------------------- */

MUST_CHECK enum status net_flow_open_intake(struct net_frame *frame);
/* A FLOW_OPEN that a core before this one has accepted, into this slot, which is INTAKE. */
MUST_CHECK enum status net_flow_open_again(struct net_frame *frame, uint32_t index);
MUST_CHECK enum status net_flow_row_intake(struct net_frame *frame);
MUST_CHECK enum status net_flow_answer_intake(struct net_frame *frame);
/* FLOW_CLOSE and FLOW_CANCEL. */
MUST_CHECK enum status net_flow_end_intake(struct net_frame *frame);

/* ---- the stage ------------------------------------------------------------------------------- */

void net_workflow_plan_memory(struct memory_plan *plan, const struct limits *limits,
                              uint32_t text_bytes_max);
void net_workflow_init(struct net *net, uint32_t text_bytes_max, struct arena *arena);
/* Cancels the workflows whose client has been away for too long. O(workflows). */
void net_workflow_expire(struct net *net, uint64_t now_us);
/* When the next of them will have been; UINT64_MAX: none is away. */
uint64_t net_workflow_next_us(const struct net *net);
/* True when no workflow has something that is still to be said to a client who is there. */
bool net_workflow_is_flushed(const struct net *net);
/* The connection is gone: its workflows are cancelled, or wait for their client. */
void net_workflow_abandon(struct net *net, uint32_t connection);
/* Its client may not come in any more: it is cancelled, and nothing of it is kept. */
void net_workflow_shut_out(struct net *net, uint32_t index);
/* Open calls that workflows of this key have. */
uint32_t net_workflow_calls(const struct net *net, uint32_t key);
/* Says to each workflow what calls of its clients leave of its key. O(workflows). */
void net_workflow_bound(struct net *net);
/* True when a workflow of this key is about to make a call. */
bool net_workflow_waits_for(const struct net *net, uint32_t key);
/* Sends all news of the workflow in order; false when the room ends first. Releases it when it is
 * over. */
bool net_workflow_send(struct net *net, uint32_t index, uint64_t now_us);
/* News of a workflow without a connection: releases it if it is over and can have none any more. */
void net_workflow_release_alone(struct net *net, uint32_t index);
void net_workflow_check(const struct net *net);

/* ---- between the files ----------------------------------------------------------------------- */

static inline struct workflow *net_flow(const struct net *net, uint32_t index)
{
    ASSERT(net->workflows != NULL && index < net->workflows->limits.workflows);
    return &net->workflows->workflows[index];
}
static inline uint32_t net_flows_count(const struct net *net)
{
    return net->workflows != NULL ? net->workflows->limits.workflows : 0;
}
/* The open workflow of this connection with this id, or WORKFLOW_NONE. */
uint32_t net_flow_find(const struct net *net, uint32_t connection, uint64_t flow_id);
/* Of the tokens of a column. */
uint64_t net_flow_column_digest(const struct workflow *flow, struct workflow_span column);
void net_flow_attach(struct net *net, uint32_t index, uint32_t connection);
void net_flow_detach(struct net *net, uint32_t index);
/* The client is back with the same FLOW_OPEN. */
void net_flow_resume(struct net *net, uint32_t index, uint32_t connection);
/* An ASK of it was sent to the client, and no ANSWER has come. */
static inline bool net_flow_was_asked(const struct workflow *flow, uint32_t row, uint32_t node)
{
    return (flow->rows[row].asked[node / 64] >> node % 64 & 1) != 0;
}
static inline bool net_flow_was_sent(const struct workflow *flow, uint32_t row, uint32_t output)
{
    return (flow->rows[row].outputs_sent[output / 64] >> output % 64 & 1) != 0;
}
/* Its instances are as they have become, and the client has not had all of it. */
static inline bool net_flow_has_begun(const struct workflow *flow, uint32_t row)
{
    enum workflow_row_state state = flow->rows[row].state;
    return state == WORKFLOW_ROW_OPEN || state == WORKFLOW_ROW_DONE;
}
/* Its client is away, or back: no row is waited for until it is sent again, no question is open. */
void net_flow_await_none(struct workflow *flow);
/* True when its client could still come back for it. */
bool net_flow_is_kept(const struct net *net, const struct workflow *flow);
/* Asks sched to do something about the workflow. */
void net_flow_command(struct net *net, uint32_t index, struct command command);

/* Gives up a workflow that is kept only for a client who is away, so that one of this domain finds
 * a place: of the account that has most beyond its minimum. False: there is none. */
bool net_flow_make_room(struct net *net, uint64_t domain);

/* A literal: see struct workflow_encoder. */
uint32_t net_flow_encode(void *net, const struct workflow_literal *literal, uint32_t *tokens,
                         uint32_t max);
/* The largest part of flow->values that no row has. */
struct workflow_span net_flow_room(const struct workflow *flow, uint32_t value_tokens);

/* The next tokens of what is said; none: that was all. Passes pieces that are empty or read
 * through. All that it is composed of must be known. */
struct workflow_run net_said_run(const struct workflow *flow, struct workflow_said *said);
/* True when the node has a value for this row. */
bool net_said_is_known(const struct workflow *flow, uint32_t row, uint32_t node);
/* True when all that the rest of what is being said is composed of is known. */
bool net_said_can_go_on(const struct workflow *flow);
/* The next frame of what is being said, at `bytes`, of at most `room` bytes: how many; 0 where not
 * even one token fits. said->kind is NOTHING after the last one. */
uint32_t net_said_frame(struct net *net, struct workflow *flow, uint8_t *bytes, uint32_t room);
