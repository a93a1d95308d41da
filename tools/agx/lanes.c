/* SPDX-License-Identifier: MIT */
#include "tools/agx/lanes.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RETRY_FIRST_US 10000
#define RETRY_LAST_US  500000
#define RESUME_MS      250      /* of one lanes_resume(): other lanes and a screen wait for it */

/*
 * What: connections that are opened when they are needed.
 * Invariant: lane i was opened before lane i + 1, except in a pool. A call takes the first lane
 * with room, so a replay that needs one connection uses one. After the appliance refuses a
 * connection, the present number is the limit; a pool waits, because each of its lanes leads to an
 * appliance of its own. After a try without an answer, we try again for DIAL_PATIENCE_MS, because
 * the appliance has answered before.
 * Bounds: LANES_MAX buffers, each taken at the lane's first opening and used again.
 */

int lanes_init(struct lanes *lanes, const char *to, struct retry *retry,
               struct agx_welcome *welcome)
{
    memset(lanes, 0, sizeof *lanes);
    lanes->to = to;
    lanes->limit = LANES_MAX;
    /* A small buffer first: WELCOME tells the size of the real one. */
    struct dial probe = {.retry = retry};
    int code = dial_open(&probe, to, 0);
    if (code == EXIT_COMPLETE) {
        *welcome = probe.agx.welcome;
        lanes->frame_bytes = (size_t)welcome->frame_bytes_max;
        lanes->calls_max = welcome->calls_per_connection_max < AGX_CALLS_MAX
                               ? welcome->calls_per_connection_max : AGX_CALLS_MAX;
        agx_close(&probe.agx);
    }
    free(probe.buffer);
    return code;
}

/* No answer: notes since when, and the time of the next try. */
static int be_patient(struct lanes *lanes, const struct dial *dial, enum agx_result result)
{
    uint64_t now_us = dial_now_us();
    lanes->away_since_us = lanes->away_since_us != 0 ? lanes->away_since_us : now_us;
    if (now_us - lanes->away_since_us > (uint64_t)DIAL_PATIENCE_MS * 1000) {
        (void)dial_fail(&dial->agx, result, lanes->to);
        return LANES_FAIL;
    }
    lanes->again_us = now_us + lanes_retry_us(lanes->away_tries++);
    return LANES_FULL;
}

int lanes_make_pool(struct lanes *lanes, uint32_t count)
{
    uint8_t id[AGX_ID_BYTES];
    unsigned long long run;
    if (agx_unique_id(id) != AGX_OK) {
        return dial_fail(NULL, AGX_ERROR_SYSTEM, "a name of the pool");
    }
    memcpy(&run, id, sizeof run);
    lanes->pool = lanes->count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct lane *lane = &lanes->lane[i];
        snprintf(lane->affinity, sizeof lane->affinity, "agx-%016llx-%u", run, i);
        lane->dial.affinity = lane->affinity;
    }
    return EXIT_COMPLETE;
}

/* True when another try may find a place: in a pool, at a busy appliance. */
static bool may_wait(const struct lanes *lanes, enum agx_result result)
{
    return result == AGX_ERROR_CONNECT || result == AGX_ERROR_CLOSED ||
           result == AGX_ERROR_TIMEOUT || (result == AGX_ERROR_BUSY && lanes->pool > 0);
}

/* Opens one lane. A busy appliance means that the lanes so far are the limit. */
static int open_lane(struct lanes *lanes, uint32_t index)
{
    struct lane *lane = &lanes->lane[index];
    if (dial_now_us() < lanes->again_us) {
        return LANES_FULL;
    }
    enum agx_result result = dial_try(&lane->dial, lanes->to, lanes->frame_bytes);
    if (may_wait(lanes, result)) {
        return be_patient(lanes, &lane->dial, result);
    }
    lanes->away_since_us = lanes->again_us = lanes->away_tries = 0;
    if (result != AGX_OK) {
        (void)dial_fail(&lane->dial.agx, result, lanes->to);
        lanes->limit = index;
        return index > 0 ? LANES_FULL : LANES_FAIL;
    }
    lane->is_open = true;
    lane->open_calls = 0;
    lanes->count = index + 1 > lanes->count ? index + 1 : lanes->count;
    return (int)index;
}

