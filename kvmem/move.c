/* SPDX-License-Identifier: MIT */
/*
 * What: the moves of the step that is being planned: which KV block is copied where before its rows
 * run. A content's name is moved at once, its bytes travel with the step.
 *
 *   out      device -> host      the device block is handed out again in the same plan: read first
 *   within   device -> device    the beginning of a call's own block, from the copy source
 *                                (answer.c): read next
 *   in       host -> device      the host block is LEAVING, owned by no call, until kvmem_moved();
 *                                then it is the MIRROR of what it was read into, or free
 *
 * Until the step is bound the plan may change its mind:
 *
 *   the content is dropped            the move is void; it goes when its target is handed out
 *   evict what is to come in          stays on the host, no move
 *   evict what is to be copied        is forgotten, no move
 *   ask for what is to go out         not found: its block has been handed out
 *
 * Copies. Nothing is held for a copy source. Until the step runs, the bytes of the device are what
 * they were, whatever becomes of the block that holds them. So a copy reads what the question has
 * seen if it runs before everything else that is written on the device: moves in run after copies,
 * and copies run in the order in which they were committed.
 *
 * Invariants: a block is the target of one move at most (block.move), a device block goes to the
 * host once at most, a LEAVING host block is the source of exactly one move and the target of none.
 * Moves have numbers: those between the tiers from 0 on, copies from moves_max on. Copies keep
 * their order: one that is taken back stays listed, and its target does not know it any more.
 * Bounds: O(1); kvmem_moved() O(moves). Each device block leaves once and is filled once at most,
 * so neither the list of moves nor the step's record fills; of copies there are settings.calls.
 */
#include <string.h>

#include "config/base/assert.h"
#include "kvmem/tier.h"

void kvmem_move_add(struct kvmem *kv, uint32_t from, uint32_t to)
{
    ASSERT(!kv->bound);
    ASSERT(kv->moves_count < kv->moves_max);
    ASSERT(kvmem_is_host(kv, from) != kvmem_is_host(kv, to));
    ASSERT(kv->blocks[to].move == KVMEM_BLOCK_NONE);
    kv->blocks[to].move = kv->moves_count;
    kv->moves[kv->moves_count++] = (struct step_move){.from = from, .to = to};
}

void kvmem_move_copy(struct kvmem *kv, uint32_t from, uint32_t to)
{
    ASSERT(!kv->bound);
    ASSERT(kv->copies_count < kv->settings.calls);
    ASSERT(!kvmem_is_host(kv, from) && !kvmem_is_host(kv, to) && from != to);
    ASSERT(kv->blocks[to].move == KVMEM_BLOCK_NONE);
    kv->blocks[to].move = kv->moves_max + kv->copies_count;
    kv->copies[kv->copies_count++] = (struct step_move){.from = from, .to = to};
}

const struct step_move *kvmem_move_at(const struct kvmem *kv, uint32_t number)
{
    return number < kv->moves_max ? &kv->moves[number] : &kv->copies[number - kv->moves_max];
}

/* The move that fills `to` will not be made; returns where it was to come from. */
static uint32_t take_off(struct kvmem *kv, uint32_t to)
{
    uint32_t index = kv->blocks[to].move;
    uint32_t from = kvmem_move_at(kv, index)->from;
    ASSERT(!kv->bound);
    ASSERT(kvmem_move_at(kv, index)->to == to);
    if (index >= kv->moves_max) {
        kv->blocks[to].move = KVMEM_BLOCK_NONE;
        return from;
    }
    ASSERT(index < kv->moves_count);
    struct step_move last = kv->moves[--kv->moves_count];
    kv->moves[index] = last;
    kv->blocks[last.to].move = index;
    kv->blocks[to].move = KVMEM_BLOCK_NONE;
    return from;
}

void kvmem_move_cancel(struct kvmem *kv, uint32_t to)
{
    ASSERT(kv->blocks[to].fill == 0);
    if (kv->blocks[to].move == KVMEM_BLOCK_NONE) {
        return;
    }
    uint32_t from = take_off(kv, to);
    if (kvmem_is_host(kv, from)) {
        ASSERT(kv->blocks[from].state == KVMEM_LEAVING);
        kvmem_tier_release(kv, from);
    }
}

void kvmem_move_undo(struct kvmem *kv, uint32_t block)
{
    uint32_t from = take_off(kv, block);
    if (!kvmem_is_host(kv, from)) {
        kvmem_name_clear(kv, block);
        kv->counters.dropped_blocks++;
        return;
    }
    ASSERT(kv->blocks[from].state == KVMEM_LEAVING);
    if (!kvmem_mirror_return(kv, block)) {
        kvmem_tier_pass(kv, block, from);
    }
}

/* True when no call needs the content any more, or another move fills its target. */
static bool is_void(const struct kvmem *kv, uint32_t number)
{
    const struct kvmem_block *target = &kv->blocks[kvmem_move_at(kv, number)->to];
    return target->move != number || target->state == KVMEM_FREE;
}

/* The step's list so far. It is counted here, as the record is shared with a worker. */
struct written {
    const struct step *step;
    uint32_t count;
};

/* The moves from number `first` on that belong to this phase go to the end of the list. */
static void write_moves(const struct kvmem *kv, struct written *written, enum step_phase phase,
                        uint32_t first, uint32_t count)
{
    for (uint32_t number = first; number < first + count; number++) {
        const struct step_move *move = kvmem_move_at(kv, number);
        if (step_move_phase(move, kv->device.count) == phase && !is_void(kv, number)) {
            ASSERT(written->count < written->step->layout.moves_max);
            step_moves(written->step)[written->count++] = *move;
        }
    }
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
        ASSERT(call < kvmem_calls_count(&kv->settings) && blocks <= kv->calls[call].count);
        step_row(step, i)->blocks_count = blocks;
        memcpy(step_blocks(step, i), kvmem_table_of(kv, call), blocks * sizeof(uint32_t));
    }
    struct written written = {.step = step};
    write_moves(kv, &written, STEP_PHASE_OUT, 0, kv->moves_count);
    write_moves(kv, &written, STEP_PHASE_WITHIN, kv->moves_max, kv->copies_count);
    write_moves(kv, &written, STEP_PHASE_IN, 0, kv->moves_count);
    step_header(step)->moves_count = written.count;
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
            kvmem_mirror_read(kv, move->from);
        }
    }
    for (uint32_t i = 0; i < kv->copies_count; i++) {
        struct kvmem_block *target = &kv->blocks[kv->copies[i].to];
        if (target->move == kv->moves_max + i) {
            target->move = KVMEM_BLOCK_NONE;
            kv->counters.copied_blocks++;
        }
    }
    kv->counters.out_blocks += out;
    kv->counters.in_blocks += in;
    kv->counters.out_moves += out > 0;
    kv->counters.in_moves += in > 0;
    kv->moves_count = 0;
    kv->copies_count = 0;
    kv->bound = false;
}
