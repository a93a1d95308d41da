/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a connection for a command: a buffer from the heap, an open `struct agx`, and faults as
 * messages and exit codes.
 */
#include <stdbool.h>
#include <stddef.h>

#include "tools/agx/command.h"
#include "tools/agx/retry.h"
#include "tools/sdk/agx.h"

#define DIAL_TIMEOUT_MS  5000
#define DIAL_STARTS_MAX  120        /* times DIAL_TIMEOUT_MS, for an appliance that starts */
#define DIAL_PATIENCE_MS 60000      /* with an appliance that does not answer */
#define DIAL_END_PATIENCE_MS 1000   /* with one that is to be told of a program's end */
#define DIAL_BREAKS_MAX  5          /* in a row, without an event in between */

struct dial {
    struct agx agx;
    const char *to;
    const char *affinity;           /* NULL: that of the process, if it has one */
    void *buffer;
    size_t buffer_bytes;
    uint32_t breaks;                /* since the last event */
    struct retry *retry;            /* set by its owner; NULL: a busy answer ends the command */
};

/* Where an appliance is when no address is given: what the variable says, or the installed one, if
 * its socket is there. */
#define DIAL_VARIABLE  "AGX_TO"
#define DIAL_INSTALLED "unix:/run/agentix/agentix.sock"
#define DIAL_BUILT     "127.0.0.1:7411"
const char *dial_default(void);
/* Later connections over TCP prove that they have this key, which the caller keeps. NULL: none. */
void dial_use_key(const struct agx_key *key);
/* Affinity key of later connections that have none of their own; NULL: a random one for each. */
void dial_use_affinity(const char *affinity);
/* Opens a connection with room for frames of `frame_bytes` in both directions. The first call takes
 * the buffer, later ones use it again. A busy appliance is asked again, one that starts is waited
 * for. EXIT_COMPLETE, or an exit code after a message. */
int dial_open(struct dial *dial, const char *to, size_t frame_bytes);
/* The same, once, with the library's own result; its one message is that memory is short. */
enum agx_result dial_try(struct dial *dial, const char *to, size_t frame_bytes);
/* agx_resume(), after AGX_ERROR_CLOSED. Returns AGX_ERROR_CLOSED when every one breaks again. */
enum agx_result dial_resume(struct dial *dial, int timeout_ms);
/* agx_next(), over restarts of the appliance. */
enum agx_result dial_next(struct dial *dial, struct agx_event *event, int timeout_ms);
/* Prints on stderr what `result` of `what` means, and returns its exit code. `agx` may be NULL for
 * results that no frame explains. CONNECT and SYSTEM are explained by errno. */
int dial_fail(const struct agx *agx, enum agx_result result, const char *what);
/* The same for a connection that was not opened, with what to do about it, where that is known. */
int dial_fail_to(const struct agx *agx, enum agx_result result, const char *to);
/* The same for a refusal: EXIT_REFUSED. */
int dial_refused(const struct agx_fault *fault);
/* How a call finished: EXIT_COMPLETE, or EXIT_INCOMPLETE after a message. */
int dial_finished(const struct agx_event *done);
/* The option --class. */
#define CLASS_ROW(name) \
    {"--class", "NAME", ARGUMENT_TEXT, &(name), 0, 0, \
     "the kind of program: what others of it have cost says what this one will"}
/* Starts or ends a program and waits for the answer; nothing else may be open. A program that the
 * appliance no longer knows has ended, and so has one whose appliance has gone. A busy appliance is
 * asked again. `class_name`, or NULL. */
int dial_program_start(struct dial *dial, const uint8_t id[AGX_ID_BYTES],
                       const char *class_name);
int dial_program_end(struct dial *dial, const uint8_t id[AGX_ID_BYTES]);
/* A program id that no other run has: from `name`, the process and the time. */
void dial_unique_id(const char *name, uint8_t id[AGX_ID_BYTES]);
/* A call id that no other run has. */
uint64_t dial_unique_call(void);
/* Monotonic. */
uint64_t dial_now_us(void);
