/* SPDX-License-Identifier: MIT */
/*
 * What: how net says no. The text is the status's own; class BUSY carries a time after which it is
 * worth to try again: soon where a call must end, later where a program or a connection must, or
 * where the appliance has to come back. A guess, so that refused clients neither spin nor sleep.
 */
#include "net/refusal.h"

#include <string.h>

#include "config/base/assert.h"

#define RETRY_CALL_MS   100
#define RETRY_PLACE_MS  1000

static uint16_t retry_ms(enum status status)
{
    switch (status) {
    case STATUS_BUSY_CALLS:
    case STATUS_BUSY_CALLS_OF_CONN:
    case STATUS_BUSY_CALLS_OF_PROG:
    case STATUS_BUSY_CALLS_OF_KEY:
        return RETRY_CALL_MS;
    default:
        return status_class(status) == STATUS_CLASS_BUSY ? RETRY_PLACE_MS : 0;
    }
}

uint32_t net_refusal_encode(const struct wire_fault *fault, bool closes, uint8_t *bytes,
                            uint32_t max)
{
    struct wire_error error = {
        .fault = *fault, .closes = closes, .retry_ms = retry_ms(fault->status)};
    const char *text = status_text(fault->status);
    ASSERT(status_wire(fault->status) != 0);
    memcpy(error.text, text, strnlen(text, sizeof error.text - 1));
    uint32_t count = wire_error_encode(&error, bytes, max);
    ASSERT(count > 0 && count <= WIRE_REPLY_BYTES_MAX);
    return count;
}
