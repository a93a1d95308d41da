/* SPDX-License-Identifier: MIT */
/*
 * What: the declared prefixes (appliance/engine/prefixes.h).
 * Invariants: a pool that has served no call since its worker began has room for all of them
 * (config/limits.c), so their reserve never fails and none of their steps has moves; a prefix keeps
 * its blocks until the worker dies.
 * Bounds: one row of chunk_max tokens a step.
 * Why not calls of the scheduler: they would need slots and a program, would compete with calls
 * that a client waits for, and would end.
 */
#include "appliance/engine/prefixes.h"

#include <string.h>

#include "config/base/assert.h"

void prefixes_init(struct prefixes *prefixes, const struct step *step,
                   const struct config_prefixes *declared, struct kvmem *kv, uint32_t chunk_max)
{
    ASSERT(declared->count == kv->settings.prefixes);
    ASSERT(chunk_max > 0 && chunk_max <= step->layout.tokens_max);
    *prefixes = (struct prefixes){
        .step = *step, .declared = declared, .kv = kv, .chunk_max = chunk_max};
}

static uint32_t call_of(const struct prefixes *prefixes, uint32_t prefix)
{
    return prefixes->kv->settings.calls + prefix;
}

static void fill_row(const struct prefixes *prefixes, const struct config_prefix *prefix)
{
    *step_row(&prefixes->step, 0) = (struct step_row){
        .call = CALL_NONE,
        .first_position = prefixes->position,
        .tokens_count = prefixes->chunk,
        .sampling = {.top_p = 1, .repeat_penalty = 1},
    };
    memcpy(step_tokens(&prefixes->step), prefix->tokens + prefixes->position,
           prefixes->chunk * sizeof(uint32_t));
    *step_out(&prefixes->step, 0) = (struct step_out){.result = UINT32_MAX};
}

void prefixes_launch(struct prefixes *prefixes)
{
    const struct config_prefix *prefix = &prefixes->declared->each[prefixes->computed];
    uint32_t call = call_of(prefixes, prefixes->computed);
    ASSERT(prefixes_are_due(prefixes) && !prefixes_are_in_flight(prefixes));
    if (kvmem_call_blocks(prefixes->kv, call) == 0) {
        const struct kvmem_question question = {
            .call = call, .salt = KVMEM_SALT_DECLARED, .tokens = prefix->tokens,
            .count = prefix->tokens_count};
        const struct kvmem_answer answer = kvmem_ask(prefixes->kv, &question);
        prefixes->position = answer.positions;
        kvmem_commit(prefixes->kv, &answer, prefix->tokens_count);
    }
    uint32_t left = prefix->tokens_count - prefixes->position;
    prefixes->chunk = left < prefixes->chunk_max ? left : prefixes->chunk_max;
    const struct step_planned planned = {.call = call, .first_position = prefixes->position,
                                         .tokens_count = prefixes->chunk};
    *step_header(&prefixes->step) = (struct step_header){
        .rows_count = 1, .rows_active = 1, .tokens_count = prefixes->chunk};
    fill_row(prefixes, prefix);
    kvmem_bind(prefixes->kv, &prefixes->step, &planned, 1);
    kvmem_moved(prefixes->kv);          /* there are no moves to wait for */
}

bool prefixes_settle(struct prefixes *prefixes)
{
    const volatile struct step_out *out = step_out(&prefixes->step, 0);
    const struct config_prefix *prefix = &prefixes->declared->each[prefixes->computed];
    ASSERT(prefixes_are_in_flight(prefixes));
    if (out->result != STEP_ROW_OK || out->produced != 0) {
        return false;
    }
    prefixes->position += prefixes->chunk;
    prefixes->chunk = 0;
    kvmem_settle(prefixes->kv, call_of(prefixes, prefixes->computed), prefix->tokens,
                 prefixes->position);
    if (prefixes->position == prefix->tokens_count) {
        prefixes->computed++;
    }
    return true;
}

void prefixes_lost(struct prefixes *prefixes)
{
    for (uint32_t i = 0; i < prefixes->declared->count; i++) {
        kvmem_drop(prefixes->kv, call_of(prefixes, i));
    }
    prefixes->computed = prefixes->position = prefixes->chunk = 0;
}
