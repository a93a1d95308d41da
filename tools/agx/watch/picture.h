/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: events of the event log, in order, as a picture of the appliance at work:
 *
 *   process 1, engine      a track for the steps; a track for each row of a step, with the call
 *                          that is in it
 *   process of a program   a track for each of its calls that are open at once: `wait`, `run`, and
 *                          `gap` from the end of its last call to the next; instants for the rest
 *
 * The picture may begin anywhere: a call is drawn from the first event that names it.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/event_log.h"
#include "tools/trace/chrome.h"

#define PICTURE_TRACKS_MAX 1024     /* of a program: calls beyond them share the last */

struct picture_call {               /* by slot */
    bool is_open;
    uint64_t client_call_id;
    uint32_t program;               /* in picture.programs */
    uint32_t track;
    uint64_t since_us;              /* it is drawn up to here; if it runs, it runs since then */
    bool is_running;                /* since run_since_us, step after step without a pause */
    uint64_t run_since_us, run_fed, run_tokens;
};
struct picture_program {            /* process: index + 2 */
    uint32_t slot;
    uint8_t tag[EVENT_PROGRAM_TAG_BYTES];
    uint32_t open_calls;
    uint64_t closed_us;             /* only tracks of open calls are drawn beyond this */
    uint64_t idle_since_us;         /* end of its last call; 0: not known, or no gap */
    uint32_t tracks_named;
    uint64_t tracks[PICTURE_TRACKS_MAX / 64];   /* bit t: track t is taken */
};
struct picture {
    struct chrome *chrome;
    struct picture_call *calls;
    struct picture_program *programs;
    uint32_t *program_of_slot;      /* UINT32_MAX: none yet */
    uint32_t calls_room, programs_count, programs_room, slots_room;
    uint32_t rows_named;
    uint64_t step_since_us;         /* of the step in flight; 0: none */
    uint64_t steps_us;              /* up to here the track of steps is drawn */
    uint64_t calls_seen;
    bool out_of_memory;             /* what does not fit is not drawn */
};

void picture_begin(struct picture *picture, struct chrome *chrome);
void picture_add(struct picture *picture, const struct event *event);
/* `count` events before the next one are lost: all open stretches end. */
void picture_lose(struct picture *picture, uint64_t count, uint64_t now_us);
/* Draws what is open up to now, and frees all memory. */
void picture_end(struct picture *picture, uint64_t now_us);
