/* SPDX-License-Identifier: MIT */
#include "tools/agx/dial.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/base/status.h"
#include "tools/agx/reach.h"
#include "tools/agx/refusal.h"

/*
 * What: connections of the command line client, and a message for every fault.
 * Bounds: we wait DIAL_TIMEOUT_MS for the answer to a program request, DIAL_PATIENCE_MS for an
 * appliance that went away, and ten minutes for one that starts. Commands bound the wait for their
 * own calls.
 */

uint64_t dial_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void dial_unique_id(const char *name, uint8_t id[AGX_ID_BYTES])
{
    struct timespec now;
    char text[128];
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(text, sizeof text, "%s %ld %lld.%09ld", name, (long)getpid(), (long long)now.tv_sec,
             now.tv_nsec);
    agx_program_id(text, id);
}

uint64_t dial_unique_call(void)
{
    uint8_t id[AGX_ID_BYTES];
    uint64_t call_id;
    dial_unique_id("call", id);
    memcpy(&call_id, id, sizeof call_id);
    return call_id;
}

/* ---- words ----------------------------------------------------------------------------------- */

int dial_refused(const struct agx_fault *fault)
{
    fprintf(stderr, "agx: %s: ", fault->is_busy ? "busy" : "refused");
    refusal_write(fault, stderr);
    return EXIT_REFUSED;
}

/* One key for the whole process, so that no command passes a secret on. NULL: none was given. */
static const struct agx_key *process_key;

static int exit_code_of(enum agx_result result)
{
    switch (result) {
    case AGX_ERROR_ARGUMENT:
    case AGX_ERROR_ADDRESS:
        return EXIT_USAGE;
    case AGX_ERROR_CONNECT:
    case AGX_ERROR_TIMEOUT:
        return EXIT_CONNECT;
    case AGX_ERROR_REFUSED:
    case AGX_ERROR_BUSY:
    case AGX_ERROR_KEY:
        return EXIT_REFUSED;
    case AGX_ERROR_CLOSED:
        return EXIT_INCOMPLETE;
    case AGX_ERROR_SYSTEM:
    case AGX_ERROR_SPACE:
        return EXIT_SYSTEM;
    default:
        return EXIT_PROTOCOL;
    }
}

int dial_fail(const struct agx *agx, enum agx_result result, const char *what)
{
    bool has_cause = result == AGX_ERROR_CONNECT || result == AGX_ERROR_SYSTEM;
    const char *cause = has_cause && errno != 0 ? strerror(errno) : NULL;
    bool is_argument = result == AGX_ERROR_ARGUMENT && agx_fault(agx)->frame != NULL;
    bool has_fault = result == AGX_ERROR_REFUSED || result == AGX_ERROR_BUSY || is_argument;
    if (is_argument) {
        fprintf(stderr, "agx: ");           /* the option is enough */
    } else if (result == AGX_ERROR_KEY && process_key == NULL) {
        fprintf(stderr, "agx: %s: the appliance asks for a key, or does not admit this user; a "
                "key comes from --key-file or AGX_KEY\n", what);
    } else {
        fprintf(stderr, "agx: %s: %s%s%s%s", what, agx_result_text(result),
                cause != NULL ? ": " : "", cause != NULL ? cause : "", has_fault ? ": " : "\n");
    }
    if (has_fault) {
        refusal_write(agx_fault(agx), stderr);
    }
    return exit_code_of(result);
}

int dial_finished(const struct agx_event *done)
{
    if (done->finish <= AGX_FINISH_STOP_TEXT) {
        return EXIT_COMPLETE;
    }
    fprintf(stderr, "agx: the call ended early: %s", agx_finish_text(done->finish));
    if (done->code != 0) {
        fprintf(stderr, ": %s", status_text(status_from_wire(done->code)));
    }
    fprintf(stderr, "\n");
    return EXIT_INCOMPLETE;
}

/* ---- connections ----------------------------------------------------------------------------- */

const char *dial_default(void)
{
    const char *said = getenv(DIAL_VARIABLE);
    if (said != NULL && said[0] != '\0') {
        return said;
    }
    return access(&DIAL_INSTALLED[strlen("unix:")], F_OK) == 0 ? DIAL_INSTALLED : DIAL_BUILT;
}

