/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a program did, slice of time by slice: it was away (not there yet, with a tool or a
 * reader, over), it had calls that waited, or tokens came for it. Of two acts in one slice the
 * later one in the list below counts.
 */
#include <stdint.h>

#define TIMELINE_SLICE_US 50000
#define TIMELINE_SLICES   16384         /* what follows, after 13 minutes, is not kept */

enum timeline_act { TIMELINE_AWAY, TIMELINE_WAITS, TIMELINE_SERVED };
struct timeline { uint8_t acts[TIMELINE_SLICES]; };     /* all zero: always away */

/* Times are since the start. */
void timeline_mark(struct timeline *timeline, uint64_t at_us, enum timeline_act act);
/* The latest of the list in the slices from that of `from_us` to that of `until_us`. */
enum timeline_act timeline_look(const struct timeline *timeline, uint64_t from_us,
                                uint64_t until_us);
