/* SPDX-License-Identifier: MIT */
/*
 * What: an upgrade: between two passes the core yields to that of another appliance, which goes on
 * with what is kept, with settings and workers of its own: the core's part of
 * appliance/keeper/upgrade/. The keepers' part is for the end-to-end tests.
 */
#include <string.h>

#include "selftest/sim/sim.h"

#define REST_US 100000              /* appliance/loop.c */

void sim_may_upgrade(struct sim *sim)
{
    if (!sim->orders.yields && sim_core_may_follow(sim, sim->upgrades) &&
        sim_fault(sim, SIM_FAULT_UPGRADE)) {
        sim_say(sim, "an upgrade begins");
        sim->orders.yields = true;
    }
}

static void upgrade(struct sim *sim)
{
    sim_say(sim, "the core yields to that of another appliance");
    sim->was_killed = false;
    sim_core_leave(sim);
    sim->upgrades++;
    sim->orders.yields = false;
    sim->orders.core_restarts = 0;
    memset(sim->orders.engines, 0, sizeof sim->orders.engines);
    memset(sim->knows_canary, 0, sizeof sim->knows_canary);
    sim->meets_others = true;
    swarm_draw_anew(sim);
    if (sim->swarm.rate[SIM_FAULT_RELOAD] > 0 && !sim->calm) {
        sim_draw_admission(sim);
    }
    sim_plan_anew(sim);
    sim_core_take_over(sim);
}

/* One waits for clients that are coming in, but not for ever. */
void sim_core_may_yield(struct sim *sim)
{
    const struct loop *loop = &sim->loop;
    if (!sim->orders.yields) {
        return;
    }
    sim->rests_us = sim->rests_us > 0 ? sim->rests_us : loop->now_us;
    bool has_rested = loop->now_us - sim->rests_us >= REST_US;
    bool may_yield = has_rested || !net_has_newcomers(&loop->net);
    SIM_REQUIRE(sim, loop_may_yield(loop) == may_yield, INVARIANT_CLOSE,
                "a core that rests for %llu us yields, or does not",
                (unsigned long long)(loop->now_us - sim->rests_us));
    if (may_yield) {
        upgrade(sim);
    }
}
