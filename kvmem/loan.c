/* SPDX-License-Identifier: MIT */
/*
 * What: copy on write. A call that parts from a block in the middle, or has to compute its last
 * position itself, gets a block of its own that begins with a copy.
 *
 *   find     a claim that ends here looks at what followed its last block last time (block.after):
 *            a block of the device with content, or one that its call has taken over, whose
 *            beginning is known. Two branches that part are found so, and calls of the same prompt
 *   use      the call's next reserve: its first new block gets the copy, a move of the step
 *   return   the call gives up instead
 *
 * Invariants: nothing is held for the loan. Until the step runs the device's bytes are what they
 * were, whatever becomes of the block that holds them; so the copy reads what the claim has seen if
 * it comes before everything else that is written on the device: moves in come behind copies, and
 * copies stand in the order in which they were decided. A block that a move of this step fills is
 * not lent, and while one claim's loan is open nobody else reserves.
 * Bounds: one block is looked at, block_tokens tokens are compared; settings.calls copies a step.
 * Why not all that ever followed the block: the last one is nearly always the best
 * (docs/decisions/0005 has figures).
 */
#include "config/base/assert.h"
#include "kvmem/block.h"

static uint32_t min_tokens(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t kvmem_loan_find(struct kvmem *kv, uint32_t call, const uint32_t *tokens, uint32_t count)
{
    uint32_t index = kv->calls[call].count;
    if (index == 0 || kv->loan.positions > 0 || kv->copies_count == kv->settings.calls) {
        return 0;
    }
    uint32_t from = kv->blocks[kvmem_table_of(kv, call)[index - 1]].after;
    if (from >= kv->device.count || kv->blocks[from].move != KVMEM_BLOCK_NONE) {
        return 0;
    }
    struct kvmem_name name = kvmem_name_begin(kv, call, index);
    kvmem_name_extend(&name, tokens, min_tokens(count, kv->settings.block_tokens) - 1);
    uint32_t positions = kvmem_name_common(kv, &name, from);
    if (positions > 0) {
        kv->loan = (struct kvmem_loan){.call = call, .from = from, .positions = positions};
    }
    return positions;
}

uint32_t kvmem_loan_return(struct kvmem *kv, uint32_t call)
{
    uint32_t positions = kv->loan.call == call ? kv->loan.positions : 0;
    if (positions > 0) {
        kv->loan = (struct kvmem_loan){0};
    }
    return positions;
}

void kvmem_loan_use(struct kvmem *kv, uint32_t call, uint32_t to)
{
    uint32_t from = kv->loan.from;
    if (kvmem_loan_return(kv, call) > 0 && from != to) {    /* else it has just been handed out */
        kvmem_move_copy(kv, from, to);
    }
}
