/* SPDX-License-Identifier: MIT */
#include "tools/sdk/agx.h"

#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "tools/sdk/session.h"
#include "tools/sdk/socket.h"

/*
 * What: the library's interface: a session (session.h) on a socket (socket.h).
 *
 * Invariants: the descriptor is -1 exactly when there is no connection. Bytes that were received
 * before the connection ended are still handed out, so no answer that arrived is lost.
 * Bounds: agx_next() makes one system call for each direction and turn. It ends at its deadline
 * even if the appliance sends single bytes for ever.
 */

#define PAUSE_FIRST_MS 10       /* before a second try, of a connection or a call */
#define PAUSE_LAST_MS  500

const char *agx_result_text(enum agx_result result)
{
    static const char *const texts[] = {
        [AGX_OK] = "ok",
        [AGX_AGAIN] = "nothing yet",
        [AGX_ERROR_ARGUMENT] = "argument out of range",
        [AGX_ERROR_ADDRESS] = "address is not unix:PATH or HOST:PORT with a numeric host",
        [AGX_ERROR_CONNECT] = "cannot connect",
        [AGX_ERROR_TIMEOUT] = "connected, but no answer in time",
        [AGX_ERROR_CLOSED] = "the appliance closed the connection",
        [AGX_ERROR_PROTOCOL] = "what was received is not protocol version 1",
        [AGX_ERROR_VERSION] = "no common protocol version",
        [AGX_ERROR_KEY] = "the appliance asks for a key, or does not accept this one or this user",
        [AGX_ERROR_IMPOSTOR] = "the appliance asks for no key, or does not prove that it has it",
        [AGX_ERROR_REFUSED] = "refused by the appliance",
        [AGX_ERROR_BUSY] = "the appliance is busy",
        [AGX_ERROR_INDEX] = "tokens are missing, doubled or out of order",
        [AGX_ERROR_DIGEST] = "the digest of the tokens does not match",
        [AGX_ERROR_DIFFERENT] = "the answer is not the one that was begun before the break",
        [AGX_ERROR_UNKNOWN_CALL] = "an answer to a call that is not open",
        [AGX_ERROR_SPACE] = "a buffer is too small",
        [AGX_ERROR_SYSTEM] = "an operating system call failed",
    };
    size_t index = (size_t)result;
    return index < sizeof texts / sizeof texts[0] ? texts[index] : "unknown result";
}

