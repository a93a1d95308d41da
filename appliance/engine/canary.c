/* SPDX-License-Identifier: MIT */
/*
 * What: the canary (appliance/engine/canary.h).
 * Invariants: what the worker wrote is read once; of the record only outs are read back.
 * Bounds: one row, one step.
 * Why not a call of the scheduler: it would need a slot, a program, KV that calls could use, and an
 * exception wherever calls are counted, charged or reported; and it tests the engine, not them.
 */
#include "appliance/engine/canary.h"

#include "config/base/assert.h"
#include "config/base/fnv.h"

void canary_init(struct canary *canary, const struct step *step, const struct limits *limits,
                 uint64_t period_us)
{
    uint32_t positions = limits->canary_prompt_tokens + limits->canary_decode_steps;
    ASSERT(positions <= limits->context_tokens);
    ASSERT(limits->canary_prompt_tokens <= step->layout.tokens_max);
    ASSERT(limits->canary_decode_steps <= step->layout.steps_max);
    ASSERT(limits->canary_blocks <= step->layout.blocks_per_call);
    *canary = (struct canary){
        .step = *step, .limits = limits, .period_us = period_us, .hurries = true};
}

void canary_recall(struct canary *canary, uint64_t digest)
{
    canary->is_known = true;
    canary->digest = digest;
}

bool canary_is_due(const struct canary *canary, uint64_t now_us, bool is_idle)
{
    uint64_t wait_us = is_idle ? canary->period_us / 2 : canary->period_us;
    if (canary->limits->canary_blocks == 0 || canary_has_failed(canary)) {
        return false;
    }
    return canary->hurries || now_us - canary->good_us >= wait_us;
}

void canary_hurry(struct canary *canary)
{
    canary->hurries = true;
}

/* Ids from the whole vocabulary, always the same. */
static void fill_prompt(const struct canary *canary)
{
    for (uint32_t i = 0; i < canary->limits->canary_prompt_tokens; i++) {
        step_tokens(&canary->step)[i] = (i + 1) * 2654435761u % canary->limits->vocab_tokens;
    }
}

static void fill_row(const struct canary *canary)
{
    const struct limits *limits = canary->limits;
    *step_row(&canary->step, 0) = (struct step_row){
        .call = CALL_NONE,
        .tokens_count = limits->canary_prompt_tokens,
        .decode_steps = limits->canary_decode_steps,
        .blocks_count = limits->canary_blocks,
        .wants_digest = true,
        .sampling = {.seed = 1, .temperature = 1, .top_p = 1, .repeat_penalty = 1},
    };
    for (uint32_t i = 0; i < limits->canary_blocks; i++) {
        step_blocks(&canary->step, 0)[i] = limits->kv_blocks + i;
    }
    *step_out(&canary->step, 0) = (struct step_out){.result = UINT32_MAX};
}

void canary_launch(struct canary *canary)
{
    ASSERT(!canary->in_flight && canary->limits->canary_blocks > 0);
    *step_header(&canary->step) = (struct step_header){
        .rows_count = 1, .rows_active = 1, .tokens_count = canary->limits->canary_prompt_tokens};
    fill_prompt(canary);
    fill_row(canary);
    canary->in_flight = true;
    canary->hurries = false;
}

static uint64_t digest_of_results(const struct canary *canary, const struct step_out *out)
{
    const volatile uint32_t *tokens = step_out_tokens(&canary->step, 0);
    uint64_t digest = fnv_add(FNV_START, &out->digest, sizeof out->digest);
    for (uint32_t i = 0; i < canary->limits->canary_decode_steps; i++) {
        uint32_t token = tokens[i];
        digest = fnv_add(digest, &token, sizeof token);
    }
    return digest;
}

bool canary_settle(struct canary *canary, uint64_t now_us)
{
    const volatile struct step_out *written = step_out(&canary->step, 0);
    const struct step_out out = {
        .result = written->result, .produced = written->produced, .digest = written->digest};
    uint64_t digest = digest_of_results(canary, &out);
    /* A first result that is wrong by its form must not become the known one. */
    bool is_possible =
        out.result == STEP_ROW_OK && out.produced == canary->limits->canary_decode_steps;
    ASSERT(canary->in_flight);
    canary->in_flight = false;
    if (!is_possible || (canary->is_known && digest != canary->digest)) {
        canary->failures++;
        return false;
    }
    canary->is_known = true;
    canary->digest = digest;
    canary->failures = 0;
    canary->good_us = now_us;
    return true;
}

void canary_lost(struct canary *canary)
{
    canary->in_flight = false;
    canary->hurries = true;
}

uint64_t canary_age_us(const struct canary *canary, uint64_t now_us)
{
    return canary->is_known ? now_us - canary->good_us : UINT64_MAX;
}
