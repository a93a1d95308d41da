/* SPDX-License-Identifier: MIT */
/*
 * What: the n-th fault. The scenarios are a few seeds without faults. In each of them each kind of
 * fault happens at its first opportunity, then at its second, and so on: once in one run, and in
 * another at every opportunity from there to the calm phase. Random faults meet these cases by
 * luck; this meets them in order.
 */
#include "selftest/sim/sim.h"

#define STEPS 200

static uint64_t seed_now;

static bool fails(struct sim *sim, struct tape *tape)
{
    sim->nth.seen = 0;
    tape_record(tape, seed_now, STEPS);
    return sim_run(sim, tape) == SIM_FAILED;
}

/* Tries every opportunity of one kind, or `most` of them, evenly spaced. */
static bool try_fault(struct sim *sim, struct tape *tape, uint32_t most, uint64_t *runs)
{
    sim->nth.at = UINT64_MAX;
    (*runs)++;
    if (fails(sim, tape)) {
        return false;
    }
    uint64_t opportunities = sim->nth.seen;
    uint64_t stride = opportunities > most ? opportunities / most : 1;
    for (uint64_t at = 1; at <= opportunities; at += stride) {
        for (uint32_t for_ever = 0; for_ever < 2; for_ever++) {
            sim->nth.at = at;
            sim->nth.for_ever = for_ever == 1;
            (*runs)++;
            if (fails(sim, tape)) {
                return false;
            }
        }
    }
    return true;
}

uint64_t sim_nth_faults(struct sim *sim, struct tape *tape, uint32_t scenarios, uint32_t most)
{
    uint64_t runs = 0;
    sim->nth.is_on = true;
    for (seed_now = 1; seed_now <= scenarios; seed_now++) {
        for (uint32_t fault = 0; fault < SIM_FAULTS; fault++) {
            sim->nth.fault = (enum sim_fault)fault;
            if (!try_fault(sim, tape, most, &runs)) {
                printf("scenario %llu, %s at its opportunity %llu%s\n",
                       (unsigned long long)seed_now, sim_fault_name(sim->nth.fault),
                       (unsigned long long)sim->nth.at, sim->nth.for_ever ? " and on" : "");
                return 0;
            }
        }
    }
    sim->nth.is_on = false;
    return runs;
}