#define FINISH(id, value, word, help) \
    STATIC_ASSERT((int)AGX_FINISH_##id == (value), "agx.h has the values of the protocol");
#include "config/base/finish.def"
#undef FINISH

const char *agx_finish_text(enum agx_finish finish)
{
    static const char *const texts[] = {
        "unknown",
#define FINISH(id, value, word, help) [AGX_FINISH_##id] = (word),
#include "config/base/finish.def"
#undef FINISH
    };
    size_t index = (size_t)finish;
    return index < sizeof texts / sizeof texts[0] ? texts[index] : texts[0];
}

/* ---- moving bytes ---------------------------------------------------------------------------- */

/* Twice as long each time, so that the appliance is not asked faster than it can answer. */
static uint32_t pause_ms(uint32_t tries)
{
    uint32_t pause = (uint32_t)PAUSE_FIRST_MS << (tries < 6 ? tries : 6);
    return pause < PAUSE_LAST_MS ? pause : PAUSE_LAST_MS;
}

uint32_t agx_retry_ms(uint32_t hint_ms, uint32_t tries, uint64_t *lot)
{
    uint32_t least = hint_ms > pause_ms(tries) ? hint_ms : pause_ms(tries);
    *lot = *lot * UINT64_C(6364136223846793005) + 1442695040888963407u;
    uint64_t sum = least + ((*lot >> 32) * (least / 2 + 1) >> 32);  /* its high bits are good */
    return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

/* True when calls are due and have room, but it is not yet time to send them. */
static bool is_pausing(const struct agx *agx)
{
    return agx->calls_due > 0 && !agx_wants_write(agx);
}

/* Queues calls that are to be sent again; after a busy answer not before a pause. */
static enum agx_result resend(struct agx *agx)
{
    if (agx->calls_due == 0) {
        return AGX_OK;
    }
    uint64_t now_ms = agx_socket_deadline(0);
    if (agx->is_busy) {
        agx->resend_ms = now_ms + agx_retry_ms(agx->busy_ms, agx->busy_tries++, &agx->lot);
        agx->is_busy = 0;
        agx->busy_ms = 0;
    }
    return now_ms < agx->resend_ms ? AGX_OK : agx_session_resend(agx);
}

/* Sends what can be sent now. A peer that is gone takes no more, but what it sent before must still
 * be read: receiving finds out that it is gone. */
static enum agx_result flush(struct agx *agx)
{
    for (;;) {
        uint32_t count, moved;
        enum agx_result result = resend(agx);
        result = result == AGX_OK ? agx_session_chat_more(agx) : result;
        const uint8_t *bytes = agx_session_unsent(agx, &count);
        if (result != AGX_OK || count == 0) {
            return result;
        }
        result = agx_socket_send(agx->descriptor, bytes, count, &moved);
        if (result == AGX_AGAIN) {
            return AGX_OK;
        }
        if (result != AGX_OK && result != AGX_ERROR_CLOSED) {
            return agx_session_break(agx, result);
        }
        agx_session_sent(agx, result == AGX_OK ? moved : count);
    }
}

/* AGX_OK: something came; AGX_AGAIN: nothing yet. */
static enum agx_result fill(struct agx *agx)
{
    uint32_t room, moved;
    uint8_t *bytes = agx_session_room(agx, &room);
    ASSERT(room > 0);                   /* a frame that fills the buffer was taken out already */
    enum agx_result result = agx_socket_receive(agx->descriptor, bytes, room, &moved);
    if (result == AGX_OK) {
        agx_session_received(agx, moved);
    } else if (result != AGX_AGAIN) {
        return agx_session_break(agx, result);
    }
    return result;
}

/* Moves bytes both ways once, after waiting for them up to the deadline: AGX_OK when bytes came. */
static enum agx_result exchange(struct agx *agx, uint64_t deadline_ms)
{
    enum agx_result result = flush(agx);
    if (result != AGX_OK) {
        return result;
    }
    result = fill(agx);
    if (result != AGX_AGAIN) {
        return result;
    }
    short events = (short)(POLLIN | (agx_wants_write(agx) ? POLLOUT : 0));
    uint64_t until_ms = is_pausing(agx) && agx->resend_ms < deadline_ms ? agx->resend_ms
                                                                        : deadline_ms;
    result = agx_socket_wait(agx->descriptor, events, until_ms);
    if (result == AGX_AGAIN) {
        return until_ms < deadline_ms ? AGX_OK : AGX_AGAIN;
    }
    return result == AGX_OK ? AGX_OK : agx_session_break(agx, result);
}

enum agx_result agx_next(struct agx *agx, struct agx_event *event, int timeout_ms)
{
    if (agx == NULL || event == NULL || agx->descriptor < 0) {
        return AGX_ERROR_ARGUMENT;
    }
    uint64_t deadline_ms = agx_socket_deadline(timeout_ms);
    for (int turn = 0;; turn++) {
        enum agx_result result = agx_session_next(agx, event);
        if (result != AGX_AGAIN) {
            return result;
        }
        /* With bytes that never make a frame, the deadline is looked at here. */
        if (turn > 0 && agx_socket_deadline(0) >= deadline_ms) {
            return AGX_AGAIN;
        }
        result = exchange(agx, deadline_ms);
        if (result != AGX_OK) {
            return result;
        }
    }
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* Moves bytes until `take` has found its frame among them. */
static enum agx_result await(struct agx *agx, enum agx_result (*take)(struct agx *agx),
                             uint64_t deadline_ms)
{
    for (int turn = 0;; turn++) {
        enum agx_result result = take(agx);
        if (result != AGX_AGAIN) {
            return result;
        }
        if (turn > 0 && agx_socket_deadline(0) >= deadline_ms) {
            return AGX_ERROR_TIMEOUT;
        }
        result = exchange(agx, deadline_ms);
        if (result != AGX_OK) {
            return result == AGX_AGAIN ? AGX_ERROR_TIMEOUT : result;
        }
    }
}

static enum agx_result greet(struct agx *agx, uint64_t deadline_ms)
{
    enum agx_result result = agx_session_hello(agx);
    ASSERT(result == AGX_OK);           /* the buffer is empty */
    return await(agx, agx_session_welcome, deadline_ms);
}

static enum agx_result authenticate(struct agx *agx, const struct agx_key *key,
                                    uint64_t deadline_ms)
{
    uint8_t nonce[WIRE_NONCE_BYTES];
    enum agx_result result = agx_socket_entropy(nonce, sizeof nonce);
    if (result == AGX_OK) {
        result = agx_session_auth(agx, key, nonce);
    }
    if (result == AGX_OK) {
        result = await(agx, agx_session_admitted, deadline_ms);
    }
    return result == AGX_OK ? result : agx_session_break(agx, result);
}

static bool is_key(const struct agx_key *key)
{
    return key != NULL && memchr(key->id, '\0', sizeof key->id) != NULL;
}

enum agx_result agx_authenticate(struct agx *agx, const struct agx_key *key, int timeout_ms)
{
    if (agx == NULL || !is_key(key) || agx->descriptor < 0 ||
        (agx->welcome.needs_key && agx->is_admitted)) {
        return AGX_ERROR_ARGUMENT;
    }
    return authenticate(agx, key, agx_socket_deadline(timeout_ms));
}

/* `agx` is initialised and owns the descriptor from here on. */
static enum agx_result attach(struct agx *agx, int descriptor, uint64_t deadline_ms)
{
    agx->descriptor = descriptor;
    enum agx_result result = agx_socket_adopt(descriptor);
    if (result == AGX_OK) {
        result = greet(agx, deadline_ms);
    }
    if (result != AGX_OK) {
        agx_close(agx);
    }
    return result;
}

enum agx_result agx_attach(struct agx *agx, int descriptor, void *buffer, size_t buffer_bytes,
                           int timeout_ms)
{
    if (agx == NULL || descriptor < 0) {
        return AGX_ERROR_ARGUMENT;
    }
    enum agx_result result = agx_session_init(agx, buffer, buffer_bytes);
    result = result == AGX_OK ? agx_session_name(agx, NULL) : result;
    if (result != AGX_OK) {
        close(descriptor);
        return result;
    }
    return attach(agx, descriptor, agx_socket_deadline(timeout_ms));
}

enum agx_result agx_open_target(struct agx *agx, const struct agx_target *target, void *buffer,
                                size_t buffer_bytes, int timeout_ms)
{
    int descriptor = -1;
    if (agx == NULL || target == NULL || target->address == NULL) {
        return AGX_ERROR_ARGUMENT;
    }
    enum agx_result result = agx_session_init(agx, buffer, buffer_bytes);
    result = result == AGX_OK ? agx_session_name(agx, target->affinity) : result;
    if (result != AGX_OK) {
        return result;
    }
    uint64_t deadline_ms = agx_socket_deadline(timeout_ms);
    result = agx_socket_connect(target->address, deadline_ms, &descriptor);
    return result == AGX_OK ? attach(agx, descriptor, deadline_ms) : result;
}

enum agx_result agx_open(struct agx *agx, const char *address, void *buffer, size_t buffer_bytes,
                         int timeout_ms)
{
    const struct agx_target target = {.address = address};
    return agx_open_target(agx, &target, buffer, buffer_bytes, timeout_ms);
}

void agx_close(struct agx *agx)
{
    if (agx != NULL && agx->descriptor >= 0) {
        close(agx->descriptor);
        agx->descriptor = -1;
    }
}

/* ---- resuming -------------------------------------------------------------------------------- */

static enum agx_result resume_once(struct agx *agx, const char *address, const struct agx_key *key,
                                   uint64_t deadline_ms)
{
    int descriptor = -1;
    agx_close(agx);
    agx_session_reset(agx);
    enum agx_result result = agx_socket_connect(address, deadline_ms, &descriptor);
    if (result == AGX_OK) {
        result = attach(agx, descriptor, deadline_ms);
    }
    if (result == AGX_OK && key != NULL) {
        result = authenticate(agx, key, deadline_ms);
    }
    if (result != AGX_OK) {
        return result;
    }
    if (!agx->is_admitted) {
        return agx_session_break(agx, AGX_ERROR_KEY);
    }
    agx_session_resume(agx);
    return flush(agx);
}

/* True when nothing listens, or when what listens closes at once or has no room. */
static bool is_of_a_restart(enum agx_result result)
{
    return result == AGX_ERROR_CONNECT || result == AGX_ERROR_CLOSED || result == AGX_ERROR_BUSY;
}

enum agx_result agx_resume(struct agx *agx, const char *address, const struct agx_key *key,
                           int timeout_ms)
{
    if (agx == NULL || address == NULL || agx->in == NULL || (key != NULL && !is_key(key))) {
        return AGX_ERROR_ARGUMENT;
    }
    if (agx->broken != AGX_OK && agx->broken != AGX_ERROR_CLOSED) {
        return agx->broken;
    }
    uint64_t deadline_ms = agx_socket_deadline(timeout_ms);
    if (agx_socket_entropy((uint8_t *)&agx->lot, sizeof agx->lot) != AGX_OK) {
        return AGX_ERROR_SYSTEM;
    }
    for (uint32_t tries = 0;; tries++) {
        if (agx->connect_ms > deadline_ms) {
            agx_socket_pause(deadline_ms);
            return AGX_ERROR_BUSY;              /* as it said the last time */
        }
        agx_socket_pause(agx->connect_ms);
        enum agx_result result = resume_once(agx, address, key, deadline_ms);
        if (result == AGX_ERROR_TIMEOUT) {
            agx->broken = AGX_ERROR_CLOSED;     /* another try may come in time */
        }
        if (!is_of_a_restart(result)) {
            return result;
        }
        agx->broken = AGX_ERROR_CLOSED;
        uint32_t hint_ms = result == AGX_ERROR_BUSY ? agx->fault.retry_ms : 0;
        uint64_t again_ms = agx_socket_deadline(0) + agx_retry_ms(hint_ms, tries, &agx->lot);
        agx->connect_ms = hint_ms != 0 ? again_ms : 0;
        if (again_ms >= deadline_ms) {
            return result;
        }
        agx_socket_pause(again_ms);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Before a request: AGX_OK when one may be made at all. */
static enum agx_result may_ask(const struct agx *agx, const void *argument)
{
    if (agx == NULL || argument == NULL || agx->descriptor < 0) {
        return AGX_ERROR_ARGUMENT;
    }
    return agx->broken != AGX_OK ? agx->broken : agx->is_admitted ? AGX_OK : AGX_ERROR_KEY;
}

/* After a request was queued. */
static enum agx_result ask(struct agx *agx, enum agx_result queued)
{
    return queued == AGX_OK ? flush(agx) : queued;
}

enum agx_result agx_program_start(struct agx *agx, const uint8_t id[AGX_ID_BYTES])
{
    return agx_program_start_class(agx, id, NULL);
}

enum agx_result agx_program_start_class(struct agx *agx, const uint8_t id[AGX_ID_BYTES],
                                        const char *class_name)
{
    enum agx_result result = may_ask(agx, id);
    return result == AGX_OK ? ask(agx, agx_session_program_start(agx, id, class_name)) : result;
}

enum agx_result agx_program_end(struct agx *agx, const uint8_t id[AGX_ID_BYTES])
{
    enum agx_result result = may_ask(agx, id);
    return result == AGX_OK ? ask(agx, agx_session_program_end(agx, id)) : result;
}

enum agx_result agx_call_start(struct agx *agx, const struct agx_call *call)
{
    enum agx_result result = may_ask(agx, call);
    return result == AGX_OK ? ask(agx, agx_session_call(agx, call)) : result;
}

enum agx_result agx_cancel(struct agx *agx, const uint8_t program_id[AGX_ID_BYTES],
                           uint64_t call_id)
{
    enum agx_result result = may_ask(agx, program_id);
    return result == AGX_OK ? ask(agx, agx_session_cancel(agx, program_id, call_id)) : result;
}

enum agx_result agx_ping(struct agx *agx, uint64_t nonce)
{
    enum agx_result result = may_ask(agx, agx);
    return result == AGX_OK ? ask(agx, agx_session_ping(agx, nonce)) : result;
}

enum agx_result agx_chat_ask(struct agx *agx, uint64_t nonce)
{
    enum agx_result result = may_ask(agx, agx);
    return result == AGX_OK ? ask(agx, agx_session_chat_ask(agx, nonce, 0)) : result;
}

enum agx_result agx_model_ask(struct agx *agx, uint64_t nonce)
{
    enum agx_result result = may_ask(agx, agx);
    return result == AGX_OK ? ask(agx, agx_session_model_ask(agx, nonce)) : result;
}

enum agx_result agx_flow_open(struct agx *agx, struct agx_flow_run *run)
{
    enum agx_result result = may_ask(agx, run);
    return result == AGX_OK ? ask(agx, agx_session_flow_open(agx, run)) : result;
}

enum agx_result agx_flow_row(struct agx *agx, struct agx_flow_run *run, uint32_t row,
                             const struct agx_text *columns, uint32_t count)
{
    enum agx_result result = may_ask(agx, run);
    return result == AGX_OK ? ask(agx, agx_session_flow_row(agx, run, row, columns, count))
                            : result;
}

enum agx_result agx_flow_answer(struct agx *agx, struct agx_flow_run *run,
                                const struct agx_flow_answer *answer)
{
    enum agx_result result = may_ask(agx, run);
    return result == AGX_OK ? ask(agx, agx_session_flow_answer(agx, run, answer)) : result;
}

enum agx_result agx_flow_end(struct agx *agx, struct agx_flow_run *run, int cancel)
{
    enum agx_result result = may_ask(agx, run);
    return result == AGX_OK ? ask(agx, agx_session_flow_end(agx, run, cancel)) : result;
}

/* ---- reporting ------------------------------------------------------------------------------- */

const struct agx_fault *agx_fault(const struct agx *agx)
{
    return &agx->fault;
}

int agx_is_open(const struct agx *agx)
{
    return agx->descriptor >= 0 && agx->broken == AGX_OK;
}

int agx_descriptor(const struct agx *agx)
{
    return agx->descriptor;
}

int agx_wait_ms(const struct agx *agx)
{
    uint64_t now_ms = agx_socket_deadline(0);
    if (!is_pausing(agx)) {
        return -1;
    }
    return agx->resend_ms > now_ms ? (int)(agx->resend_ms - now_ms) : 0;
}

int agx_wants_write(const struct agx *agx)
{
    uint32_t count;
    (void)agx_session_unsent(agx, &count);
    return count > 0;
}
