/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: one connection as a pure machine: requests to bytes, bytes to events. It has no socket, no
 * clock and no system call, so tests and the fuzz target drive it from memory. agx.c puts it on a
 * socket. Private to tools/sdk; the state is in the private part of `struct agx`.
 *
 *     socket --> agx_session_room/received --> agx_session_welcome/next --> event
 *     agx_session_call ... --> agx_session_unsent/sent --> socket
 */
#include "net/wire.h"
#include "tools/sdk/agx.h"
#include "tools/sdk/flow.h"

/* Splits the buffer into three; AGX_ERROR_ARGUMENT if it is too small or too large. */
enum agx_result agx_session_init(struct agx *agx, void *buffer, size_t buffer_bytes);

/* Where received bytes go and how many fit (0 only after a frame that is not taken out yet). What
 * the last event points to is invalid after this. */
uint8_t *agx_session_room(struct agx *agx, uint32_t *bytes);
void agx_session_received(struct agx *agx, uint32_t bytes);
const uint8_t *agx_session_unsent(const struct agx *agx, uint32_t *bytes);
void agx_session_sent(struct agx *agx, uint32_t bytes);

/* AGX_OK: the session is open and agx->welcome is valid; AGX_AGAIN: not enough bytes yet. */
enum agx_result agx_session_welcome(struct agx *agx);
/* The answer to agx_session_auth(). AGX_OK: the appliance has the key; AGX_AGAIN as above. */
enum agx_result agx_session_admitted(struct agx *agx);
/* One event of what was received; AGX_AGAIN: not enough bytes yet. Linear in the frame. */
enum agx_result agx_session_next(struct agx *agx, struct agx_event *event);
/* A new connection begins: nothing is received or unsent yet; open calls stay in the table. */
void agx_session_reset(struct agx *agx);
/* After the greeting: every open call is due to be sent again. */
void agx_session_resume(struct agx *agx);
/* Queues as many of the calls that are due as there is room for. An error ends the session. */
enum agx_result agx_session_resend(struct agx *agx);
/* Ends the session for a reason from outside; an earlier reason stays. */
enum agx_result agx_session_break(struct agx *agx, enum agx_result why);

/* What HELLO will say: the affinity key, or, for NULL and for an empty one, a random name.
 * AGX_ERROR_ARGUMENT: the key is too long. */
enum agx_result agx_session_name(struct agx *agx, const char *affinity);

/* Queue one request: AGX_AGAIN when it must wait for unsent bytes, AGX_ERROR_SPACE when it can
 * never fit; nothing has changed then. */
enum agx_result agx_session_hello(struct agx *agx);
/* Right after the welcome, which must have asked for it. `nonce` is random. */
enum agx_result agx_session_auth(struct agx *agx, const struct agx_key *key,
                                 const uint8_t nonce[WIRE_NONCE_BYTES]);
enum agx_result agx_session_program_start(struct agx *agx, const uint8_t id[AGX_ID_BYTES],
                                          const char *class_name);
enum agx_result agx_session_program_end(struct agx *agx, const uint8_t id[AGX_ID_BYTES]);
enum agx_result agx_session_call(struct agx *agx, const struct agx_call *call);
enum agx_result agx_session_cancel(struct agx *agx, const uint8_t program_id[AGX_ID_BYTES],
                                   uint64_t call_id);
enum agx_result agx_session_ping(struct agx *agx, uint64_t nonce);
enum agx_result agx_session_chat_ask(struct agx *agx, uint64_t nonce, uint32_t first);
enum agx_result agx_session_model_ask(struct agx *agx, uint64_t nonce);
/* Asks for the rest of an answer, if there is one and room for the frame. */
enum agx_result agx_session_chat_more(struct agx *agx);

enum agx_result agx_session_flow_open(struct agx *agx, struct agx_flow_run *run);
enum agx_result agx_session_flow_row(struct agx *agx, struct agx_flow_run *run, uint32_t row,
                                     const struct agx_text *columns, uint32_t count);
enum agx_result agx_session_flow_answer(struct agx *agx, struct agx_flow_run *run,
                                        const struct agx_flow_answer *answer);
enum agx_result agx_session_flow_end(struct agx *agx, struct agx_flow_run *run, int cancel);

/* private: shared by session.c, request.c, calls.c and run.c */
struct agx_frame { struct wire_header header; const uint8_t *payload; };
/* The free end of the output buffer, after unsent bytes have moved to its front. */
uint8_t *agx_session_output(struct agx *agx, uint32_t *room);
/* `bytes` is what an encoder wrote there: 0 when the frame did not fit. */
enum agx_result agx_session_queue(struct agx *agx, uint32_t bytes);
/* Token ids in host order, into agx->tokens. False: one is not in the vocabulary. */
bool agx_session_tokens(struct agx *agx, const uint8_t *tokens, uint32_t count);
/* Log probabilities of the frame's tokens, which agx->tokens has already. False: they are not those
 * that the call has asked for, or cannot be. */
bool agx_session_logprobs(struct agx *agx, const struct agx_open_call *call,
                          const struct wire_tokens *tokens);
/* Where they are then. */
struct agx_logprob *agx_session_entries(const struct agx *agx, uint32_t tokens_count);
/* A frame of a workflow. */
enum agx_result agx_session_flow(struct agx *agx, const struct agx_frame *frame,
                                 struct agx_event *event);
/* An ERROR names a frame of a workflow. */
void agx_session_flow_refused(struct agx *agx, const struct wire_fault *fault);

enum agx_call_state {
    AGX_CALL_FREE,
    AGX_CALL_SENT,
    AGX_CALL_ACCEPTED,
    AGX_CALL_LOST,                  /* given up by a shutdown; the break will follow */
    AGX_CALL_DUE,                   /* to be sent again */
};
#define AGX_PROGRESS_NONE \
    ((struct agx_progress){.digest = WIRE_DIGEST_START, .text_digest = FNV_START})

void agx_session_fault(struct agx *agx, const struct wire_fault *fault);
/* Checks a call and queues its frame. */
enum agx_result agx_session_put_call(struct agx *agx, const struct agx_call *call);
/* A CHAT or MODEL frame, whose length was checked. AGX_AGAIN: there is more to come. */
enum agx_result agx_session_told(struct agx *agx, const struct agx_frame *frame,
                                 struct agx_event *event);
/* The open call with this id, or NULL. */
struct agx_open_call *agx_calls_find(struct agx *agx, uint64_t call_id);
/* OK where there is one, and it is in this state. */
enum agx_result agx_calls_find_in(struct agx *agx, uint64_t call_id, enum agx_call_state state,
                                  struct agx_open_call **call);
/* OK where this may be the end of what came of the call. */
enum agx_result agx_calls_check_done(const struct agx_open_call *call,
                                     const struct wire_done *done);
/* A free slot, or NULL. */
struct agx_open_call *agx_calls_free(struct agx *agx);
void agx_calls_make_due(struct agx *agx, struct agx_open_call *call);
/* Takes more of the call; the caller has the first *old of it already. AGX_ERROR_DIFFERENT: what
 * came now differs from what the caller has. */
enum agx_result agx_calls_take_tokens(struct agx_open_call *call, const uint32_t *tokens,
                                      uint32_t count, uint32_t *old);
enum agx_result agx_calls_take_text(struct agx_open_call *call, const char *text, uint32_t bytes,
                                    uint32_t *old);
/* True when less has come over this connection than the caller has, or not the same. */
bool agx_calls_is_behind(const struct agx_open_call *call);
