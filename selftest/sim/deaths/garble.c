/* SPDX-License-Identifier: MIT */
/*
 * What: garbage in what is kept of workflows, when a core dies. It costs connections, and values
 * that are computed, or asked for, again; it may not cost a wrong value, or a core.
 */
#include "net/kept/workflows.h"
#include "selftest/sim/sim.h"

#define WORDS_BITS 4
#define DRAWS_MAX 16

struct area { void *base; uint64_t bytes; };

/* Of this slot: two versions, what the last one says of rows, rows, FLOW_OPEN, values, and how
 * instances have ended. */
static struct area draw_area(struct sim *sim, uint32_t index)
{
    const struct net *net = &sim->loop.net;
    const struct workflow_limits *of = &sim->limits.workflow;
    const struct workflow *flow = &sim->loop.workflows.workflows[index];
    struct net_kept_flow *kept = &net->kept.flows[index];
    struct net_kept_flow_version *last = &kept->versions[net_kept_flow_last(kept)];
    uint64_t rows = of->rows, frame_bytes = sim->limits.frame_bytes;
    const struct area areas[] = {
        {kept, sizeof *kept},
        {last->told, rows * sizeof last->told[0]},
        {&net->kept.rows[index * rows], rows * sizeof *net->kept.rows},
        {net->kept.payloads + index * frame_bytes, frame_bytes},
        {flow->values, of->value_tokens * sizeof *flow->values},
        {flow->kept_ends, rows * of->nodes * sizeof *flow->kept_ends},
    };
    return areas[sim_choose(sim, sizeof areas / sizeof *areas)];
}

/* One that is in use, if one of a few is. Most of the memory has never been. */
static uint64_t *draw_word(struct sim *sim, uint32_t index)
{
    uint64_t *word = NULL;
    for (uint32_t i = 0; i < DRAWS_MAX && (word == NULL || *word == 0); i++) {
        const struct area area = draw_area(sim, index);
        uint32_t words = (uint32_t)(area.bytes / sizeof *word) - 1;
        uint32_t below = 1u << sim_choose(sim, 32 - (uint32_t)__builtin_clz(words | 1));
        word = (uint64_t *)(((uintptr_t)area.base + 7) / 8 * 8) + sim_choose(sim, below);
    }
    return word;
}

/* Mostly a word or two: more of them hide each other. */
static void garble_flow(struct sim *sim, uint32_t index)
{
    for (uint32_t i = 1 + sim_choose(sim, 1u << sim_choose(sim, WORDS_BITS)); i > 0; i--) {
        uint64_t *word = draw_word(sim, index);
        *word = sim_choose(sim, 2) == 0 ? *word ^ UINT64_C(1) << sim_choose(sim, 64)
                                        : sim_choose(sim, 64);
    }
}

void sim_may_garble(struct sim *sim)
{
    if (sim->is_building || sim_workflows_open(sim) == 0 || !sim_fault(sim, SIM_FAULT_GARBLE)) {
        return;
    }
    sim_say(sim, "what is kept of workflows has garbage");
    sim->is_garbled = true;
    for (uint32_t i = 0; i < sim->limits.workflow.workflows; i++) {
        if (sim->loop.workflows.workflows[i].state != WORKFLOW_FREE && sim_choose(sim, 2) == 0) {
            garble_flow(sim, i);
        }
    }
    for (uint32_t i = 0; i < sim->swarm.clients; i++) {
        sim->clients[i].excused = sim->clients[i].excused || sim->clients[i].has_flows;
    }
}
