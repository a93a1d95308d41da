/* SPDX-License-Identifier: MIT */
#pragma once
/* What: bytes of one connection into frames, frames into commands. Only net/ includes this. */
#include "net/connection.h"

/* A whole frame on its way to its handler. A handler that refuses fills `fault`. */
struct net_frame {
    struct net *net;
    uint32_t connection;
    uint8_t type;
    const uint8_t *payload;
    uint32_t payload_bytes;
    uint64_t now_us;
    struct wire_fault fault;
};

static inline struct net_connection *net_frame_sender(const struct net_frame *frame)
{
    return &frame->net->connections[frame->connection];
}
/* `count` bytes of a reply were written at the sender's tail. */
static inline void net_frame_reply(struct net_frame *frame, uint32_t count)
{
    ASSERT(count > 0 && count <= WIRE_REPLY_BYTES_MAX);
    net_connection_push(frame->net, net_frame_sender(frame), count, frame->now_us);
}
/* Receives once and acts on at most limits.frames_per_pass frames. May close the connection. */
void net_intake(struct net *net, uint32_t index, uint64_t now_us);
/* True when the reply to one more frame fits, and the inbox has room to cancel every call. */
bool net_intake_may_act(const struct net *net, const struct net_connection *connection);

/* Fills the fault of a refusal; returns `status`. */
static inline enum status net_frame_fault(struct net_frame *frame, enum status status,
                                          enum wire_field field, uint64_t found, uint64_t max)
{
    frame->fault.field = field;
    frame->fault.found = found;
    frame->fault.max = max;
    return status;
}

/* net/call_intake.c: CALL into a slot and a command. */
MUST_CHECK enum status net_call_intake(struct net_frame *frame);
/* Resumes a call of the last core, which is filled and attached: it ends as its reply on record, or
 * `done`, says; NULL: it goes on. */
void net_call_resume(struct net *net, uint32_t call, const struct wire_done *done);
