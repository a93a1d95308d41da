/* SPDX-License-Identifier: MIT */
/*
 * What: the invariants of KV (invariants.c), in the blocks of each engine.
 */
#include "selftest/sim/invariants.h"

#include <string.h>

#include "kvmem/block.h"
#include "selftest/sim/sim.h"

/* Counts anew from the tables of the calls and the states of the blocks. */
static void check_blocks_of(struct sim *sim, const struct kvmem *kv)
{
    static uint32_t references[SIM_BLOCKS_MAX];
    uint32_t held = 0, unheld = 0;
    memset(references, 0, kv->blocks_count * sizeof *references);
    for (uint32_t call = 0; call < kvmem_calls_count(&kv->settings); call++) {
        for (uint32_t i = 0; i < kv->calls[call].count; i++) {
            references[kvmem_table_of(kv, call)[i]]++;
        }
    }
    for (uint32_t block = 0; block < kv->device.count; block++) {
        bool is_unheld = kv->blocks[block].state == KVMEM_FREE ||
                         kv->blocks[block].state == KVMEM_CACHED;
        SIM_REQUIRE(sim, (references[block] == 0) == is_unheld, INVARIANT_BLOCKS,
                    "block %u: %u references in state %d", block, references[block],
                    kv->blocks[block].state);
        SIM_REQUIRE(sim, references[block] <= 1 || kv->blocks[block].state == KVMEM_SHARED,
                    INVARIANT_BLOCKS, "block %u is in %u tables and not shared", block,
                    references[block]);
        held += references[block] > 0;
        unheld += is_unheld;
    }
    SIM_REQUIRE(sim, held == kvmem_owned(kv) && unheld == kvmem_available(kv), INVARIANT_BLOCKS,
                "%u blocks held and %u not, but %u and %u are counted", held, unheld,
                kvmem_owned(kv), kvmem_available(kv));
}

void invariants_check_blocks(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        check_blocks_of(sim, &sim->loop.engines[i].kv);
    }
}

/* True when these two calls may share KV. */
static bool share_a_domain(const struct sim *sim, uint32_t a, uint32_t b)
{
    const struct call *calls = sim->loop.calls.calls;
    /* A call with a fault shares with none. But while a worker that was found wrong lives, the
     * call still holds its blocks. */
    enum sim_worker worker = sim->engines[calls[a].engine].worker;
    bool is_wrong = worker == SIM_WORKER_CONDEMNED || worker == SIM_WORKER_DIED;
    bool has_fault = calls[a].faults + calls[b].faults > 0 && !is_wrong;
    if (has_fault || sim_call_domain(sim, a) != sim_call_domain(sim, b)) {
        return false;
    }
    switch (sim->loop.sched.settings.sharing) {
    case SCHED_SHARING_OFF:
        return false;
    case SCHED_SHARING_PROGRAM:
        return memcmp(calls[a].program_id, calls[b].program_id, CALL_PROGRAM_ID_BYTES) == 0;
    case SCHED_SHARING_DOMAIN:
        break;
    }
    return true;
}

/* Number of whole KV blocks at the call's beginning that are of a declared prefix. */
static uint32_t declared_of(const struct sim *sim, const struct call *call)
{
    uint32_t known = call->prompt_tokens + call->generated_tokens, longest = 0;
    for (uint32_t i = 0; i < sim->prefixes.count; i++) {
        const struct config_prefix *prefix = &sim->prefixes.each[i];
        uint32_t common = 0;
        while (common < known && common < prefix->tokens_count &&
               call->tokens[common] == prefix->tokens[common]) {
            common++;
        }
        longest = common > longest ? common : longest;
    }
    return longest / sim->limits.kv_block_tokens;
}

/* True when the block is a declared prefix's. A settled block must be exactly where the call begins
 * like the prefix, unless the call has had a fault: then it shares nothing. */
static bool is_declared(struct sim *sim, const struct kvmem *kv, uint32_t call_index,
                        uint32_t index)
{
    const struct call *call = &sim->loop.calls.calls[call_index];
    const struct kvmem_block *block = &kv->blocks[kvmem_table_of(kv, call_index)[index]];
    bool is_alone = (kv->calls[call_index].salt & KVMEM_SALT_ALONE) != 0;
    bool must_be = !is_alone && index < declared_of(sim, call);
    SIM_REQUIRE(sim, block->state != KVMEM_SHARED || must_be == (block->declared > 0),
                INVARIANT_ISOLATION, "block %u of call %u is %s a declared prefix", index,
                call_index, must_be ? "not of" : "of");
    return block->declared > 0;
}

static void check_isolation_of(struct sim *sim, const struct kvmem *kv)
{
    static uint32_t holder[SIM_BLOCKS_MAX];
    for (uint32_t i = 0; i < kv->blocks_count; i++) {
        holder[i] = CALL_NONE;
    }
    for (uint32_t call = 0; call < kv->settings.calls; call++) {
        for (uint32_t i = 0; i < kv->calls[call].count; i++) {
            uint32_t block = kvmem_table_of(kv, call)[i];
            uint32_t other = is_declared(sim, kv, call, i) ? CALL_NONE : holder[block];
            SIM_REQUIRE(sim, other == CALL_NONE || share_a_domain(sim, call, other),
                        INVARIANT_ISOLATION, "calls %u and %u share block %u", call, other, block);
            holder[block] = call;
        }
    }
}

void invariants_check_isolation(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        check_isolation_of(sim, &sim->loop.engines[i].kv);
    }
}

/* A named block holds a chain over its own tokens; only a row knows what the chain begins with. */
static void check_contents_of(struct sim *sim, const struct sim_engine *engine)
{
    const struct kvmem *kv = &sim->loop.engines[engine->index].kv;
    uint32_t block_tokens = kv->settings.block_tokens;
    if (engine->worker == SIM_WORKER_DIED) {
        return;                         /* the core does not know yet that the KV is lost */
    }
    for (uint32_t block = 0; block < kv->blocks_count; block++) {
        const uint64_t *held = engine->kv + (uint64_t)block * block_tokens;
        const uint32_t *tokens = kv->tokens + (uint64_t)block * block_tokens;
        uint32_t first = kv->blocks[block].index * block_tokens;
        for (uint32_t i = 1; i < kv->blocks[block].fill; i++) {
            const struct fake_engine *fake = &engine->fake;
            SIM_REQUIRE(sim, fake_engine_parts(fake, first + i, held[i - 1], tokens[i]) ||
                                 held[i] == fake_engine_next(fake, 0, first + i, held[i - 1],
                                                             tokens[i]), INVARIANT_KV,
                        "block %u of engine %u does not hold its content from position %u on",
                        block, engine->index, i);
        }
    }
}

void invariants_check_contents(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        check_contents_of(sim, &sim->engines[i]);
    }
}
