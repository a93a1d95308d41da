/* SPDX-License-Identifier: MIT */
/*
 * What: one prompt through the engine with the plain kernels and with the best ones that this CPU
 * has; every logit must agree to the bit.
 */
#include <stdio.h>
#include <string.h>

#include "appliance/base/fnv.h"
#include "selftest/post/post.h"

#define PROMPT_TOKENS 24

static void fill_step(const struct boot *boot, const struct step *step)
{
    struct step_row *row = step_row(step, 0);
    uint32_t context = boot->limits.context_tokens;
    uint32_t count = context > PROMPT_TOKENS ? PROMPT_TOKENS : context - 1;
    count = count < step->layout.tokens_max ? count : step->layout.tokens_max;
    memset(row, 0, sizeof *row);
    row->tokens_count = count;
    row->decode_steps = 1;
    row->blocks_count = (count + boot->limits.kv_block_tokens - 1) / boot->limits.kv_block_tokens;
    row->sampling.top_p = 1;
    row->sampling.repeat_penalty = 1;
    for (uint32_t i = 0; i < count; i++) {
        step_tokens(step)[i] = (i * 37 + 1) % boot->limits.vocab_tokens;
    }
    for (uint32_t i = 0; i < row->blocks_count; i++) {
        step_blocks(step, 0)[i] = i;
    }
    step_header(step)->rows_count = 1;
    step_header(step)->rows_active = 1;
    step_header(step)->tokens_count = count;
}

/* FNV-1a over the logits of one run; false: the engine does not start. */
static bool logits_digest(const struct boot *boot, enum kernels_simd simd, uint64_t *digest)
{
    struct arena arena;
    struct kernels *kernels = NULL;
    struct kernels_settings settings = boot->engine;
    struct plan plan = {.rows_count = 0};
    volatile uint64_t heartbeat = 0;
    settings.simd = simd;
    settings.kv_host_blocks = 0;        /* the step moves nothing */
    kernels_plan(&plan, &settings, &boot->gguf->shape);
    if (arena_map(&arena, plan_tier_bytes(&plan, TIER_ENGINE), false) != STATUS_OK ||
        kernels_init(&kernels, &settings, boot->weights, &arena, &heartbeat) != STATUS_OK) {
        return false;
    }
    fill_step(boot, &boot->step);
    kernels_run(kernels, &boot->step);
    *digest = fnv_add(FNV_START, kernels_logits(kernels),
                      (uint64_t)boot->limits.vocab_tokens * sizeof(float));
    kernels_stop(kernels);
    return step_out(&boot->step, 0)->result == STEP_ROW_OK;
}

bool post_kernels(struct boot *boot)
{
    uint64_t plain = 0;
    uint64_t best = 0;
    if (!logits_digest(boot, KERNELS_PLAIN, &plain) ||
        !logits_digest(boot, kernels_simd_best(), &best)) {
        printf("kernels: the engine failed\n");
        return false;
    }
    printf("kernels: plain %016llx, %s %016llx\n", (unsigned long long)plain,
           kernels_simd_name(kernels_simd_best()), (unsigned long long)best);
    return plain == best;
}
