/* SPDX-License-Identifier: MIT */
/*
 * What: of what steps are lost. A poisonous call kills each worker that samples for it; the others
 * of such a step must get their tokens, and it must end alone, after few deaths. What the appliance
 * makes of a death is for lockstep.c to say; here is what a client may be told of it.
 */
#include "selftest/sim/sim.h"

/* A workflow's call is none of these, whatever its seed. */
static struct sim_call *call_of_row(struct sim *sim, const struct step_row *row)
{
    if (sim->loop.calls.calls[row->call].workflow != CALL_NONE) {
        return NULL;
    }
    for (uint32_t i = 0; i < SIM_CALLS_MAX; i++) {
        struct sim_call *call = &sim->calls[i];
        if (call->in_use && call->sampling.seed == row->sampling.seed) {
            return call;
        }
    }
    return NULL;
}

bool sim_step_is_poisoned(struct sim *sim, const struct sim_engine *engine)
{
    const struct step *step = &engine->fake.step;
    for (uint32_t i = 0; i < step_header(step)->rows_count && !engine->is_own; i++) {
        const struct step_row *row = step_row(step, i);
        const struct sim_call *call = call_of_row(sim, row);
        if (call != NULL && call->is_poison && row->decode_steps > 0) {
            sim_say(sim, "row %u is poison", i);
            return true;
        }
    }
    return false;
}

void sim_poison_forget(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_CALLS_MAX; i++) {
        sim->calls[i].deaths = 0;
    }
}

/* Halves, and then alone. */
static uint32_t deaths_max(const struct sim *sim)
{
    uint32_t deaths = 1 + CALL_DEATHS_MAX;
    for (uint32_t rows = sim->limits.batch_calls + sim->limits.standby_calls; rows > 1;
         rows = (rows + 1) / 2) {
        deaths++;
    }
    return deaths;
}

static void note_row(struct sim *sim, const struct step_row *row, bool is_alone)
{
    struct sim_call *call = call_of_row(sim, row);
    const struct call *own = &sim->loop.calls.calls[row->call];
    if (own->generation == row->call_generation && own->workflow != CALL_NONE && is_alone) {
        sim_flow_note_death(sim, sim->loop.workflows.workflows[own->workflow].flow_id);
    } else if (call != NULL) {
        call->deaths_alone += is_alone;
        call->deaths += row->decode_steps > 0;
        SIM_REQUIRE(sim, !call->is_poison || call->deaths <= deaths_max(sim), INVARIANT_POISON,
                    "call %llu has killed %u workers", (unsigned long long)call->sampling.seed,
                    call->deaths);
    }
}

void sim_step_is_lost(struct sim *sim, const struct sim_engine *engine)
{
    const struct step *step = &engine->fake.step;
    for (uint32_t i = 0; i < step_header(step)->rows_count; i++) {
        note_row(sim, step_row(step, i), step_header(step)->rows_count == 1);
    }
}
