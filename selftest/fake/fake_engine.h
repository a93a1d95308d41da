/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: an engine that computes nothing but shows every mistake of the core. For every position of
 * every block it keeps a hash of the tokens up to there. It samples a token from the hash at the
 * last position, read through the row's block ids. So a call's tokens are a pure function of its
 * prompt, seed and salt. They are wrong if a token is fed twice, left out or put at a wrong
 * position, if a block was overwritten, or if a block was not moved. The salt does not count while
 * the tokens are those of a declared prefix: all calls share these positions.
 *
 * Rows with drafts verify them as config/base/step.h says. Where `repeats` is set, texts repeat
 * themselves, so that drafts agree now and then.
 *
 * A step that is doubted holds, unless `is_wrong` is set: then its tokens are others, and a second
 * look has seen it.
 *
 * A step runs as a whole, or begins and runs round by round, so that the core can stop it early.
 */
#include <stdbool.h>

#include "config/base/step.h"
#include "config/prefixes.h"

#define FAKE_ENGINE_ROWS_MAX    1024
#define FAKE_ENGINE_CONTEXT_MAX 256     /* of a declared prefix */

/* The chains of the declared prefixes. */
struct fake_declared {
    uint32_t count, tokens_count[CONFIG_PREFIXES_MAX];
    uint64_t hashes[CONFIG_PREFIXES_MAX][FAKE_ENGINE_CONTEXT_MAX];
};

struct fake_engine {
    struct step step;
    uint64_t *kv;                   /* (blocks, block_tokens); of both tiers */
    uint32_t blocks, block_tokens, vocab_tokens;
    bool repeats;
    bool is_wrong;                  /* of the next step, if it is doubted */
    uint32_t device_blocks;         /* the first of the blocks */
    const struct fake_declared *declared;   /* NULL: there are none */
    uint32_t steps_per_plan;        /* rounds of a step; 0: as many as the record has room for */
    uint64_t salts[FAKE_ENGINE_ROWS_MAX];   /* beginning of each row's chain of hashes */
    /* private: the step that runs */
    uint32_t rows[FAKE_ENGINE_ROWS_MAX], rows_count, standby, round, rounds;
};

void fake_engine_declare(struct fake_declared *declared, const struct config_prefixes *prefixes);
/* The chain: a position's hash from the one before it (any, at position 0). */
uint64_t fake_engine_next(const struct fake_engine *engine, uint64_t salt, uint32_t position,
                          uint64_t before, uint32_t token);
/* True when the salt counts at this position. Elsewhere the hash does not depend on it. */
bool fake_engine_parts(const struct fake_engine *engine, uint32_t position, uint64_t before,
                       uint32_t token);

/* Executes the moves of the step, before its first round. */
void fake_engine_begin(struct fake_engine *engine);
/* Runs the next round. False when none was left: the step is done. */
bool fake_engine_round(struct fake_engine *engine);

/* Runs the step record; `context` is a struct fake_engine (see struct fake_world.engine). */
void fake_engine_run(void *context);
/* Forgets all KV, as when the worker dies. */
void fake_engine_forget(struct fake_engine *engine);
/* The tokens of an undisturbed engine in its first row: `tokens` holds `prompt` tokens and gets up
 * to `max` more. Ends after a stop id. Returns the number of tokens produced. */
uint32_t fake_engine_oracle(const struct fake_engine *engine, uint32_t *tokens, uint32_t prompt,
                            uint32_t max, const struct call_sampling *sampling);
/* One of the log probabilities of a token that was sampled for a position: a pure function. */
struct fake_entry { uint32_t token, index; };
struct call_logprob fake_engine_logprob(const struct fake_engine *engine, uint64_t seed,
                                        uint32_t position, struct fake_entry entry);
/* The row's next token, and its log probabilities if the row asks for them. */
void fake_engine_append(const struct fake_engine *engine, uint32_t row, uint32_t token);
bool fake_engine_is_stop(const struct call_sampling *sampling, uint32_t token);
