/* SPDX-License-Identifier: MIT */
/*
 * What: the moves of the step that is being planned: which KV block is copied where before its rows
 * run. A content's name is moved at once, its bytes travel with the step.
 *
 *   out   device -> host    the device block is handed out again in the same plan: copied first
 *   in    host -> device    the host block is LEAVING, nobody's, until kvmem_moved()
 *
 * Until the step is bound the plan may change its mind:
 *
 *   the content is dropped            the move is void; it goes when its target is handed out
 *   evict what is to come in          stays on the host, no move
 *   claim what is to go out           refused: its block has been handed out
 *
 * Invariants: a block is the target of one move at most (block.move), a device block the source of
 * one at most, a LEAVING host block the source of exactly one and the target of none.
 * Bounds: O(1); kvmem_moved() O(moves). Two moves for each device block at most, so no list fills.
 */
#include <string.h>

#include "appliance/base/assert.h"
#include "kvmem/block.h"

void kvmem_move_add(struct kvmem *kv, uint32_t from, uint32_t to)
{
    ASSERT(!kv->bound);
    ASSERT(kv->moves_count < kv->moves_max);
    ASSERT(kvmem_is_host(kv, from) != kvmem_is_host(kv, to));
    ASSERT(kv->blocks[to].move == KVMEM_BLOCK_NONE);
    kv->blocks[to].move = kv->moves_count;
    kv->moves[kv->moves_count++] = (struct step_move){.from = from, .to = to};
}

/* Takes the move that fills `to` off the list; returns where it was to come from. */
static uint32_t take_off(struct kvmem *kv, uint32_t to)
{
    uint32_t index = kv->blocks[to].move;
    ASSERT(!kv->bound);
    ASSERT(index < kv->moves_count && kv->moves[index].to == to);
    uint32_t from = kv->moves[index].from;
    struct step_move last = kv->moves[--kv->moves_count];
    kv->moves[index] = last;
    kv->blocks[last.to].move = index;
    kv->blocks[to].move = KVMEM_BLOCK_NONE;
    return from;
}

void kvmem_move_cancel(struct kvmem *kv, uint32_t to)
{
    uint32_t from = take_off(kv, to);
    ASSERT(kv->blocks[to].fill == 0);
    if (kvmem_is_host(kv, from)) {
        ASSERT(kv->blocks[from].state == KVMEM_LEAVING);
        kvmem_tier_release(kv, from);
    }
}

void kvmem_move_undo_in(struct kvmem *kv, uint32_t block)
{
    uint32_t from = take_off(kv, block);
    ASSERT(kv->blocks[from].state == KVMEM_LEAVING);
    kvmem_name_pass(kv, block, from);
    kvmem_tier_cache(kv, from);
}

/* Void: nobody wants the content any more. */
static bool is_void(const struct kvmem *kv, const struct step_move *move)
{
    return kv->blocks[move->to].state == KVMEM_FREE;
}

/* Those off the device first: they have to be done before the others. */
static void write_moves(const struct kvmem *kv, const struct step *step)
{
    uint32_t count = 0;
    ASSERT(kv->moves_count <= step->layout.moves_max);
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < kv->moves_count; i++) {
            bool is_out = kvmem_is_host(kv, kv->moves[i].to);
            if (is_out == (pass == 0) && !is_void(kv, &kv->moves[i])) {
                step_moves(step)[count++] = kv->moves[i];
            }
        }
    }
    step_header(step)->moves_count = count;
}

/* The last sampled token is not fed, so N decode steps write N - 1 positions. */
static uint32_t positions_of(const struct step_planned *row)
{
    uint32_t decoded = row->decode_steps > 0 ? row->decode_steps - 1 : 0;
    return row->first_position + row->tokens_count + decoded;
}

void kvmem_bind(struct kvmem *kv, const struct step *step, const struct step_planned *rows,
                uint32_t rows_count)
{
    ASSERT(!kv->bound);
    ASSERT(rows_count <= step->layout.rows_max);
    ASSERT(kv->settings.blocks_per_call <= step->layout.blocks_per_call);
    for (uint32_t i = 0; i < rows_count; i++) {
        uint32_t call = rows[i].call;
        uint32_t blocks = kvmem_blocks_ceil(positions_of(&rows[i]), kv->settings.block_tokens);
        ASSERT(blocks <= kvmem_call_blocks(kv, call));
        ASSERT(kv->calls[call].pins == 0);
        step_row(step, i)->blocks_count = blocks;
        memcpy(step_blocks(step, i), kvmem_table_of(kv, call), blocks * sizeof(uint32_t));
    }
    write_moves(kv, step);
    kv->bound = true;
}

void kvmem_moved(struct kvmem *kv)
{
    uint32_t out = 0, in = 0;
    if (!kv->bound) {
        return;
    }
    for (uint32_t i = 0; i < kv->moves_count; i++) {
        const struct step_move *move = &kv->moves[i];
        kv->blocks[move->to].move = KVMEM_BLOCK_NONE;
        out += kvmem_is_host(kv, move->to);
        if (kvmem_is_host(kv, move->from)) {
            in++;
            kvmem_tier_release(kv, move->from);
        }
    }
    kv->counters.out_blocks += out;
    kv->counters.in_blocks += in;
    kv->counters.out_moves += out > 0;
    kv->counters.in_moves += in > 0;
    kv->moves_count = 0;
    kv->bound = false;
}
