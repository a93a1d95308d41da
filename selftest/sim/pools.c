/* SPDX-License-Identifier: MIT */
/* What: the pools of the appliance, which must be as they were at boot when nothing is open any
 * more. */
#include <string.h>

#include "kvmem/block.h"
#include "selftest/sim/sim.h"

static void require_pool(struct sim *sim, const char *name, uint64_t now, uint64_t at_boot)
{
    SIM_REQUIRE(sim, now == at_boot, INVARIANT_QUIESCENCE, "%s: %llu, at boot %llu", name,
                (unsigned long long)now, (unsigned long long)at_boot);
}

/* Device blocks that declared prefixes own, whether they are computed yet or not. */
static uint32_t blocks_of_prefixes(const struct kvmem *kv)
{
    static bool is_owned[SIM_BLOCKS_MAX];
    uint32_t count = 0;
    memset(is_owned, false, sizeof is_owned);
    for (uint32_t i = 0; i < kv->settings.prefixes; i++) {
        uint32_t call = kv->settings.calls + i;
        for (uint32_t at = 0; at < kv->calls[call].count; at++) {
            bool *is_counted = &is_owned[kvmem_table_of(kv, call)[at]];
            count += !*is_counted;
            *is_counted = true;
        }
    }
    return count;
}

uint32_t sim_workflows_open(const struct sim *sim)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->limits.workflow.workflows; i++) {
        count += sim->loop.workflows.workflows[i].state != WORKFLOW_FREE;
    }
    return count;
}

void invariants_check_done(struct sim *sim)
{
    const struct loop *loop = &sim->loop;
    require_pool(sim, "free call slots", loop->calls.free_count, loop->calls.count);
    require_pool(sim, "open calls", loop->sched.open_calls, 0);
    require_pool(sim, "calls with blocks", loop->sched.engines[0].resident_calls, 0);
    require_pool(sim, "device blocks of calls",
                 kvmem_owned(&loop->engines[0].kv) - blocks_of_prefixes(&loop->engines[0].kv), 0);
    require_pool(sim, "calls with a deadline", loop->sched.deadlines.count, 0);
    require_pool(sim, "connections", loop->net.open_count, 0);
    require_pool(sim, "open handles", sim_handles_open(sim), 0);
    require_pool(sim, "commands", ring_count(&loop->exchange.inbox_ring), 0);
    require_pool(sim, "answers", ring_count(&loop->exchange.outbox_ring), 0);
    require_pool(sim, "news", ring_count(&loop->exchange.emit_ring), 0);
    require_pool(sim, "news of workflows", ring_count(&loop->exchange.news_ring), 0);
    require_pool(sim, "workflows", sim_workflows_open(sim), 0);
}

void invariants_check_quiet(struct sim *sim)
{
    const struct loop *loop = &sim->loop;
    const struct kvmem *kv = &loop->engines[0].kv;
    require_pool(sim, "programs", loop->sched.programs_count, 0);
    require_pool(sim, "free device blocks", kvmem_free(kv) + blocks_of_prefixes(kv),
                 kv->device.count);
    require_pool(sim, "host blocks in use", kvmem_host_used(kv), 0);
}
