/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a call on the tiny model, run alone, and its answer, for tests of the engine.
 */
#define TEST_ARENA_BYTES (32u << 20)
#include "selftest/unit/test.h"

#include "config/base/fnv.h"
#include "kernels/half.h"
#include "kernels/round/piece.h"
#include "selftest/unit/kernels/tiny_model.h"

static struct tiny tiny;
static const uint32_t prompt[] = TINY_PROMPT;
#define PROMPT_TOKENS (sizeof prompt / sizeof prompt[0])
#define DECODED 8

struct answer {
    uint32_t tokens[DECODED];
    float logits[75];
    uint64_t digest;
};

static inline void answer_take(struct answer *answer, const struct rig *rig)
{
    assert_int_equal(step_out(&rig->step, 0)->result, STEP_ROW_OK);
    assert_int_equal(step_out(&rig->step, 0)->produced, DECODED);
    memcpy(answer->tokens, step_out_tokens(&rig->step, 0), sizeof answer->tokens);
    memcpy(answer->logits, kernels_logits(rig->kernels, 0), sizeof answer->logits);
    answer->digest = step_out(&rig->step, 0)->digest;
}

/* Every number that an engine has not written yet is a NaN. */
static inline void poison(struct rig *rig)
{
    memset(rig->kernels->kv, 0xff,
           rig->settings.kv_blocks * rig->kernels->kv_block_bytes);
    memset(rig->kernels->kv_host, 0xff,
           rig->settings.kv_host_blocks * rig->kernels->kv_block_bytes);
}

static inline void run_alone(struct answer *answer, struct rig *rig, uint32_t first,
                             uint32_t stride)
{
    rig_clear(rig);
    rig_row(rig, prompt, PROMPT_TOKENS, 0, DECODED);
    rig_blocks(rig, 0, first, stride);
    kernels_run(rig->kernels, &rig->step);
    answer_take(answer, rig);
}

static inline void assert_same(const struct answer *a, const struct answer *b)
{
    assert_memory_equal(a->tokens, b->tokens, sizeof a->tokens);
    assert_memory_equal(a->logits, b->logits, sizeof a->logits);
    assert_int_equal(a->digest, b->digest);
}

static inline void start_plain(struct rig *rig, enum gguf_type type)
{
    struct arena *arena = test_arena();
    tiny_make(&tiny, type, false, 7);
    struct kernels_settings settings = rig_settings(kernels_simd_best(), 2);
    rig_start(rig, &settings, tiny_weights(&tiny, arena), arena);
}
