/* SPDX-License-Identifier: MIT
 *
 * What: penalties and biases (kernels/adjustment.h states the order).
 *
 * Invariants: a logit is changed once by each of the three; ids that are none of the vocabulary
 * change nothing. Between two calls nothing is kept: counts are made anew from the tokens, so they
 * do not depend on which worker has sampled these.
 *
 * Bounds: the workspace is touched at the generated tokens only.
 */
#include "kernels/adjustment.h"

#include "config/base/assert.h"
#include "kernels/penalty.h"

/* ---- counts ---------------------------------------------------------------------------------- */

static uint32_t generated_count(const struct kernels_given *given)
{
    return given->generated_count + given->produced_count;
}

/* The i-th generated token, oldest first. */
static uint32_t generated_token(const struct kernels_given *given, uint32_t i)
{
    return i < given->generated_count ? given->generated[i]
                                      : given->produced[i - given->generated_count];
}

/* Three walks over the tokens: clear, count, and change a logit where its count is met first. */
static void subtract_counts(const struct kernels_logits *all, const struct call_sampling *sampling,
                            const struct kernels_given *given)
{
    uint32_t tokens = generated_count(given);
    for (uint32_t i = 0; i < tokens; i++) {
        ASSERT(generated_token(given, i) < all->vocab_tokens);
        all->counts[generated_token(given, i)] = 0;
    }
    for (uint32_t i = 0; i < tokens; i++) {
        all->counts[generated_token(given, i)]++;
    }
    for (uint32_t i = 0; i < tokens; i++) {
        uint32_t token = generated_token(given, i);
        if (all->counts[token] > 0) {
            all->logits[token] =
                kernels_counted(all->logits[token], all->counts[token],
                                sampling->frequency_penalty, sampling->presence_penalty);
            all->counts[token] = 0;
        }
    }
}

/* ---- repeats --------------------------------------------------------------------------------- */

static uint32_t recent_count(const struct kernels_given *given)
{
    uint32_t count = given->history_count + given->produced_count;
    return count < CALL_REPEAT_TOKENS ? count : CALL_REPEAT_TOKENS;
}

/* The i-th newest token, i < recent_count(). */
static uint32_t recent_token(const struct kernels_given *given, uint32_t i)
{
    return i < given->produced_count
               ? given->produced[given->produced_count - 1 - i]
               : given->history[given->history_count - 1 - (i - given->produced_count)];
}

static void penalize_repeats(const struct kernels_logits *all, float penalty,
                             const struct kernels_given *given)
{
    for (uint32_t i = 0; i < recent_count(given); i++) {
        uint32_t token = recent_token(given, i);
        bool seen = token >= all->vocab_tokens;
        for (uint32_t j = 0; j < i && !seen; j++) {
            seen = recent_token(given, j) == token;
        }
        if (!seen) {
            all->logits[token] = kernels_repeated(all->logits[token], penalty);
        }
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool counts(const struct call_sampling *sampling, const struct kernels_given *given)
{
    return call_counts_tokens(sampling) && generated_count(given) > 0;
}

static bool repeats(const struct call_sampling *sampling, const struct kernels_given *given)
{
    return sampling->repeat_penalty != 1.0f && recent_count(given) > 0;
}

bool kernels_adjusts(const struct call_sampling *sampling, const struct kernels_given *given)
{
    ASSERT(given->history_count <= CALL_REPEAT_TOKENS);
    return counts(sampling, given) || repeats(sampling, given) || sampling->biases_count > 0;
}

void kernels_adjust(const struct kernels_logits *logits, const struct call_sampling *sampling,
                    const struct kernels_given *given)
{
    if (counts(sampling, given)) {
        subtract_counts(logits, sampling, given);
    }
    if (repeats(sampling, given)) {
        penalize_repeats(logits, sampling->repeat_penalty, given);
    }
    for (uint32_t i = 0; i < sampling->biases_count; i++) {
        ASSERT(given->biases[i].token < logits->vocab_tokens);
        logits->logits[given->biases[i].token] += given->biases[i].bias;
    }
}
