/* SPDX-License-Identifier: MIT */
/*
 * What: the steps that are doubted (appliance/engine/doubt.h).
 * Invariant: what the worker wrote is read once, and believed only where it says that all is well:
 * a worker that says nothing, or something else, has not computed the step twice.
 */
#include "appliance/engine/doubt.h"

#include "config/base/assert.h"
#include "config/base/hash.h"

void doubt_init(struct doubt *doubt, uint32_t engine, uint32_t permille)
{
    ASSERT(permille <= 1000);
    *doubt = (struct doubt){.permille = permille, .engine = engine};
}

void doubt_draw(struct doubt *doubt, const struct step *step)
{
    uint64_t hash = hash_fold(++doubt->steps ^ HASH_START_A, doubt->engine ^ HASH_START_B);
    doubt->is_drawn = hash % 1000 < doubt->permille;
    step_header(step)->is_doubted = doubt->is_drawn;
}

void doubt_spare(struct doubt *doubt, const struct step *step)
{
    doubt->is_drawn = false;
    step_header(step)->is_doubted = false;
}

bool doubt_holds(const struct doubt *doubt, const struct step *step)
{
    const volatile struct step_progress *progress = step_progress(step);
    return !doubt->is_drawn || progress->doubt == STEP_DOUBT_HELD;
}
