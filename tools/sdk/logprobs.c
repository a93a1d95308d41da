/* SPDX-License-Identifier: MIT */
#include "tools/sdk/session.h"

#include <string.h>

#include "config/base/assert.h"

/*
 * What: the log probabilities of a TOKENS frame, copied behind its tokens and checked there: the
 * appliance is not trusted. Together they are shorter than the frame, so they have room.
 * Bounds: linear in the frame.
 */

struct agx_logprob *agx_session_entries(const struct agx *agx, uint32_t tokens_count)
{
    return (struct agx_logprob *)(void *)(agx->tokens + tokens_count);
}

/* The first entry of a token is its own, the others are in order. */
static bool logprobs_are_sound(const struct agx *agx, const struct agx_logprob *entries,
                               uint32_t count, uint32_t token)
{
    bool sound = entries[0].token == token;
    for (uint32_t i = 0; i < count; i++) {
        float most = i > 1 ? entries[i - 1].logprob : 0.0f;
        sound = sound && entries[i].token < agx->welcome.vocab_tokens &&
                entries[i].logprob <= most && entries[i].logprob >= -CALL_LOGPROB_MAX;
    }
    return sound;
}

bool agx_session_logprobs(struct agx *agx, const struct agx_open_call *call,
                          const struct wire_tokens *tokens)
{
    uint32_t each = call->logprobs_each, count = tokens->tokens_count;
    struct agx_logprob *entries = agx_session_entries(agx, count);
    if (count == 0 || (tokens->entries == 0 && each == 0)) {
        return true;
    }
    if (tokens->entries != each) {
        return false;
    }
    ASSERT(count + 2 * (uint64_t)count * each <= agx->tokens_max);
    memcpy(entries, tokens->logprobs, (size_t)count * each * sizeof *entries);
    bool sound = true;
    for (uint32_t i = 0; i < count; i++) {
        sound = sound && logprobs_are_sound(agx, entries + (size_t)i * each, each, agx->tokens[i]);
    }
    return sound;
}