static int pick_in_pool(struct lanes *lanes, uint32_t index)
{
    const struct lane *lane = &lanes->lane[index];
    if (!lane->is_open) {
        return open_lane(lanes, index);
    }
    bool has_room = agx_is_open(&lane->dial.agx) && lane->open_calls < lanes->calls_max;
    return has_room ? (int)index : LANES_FULL;
}

int lanes_pick(struct lanes *lanes, uint32_t session)
{
    if (lanes->pool > 0) {
        return pick_in_pool(lanes, session % lanes->pool);
    }
    for (uint32_t i = 0; i < lanes->count; i++) {
        struct lane *lane = &lanes->lane[i];
        if (!lane->is_open && i < lanes->limit) {
            return open_lane(lanes, i);
        }
        if (lane->is_open && agx_is_open(&lane->dial.agx) &&
            lane->open_calls < lanes->calls_max) {
            return (int)i;
        }
    }
    return lanes->count < lanes->limit ? open_lane(lanes, lanes->count) : LANES_FULL;
}

void lanes_wait(struct lanes *lanes, uint64_t timeout_us)
{
    struct pollfd watched[LANES_MAX];
    nfds_t count = 0;
    struct timespec timeout = {.tv_sec = (time_t)(timeout_us / 1000000),
                               .tv_nsec = (long)(timeout_us % 1000000) * 1000};
    for (uint32_t i = 0; i < lanes->count; i++) {
        struct agx *agx = &lanes->lane[i].dial.agx;
        if (lanes->lane[i].is_open) {
            watched[count++] = (struct pollfd){
                .fd = agx_descriptor(agx),
                .events = (short)(POLLIN | (agx_wants_write(agx) ? POLLOUT : 0))};
        }
    }
    (void)ppoll(watched, count, &timeout, NULL);
}

enum agx_result lanes_next(struct lanes *lanes, uint32_t index, struct agx_event *event)
{
    struct lane *lane = &lanes->lane[index];
    enum agx_result result = agx_next(&lane->dial.agx, event, 0);
    bool is_refused = result == AGX_OK && event->kind == AGX_REFUSED &&
                      strcmp(agx_fault(&lane->dial.agx)->frame, "CALL") == 0;
    if (is_refused || (result == AGX_OK && event->kind == AGX_DONE)) {
        lane->open_calls--;
    }
    lane->dial.breaks = result == AGX_OK ? 0 : lane->dial.breaks;
    /* The appliance may close an idle connection with a reason: no error while nothing is open. */
    if (lane->open_calls == 0 && (result == AGX_ERROR_CLOSED || result == AGX_ERROR_REFUSED)) {
        lanes_close(lanes, index);
        return AGX_ERROR_CLOSED;
    }
    return result;
}

enum agx_result lanes_resume(struct lanes *lanes, uint32_t index)
{
    enum agx_result result = dial_resume(&lanes->lane[index].dial, RESUME_MS);
    bool is_away = result == AGX_ERROR_CONNECT || result == AGX_ERROR_TIMEOUT ||
                   result == AGX_ERROR_BUSY;
    return is_away ? AGX_AGAIN : result;
}

/* Twice as long each time, so that we do not ask faster than the appliance can answer. */
uint64_t lanes_retry_us(uint32_t tries)
{
    uint64_t wait_us = (uint64_t)RETRY_FIRST_US << (tries < 6 ? tries : 6);
    return wait_us < RETRY_LAST_US ? wait_us : RETRY_LAST_US;
}

void lanes_close(struct lanes *lanes, uint32_t index)
{
    agx_close(&lanes->lane[index].dial.agx);
    lanes->lane[index].is_open = false;
    lanes->lane[index].open_calls = 0;
}

void lanes_free(struct lanes *lanes)
{
    for (uint32_t i = 0; i < LANES_MAX; i++) {
        if (lanes->lane[i].is_open) {
            lanes_close(lanes, i);
        }
        free(lanes->lane[i].dial.buffer);
    }
}
