/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the life of a request, from its head to the last byte of its answer. */
#include "tools/door/door.h"
#include "tools/door/parse.h"

/* ---- what http.c calls ----------------------------------------------------------------------- */

/* All of door->requests are free. */
void requests_begin(struct door *door);
/* A free request for a method and a path; NULL: too many are open. The request may be refused
 * already: then its refusal is set. */
struct request *request_take(struct door *door, const char *method, const char *path);
/* A part of the body. False: it is longer than allowed, and the request is refused. */
bool request_receive(struct request *request, const void *bytes, size_t count);
/* The request is whole: answers it, or begins to. */
void request_judge(struct request *request);
/* The client is gone, or has all: whatever is still computed is cancelled. */
void request_free(struct request *request);
/* The client is gone. */
void request_leave(struct request *request);

/* Once a second: the number of requests that were refused without a line of the log each. */
void request_tell_refusals(struct door *door);

/* ---- what reading a request calls ------------------------------------------------------------ */

/* Keeps the name that the client gave to the model, as far as there is room. */
void request_name_model(struct request *request, const char *name);
/* Refuses; the first refusal counts. `param`: the field, or NULL. Always false. */
bool request_refuse(struct request *request, uint32_t status, const char *param, const char *text);
/* The same where door.memory is used up. */
bool request_refuse_memory(struct request *request);
/* The same for a body that cannot be read. */
bool request_refuse_body(struct request *request, enum parse_result result,
                         const json_error_t *error);
/* The same for what the appliance has refused. */
bool request_refuse_fault(struct request *request, const struct agx_fault *fault);
/* The whole answer, as JSON, which is given away. */
void request_answer(struct request *request, json_t *json);
void request_answer_text(struct request *request, const char *content_type, const char *text);
/* An event of a stream; `name` NULL: it has none. `json` is given away. */
void request_send(struct request *request, const char *name, json_t *json);
/* A part of an event. NULL: it could not be written, and the stream is broken off. */
void request_send_text(struct request *request, const char *text);
void request_send_bytes(struct request *request, const char *bytes, size_t count);
/* Two digits for each byte, and a zero. */
void request_write_hex(const uint8_t *bytes, uint32_t count, char *text);

/* ---- what the appliance has said ------------------------------------------------------------- */

/* True when its client still gets something of its calls. */
bool request_needs_calls(const struct request *request);
void request_accepted(struct choice *choice);
/* Log probabilities of tokens, before the text of the same event. */
void request_scored(struct choice *choice, const struct agx_event *event);
void request_heard(struct choice *choice, const char *text, uint32_t bytes);
void request_ended(struct choice *choice);
void request_refused(struct choice *choice, const struct agx_fault *fault);
/* The appliance did not come back in time, serves another model now, or refuses the key. */
void request_lost(struct choice *choice);