void dial_use_key(const struct agx_key *key)
{
    process_key = key;
}

static const char *process_affinity;

void dial_use_affinity(const char *affinity)
{
    process_affinity = affinity;
}

/* No key on a unix socket: there the kernel identifies the client. */
static const struct agx_key *key_for(const char *to)
{
    return strncmp(to, "unix:", 5) == 0 ? NULL : process_key;
}

static enum agx_result authenticate(struct agx *agx, const char *to)
{
    if (key_for(to) == NULL) {
        return agx->welcome.needs_key ? AGX_ERROR_KEY : AGX_OK;
    }
    return agx_authenticate(agx, key_for(to), DIAL_TIMEOUT_MS);
}

enum agx_result dial_try(struct dial *dial, const char *to, size_t frame_bytes)
{
    if (dial->buffer == NULL) {
        /* A third of the buffer for each direction, and room for small frames in each. */
        size_t wanted = 3 * (frame_bytes + AGX_BUFFER_BYTES_MIN);
        dial->buffer_bytes = wanted < AGX_BUFFER_BYTES_MAX ? wanted : AGX_BUFFER_BYTES_MAX;
        dial->buffer = malloc(dial->buffer_bytes);
        if (dial->buffer == NULL) {
            fprintf(stderr, "agx: out of memory\n");
            return AGX_ERROR_SPACE;
        }
    }
    dial->to = to;
    dial->breaks = 0;
    const struct agx_target target = {
        .address = to, .affinity = dial->affinity != NULL ? dial->affinity : process_affinity};
    enum agx_result result = agx_open_target(&dial->agx, &target, dial->buffer,
                                             dial->buffer_bytes, DIAL_TIMEOUT_MS);
    if (result == AGX_OK) {
        result = authenticate(&dial->agx, to);
        if (result != AGX_OK) {
            agx_close(&dial->agx);
        }
    }
    return result;
}

/* An appliance that starts has its listeners before its model: the kernel connects us, and the
 * greeting is answered once the engine is ready. What speaks HTTP is never one. */
static bool wait_for_start(const char *to, uint32_t *waits)
{
    if (*waits == 0) {
        if (reach_is_http(to)) {
            return false;
        }
        fprintf(stderr, "agx: %s is there and does not answer yet: it may be loading its model; "
                "waiting\n", to);
    }
    return (*waits)++ < DIAL_STARTS_MAX;
}

/* The appliance had taken the connection, and died before it greeted. */
static bool breaks_again(uint32_t *breaks)
{
    if (*breaks == DIAL_BREAKS_MAX) {
        return false;
    }
    fprintf(stderr, "agx: the connection broke before it was open; trying again\n");
    (*breaks)++;
    return true;
}

int dial_fail_to(const struct agx *agx, enum agx_result result, const char *to)
{
    int cause = errno, code = dial_fail(agx, result, to);
    if (result == AGX_ERROR_CONNECT) {
        reach_explain(to, cause);
    } else if (result == AGX_ERROR_TIMEOUT || result == AGX_ERROR_PROTOCOL) {
        /* It waits for a line, or has seen one in the greeting: no appliance in either case. */
        code = reach_name_stranger(to) ? EXIT_CONNECT : code;
    }
    return code;
}

int dial_open(struct dial *dial, const char *to, size_t frame_bytes)
{
    enum agx_result result;
    uint32_t tries = 0, waits = 0, breaks = 0;
    do {
        result = dial_try(dial, to, frame_bytes);
    } while ((result == AGX_ERROR_BUSY &&
              retry_wait(dial->retry, agx_fault(&dial->agx), &tries)) ||
             (result == AGX_ERROR_TIMEOUT && wait_for_start(to, &waits)) ||
             (result == AGX_ERROR_CLOSED && breaks_again(&breaks)));
    if (result == AGX_OK) {
        return EXIT_COMPLETE;
    }
    return dial_fail_to(&dial->agx, result, to);
}

enum agx_result dial_resume(struct dial *dial, int timeout_ms)
{
    if (dial->breaks == DIAL_BREAKS_MAX) {
        return AGX_ERROR_CLOSED;
    }
    enum agx_result result = agx_resume(&dial->agx, dial->to, key_for(dial->to), timeout_ms);
    dial->breaks += result == AGX_OK;
    if (result == AGX_ERROR_CLOSED) {
        errno = ECONNRESET;                 /* closed unasked */
        result = AGX_ERROR_CONNECT;
    }
    return result;
}

