/* SPDX-License-Identifier: MIT */
#include "tools/sdk/session.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/base/bounds.h"

/*
 * What: the table of open calls, and what the caller has of each.
 *
 *                  agx_call_start        ACCEPT              DONE
 *            FREE --------------> SENT --------> ACCEPTED --------> FREE
 *                                  ^ |             |
 *                       resend     | | busy        | DONE that says shutdown
 *                                  | v             v
 *                                 DUE <----------- LOST      a break makes all of them DUE
 *
 * A call that is sent again is answered from its first token on. `seen` is what has come over this
 * connection; `told` is what the caller has, over all connections. What comes a second time is only
 * counted and hashed; where `told` ends, the hashes must be equal. Every text that was sent is a
 * beginning of the whole one (docs/protocol.md), so that holds however the calls end.
 *
 * Invariants: calls_due is the number of calls that are DUE; told is never less than seen.
 * Bounds: the table is AGX_CALLS_MAX long and searched from the front; no copies of requests or
 * tokens.
 */

struct agx_open_call *agx_calls_find(struct agx *agx, uint64_t call_id)
{
    for (uint32_t i = 0; i < AGX_CALLS_MAX; i++) {
        if (agx->calls[i].state != AGX_CALL_FREE && agx->calls[i].call_id == call_id) {
            return &agx->calls[i];
        }
    }
    return NULL;
}

enum agx_result agx_calls_find_in(struct agx *agx, uint64_t call_id, enum agx_call_state state,
                                  struct agx_open_call **call)
{
    *call = agx_calls_find(agx, call_id);
    if (*call == NULL) {
        return AGX_ERROR_UNKNOWN_CALL;
    }
    return (*call)->state == state ? AGX_OK : AGX_ERROR_PROTOCOL;
}

enum agx_result agx_calls_check_done(const struct agx_open_call *call, const struct wire_done *done)
{
    if (call->state != AGX_CALL_ACCEPTED || done->has_drafts != (call->wants_drafts != 0)) {
        return AGX_ERROR_PROTOCOL;
    }
    if (done->generated_tokens != call->seen.tokens) {
        return AGX_ERROR_INDEX;
    }
    return done->digest == call->seen.digest ? AGX_OK : AGX_ERROR_DIGEST;
}

struct agx_open_call *agx_calls_free(struct agx *agx)
{
    for (uint32_t i = 0; i < AGX_CALLS_MAX; i++) {
        if (agx->calls[i].state == AGX_CALL_FREE) {
            return &agx->calls[i];
        }
    }
    return NULL;
}

/* ---- sending again --------------------------------------------------------------------------- */

void agx_calls_make_due(struct agx *agx, struct agx_open_call *call)
{
    ASSERT(call->state != AGX_CALL_FREE && call->state != AGX_CALL_DUE);
    call->state = AGX_CALL_DUE;
    call->is_resent = 1;
    call->seen = AGX_PROGRESS_NONE;
    agx->calls_due++;
}

void agx_session_resume(struct agx *agx)
{
    ASSERT(agx->calls_due == 0);
    for (uint32_t i = 0; i < AGX_CALLS_MAX; i++) {
        if (agx->calls[i].state != AGX_CALL_FREE) {
            agx_calls_make_due(agx, &agx->calls[i]);
        }
    }
}

enum agx_result agx_session_resend(struct agx *agx)
{
    for (uint32_t i = 0; i < AGX_CALLS_MAX && agx->calls_due > 0; i++) {
        struct agx_open_call *call = &agx->calls[i];
        if (call->state != AGX_CALL_DUE) {
            continue;
        }
        enum agx_result result = agx_session_put_call(agx, call->request);
        if (result != AGX_OK) {
            return result == AGX_AGAIN ? AGX_OK : agx_session_break(agx, result);
        }
        call->state = AGX_CALL_SENT;
        agx->calls_due--;
    }
    return AGX_OK;
}

/* ---- what has come, and what of it is new ---------------------------------------------------- */

enum agx_result agx_calls_take_tokens(struct agx_open_call *call, const uint32_t *tokens,
                                      uint32_t count, uint32_t *old)
{
    struct agx_progress *seen = &call->seen, *told = &call->told;
    *old = lesser(count, told->tokens - seen->tokens);
    seen->tokens += *old;
    seen->digest = wire_digest(seen->digest, tokens, *old);
    if (seen->tokens < told->tokens) {
        return AGX_OK;
    }
    if (seen->digest != told->digest) {
        return AGX_ERROR_DIFFERENT;
    }
    seen->tokens += count - *old;
    seen->digest = wire_digest(seen->digest, tokens + *old, count - *old);
    told->tokens = seen->tokens;
    told->digest = seen->digest;
    return AGX_OK;
}

enum agx_result agx_calls_take_text(struct agx_open_call *call, const char *text, uint32_t bytes,
                                    uint32_t *old)
{
    struct agx_progress *seen = &call->seen, *told = &call->told;
    *old = lesser(bytes, told->text_bytes - seen->text_bytes);
    seen->text_bytes += *old;
    seen->text_digest = fnv_add(seen->text_digest, text, *old);
    if (seen->text_bytes < told->text_bytes) {
        return AGX_OK;
    }
    if (seen->text_digest != told->text_digest) {
        return AGX_ERROR_DIFFERENT;
    }
    seen->text_bytes += bytes - *old;
    seen->text_digest = fnv_add(seen->text_digest, text + *old, bytes - *old);
    told->text_bytes = seen->text_bytes;
    told->text_digest = seen->text_digest;
    return AGX_OK;
}

bool agx_calls_is_behind(const struct agx_open_call *call)
{
    return call->seen.tokens < call->told.tokens ||
           call->seen.text_bytes < call->told.text_bytes;
}
