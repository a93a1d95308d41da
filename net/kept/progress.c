/* SPDX-License-Identifier: MIT */
/*
 * What: how far each open call has come, in memory that the core's successor takes up with the
 * calls' tokens.
 *
 * The successor knows no connection, so a call goes on when its client sends it again: it gets the
 * tokens that it had as a part of a reply, and only their KV is computed again. All but the last
 * one: that may have ended the call, and whether it did is found as it was before.
 *
 * Death: a record counts when its check word is right, and its tokens when theirs is, which is not
 * right for tokens of another call in the slot. Between the two stores of net_progress_note() it is
 * wrong: then the call begins anew, with the same tokens.
 */
#include "net/kept/progress.h"

#include <string.h>

#include "config/base/fnv.h"
#include "net/kept/replies.h"

void net_progress_plan_memory(struct memory_plan *plan, const struct limits *limits)
{
    memory_plan_add(plan, MEMORY_KEPT, "net progress of calls", limits->calls,
                    sizeof(struct net_progress));
}

/* Never 0, which stands for no call. */
static uint64_t check_of(const struct net_progress *progress)
{
    return fnv_add(FNV_START, progress, offsetof(struct net_progress, check)) | 1;
}

static void take_up(struct net *net, uint32_t slot)
{
    const struct net_progress *progress = &net->progress[slot];
    uint32_t context_tokens = net->calls->context_tokens, tokens = progress->tokens;
    if (progress->check != check_of(progress) || progress->prompt_tokens > context_tokens ||
        tokens < 2 || tokens > context_tokens - progress->prompt_tokens) {
        return;
    }
    const uint32_t *generated = net->calls->calls[slot].tokens + progress->prompt_tokens;
    uint64_t digest = wire_digest(WIRE_DIGEST_START, generated, tokens);
    if ((digest ^ progress->check) != progress->tokens_check ||
        net_reply_find(net, progress->domain, progress->program_id, progress->call_id) != NULL) {
        return;
    }
    struct net_reply_part part = {.domain = progress->domain, .call_id = progress->call_id,
                                  .request = progress->request, .tokens = generated,
                                  .prompt_tokens = progress->prompt_tokens,
                                  .tokens_count = tokens - 1};
    memcpy(part.program_id, progress->program_id, sizeof part.program_id);
    net_reply_keep_part(net, &part);
}

void net_progress_init(struct net *net, struct arena *kept)
{
    uint32_t calls = net->settings.limits->calls;
    ASSERT(calls == net->calls->count);
    net->progress = arena_take(kept, calls, sizeof(struct net_progress));
}

void net_progress_take_up(struct net *net)
{
    for (uint32_t slot = 0; slot < net->calls->count; slot++) {
        take_up(net, slot);
        net_progress_end(net, slot);
    }
}

void net_progress_begin(struct net *net, const struct call *call)
{
    struct net_progress *progress = &net->progress[call->slot];
    *progress = (struct net_progress){.domain = call->domain, .call_id = call->client_call_id,
                                      .request = call->emit.request,
                                      .prompt_tokens = call->prompt_tokens};
    memcpy(progress->program_id, call->program_id, sizeof progress->program_id);
    progress->check = call->sampling.wants_logprobs ? 0 : check_of(progress);
    net_progress_note(net, call);
}

void net_progress_check(const struct net *net)
{
    for (uint32_t slot = 0; slot < net->calls->count; slot++) {
        const struct call *call = &net->calls->calls[slot];
        const struct net_progress *progress = &net->progress[slot];
        bool is_open = call->state != CALL_FREE && call->connection != CALL_NONE &&
                       call->workflow == CALL_NONE;
        ASSERT(is_open || progress->check == 0);
        ASSERT(progress->check == 0 || progress->check == check_of(progress));
        ASSERT(progress->check == 0 || (progress->tokens == call->emit.sent_tokens &&
                                        (progress->tokens_check ^ progress->check) ==
                                            call->emit.digest));
    }
}