/* AGX_OK: the broken connection works again. */
static enum agx_result wait_for_it(struct dial *dial, int patience_ms)
{
    fprintf(stderr, "agx: the connection broke; waiting for the appliance\n");
    return dial_resume(dial, patience_ms);
}

enum agx_result dial_next(struct dial *dial, struct agx_event *event, int timeout_ms)
{
    enum agx_result result;
    do {
        result = agx_next(&dial->agx, event, timeout_ms);
        dial->breaks = result == AGX_OK ? 0 : dial->breaks;
        if (result != AGX_ERROR_CLOSED) {
            return result;
        }
        result = wait_for_it(dial, DIAL_PATIENCE_MS);
    } while (result == AGX_OK);
    return result;
}

/* ---- programs -------------------------------------------------------------------------------- */

static enum agx_result await_program(struct dial *dial)
{
    struct agx_event event;
    enum agx_result result;
    while ((result = agx_next(&dial->agx, &event, DIAL_TIMEOUT_MS)) == AGX_OK) {
        if (event.kind == AGX_REFUSED) {
            const struct agx_fault *fault = agx_fault(&dial->agx);
            bool is_unknown = status_from_wire(fault->code) == STATUS_BAD_PROGRAM_UNKNOWN;
            return is_unknown ? AGX_OK : fault->is_busy ? AGX_ERROR_BUSY : AGX_ERROR_REFUSED;
        }
        if (event.kind == AGX_PROGRAM) {
            return AGX_OK;
        }
    }
    return result == AGX_AGAIN ? AGX_ERROR_TIMEOUT : result;
}

struct program_request {
    const uint8_t *id;
    const char *class_name;     /* of a start */
    bool is_end;
    bool has_gone;              /* the appliance, before it was told of the end */
};

/* An appliance that has drained and gone knows no program any more. The end of one is not worth a
 * long wait. */
static enum agx_result resume(struct dial *dial, struct program_request *request)
{
    enum agx_result result = wait_for_it(dial, request->is_end ? DIAL_END_PATIENCE_MS
                                                               : DIAL_PATIENCE_MS);
    request->has_gone = request->is_end && result != AGX_OK;
    return result;
}

/* True when the request is to be sent again: after a break, because it may never have arrived, and
 * after the pause of a busy answer. */
static bool ask_again(struct dial *dial, struct program_request *request, enum agx_result *result,
                      uint32_t *tries)
{
    if (*result == AGX_ERROR_CLOSED) {
        *result = resume(dial, request);
        return *result == AGX_OK;
    }
    return *result == AGX_ERROR_BUSY && agx_is_open(&dial->agx) &&
           retry_wait(dial->retry, agx_fault(&dial->agx), tries);
}

static enum agx_result send_program(struct agx *agx, const struct program_request *request)
{
    return request->is_end ? agx_program_end(agx, request->id)
                           : agx_program_start_class(agx, request->id, request->class_name);
}

static int ask_program(struct dial *dial, struct program_request *request)
{
    enum agx_result result;
    uint32_t tries = 0;
    do {
        result = send_program(&dial->agx, request);
        result = result == AGX_OK ? await_program(dial) : result;
    } while (ask_again(dial, request, &result, &tries));
    if (result == AGX_OK || request->has_gone) {
        return EXIT_COMPLETE;
    }
    bool is_refused = result == AGX_ERROR_REFUSED || result == AGX_ERROR_BUSY;
    return is_refused && agx_is_open(&dial->agx) ? dial_refused(agx_fault(&dial->agx))
                                                 : dial_fail(&dial->agx, result, "program");
}

int dial_program_start(struct dial *dial, const uint8_t id[AGX_ID_BYTES],
                       const char *class_name)
{
    return ask_program(dial, &(struct program_request){.id = id, .class_name = class_name});
}

int dial_program_end(struct dial *dial, const uint8_t id[AGX_ID_BYTES])
{
    return ask_program(dial, &(struct program_request){.id = id, .is_end = true});
}
