/* SPDX-License-Identifier: MIT */
/*
 * What: kvmem as the lab sees it: the copies of a step and what waits for them, the calls whose
 * blocks they bring back, and peaks and sums for the report.
 * Invariants: a block that comes from the host counts for one call, that of the first row with the
 * block: it was planned first and made the move. sched counts what comes without a row
 * (sched.prefetch).
 * Bounds: O(moves and blocks of its rows) for a step that moves blocks.
 */
#include "tools/lab/lab.h"

#include "config/base/assert.h"

/* ---- copies ---- */

/* Of a block of the device, in this step. */
enum mark { MARK_ROW = 1 << STEP_PHASES };      /* a row has it; 1 << phase: that phase reads it */

static void mark(struct lab_engine *engine, uint32_t block, uint32_t mark)
{
    uint64_t step = step_header(&engine->step)->sequence;
    struct lab_block *b = &engine->blocks[block];
    b->marks = b->step == step ? b->marks | mark : mark;
    b->step = step;
}

static bool is_marked(const struct lab_engine *engine, uint32_t block, uint32_t mark)
{
    const struct lab_block *b = &engine->blocks[block];
    return b->step == step_header(&engine->step)->sequence && (b->marks & mark) != 0;
}

static enum step_phase phase_of(const struct lab_engine *engine, const struct step_move *move)
{
    return step_move_phase(move, engine->kv->settings.device_blocks);
}

static void mark_blocks(struct lab_engine *engine)
{
    const struct step_header *header = step_header(&engine->step);
    for (uint32_t i = 0; i < header->moves_count; i++) {
        const struct step_move *move = &step_moves(&engine->step)[i];
        enum step_phase phase = phase_of(engine, move);
        if (phase != STEP_PHASE_IN) {
            mark(engine, move->from, 1u << phase);
        }
    }
    for (uint32_t r = 0; r < header->rows_count; r++) {
        for (uint32_t i = 0; i < step_row(&engine->step, r)->blocks_count; i++) {
            mark(engine, step_blocks(&engine->step, r)[i], MARK_ROW);
        }
    }
}

static double moves_s(const struct lab *lab, uint32_t blocks)
{
    bool alone = lab->settings->block_copies;
    uint64_t tokens = (uint64_t)blocks * lab->loop.engines[0].kv.settings.block_tokens;
    return cost_moves_s(lab->settings->cost, tokens, !alone, alone ? blocks : 0);
}

struct copies lab_memory_copies(struct lab *lab, struct lab_engine *engine)
{
    uint32_t moves_count = step_header(&engine->step)->moves_count;
    uint32_t moves[STEP_PHASES] = {0}, needed[STEP_PHASES] = {0};
    uint32_t block_tokens = engine->kv->settings.block_tokens;
    struct copies copies = {0};
    mark_blocks(engine);
    for (uint32_t i = 0; i < moves_count; i++) {
        const struct step_move *move = &step_moves(&engine->step)[i];
        enum step_phase phase = phase_of(engine, move);
        bool of_row = is_marked(engine, phase == STEP_PHASE_OUT ? move->from : move->to, MARK_ROW);
        bool fills_out =
            phase != STEP_PHASE_OUT && is_marked(engine, move->to, 1u << STEP_PHASE_OUT);
        moves[phase]++;
        needed[phase] += of_row;
        copies.rows_fill_out |= phase == STEP_PHASE_OUT && of_row;
        copies.within_fills_out |= phase == STEP_PHASE_WITHIN && fills_out;
        copies.in_fills_out |= phase == STEP_PHASE_IN && fills_out;
        copies.in_fills_within |= phase == STEP_PHASE_IN &&
                                  is_marked(engine, move->to, 1u << STEP_PHASE_WITHIN);
    }
    copies.out_s = moves_s(lab, moves[STEP_PHASE_OUT]);
    copies.in_s = moves_s(lab, moves[STEP_PHASE_IN]);
    copies.out_needed_s = moves_s(lab, needed[STEP_PHASE_OUT]);
    copies.in_needed_s = moves_s(lab, needed[STEP_PHASE_IN]);
    copies.within_s = cost_copies_s(lab->settings->cost,
                                    (uint64_t)moves[STEP_PHASE_WITHIN] * block_tokens);
    return copies;
}

/* ---- who gets blocks back ---- */

/* Number of the row's blocks that this step brings in. */
static uint32_t count_moved_in(struct lab_engine *engine, uint32_t row)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < step_row(&engine->step, row)->blocks_count; i++) {
        uint64_t *moved_in = &engine->blocks[step_blocks(&engine->step, row)[i]].moved_in;
        if (*moved_in == step_header(&engine->step)->sequence) {
            *moved_in = 0;
            count++;
        }
    }
    return count;
}

void lab_memory_swap_ins(struct lab *lab, struct lab_engine *engine)
{
    const struct step_header *header = step_header(&engine->step);
    uint32_t device_blocks = engine->kv->settings.device_blocks, left = 0;
    ASSERT(header->sequence > 0);
    for (uint32_t i = 0; i < header->moves_count; i++) {
        const struct step_move *move = &step_moves(&engine->step)[i];
        if (move->from >= device_blocks) {
            engine->blocks[move->to].moved_in = header->sequence;
            left++;
        }
    }
    for (uint32_t i = 0; i < header->rows_count && left > 0; i++) {
        const struct step_row *row = step_row(&engine->step, i);
        uint32_t count = count_moved_in(engine, i);
        ASSERT(count <= left);
        left -= count;
        if (!lab_engine_is_flow(lab, row)) {
            lab->clients.calls[lab_engine_call(lab, row)].swap_ins += count > 0;
        }
        lab->result.swap_in_calls += count > 0;
        lab->result.swap_back_calls +=
            count > 0 && lab->loop.calls.calls[row->call].preemptions > 0;
    }
}

/* ---- figures ---- */

void lab_memory_sample(struct lab *lab, const struct lab_engine *engine)
{
    const struct kvmem *kv = engine->kv;
    struct lab_result *result = &lab->result;
    uint32_t device = kv->settings.device_blocks - kvmem_free(kv), host = kvmem_host_used(kv);
    result->device_blocks_peak =
        device > result->device_blocks_peak ? device : result->device_blocks_peak;
    result->host_blocks_peak = host > result->host_blocks_peak ? host : result->host_blocks_peak;
}

void lab_memory_report(struct lab *lab)
{
    struct lab_result *result = &lab->result;
    result->device_blocks = lab->engines[0].kv->settings.device_blocks;
    for (uint32_t i = 0; i < lab->limits.engines; i++) {
        const struct kvmem *kv = lab->engines[i].kv;
        result->swap_out_blocks += kv->counters.out_blocks;
        result->swap_in_blocks += kv->counters.in_blocks;
        result->copied_blocks += kv->counters.copied_blocks;
        result->swap_transfers += kv->counters.out_moves + kv->counters.in_moves;
    }
    result->swap_in_calls += lab->loop.stats.prefetched_calls;
}
