/* SPDX-License-Identifier: MIT */
/*
 * What: events in the order in which they become known, each written at once as one object; memory
 * holds only open stretches. Steps that follow each other without a pause are one stretch.
 * Invariants: the stretches of a call do not overlap and cover it from due to over. In a slot there
 * is one call at a time, and the slots together show the same as `run` on the programs' tracks. The
 * slots of engine e are [e * slots_count, (e + 1) * slots_count).
 * Bounds: three events for each interruption of a call. A program has 64 tracks; further calls
 * share the last. An engine has as many slots as a step has rows.
 */
#include "tools/lab/timeline.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "config/base/assert.h"
#include "tools/lab/lab.h"

#define LANES_MAX 64

/* ---- events ---------------------------------------------------------------------------------- */

#define ENGINE_PID 1                /* of the first; programs have the pids after them, in order */

static struct chrome_track track_of(const struct timeline *timeline, uint32_t run, uint32_t lane)
{
    return (struct chrome_track){.pid = ENGINE_PID + timeline->engines_count + run,
                                 .tid = lane + 1};
}

static struct chrome_track track_of_slot(const struct timeline *timeline, uint32_t slot)
{
    return (struct chrome_track){.pid = ENGINE_PID + slot / timeline->slots_count,
                                 .tid = slot % timeline->slots_count + 1};
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
    chrome_name_process(&timeline->chrome, track_of(timeline, run, 0).pid, name);
}

/* The only one needs no number. */
static void name_engine(struct timeline *timeline, uint32_t engine)
{
    uint32_t first = engine * timeline->slots_count;
    char name[32] = "engine";
    if (timeline->engines_count > 1) {
        snprintf(name, sizeof name, "engine %" PRIu32, engine);
    }
    chrome_name_process(&timeline->chrome, track_of_slot(timeline, first).pid, name);
    for (uint32_t i = 0; i < timeline->slots_count; i++) {
        snprintf(name, sizeof name, "slot %" PRIu32, i);
        chrome_name_track(&timeline->chrome, track_of_slot(timeline, first + i), name);
    }
}

/* Draws the stretch that ends in this slot. */
static void draw_slot(struct timeline *timeline, uint32_t index)
{
    const struct timeline_slot *slot = &timeline->slots[index];
    char name[32];
    if (slot->until_us > slot->since_us) {
        snprintf(name, sizeof name, "program %" PRIu32, slot->run);
        chrome_stretch(&timeline->chrome, track_of_slot(timeline, index), name,
                       span_of(slot->since_us, slot->until_us),
                       (struct chrome_argument[]){{"program", slot->run}, {"call", slot->number},
                                                  {NULL, 0}});
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

int timeline_open(struct timeline *timeline, const char *path,
                  const struct timeline_counts *counts)
{
    timeline->engines_count = counts->engines;
    timeline->slots_count = counts->slots;
    timeline->slots = calloc((size_t)counts->engines * counts->slots, sizeof *timeline->slots);
    timeline->calls = calloc(counts->calls, sizeof *timeline->calls);
    timeline->lanes = calloc(counts->programs, sizeof *timeline->lanes);
    timeline->named = calloc(counts->programs, sizeof *timeline->named);
    timeline->is_open = chrome_open(&timeline->chrome, path);
    if (timeline->calls == NULL || timeline->lanes == NULL || timeline->named == NULL ||
        timeline->slots == NULL || !timeline->is_open) {
        fprintf(stderr, "agentix-lab: %s: cannot be written, or out of memory\n", path);
        return LAB_EXIT_SYSTEM;
    }
    for (uint32_t i = 0; i < counts->engines; i++) {
        name_engine(timeline, i);
    }
    return LAB_EXIT_OK;
}

int timeline_close(struct timeline *timeline)
{
    int code = LAB_EXIT_OK;
    if (timeline->is_open) {
        for (uint32_t i = 0; i < timeline->engines_count * timeline->slots_count; i++) {
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
    draw_stretch(timeline, "gap", track_of(timeline, run, timeline->calls[call].lane), now_us,
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
void timeline_step(struct timeline *timeline, const struct timeline_slot *drawn)
{
    if (!timeline->is_open) {
        return;
    }
    struct timeline_call *at = &timeline->calls[drawn->call];
    struct chrome_track track = track_of(timeline, drawn->run, at->lane);
    uint64_t since_us = drawn->since_us;
    if (at->until_us == 0) {
        draw_stretch(timeline, "wait", track, at->since_us, since_us);
        at->since_us = since_us;
    } else if (at->until_us < since_us) {
        draw_stretch(timeline, "run", track, at->since_us, at->until_us);
        draw_stretch(timeline, "wait", track, at->until_us, since_us);
        at->since_us = since_us;
    }
    at->until_us = drawn->until_us;
    struct timeline_slot *slot = &timeline->slots[at->slot];
    if (slot->call == drawn->call && slot->until_us == since_us &&
        slot->engine == drawn->engine) {
        slot->until_us = drawn->until_us;
    }
}

void timeline_slot(struct timeline *timeline, const struct timeline_slot *drawn)
{
    struct timeline_slot *slots = timeline->slots;
    if (!timeline->is_open || drawn->until_us == drawn->since_us) {
        return;
    }
    uint32_t *at = &timeline->calls[drawn->call].slot;
    uint32_t first = drawn->engine * timeline->slots_count;
    if (slots[*at].call == drawn->call && slots[*at].until_us == drawn->until_us) {
        return;
    }
    for (*at = first; slots[*at].until_us > drawn->since_us; (*at)++) {
        ASSERT(*at + 1 < first + timeline->slots_count);
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
    draw_stretch(timeline, "run", track_of(timeline, run, at->lane), at->since_us, now_us);
    timeline->lanes[run] &= ~(UINT64_C(1) << at->lane);
}
