/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: as many connections to one appliance as the open calls need, up to LANES_MAX. A lane opens
 * when all others are full, and again after the appliance has closed it. The lanes wait for an
 * appliance that restarts.
 *
 * A pool is for several appliances behind a load balancer: each lane has an affinity key of its
 * own, and a session's calls all take the same lane, so that they reach the same appliance.
 */
#include <stdint.h>

#include "tools/agx/dial.h"

#define LANES_MAX  64
#define LANES_FULL (-1)         /* no lane has room, or the appliance is away: try again */
#define LANES_FAIL (-2)         /* cannot connect; the message is on stderr */

struct lanes {
    const char *to;
    size_t frame_bytes;         /* of the largest request */
    uint32_t calls_max;         /* open calls of one lane */
    uint32_t count, limit;      /* lanes so far; at most (lower after the appliance refused one) */
    uint64_t away_since_us;     /* no answer since then; 0: the appliance answers */
    uint64_t again_us;          /* time of the next try */
    uint32_t away_tries;
    uint32_t pool;              /* lanes of a pool; 0: it is none */
    struct lane {
        struct dial dial;
        uint32_t open_calls;
        bool is_open;
        char affinity[AGX_AFFINITY_BYTES + 1];      /* of a pool */
    } lane[LANES_MAX];
};

/* Asks the appliance for its limits over a first connection, and closes it again; `retry` applies
 * to that connection. 0, or an exit code after a message. */
int lanes_init(struct lanes *lanes, const char *to, struct retry *retry,
               struct agx_welcome *welcome);
/* Makes it a pool of 1 .. LANES_MAX lanes, after lanes_init(); EXIT_COMPLETE, or an exit code after
 * a message. */
int lanes_make_pool(struct lanes *lanes, uint32_t count);
/* A lane for one more call, or LANES_FULL, or LANES_FAIL. `session` chooses the lane of a pool. */
int lanes_pick(struct lanes *lanes, uint32_t session);
/* Waits until a lane has bytes to read or room to write, at most `timeout_us`. */
void lanes_wait(struct lanes *lanes, uint64_t timeout_us);
/* The next event of a lane, without waiting; a call that has ended leaves `open_calls`. AGX_AGAIN:
 * there is none. AGX_ERROR_CLOSED: the appliance went away. A lane without open calls is then
 * closed. For another, the caller calls lanes_resume(), or lanes_close() and sends its open calls
 * again. Every other result is one for dial_fail(). */
enum agx_result lanes_next(struct lanes *lanes, uint32_t index, struct agx_event *event);
/* Repeated after AGX_ERROR_CLOSED. AGX_OK: the lane goes on. AGX_AGAIN: not yet, after a moment.
 * AGX_ERROR_CLOSED: it breaks every time. Every other result is one for dial_fail(). */
enum agx_result lanes_resume(struct lanes *lanes, uint32_t index);
/* The pause of a call whose lane broke `tries` times before. */
uint64_t lanes_retry_us(uint32_t tries);
void lanes_close(struct lanes *lanes, uint32_t index);
void lanes_free(struct lanes *lanes);
