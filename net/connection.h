/* SPDX-License-Identifier: MIT */
#pragma once
/* What: one connection's life and its two buffers. Only net/ includes this. */
#include "net/net.h"

/* Takes a free slot for `handle`. There must be one, and a place before authentication for a peer
 * that is not local. `domain` holds until a key gives it another one. */
void net_connection_open(struct net *net, int32_t handle, const struct world_peer *peer,
                         uint64_t domain, uint64_t now_us);
struct net_kept_peer;
/* Opens this slot again for the client that it had in the last core. Its account has room. */
void net_connection_open_again(struct net *net, uint32_t index, const struct net_kept_peer *peer,
                               int32_t handle);
/* True when the account of this trust domain may have one more connection; else says why not. */
bool net_connection_fits(const struct net *net, uint64_t domain, struct wire_fault *fault);
/* The handshake is complete; the domain is known, and the connection fits. */
void net_connection_admit(struct net *net, uint32_t index);
/* Cancels its calls, closes the handle, frees the slot. Unsent bytes are lost. */
void net_connection_close(struct net *net, uint32_t index);
/* Queues an ERROR that says `closes`, cancels the calls; the connection ends once it is flushed. */
void net_connection_fail(struct net *net, uint32_t index, const struct wire_fault *fault,
                         uint64_t now_us);

/* Gives it a turn in this pass, and in the next ones until it rests. */
void net_connection_wake(struct net *net, struct net_connection *connection);
/* Ends its turn: notes its deadline, and puts it to sleep if only its client can go on. */
void net_connection_rest(struct net *net, struct net_connection *connection);

/* True when the appliance may still act upon what the client sends. */
static inline bool net_connection_reads(const struct net_connection *connection)
{
    return connection->state != NET_CLOSED && connection->state != NET_CLOSING;
}

/* Takes off received bytes that have been acted on. */
static inline void net_connection_used(struct net_connection *connection, uint32_t count)
{
    ASSERT(count <= connection->received_bytes);
    connection->received_first += count;
    connection->received_bytes -= count;
}

/* Links a call to its connection; unlinks it. */
void net_connection_attach(struct net *net, uint32_t index, uint32_t call);
void net_connection_detach(struct net *net, uint32_t call);

/* Free bytes of the send buffer. */
uint32_t net_connection_room(const struct net *net, const struct net_connection *connection);
/* The part of it that frames of calls may take: the rest is kept free for replies. */
uint32_t net_connection_room_of_calls(const struct net *net,
                                      const struct net_connection *connection);
/* True when the reply to one more frame fits; otherwise no frame is parsed. */
bool net_connection_may_reply(const struct net *net, const struct net_connection *connection);
/* Where the next bytes go: net_connection_room() of them are there. */
uint8_t *net_connection_tail(struct net *net, struct net_connection *connection);
/* `count` bytes were written at the tail. */
void net_connection_push(struct net *net, struct net_connection *connection, uint32_t count,
                         uint64_t now_us);
/* A fault as an ERROR frame with the text of its status and, for class BUSY, a time to try again.
 * Returns its bytes; it always fits WIRE_REPLY_BYTES_MAX. */
uint32_t net_connection_refusal(const struct wire_fault *fault, bool closes, uint8_t *bytes,
                                uint32_t max);
/* Queues an ERROR frame and counts it. */
void net_connection_error(struct net *net, struct net_connection *connection,
                          const struct wire_fault *fault, bool closes, uint64_t now_us);

/* Sends what can be sent. Closes the connection if the peer is gone, or if it was CLOSING and all
 * is sent. */
void net_connection_flush(struct net *net, uint32_t index, uint64_t now_us);
/* Tells the world which events to watch for now. */
void net_connection_watch(struct net *net, uint32_t index);

/* The earliest of the connection's deadlines; UINT64_MAX: none. */
uint64_t net_connection_deadline_us(const struct net *net,
                                    const struct net_connection *connection);
/* Acts on a deadline that has passed; else notes the next one. */
void net_connection_expire(struct net *net, uint32_t index, uint64_t now_us);
