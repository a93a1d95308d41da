/* SPDX-License-Identifier: MIT */
/*
 * What: events in the order in which they become known, each written at once as one object; memory
 * holds only open stretches. Steps that follow each other without a pause are one stretch.
 * Invariants: the stretches of a call do not overlap and cover it from due to over. In a slot there
 * is one call at a time, and the slots together show the same as `run` on the programs' tracks.
 * Bounds: three events for each interruption of a call. A program has 64 tracks; further calls
 * share the last. There are as many slots as a step has rows.
 */
#include "tools/lab/timeline.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "config/base/assert.h"
#include "tools/lab/lab.h"

#define LANES_MAX 64

/* ---- events ---------------------------------------------------------------------------------- */

#define ENGINE_PID 1                /* programs have the pids after it, in order */

static struct chrome_track track_of(uint32_t run, uint32_t lane)
{
    return (struct chrome_track){.pid = ENGINE_PID + 1 + run, .tid = lane + 1};
}

static struct chrome_span span_of(uint64_t from_us, uint64_t to_us)
{
    return (struct chrome_span){from_us - LAB_EPOCH_US, to_us - LAB_EPOCH_US};
}

static void draw_stretch(struct timeline *timeline, const char *name, struct chrome_track track,
                         uint64_t from_us, uint64_t to_us)
{
    chrome_stretch(&timeline->chrome, track, name, span_of(from_us, to_us), NULL);
}

static void name_program(struct timeline *timeline, uint32_t run)
{
    char name[32];
    snprintf(name, sizeof name, "program %" PRIu32, run);
    chrome_name_process(&timeline->chrome, track_of(run, 0).pid, name);
}

static void name_engine(struct timeline *timeline)
{
    chrome_name_process(&timeline->chrome, ENGINE_PID, "engine");
    for (uint32_t i = 0; i < timeline->slots_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "slot %" PRIu32, i);
        chrome_name_track(&timeline->chrome, (struct chrome_track){ENGINE_PID, i + 1}, name);
    }
}

/* Draws the stretch that ends in this slot. */
static void draw_slot(struct timeline *timeline, uint32_t index)
{
    const struct timeline_slot *slot = &timeline->slots[index];
    char name[32];
    if (slot->until_us > slot->since_us) {
        snprintf(name, sizeof name, "program %" PRIu32, slot->run);
        chrome_stretch(&timeline->chrome, (struct chrome_track){ENGINE_PID, index + 1}, name,
                       span_of(slot->since_us, slot->until_us),
                       (struct chrome_argument[]){{"program", slot->run}, {"call", slot->number},
                                                  {NULL, 0}});
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

int timeline_open(struct timeline *timeline, const char *path, uint32_t programs, uint32_t calls,
                  uint32_t slots)
{
    timeline->slots_count = slots;
    timeline->slots = calloc(slots, sizeof *timeline->slots);
    timeline->calls = calloc(calls, sizeof *timeline->calls);
    timeline->lanes = calloc(programs, sizeof *timeline->lanes);
    timeline->named = calloc(programs, sizeof *timeline->named);
    timeline->is_open = chrome_open(&timeline->chrome, path);
    if (timeline->calls == NULL || timeline->lanes == NULL || timeline->named == NULL ||
        timeline->slots == NULL || !timeline->is_open) {
        fprintf(stderr, "agentix-lab: %s: cannot be written, or out of memory\n", path);
        return LAB_EXIT_SYSTEM;
    }
    name_engine(timeline);
    return LAB_EXIT_OK;
}

int timeline_close(struct timeline *timeline)
{
    int code = LAB_EXIT_OK;
    if (timeline->is_open) {
        for (uint32_t i = 0; i < timeline->slots_count; i++) {
            draw_slot(timeline, i);
        }
        if (!chrome_close(&timeline->chrome)) {
            fprintf(stderr, "agentix-lab: --trace-out: not all could be written\n");
            code = LAB_EXIT_SYSTEM;
        }
    }
    free(timeline->calls);
    free(timeline->lanes);
    free(timeline->named);
    free(timeline->slots);
    *timeline = (struct timeline){0};
    return code;
}

/* ---- what happens ---------------------------------------------------------------------------- */

/* The lowest free track; the gap before a call is drawn on the call's own. */
static void take_lane(struct timeline *timeline, uint32_t run, struct timeline_call *call)
{
    uint32_t lane = 0;
    while (lane + 1 < LANES_MAX && (timeline->lanes[run] >> lane & 1) != 0) {
        lane++;
    }
    timeline->lanes[run] |= UINT64_C(1) << lane;
    call->lane = lane;
    call->has_lane = true;
}

void timeline_gap(struct timeline *timeline, uint32_t run, uint32_t call, uint64_t now_us,
                  uint64_t gap_us)
{
    if (!timeline->is_open || gap_us == 0) {
        return;
    }
    take_lane(timeline, run, &timeline->calls[call]);
    draw_stretch(timeline, "gap", track_of(run, timeline->calls[call].lane), now_us,
                 now_us + gap_us);
}

void timeline_due(struct timeline *timeline, uint32_t run, uint32_t call, uint64_t now_us)
{
    if (!timeline->is_open) {
        return;
    }
    if (!timeline->named[run]) {
        timeline->named[run] = true;
        name_program(timeline, run);
    }
    if (!timeline->calls[call].has_lane) {
        take_lane(timeline, run, &timeline->calls[call]);
    }
    timeline->calls[call].since_us = now_us;
}

/* The time since its last step, if any, is waiting. */
void timeline_step(struct timeline *timeline, uint32_t run, uint32_t call, uint64_t now_us,
                   uint64_t until_us)
{
    if (!timeline->is_open) {
        return;
    }
    struct timeline_call *at = &timeline->calls[call];
    if (at->until_us == 0) {
        draw_stretch(timeline, "wait", track_of(run, at->lane), at->since_us, now_us);
        at->since_us = now_us;
    } else if (at->until_us < now_us) {
        draw_stretch(timeline, "run", track_of(run, at->lane), at->since_us, at->until_us);
        draw_stretch(timeline, "wait", track_of(run, at->lane), at->until_us, now_us);
        at->since_us = now_us;
    }
    at->until_us = until_us;
    struct timeline_slot *slot = &timeline->slots[at->slot];
    if (slot->call == call && slot->until_us == now_us) {
        slot->until_us = until_us;
    }
}

void timeline_slot(struct timeline *timeline, const struct timeline_slot *drawn)
{
    struct timeline_slot *slots = timeline->slots;
    if (!timeline->is_open || drawn->until_us == drawn->since_us) {
        return;
    }
    uint32_t *at = &timeline->calls[drawn->call].slot;
    if (slots[*at].call == drawn->call && slots[*at].until_us == drawn->until_us) {
        return;
    }
    for (*at = 0; slots[*at].until_us > drawn->since_us; (*at)++) {
        ASSERT(*at + 1 < timeline->slots_count);
    }
    draw_slot(timeline, *at);
    slots[*at] = *drawn;
}

void timeline_over(struct timeline *timeline, uint32_t run, uint32_t call, uint64_t now_us)
{
    if (!timeline->is_open) {
        return;
    }
    const struct timeline_call *at = &timeline->calls[call];
    draw_stretch(timeline, "run", track_of(run, at->lane), at->since_us, now_us);
    timeline->lanes[run] &= ~(UINT64_C(1) << at->lane);
}
