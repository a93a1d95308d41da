/* SPDX-License-Identifier: MIT */
#include "tools/agx/agents/timeline.h"

/* What: one byte for each slice. Linear in the slices that are touched. */

void timeline_mark(struct timeline *timeline, uint64_t at_us, enum timeline_act act)
{
    uint64_t i = at_us / TIMELINE_SLICE_US;
    if (i < TIMELINE_SLICES && timeline->acts[i] < act) {
        timeline->acts[i] = (uint8_t)act;
    }
}

enum timeline_act timeline_look(const struct timeline *timeline, uint64_t from_us,
                                uint64_t until_us)
{
    uint8_t most = TIMELINE_AWAY;
    for (uint64_t i = from_us / TIMELINE_SLICE_US;
         i <= until_us / TIMELINE_SLICE_US && i < TIMELINE_SLICES; i++) {
        most = timeline->acts[i] > most ? timeline->acts[i] : most;
    }
    return (enum timeline_act)most;
}
