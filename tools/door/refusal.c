/* SPDX-License-Identifier: MIT */
/* What: why a request is refused, and the status and words that say so (tools/door/request.h). */
#include <stdio.h>

#include "appliance/log.h"
#include "config/base/status.h"
#include "tools/door/endpoint.h"
#include "tools/door/http.h"
#include "tools/door/request.h"

#define LINES_MAX 8                     /* between two calls of request_tell_refusals() */

static const char *type_of(uint32_t status)
{
    return status == 401   ? "authentication_error"
           : status == 404 ? "not_found_error"
           : status == 413 ? "request_too_large"
           : status == 429 ? "rate_limit_error"
           : status == 503 ? "overloaded_error"
           : status >= 500 ? "api_error"
                           : "invalid_request_error";
}

/* What is refused may be quoted in part: half a character, or bytes that are none, are no JSON. */
static void keep_ascii(char *text)
{
    for (; *text != '\0'; text++) {
        *text = *text < ' ' || *text > '~' ? '?' : *text;
    }
}

/* Who was refused, and never with which token. Strangers bring about a few lines a second at most,
 * and the number of the others. */
static void tell_unauthorized(const struct request *request)
{
    char peer[HTTP_PEER_BYTES];
    const struct config_key *key = request->is_known ? request->domain->key : NULL;
    if (request->door->unauthorized++ < LINES_MAX) {
        http_peer(request, peer);
        log_event(LOG_WARN, "refused request from=%s path=%s%s%.*s: %s", peer,
                  request->endpoint->path, key != NULL ? " key=" : "", CONFIG_KEY_NAME_BYTES,
                  key != NULL ? key->id : "", request->refusal.text);
    }
}

void request_tell_refusals(struct door *door)
{
    if (door->unauthorized > LINES_MAX) {
        log_event(LOG_WARN, "refused %u more requests: no token that is known, or one whose key is "
                  "refused", door->unauthorized - LINES_MAX);
    }
    door->unauthorized = 0;
}

bool request_refuse(struct request *request, uint32_t status, const char *param, const char *text)
{
    struct refusal *refusal = &request->refusal;
    if (refusal->status == 0) {
        *refusal = (struct refusal){.status = status, .type = type_of(status),
                                    .retry_s = status == 429 || status == 503 ? 1 : 0};
        snprintf(refusal->param, sizeof refusal->param, "%s", param != NULL ? param : "");
        snprintf(refusal->text, sizeof refusal->text, "%s", text);
        keep_ascii(refusal->param);
        keep_ascii(refusal->text);
        request->door->stats.refused++;
        if (status == 401) {
            tell_unauthorized(request);
        }
    }
    return false;
}

bool request_refuse_memory(struct request *request)
{
    return request_refuse(request, 503, NULL, DOOR_MEMORY_TEXT);
}

bool request_refuse_body(struct request *request, enum parse_result result,
                         const json_error_t *error)
{
    char text[256];
    bool is_range = result == PARSE_RANGE;
    if (result == PARSE_NO_ROOM) {
        return request_refuse_memory(request);
    }
    if (result == PARSE_TOO_LARGE) {
        return request_refuse(request, 413, NULL, "the body needs more memory than door.memory");
    }
    snprintf(text, sizeof text, "the body %s: %.100s at byte %d%s",
             is_range ? "has a number out of range" : "is not JSON", error->text, error->position,
             is_range ? "; " PARSE_RANGE_TEXT : "");
    return request_refuse(request, 400, NULL, text);
}

static void write_bounds(const struct agx_fault *fault, char *text, size_t bytes)
{
    double scale = fault->in_thousandths ? 1000 : 1;
    if (fault->min != 0 || fault->max != 0) {
        snprintf(text, bytes, " (found %.10g, allowed %.10g to %.10g)",
                 (double)(int64_t)fault->found / scale, (double)(int64_t)fault->min / scale,
                 (double)(int64_t)fault->max / scale);
    }
}

static uint32_t status_of(const struct agx_fault *fault)
{
    enum status status = status_from_wire(fault->code);
    return status == STATUS_BUSY_DRAINING     ? 503
           : status == STATUS_BUSY_CALL_OPEN  ? 409
           : fault->is_busy                   ? 429
           : status == STATUS_BAD_CALL_OPEN   ? 409
           : status == STATUS_BAD_CALL_REUSED ? 409
                                              : 400;
}

bool request_refuse_fault(struct request *request, const struct agx_fault *fault)
{
    char text[256], bounds[96] = "";
    uint32_t status = status_of(fault);
    write_bounds(fault, bounds, sizeof bounds);
    snprintf(text, sizeof text, "%s%s", fault->text != NULL ? fault->text : "refused", bounds);
    (void)request_refuse(request, status, status == 400 ? fault->field : NULL, text);
    if (fault->retry_ms > 0) {
        request->refusal.retry_s = (fault->retry_ms + 999) / 1000;
    }
    return false;
}
