/* SPDX-License-Identifier: MIT */
/*
 * What: events become stretches and instants, one event at a time. A call's stretches come from
 * `ran`, which says when a step with the call in it began and ended. Steps that follow each other
 * without a pause are one `run`; the time between is `wait`. The engine's tracks show each step.
 * Invariants: the stretches of a call do not overlap and cover it from `queued` to `finished`. So
 * its waits add up to the waiting that the appliance counts, and its runs to the service that it
 * charges, unless a client did not read (`paused`) or a shutdown cut a step off. A track has one
 * call at a time.
 * Bounds: at most 2^20 slots of either kind, the most that an appliance has; an event takes O(1),
 * apart from the search for a free track.
 */
#include "tools/agx/watch/picture.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/bounds.h"
#include "config/base/ring.h"
#include "tools/sdk/agx.h"

#define SLOTS_MAX    (1u << 20)
#define ROWS_MAX     2048               /* sched.batch and sched.standby at their largest */
#define PROGRAM_NONE UINT32_MAX

static const struct chrome_track steps_track = {.pid = 1, .tid = 1};

/* The array with room for the element `index`; new elements are filled with `byte`. NULL: there is
 * no room, and `array` is as before. */
static void *grow(void *array, uint32_t *room, uint32_t index, size_t size, int byte)
{
    if (index < *room) {
        return array;
    }
    uint32_t wanted = index < SLOTS_MAX ? ring_capacity_ceil(index < 64 ? 64 : index + 1) : 0;
    void *grown = wanted > 0 ? realloc(array, wanted * size) : NULL;
    if (grown != NULL) {
        memset((uint8_t *)grown + *room * size, byte, (wanted - *room) * size);
        *room = wanted;
    }
    return grown;
}

void picture_begin(struct picture *picture, struct chrome *chrome)
{
    *picture = (struct picture){.chrome = chrome};
    chrome_name_process(chrome, steps_track.pid, "engine");
    chrome_name_track(chrome, steps_track, "steps");
}

/* ---- programs and tracks --------------------------------------------------------------------- */

static uint32_t make_program(struct picture *picture, const struct event *event)
{
    char name[48];
    uint32_t index = picture->programs_count;
    struct picture_program *grown =
        grow(picture->programs, &picture->programs_room, index, sizeof *grown, 0);
    if (grown == NULL) {
        picture->out_of_memory = true;
        return PROGRAM_NONE;
    }
    picture->programs = grown;
    struct picture_program *program = &picture->programs[index];
    *program = (struct picture_program){.slot = event->program};
    memcpy(program->tag, event->program_tag, sizeof program->tag);
    picture->programs_count++;
    snprintf(name, sizeof name, "program %" PRIu32 ":%02x%02x%02x%02x", event->program,
             program->tag[0], program->tag[1], program->tag[2], program->tag[3]);
    chrome_name_process(picture->chrome, index + 2, name);
    return index;
}

/* A slot holds the same program while the beginning of its id does not change. */
static uint32_t find_program(struct picture *picture, const struct event *event)
{
    uint32_t *grown =
        grow(picture->program_of_slot, &picture->slots_room, event->program, sizeof *grown, 0xff);
    if (grown == NULL) {
        picture->out_of_memory = true;
        return PROGRAM_NONE;
    }
    picture->program_of_slot = grown;
    uint32_t index = picture->program_of_slot[event->program];
    if (index == PROGRAM_NONE || memcmp(picture->programs[index].tag, event->program_tag,
                                        sizeof event->program_tag) != 0) {
        index = make_program(picture, event);
        picture->program_of_slot[event->program] = index;
    }
    return index;
}

static struct chrome_track track_of(const struct picture_call *call)
{
    return (struct chrome_track){.pid = call->program + 2, .tid = call->track + 1};
}

/* The lowest track that no call of the program is on. */
static uint32_t take_track(struct picture *picture, uint32_t index)
{
    struct picture_program *program = &picture->programs[index];
    uint32_t track = 0;
    while (track + 1 < PICTURE_TRACKS_MAX && (program->tracks[track / 64] >> track % 64 & 1) != 0) {
        track++;
    }
    program->tracks[track / 64] |= UINT64_C(1) << track % 64;
    for (; program->tracks_named <= track; program->tracks_named++) {
        char name[32];
        snprintf(name, sizeof name, "calls %" PRIu32, program->tracks_named);
        chrome_name_track(picture->chrome,
                          (struct chrome_track){index + 2, program->tracks_named + 1}, name);
    }
    return track;
}

