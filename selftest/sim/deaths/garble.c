/* SPDX-License-Identifier: MIT */
/*
 * What: garbage in what is kept of workflows, when a core dies. It costs connections, and values
 * that are computed, or asked for, again; it may not cost a wrong value, or a core.
 */
#include "net/kept/workflows.h"
#include "selftest/sim/sim.h"

#define WORDS_MAX 8
#define DRAWS_MAX 16

struct area { void *base; uint64_t bytes; };

static struct area draw_area(struct sim *sim)
{
    const struct net *net = &sim->loop.net;
    const struct workflow_limits *of = &sim->limits.workflow;
    const struct workflow *first = &sim->loop.workflows.workflows[0];
    uint64_t flows = of->workflows, rows = flows * of->rows, instances = rows * of->nodes;
    const struct area areas[] = {
        {net->kept.flows, flows * sizeof *net->kept.flows},
        {net->kept.rows, rows * sizeof *net->kept.rows},
        {net->kept.payloads, flows * sim->limits.frame_bytes},
        {first->values, flows * of->value_tokens * sizeof *first->values},
        {first->kept_ends, instances * sizeof *first->kept_ends},
    };
    return areas[sim_choose(sim, sizeof areas / sizeof *areas)];
}

/* One that is in use, if one of a few is: most of the memory has never been. */
static uint64_t *draw_word(struct sim *sim)
{
    uint64_t *word = NULL;
    for (uint32_t i = 0; i < DRAWS_MAX && (word == NULL || *word == 0); i++) {
        const struct area area = draw_area(sim);
        uint32_t words = (uint32_t)(area.bytes / sizeof *word);
        uint32_t below = 1u << sim_choose(sim, 32 - (uint32_t)__builtin_clz(words));
        word = (uint64_t *)area.base + sim_choose(sim, below);
    }
    return word;
}

static void garble_word(struct sim *sim)
{
    uint64_t *word = draw_word(sim);
    *word = sim_choose(sim, 2) == 0 ? *word ^ UINT64_C(1) << sim_choose(sim, 64)
                                    : sim_choose(sim, 64);
}

void sim_may_garble(struct sim *sim)
{
    if (sim->is_building || sim->limits.workflow.workflows == 0 ||
        !sim_fault(sim, SIM_FAULT_GARBLE)) {
        return;
    }
    sim_say(sim, "what is kept of workflows has garbage");
    for (uint32_t i = 1 + sim_choose(sim, WORDS_MAX); i > 0; i--) {
        garble_word(sim);
    }
    sim->is_garbled = true;
    for (uint32_t i = 0; i < sim->swarm.clients; i++) {
        sim->clients[i].excused = sim->clients[i].excused || sim->clients[i].has_flows;
    }
}
