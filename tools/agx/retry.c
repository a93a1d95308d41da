/* SPDX-License-Identifier: MIT */
#include "tools/agx/retry.h"

#include <inttypes.h>
#include <stdio.h>

#include "tools/sdk/socket.h"

/*
 * What: the count of busy answers, and the pause after each.
 * Bounds: tries_max pauses for each request. A pause is at most one and a half times the longer of
 * the appliance's hint and half a second.
 */

bool retry_again(struct retry *retry, const struct agx_fault *fault, uint32_t *tries,
                 uint64_t *pause_us)
{
    if (retry == NULL || *tries >= retry->tries_max) {
        return false;
    }
    *pause_us = (uint64_t)agx_retry_ms(fault->retry_ms, (*tries)++, &retry->lot) * 1000;
    retry->waits++;
    return true;
}

bool retry_wait(struct retry *retry, const struct agx_fault *fault, uint32_t *tries)
{
    uint64_t pause_us;
    if (!retry_again(retry, fault, tries, &pause_us)) {
        return false;
    }
    agx_socket_pause(agx_socket_deadline((int)(pause_us / 1000)));
    return true;
}

void retry_report(const struct retry *retry)
{
    if (retry->waits > 0) {
        fprintf(stderr, "agx: the appliance was busy: told to wait %" PRIu64 " times\n",
                retry->waits);
    }
}
