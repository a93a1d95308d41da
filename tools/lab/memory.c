/* SPDX-License-Identifier: MIT */
/*
 * What: kvmem as the lab sees it: the moves of a step as a cost, the calls whose blocks they bring
 * back, and peaks and sums for the report.
 * Invariants: a block that comes from the host counts for one call, that of the first row with the
 * block: it was planned first and made the move. sched counts what comes without a row
 * (sched.prefetch).
 * Bounds: O(moves) for each step; O(blocks of its rows) for a step that brings blocks in.
 */
#include "tools/lab/lab.h"

#include "config/base/assert.h"

double lab_memory_moves_s(const struct lab *lab)
{
    const struct kvmem_settings *kv = &lab->loop.engines[0].kv.settings;
    uint32_t moves_count = step_header(&lab->step)->moves_count, of_pass[STEP_PHASES] = {0};
    for (uint32_t i = 0; i < moves_count; i++) {
        of_pass[step_move_phase(&step_moves(&lab->step)[i], kv->device_blocks)]++;
    }
    uint32_t outwards = of_pass[STEP_PHASE_OUT], inwards = of_pass[STEP_PHASE_IN];
    uint64_t tokens = (uint64_t)(outwards + inwards) * kv->block_tokens;
    bool alone = lab->settings->block_copies;
    return cost_copies_s(lab->settings->cost,
                         (uint64_t)of_pass[STEP_PHASE_WITHIN] * kv->block_tokens) +
           cost_moves_s(lab->settings->cost, tokens, alone ? 0 : (outwards > 0) + (inwards > 0),
                        alone ? outwards + inwards : 0);
}

/* Number of the row's blocks that this step brings in. */
static uint32_t count_moved_in(struct lab *lab, uint32_t row)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < step_row(&lab->step, row)->blocks_count; i++) {
        uint64_t *moved_in = &lab->moved_in[step_blocks(&lab->step, row)[i]];
        if (*moved_in == step_header(&lab->step)->sequence) {
            *moved_in = 0;
            count++;
        }
    }
    return count;
}

void lab_memory_swap_ins(struct lab *lab)
{
    const struct step_header *header = step_header(&lab->step);
    uint32_t device_blocks = lab->loop.engines[0].kv.settings.device_blocks, left = 0;
    ASSERT(header->sequence > 0);
    for (uint32_t i = 0; i < header->moves_count; i++) {
        const struct step_move *move = &step_moves(&lab->step)[i];
        if (move->from >= device_blocks) {
            lab->moved_in[move->to] = header->sequence;
            left++;
        }
    }
    for (uint32_t i = 0; i < header->rows_count && left > 0; i++) {
        const struct step_row *row = step_row(&lab->step, i);
        uint32_t count = count_moved_in(lab, i);
        ASSERT(count <= left);
        left -= count;
        lab->clients.calls[lab_engine_call(lab, row)].swap_ins += count > 0;
        lab->result.swap_in_calls += count > 0;
        lab->result.swap_back_calls +=
            count > 0 && lab->loop.calls.calls[row->call].preemptions > 0;
    }
}

void lab_memory_sample(struct lab *lab)
{
    const struct kvmem *kv = &lab->loop.engines[0].kv;
    struct lab_result *result = &lab->result;
    uint32_t device = kv->settings.device_blocks - kvmem_free(kv), host = kvmem_host_used(kv);
    result->device_blocks_peak =
        device > result->device_blocks_peak ? device : result->device_blocks_peak;
    result->host_blocks_peak = host > result->host_blocks_peak ? host : result->host_blocks_peak;
}

void lab_memory_report(struct lab *lab)
{
    const struct kvmem *kv = &lab->loop.engines[0].kv;
    lab->result.device_blocks = kv->settings.device_blocks;
    lab->result.swap_out_blocks = kv->counters.out_blocks;
    lab->result.swap_in_blocks = kv->counters.in_blocks;
    lab->result.copied_blocks = kv->counters.copied_blocks;
    lab->result.swap_transfers = kv->counters.out_moves + kv->counters.in_moves;
    lab->result.swap_in_calls += lab->loop.stats.prefetched_calls;
}
