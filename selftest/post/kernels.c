/* SPDX-License-Identifier: MIT */
/*
 * What: one prompt through the engine with the plain kernels and with those that serve; every
 * logit must agree to the bit, and with the digest that is known for the embedded model.
 */
#include "selftest/post/known.h"

#include <stdio.h>
#include <string.h>

#include "config/base/fnv.h"

#define PROMPT_TOKENS 24u

struct twins {
    struct step step;
    struct kernels *plain, *best;
    uint64_t heartbeat;
};

static uint32_t prompt_tokens(const struct post *post)
{
    const struct limits *limits = &post->boot->limits;
    uint32_t count =
        limits->context_tokens > PROMPT_TOKENS ? PROMPT_TOKENS : limits->context_tokens - 1;
    return count < limits->step_tokens ? count : limits->step_tokens;
}

/* The engine as it serves, with blocks for the prompt only: the step moves nothing. */
static struct kernels_settings settings_of(const struct post *post, enum kernels_simd simd)
{
    struct kernels_settings settings = post->boot->engine;
    settings.simd = simd;
    settings.kv_blocks =
        (prompt_tokens(post) + settings.kv_block_tokens - 1) / settings.kv_block_tokens;
    settings.kv_host_blocks = 0;
    return settings;
}

static void fill_step(const struct post *post, const struct step *step)
{
    struct step_row *row = step_row(step, 0);
    uint32_t count = prompt_tokens(post);
    memset(row, 0, sizeof *row);
    row->tokens_count = count;
    row->decode_steps = 1;
    row->blocks_count = settings_of(post, KERNELS_PLAIN).kv_blocks;
    row->sampling.top_p = 1;
    row->sampling.repeat_penalty = 1;
    for (uint32_t i = 0; i < count; i++) {
        step_tokens(step)[i] = (i * 37 + 1) % post->boot->limits.vocab_tokens;
    }
    for (uint32_t i = 0; i < row->blocks_count; i++) {
        step_blocks(step, 0)[i] = i;
    }
    *step_header(step) =
        (struct step_header){.rows_count = 1, .rows_active = 1, .tokens_count = count};
}

static void plan_kernels(const struct post *post, struct memory_plan *plan)
{
    struct kernels_settings plain = settings_of(post, KERNELS_PLAIN);
    struct kernels_settings best = settings_of(post, post->boot->engine.simd);
    memory_plan_add(plan, MEMORY_SELFTEST, "kernels twins", 1, sizeof(struct twins));
    memory_plan_add(plan, MEMORY_SELFTEST, "kernels step", 1, post->boot->step.layout.total_bytes);
    kernels_plan_memory(plan, &plain, &post->boot->gguf->shape);
    kernels_plan_memory(plan, &best, &post->boot->gguf->shape);
}

static void *init_kernels(const struct post *post, struct arena *arena)
{
    struct kernels_settings plain = settings_of(post, KERNELS_PLAIN);
    struct kernels_settings best = settings_of(post, post->boot->engine.simd);
    const struct kernels_weights *weights = post->boot->weights;
    struct twins *twins = arena_take(arena, 1, sizeof *twins);
    twins->step.layout = post->boot->step.layout;
    twins->step.base = arena_take(arena, 1, twins->step.layout.total_bytes);
    bool started =
        kernels_init(&twins->plain, &plain, weights, arena, &twins->heartbeat) == STATUS_OK &&
        kernels_init(&twins->best, &best, weights, arena, &twins->heartbeat) == STATUS_OK;
    return started ? twins : NULL;
}

static void run_twin(const struct post *post, const struct twins *twins, struct kernels *kernels,
                     struct post_faults *faults)
{
    fill_step(post, &twins->step);
    kernels_run(kernels, &twins->step);
    if (step_out(&twins->step, 0)->result != STEP_ROW_OK) {
        post_fault_say(faults, "a logit is not finite");
    }
}

/* Two logits a word; what is left of an odd vocabulary is zero in both. */
static void compare_logits(const struct twins *twins, uint32_t vocab_tokens,
                           struct post_faults *faults)
{
    struct post_pair pair = {
        .found = (const uint64_t *)(const void *)kernels_logits(twins->best, 0),
        .expected = (const uint64_t *)(const void *)kernels_logits(twins->plain, 0),
        .count = (vocab_tokens + 1) / 2,
    };
    while (post_pair_differs(&pair)) {
        post_fault_word(faults, &pair, "logits of token %llu and the next",
                        (unsigned long long)(2 * post_pair_at(&pair)));
    }
}

static void run_kernels(void *state, const struct post *post, uint32_t variant,
                        struct post_outcome *outcome)
{
    struct twins *twins = state;
    uint32_t vocab_tokens = post->boot->limits.vocab_tokens;
    run_twin(post, twins, twins->plain, &outcome->faults);
    run_twin(post, twins, twins->best, &outcome->faults);
    compare_logits(twins, vocab_tokens, &outcome->faults);
    uint64_t digest = fnv_add(FNV_START, kernels_logits(twins->best, 0),
                              (uint64_t)vocab_tokens * sizeof(float));
    if (prompt_tokens(post) == PROMPT_TOKENS) {
        post_known_compare(post, "logits", digest,
                           POST_KNOWN_LOGITS[post->boot->engine.kv_type], &outcome->faults);
    }
    snprintf(outcome->amount, sizeof outcome->amount, "%u tokens, %016llx", prompt_tokens(post),
             (unsigned long long)digest);
}

const struct post_check post_kernels = {plan_kernels, init_kernels, run_kernels};