static struct chrome_track track_of_row(struct picture *picture, uint32_t row)
{
    for (; picture->rows_named <= row; picture->rows_named++) {
        char name[32];
        snprintf(name, sizeof name, "slot %" PRIu32, picture->rows_named);
        chrome_name_track(picture->chrome,
                          (struct chrome_track){steps_track.pid, picture->rows_named + 2}, name);
    }
    return (struct chrome_track){steps_track.pid, row + 2};
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void draw_run(struct picture *picture, struct picture_call *call)
{
    if (call->is_running) {
        chrome_stretch(picture->chrome, track_of(call), "run",
                       (struct chrome_span){call->run_since_us, call->since_us},
                       (struct chrome_argument[]){{"call", call->client_call_id},
                                                  {"fed", call->run_fed},
                                                  {"tokens", call->run_tokens}, {NULL, 0}});
        call->is_running = false;
    }
}

static void close_call(struct picture *picture, struct picture_call *call, uint64_t now_us)
{
    struct picture_program *program = &picture->programs[call->program];
    draw_run(picture, call);
    call->is_open = false;
    program->tracks[call->track / 64] &= ~(UINT64_C(1) << call->track % 64);
    program->open_calls--;
    now_us = greater(now_us, call->since_us);
    program->closed_us = greater(program->closed_us, now_us);
    program->idle_since_us = now_us;
}

/* The first event of a call may be the end of a step that it shared with a call that has ended by
 * now: then it is drawn from there on. */
static void open_call(struct picture *picture, struct picture_call *call,
                      const struct event *event, uint32_t program_index, uint64_t since_us)
{
    struct picture_program *program = &picture->programs[program_index];
    since_us = greater(since_us, program->closed_us);
    *call = (struct picture_call){.is_open = true, .client_call_id = event->client_call_id,
                                  .program = program_index, .since_us = since_us,
                                  .track = take_track(picture, program_index)};
    if (program->open_calls++ == 0 && program->idle_since_us > 0) {
        chrome_stretch(picture->chrome, track_of(call), "gap",
                       (struct chrome_span){program->idle_since_us, since_us}, NULL);
    }
    picture->calls_seen++;
}

/* The call of the event; a new call is open since `since_us`. NULL: nothing to draw. */
static struct picture_call *find_call(struct picture *picture, const struct event *event,
                                      uint64_t since_us)
{
    uint32_t program = find_program(picture, event);
    if (program == PROGRAM_NONE) {
        return NULL;
    }
    struct picture_call *grown =
        grow(picture->calls, &picture->calls_room, event->call, sizeof *grown, 0);
    if (grown == NULL) {
        picture->out_of_memory = true;
        return NULL;
    }
    picture->calls = grown;
    struct picture_call *call = &picture->calls[event->call];
    bool is_other = call->client_call_id != event->client_call_id || call->program != program ||
                    event->what.kind == EVENT_QUEUED;
    if (call->is_open && is_other) {
        close_call(picture, call, since_us);
    }
    if (!call->is_open) {
        open_call(picture, call, event, program, since_us);
    }
    return call;
}

/* Draws the call's run, then waiting up to `until_us` if it is not drawn so far. */
static void draw_until(struct picture *picture, struct picture_call *call, uint64_t until_us)
{
    draw_run(picture, call);
    chrome_stretch(picture->chrome, track_of(call), "wait",
                   (struct chrome_span){call->since_us, until_us},
                   (struct chrome_argument[]){{"call", call->client_call_id}, {NULL, 0}});
    call->since_us = greater(call->since_us, until_us);
}

static void add_run(struct picture *picture, const struct event *event)
{
    char name[64];
    const uint32_t *values = event->what.values;    /* row, us, fed, tokens */
    uint64_t from_us = event->time_us > values[1] ? event->time_us - values[1] : 0;
    struct picture_call *call = find_call(picture, event, from_us);
    if (call == NULL || values[0] >= ROWS_MAX) {
        return;
    }
    if (!call->is_running || call->since_us < from_us) {
        draw_until(picture, call, from_us);
        call->is_running = true;
        call->run_since_us = call->since_us;
        call->run_fed = call->run_tokens = 0;
    }
    call->run_fed += values[2];
    call->run_tokens += values[3];
    call->since_us = greater(call->since_us, event->time_us);
    const struct picture_program *program = &picture->programs[call->program];
    snprintf(name, sizeof name, "%" PRIu32 ":%02x%02x%02x%02x call %" PRIu64, program->slot,
             program->tag[0], program->tag[1], program->tag[2], program->tag[3],
             call->client_call_id);
    chrome_stretch(picture->chrome, track_of_row(picture, values[0]), name,
                   (struct chrome_span){from_us, event->time_us},
                   (struct chrome_argument[]){{"fed", values[2]}, {"tokens", values[3]},
                                              {NULL, 0}});
}

/* An instant with the event's name and values. Events of a program itself go on its first track. */
static void draw_instant(struct picture *picture, const struct event *event,
                         struct chrome_track track, const char *name)
{
    struct chrome_argument arguments[EVENT_VALUES_COUNT + 2] = {{NULL, 0}};
    const struct event_row *row = &event_rows[event->what.kind];
    uint32_t count = 0;
    if (event->call != CALL_NONE) {
        arguments[count++] = (struct chrome_argument){"call", event->client_call_id};
    }
    for (uint32_t i = 0; i < EVENT_VALUES_COUNT && row->values[i][0] != '\0'; i++) {
        arguments[count++] = (struct chrome_argument){row->values[i], event->what.values[i]};
    }
    chrome_instant(picture->chrome, track, name, event->time_us, arguments);
}

static void add_call_event(struct picture *picture, const struct event *event)
{
    char name[48];
    struct picture_call *call = find_call(picture, event, event->time_us);
    if (call == NULL) {
        return;
    }
    snprintf(name, sizeof name, "%s", event_rows[event->what.kind].name);
    if (event->what.kind == EVENT_FINISHED) {
        draw_until(picture, call, event->time_us);
        snprintf(name, sizeof name, "finished %s",
                 agx_finish_text((enum agx_finish)event->what.values[0]));
    }
    draw_instant(picture, event, track_of(call), name);
    if (event->what.kind == EVENT_FINISHED) {
        close_call(picture, call, event->time_us);
    }
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void add_program_event(struct picture *picture, const struct event *event)
{
    uint32_t index = find_program(picture, event);
    if (index != PROGRAM_NONE) {
        draw_instant(picture, event, (struct chrome_track){index + 2, 1},
                     event_rows[event->what.kind].name);
    }
}

/* The entry of the program begins or ends, with its service and its salt: no gap goes beyond it. */
static void bound_program(struct picture *picture, const struct event *event)
{
    uint32_t index = find_program(picture, event);
    if (index != PROGRAM_NONE) {
        picture->programs[index].idle_since_us = 0;
    }
    add_program_event(picture, event);
}

/* By whose it is: a call's, a program's, or no one's. */
static void add_other(struct picture *picture, const struct event *event)
{
    if (event->program == EVENT_PROGRAM_NONE) {
        draw_instant(picture, event, steps_track, event_rows[event->what.kind].name);
    } else if (event->call == CALL_NONE) {
        add_program_event(picture, event);
    } else {
        add_call_event(picture, event);
    }
}

static void end_step(struct picture *picture, const struct event *event)
{
    bool is_lost = event->what.kind == EVENT_ENGINE_LOST;
    uint64_t took_us = event->what.values[0];
    uint64_t from_us = event->time_us > took_us ? event->time_us - took_us : 0;
    if (is_lost) {
        from_us = picture->step_since_us > 0 ? picture->step_since_us : event->time_us;
    }
    chrome_stretch(picture->chrome, steps_track, is_lost ? "lost step" : "step",
                   (struct chrome_span){greater(from_us, picture->steps_us), event->time_us}, NULL);
    picture->steps_us = event->time_us;
    picture->step_since_us = 0;
}

void picture_add(struct picture *picture, const struct event *event)
{
    switch (event->what.kind) {
    case EVENT_STEP_BEGUN:
        picture->step_since_us = event->time_us;
        return;
    case EVENT_STEP_ENDED:
        end_step(picture, event);
        return;
    case EVENT_ENGINE_LOST:
        end_step(picture, event);
        draw_instant(picture, event, steps_track, event_rows[event->what.kind].name);
        return;
    case EVENT_SWAPPED_OUT:
    case EVENT_ENGINE_WRONG:
    case EVENT_ENGINE_INCONSISTENT:
    case EVENT_REFUSED:         /* it never was a call of a program */
        draw_instant(picture, event, steps_track, event_rows[event->what.kind].name);
        return;
    case EVENT_RAN:
        add_run(picture, event);
        return;
    case EVENT_PROGRAM_STARTED:
    case EVENT_PROGRAM_ENDED:
    case EVENT_PROGRAM_FORGOTTEN:
        bound_program(picture, event);
        return;
    default:
        add_other(picture, event);
    }
}

static void close_calls(struct picture *picture, uint64_t now_us)
{
    for (uint32_t i = 0; i < picture->calls_room; i++) {
        if (picture->calls[i].is_open) {
            close_call(picture, &picture->calls[i], now_us);
        }
    }
}

void picture_lose(struct picture *picture, uint64_t count, uint64_t now_us)
{
    close_calls(picture, now_us);
    for (uint32_t i = 0; i < picture->programs_count; i++) {
        picture->programs[i].idle_since_us = 0;
    }
    picture->step_since_us = 0;
    chrome_instant(picture->chrome, steps_track, "events lost", now_us,
                   (struct chrome_argument[]){{"count", count}, {NULL, 0}});
}

/* The calls of a step in flight become known when it ends: nothing is drawn after its start. */
void picture_end(struct picture *picture, uint64_t now_us)
{
    uint64_t until_us = picture->step_since_us > 0 ? picture->step_since_us : now_us;
    for (uint32_t i = 0; i < picture->calls_room; i++) {
        if (picture->calls[i].is_open) {
            draw_until(picture, &picture->calls[i], until_us);
        }
    }
    close_calls(picture, now_us);
    free(picture->calls);
    free(picture->programs);
    free(picture->program_of_slot);
    picture->calls = NULL;
    picture->programs = NULL;
    picture->program_of_slot = NULL;
}
