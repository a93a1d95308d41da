/* SPDX-License-Identifier: MIT */
/*
 * What: kvmem as the lab sees it: the moves of a step as a cost, and peaks and sums for the report.
 * Bounds: O(moves) for each step.
 */
#include "tools/lab/lab.h"

double lab_memory_moves_s(const struct lab *lab)
{
    uint32_t device_blocks = lab->loop.kv.settings.device_blocks;
    uint32_t moves_count = step_header(&lab->step)->moves_count, outwards = 0, inwards = 0;
    for (uint32_t i = 0; i < moves_count; i++) {
        const struct step_move *move = &step_moves(&lab->step)[i];
        outwards += move->to >= device_blocks;
        inwards += move->from >= device_blocks;
    }
    uint64_t tokens = (uint64_t)(outwards + inwards) * lab->loop.kv.settings.block_tokens;
    return cost_moves_s(lab->settings->cost, tokens, (outwards > 0) + (inwards > 0));
}

void lab_memory_sample(struct lab *lab)
{
    const struct kvmem *kv = &lab->loop.kv;
    struct lab_result *result = &lab->result;
    uint32_t device = kv->settings.device_blocks - kvmem_free(kv), host = kvmem_host_used(kv);
    result->device_blocks_peak =
        device > result->device_blocks_peak ? device : result->device_blocks_peak;
    result->host_blocks_peak = host > result->host_blocks_peak ? host : result->host_blocks_peak;
}

void lab_memory_report(struct lab *lab)
{
    const struct kvmem *kv = &lab->loop.kv;
    lab->result.device_blocks = kv->settings.device_blocks;
    lab->result.swap_out_blocks = kv->counters.out_blocks;
    lab->result.swap_in_blocks = kv->counters.in_blocks;
    lab->result.swap_transfers = kv->counters.out_moves + kv->counters.in_moves;
}
