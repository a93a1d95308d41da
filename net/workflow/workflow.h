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
/* When it has to cancel the next one; UINT64_MAX: no client is away. */
uint64_t net_workflow_next_us(const struct net *net);
/* True when nothing remains to be sent of any workflow whose client is connected. */
bool net_workflow_is_flushed(const struct net *net);
/* The connection is gone: its workflows are cancelled, or wait for their client. */
void net_workflow_abandon(struct net *net, uint32_t connection);
/* The workflow's client may no longer come in: cancels it, and keeps nothing of it. */
void net_workflow_shut_out(struct net *net, uint32_t index);
/* Open calls that workflows of this key have. */
uint32_t net_workflow_calls(const struct net *net, uint32_t key);
/* Tells each workflow how many calls its key allows, besides the open ones of its clients.
 * O(workflows). */
void net_workflow_bound(struct net *net);
/* True when a workflow of this key is about to make a call. */
bool net_workflow_waits_for(const struct net *net, uint32_t key);
/* Sends all news of the workflow in order, and releases it when it is over. False: there was not
 * enough room. */
bool net_workflow_send(struct net *net, uint32_t index, uint64_t now_us);
/* News of a workflow without a connection: releases it if it is over and no client can come back
 * for it. */
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
/* A digest of the tokens of a column. */
uint64_t net_flow_column_digest(const struct workflow *flow, struct workflow_span column);
void net_flow_attach(struct net *net, uint32_t index, uint32_t connection);
void net_flow_detach(struct net *net, uint32_t index);
/* The client is back with the same FLOW_OPEN. */
void net_flow_resume(struct net *net, uint32_t index, uint32_t connection);
/* True when an ASK for the node was sent to the client, and no ANSWER has come. */
static inline bool net_flow_was_asked(const struct workflow *flow, uint32_t row, uint32_t node)
{
    return (flow->rows[row].asked[node / 64] >> node % 64 & 1) != 0;
}
static inline bool net_flow_was_sent(const struct workflow *flow, uint32_t row, uint32_t output)
{
    return (flow->rows[row].outputs_sent[output / 64] >> output % 64 & 1) != 0;
}
/* True when the row has begun, and its client has not been sent all of it. */
static inline bool net_flow_has_begun(const struct workflow *flow, uint32_t row)
{
    enum workflow_row_state state = flow->rows[row].state;
    return state == WORKFLOW_ROW_OPEN || state == WORKFLOW_ROW_DONE;
}
/* The client has left, or has come back: no row is due to it until it sends that row again, and no
 * question is open. */
void net_flow_await_none(struct workflow *flow);
/* True when the workflow's client could still come back for it. */
bool net_flow_is_kept(const struct net *net, const struct workflow *flow);
/* Asks sched to do something about the workflow. */
void net_flow_command(struct net *net, uint32_t index, struct command command);

/* Makes room for a workflow of this domain: gives up one that is kept only for a client who is
 * away, of the account that is furthest above its minimum. False: there is none. */
bool net_flow_make_room(struct net *net, uint64_t domain);

/* A literal: see struct workflow_encoder. */
uint32_t net_flow_encode(void *net, const struct workflow_literal *literal, uint32_t *tokens,
                         uint32_t max);
/* The largest part of flow->values that no row uses. */
struct workflow_span net_flow_room(const struct workflow *flow, uint32_t value_tokens);

/* The next tokens of the value that is being sent; none: that was all. Skips pieces that are empty
 * or read to their end. All values that it is composed of must be known. */
struct workflow_run net_said_run(const struct workflow *flow, struct workflow_said *said);
/* True when the node has a value for this row. */
bool net_said_is_known(const struct workflow *flow, uint32_t row, uint32_t node);
/* True when all values that the rest of it is composed of are known. */
bool net_said_can_go_on(const struct workflow *flow);
/* Writes the next frame of it to `bytes`, which has `room` bytes. Returns how many were written; 0:
 * not even one token fits. said->kind is NOTHING after the last frame. */
uint32_t net_said_frame(struct net *net, struct workflow *flow, uint8_t *bytes, uint32_t room);
