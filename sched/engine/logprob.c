/* SPDX-License-Identifier: MIT */
/*
 * What: log probabilities out of the record of a step, into the ring of their call.
 *
 * Invariants: what the worker wrote is copied first and checked as a copy, for it can change at any
 * time. What is copied for a token that is not published in the end is written again with the token
 * that takes its place; what is published is never written again, so a client sees one value even
 * if the step is lost and computed once more.
 * Bounds: O(entries of the tokens).
 */
#include "sched/engine/logprob.h"

#include "sched/call.h"

/* Reads each number once. */
static void copy(struct call_logprob *to, const volatile struct call_logprob *from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        to[i] = (struct call_logprob){from[i].token, from[i].logprob};
    }
}

/* The first entry is the token's own, the others are in order. A comparison with NaN is false. */
static bool is_sound(const struct call_logprob *entries, uint32_t count, uint32_t token,
                     uint32_t vocab_tokens)
{
    bool sound = entries[0].token == token;
    for (uint32_t i = 0; i < count; i++) {
        float most = i > 1 ? entries[i - 1].logprob : 0.0f;
        sound = sound && entries[i].token < vocab_tokens && entries[i].logprob <= most &&
                entries[i].logprob >= -CALL_LOGPROB_MAX;
    }
    return sound;
}

bool sched_logprob_take(const struct sched_engine *engine, uint32_t index, uint32_t first,
                        uint32_t end, const uint32_t *tokens)
{
    const struct sched *sched = engine->sched;
    const struct call *call = sched_call(sched, engine->planned[index].call);
    uint32_t count = call_logprob_entries(&call->sampling);
    bool sound = true;
    for (uint32_t i = first; i < end && count > 0; i++) {
        struct call_logprob *entries = call_logprobs_at(sched->calls, call, i);
        copy(entries, step_logprobs(&engine->step, index, (i - call->generated_tokens) * count),
             count);
        sound = sound && is_sound(entries, count, tokens[i - first], sched->settings.vocab_tokens);
    }
    return sound;
}
