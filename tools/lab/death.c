/* SPDX-License-Identifier: MIT */
/*
 * What: engines that die at given times, lose their KV and the step in flight, and come back.
 * Invariants: none dies before all connections are open: until then time stands still, and an
 * appliance without an engine opens none.
 * Bounds: O(LAB_DEATHS_MAX) for each poll of an engine.
 */
#include "tools/lab/lab.h"

static uint64_t at_us(const struct lab_death *death)
{
    return LAB_EPOCH_US + death->at_us;
}

uint64_t lab_death_next_us(const struct lab *lab)
{
    uint64_t next_us = UINT64_MAX;
    for (uint32_t i = 0; i < lab->settings->deaths_count; i++) {
        const struct lab_death *death = &lab->settings->deaths[i];
        uint64_t back_us = lab->engines[death->engine].down_until_us;
        if (!lab->died[i] && at_us(death) < next_us) {
            next_us = at_us(death);
        }
        if (back_us > lab->now_us && back_us < next_us) {
            next_us = back_us;
        }
    }
    return next_us;
}

/* The time until now counts as busy, as in sched's figure. */
static void end_step(struct lab *lab, struct lab_engine *engine)
{
    if (engine->in_flight) {
        engine->in_flight = false;
        lab->result.engines[engine->index].busy_us += lab->now_us - engine->step_began_us;
    }
}

bool lab_death_comes(struct lab *lab, struct lab_engine *engine)
{
    for (uint32_t i = 0; lab->sockets.open && i < lab->settings->deaths_count; i++) {
        const struct lab_death *death = &lab->settings->deaths[i];
        if (!lab->died[i] && death->engine == engine->index && at_us(death) <= lab->now_us) {
            uint64_t back_us = lab->now_us + death->for_us;
            lab->died[i] = true;
            end_step(lab, engine);
            engine->down_until_us =
                back_us > engine->down_until_us ? back_us : engine->down_until_us;
            lab->result.engines[engine->index].deaths++;
            return true;
        }
    }
    return false;
}
