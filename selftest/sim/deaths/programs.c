/* SPDX-License-Identifier: MIT */
/*
 * What: INVARIANT_PROGRAMS: the process table before a death and after it. A step that was under
 * way counts in neither. Not after a death at a store: what the core was changing then may be known
 * as it was, or as it is.
 */
#include <string.h>

#include "sched/policy.h"
#include "selftest/sim/sim.h"

/* One that dies while it takes over has had no pass: it should know what the last one did. */
void sim_programs_leave(struct sim *sim)
{
    if (!sim->is_building) {
        memcpy(sim->left, sim->loop.sched.programs, sim->limits.programs * sizeof sim->left[0]);
        sim->left_policy = sim->loop.sched.settings.policy;
        sim->left_clock = sched_policy_has_tags(sim->left_policy)
                              ? sim->loop.sched.ideal.virtual_time : sim->left_clock;
    }
}

/* Of another policy nothing is left. */
static void expect_same_key(struct sim *sim, uint32_t index)
{
    static const struct program anew;
    bool is_of_it = sim->loop.sched.settings.policy == sim->left_policy;
    const struct program *before = is_of_it ? &sim->left[index] : &anew;
    const struct program *now = &sim->loop.sched.programs[index];
    SIM_REQUIRE(sim, now->cost == before->cost && now->cost_foreseen == before->cost_foreseen &&
                         now->served == before->served && now->key_base == before->key_base,
                INVARIANT_PROGRAMS, "program %u: %llu of %llu from %llu on, before the death %llu",
                index, (unsigned long long)now->served, (unsigned long long)now->cost,
                (unsigned long long)now->key_base, (unsigned long long)before->served);
}

static void expect_same(struct sim *sim, uint32_t index)
{
    const struct program *before = &sim->left[index], *now = &sim->loop.sched.programs[index];
    if (!before->in_use) {
        return;
    }
    SIM_REQUIRE(sim, now->domain == before->domain &&
                         memcmp(now->id, before->id, sizeof now->id) == 0, INVARIANT_PROGRAMS,
                "entry %u has another program", index);
    bool is_halved = sim->loop.sched.settings.half_life_us > 0;
    SIM_REQUIRE(sim, now->service_us == before->attained_us ||
                         (is_halved && now->service_us > before->attained_us), INVARIANT_PROGRAMS,
                "program %u has had %llu us, and %llu before the death", index,
                (unsigned long long)now->service_us, (unsigned long long)before->attained_us);
    SIM_REQUIRE(sim, now->wait_us == before->wait_us && now->calls_ended == before->calls_ended &&
                         memcmp(&now->spent, &before->spent, sizeof now->spent) == 0,
                INVARIANT_PROGRAMS, "program %u: calls %u, before the death %u", index,
                now->calls_ended, before->calls_ended);
    expect_same_key(sim, index);
}

void sim_programs_meet(struct sim *sim)
{
    if (sim->was_at_a_store) {
        return;
    }
    bool has_clock = sched_policy_has_tags(sim->loop.sched.settings.policy);
    SIM_REQUIRE(sim, !has_clock || sim->loop.sched.ideal.virtual_time == sim->left_clock,
                INVARIANT_PROGRAMS,
                "the clock of the ideal system is at %llu, before the death at %llu",
                (unsigned long long)sim->loop.sched.ideal.virtual_time,
                (unsigned long long)sim->left_clock);
    for (uint32_t i = 0; i < sim->limits.programs; i++) {
        SIM_REQUIRE(sim, sim->loop.sched.programs[i].in_use == sim->left[i].in_use,
                    INVARIANT_PROGRAMS, "entry %u is in use before a death or after it", i);
        expect_same(sim, i);
    }
}
