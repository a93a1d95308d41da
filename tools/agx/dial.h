/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a connection for a command: a buffer from the heap, an open `struct agx`, and what went
 * wrong in words and as an exit code.
 */
#include <stdbool.h>
#include <stddef.h>

#include "tools/agx/command.h"
#include "tools/agx/retry.h"
#include "tools/sdk/agx.h"

#define DIAL_TIMEOUT_MS  5000
#define DIAL_PATIENCE_MS 60000      /* with an appliance that went away */
#define DIAL_BREAKS_MAX  5          /* in a row, without a word in between */

struct dial {
    struct agx agx;
    const char *to;
    void *buffer;
    size_t buffer_bytes;
    uint32_t breaks;                /* since the last event */
    struct retry *retry;            /* set by its owner; NULL: busy is the end */
};

/* From now on connections over TCP prove to have this key, which stays the caller's; NULL: none. */
void dial_use_key(const struct agx_key *key);
/* Opens; frames of `frame_bytes` fit in both directions. The buffer is taken at the first time and
 * used again. A busy appliance is asked again. EXIT_COMPLETE, or an exit code after a message. */
int dial_open(struct dial *dial, const char *to, size_t frame_bytes);
/* The same once, as the library says it: without a message, but for want of memory. */
enum agx_result dial_try(struct dial *dial, const char *to, size_t frame_bytes);
/* After AGX_ERROR_CLOSED: agx_resume(). AGX_ERROR_CLOSED: it breaks again and again. */
enum agx_result dial_resume(struct dial *dial, int timeout_ms);
/* agx_next(), over restarts of the appliance. */
enum agx_result dial_next(struct dial *dial, struct agx_event *event, int timeout_ms);
/* Says on stderr what `result` of `what` means; its exit code. Without an `agx` (NULL) only for
 * results that no frame explains. */
int dial_fail(const struct agx *agx, enum agx_result result, const char *what);
/* The same for a refusal; EXIT_REFUSED. */
int dial_refused(const struct agx_fault *fault);
/* The finish of a call: EXIT_COMPLETE, or EXIT_INCOMPLETE after a message. */
int dial_finished(const struct agx_event *done);
/* Starts or ends a program and waits for the answer; nothing else may be open. A program that the
 * appliance does not know any more has ended; a busy one is asked again. */
int dial_program_start(struct dial *dial, const uint8_t id[AGX_ID_BYTES]);
int dial_program_end(struct dial *dial, const uint8_t id[AGX_ID_BYTES]);
/* A program id that no other run has: from `name`, the process and the time. */
void dial_unique_id(const char *name, uint8_t id[AGX_ID_BYTES]);
/* A call id that no other run has. */
uint64_t dial_unique_call(void);
/* Monotonic. */
uint64_t dial_now_us(void);
