/* SPDX-License-Identifier: MIT */
/*
 * What: what each open call asks and how far it has come, in memory that the core's successor takes
 * up with the calls' tokens (take_up.c).
 *
 * Death: a version counts when its check word is right and, for a connection that stays, when that
 * has committed it. Tokens count when their digest is that of the version, which is of this call
 * alone.
 */
#include "net/kept/progress.h"

#include <string.h>

#include "config/base/fnv.h"

void net_progress_plan_memory(struct memory_plan *plan, const struct limits *limits)
{
    memory_plan_add(plan, MEMORY_KEPT, "net progress of calls", limits->calls,
                    sizeof(struct net_progress));
}

void net_progress_init(struct net *net, struct arena *kept)
{
    uint32_t calls = net->settings.limits->calls;
    ASSERT(calls == net->calls->count);
    net->progress = arena_take(kept, calls, sizeof(struct net_progress));
}

/* Never 0, which stands for no call. */
static uint64_t check_of(const struct net_progress *progress)
{
    return fnv_add_words(FNV_START, progress, offsetof(struct net_progress, check)) | 1;
}

static uint64_t check_of_version(const struct net_progress *progress,
                              const struct net_progress_version *version)
{
    return fnv_add_words(progress->check, version, offsetof(struct net_progress_version, check));
}

static uint64_t digest_of(const uint32_t *tokens, uint32_t count)
{
    return fnv_add_words(FNV_START, tokens, (uint64_t)count * sizeof *tokens);
}

/* ---- while the core lives -------------------------------------------------------------------- */

/* That of the pass that runs now, which is the only one that is not committed; else the older. */
static struct net_progress_version *version_to_write(struct net_progress *progress, uint64_t number)
{
    struct net_progress_version *versions = progress->versions;
    if (versions[0].number == number || versions[1].number == number) {
        return &versions[versions[1].number == number];
    }
    return &versions[versions[1].number < versions[0].number];
}

static void write_version(struct net *net, const struct call *call, const struct wire_done *done,
                       bool is_closed)
{
    struct net_progress *progress = &net->progress[call->slot];
    uint64_t number = net_kept_next_version(net, call->connection);
    struct net_progress_version *version = version_to_write(progress, number);
    const struct call_emit *emit = &call->emit;
    if (progress->check == 0) {
        return;                         /* the lab's, which was not asked for in a frame */
    }
    struct net_connection *connection = &net->connections[call->connection];
    connection->calls_mark ^= net_progress_last(progress)->check;
    memset(version, 0, sizeof *version);      /* padding is digested, too */
    version->number = number;
    version->digest = emit->digest;
    version->tokens = emit->sent_tokens;
    version->accept_sent = emit->accept_sent;
    version->is_cancelled = call->cancel && !call->stop_text_hit;     /* that is found again */
    version->is_closed = is_closed;
    version->text_bytes = emit->text_bytes;
    version->held_bytes = emit->held_bytes;
    memcpy(version->held, emit->held, emit->held_bytes);
    if (done != NULL) {
        version->done = *done;
    }
    version->check = check_of_version(progress, version);
    connection->calls_mark ^= is_closed ? 0 : version->check;
    connection->is_noted = true;
}

void net_progress_note(struct net *net, const struct call *call, const struct wire_done *done)
{
    write_version(net, call, done, false);
}

void net_progress_close(struct net *net, const struct call *call)
{
    write_version(net, call, NULL, true);
}

void net_progress_begin(struct net *net, const struct call *call)
{
    struct net_progress *progress = &net->progress[call->slot];
    memset(progress, 0, sizeof *progress);
    progress->domain = call->domain;
    memcpy(progress->program_id, call->program_id, sizeof progress->program_id);
    progress->call_id = call->client_call_id;
    progress->request = call->emit.request;
    progress->begun = net_kept_next_version(net, call->connection);
    progress->deadline_us = call->deadline_us;
    progress->arrived_us = call->arrived_us;
    progress->prompt_digest = digest_of(call->tokens, call->prompt_tokens);
    progress->connection = call->connection;
    progress->prompt_tokens = call->prompt_tokens;
    progress->max_tokens = call->max_tokens;
    progress->thread = call->thread;
    progress->eos_id_index_plus_1 = call->eos_id_index_plus_1;
    progress->stop_texts_count = call->stop_texts_count;
    progress->want_text = call->want_text;
    progress->want_control = call->want_control;
    progress->want_drafts = call->want_drafts;
    progress->eot_is_eos = call->emit.eot_is_eos;
    progress->sampling = call->sampling;
    memcpy(progress->stop_texts, call->stop_texts, sizeof progress->stop_texts);
    memcpy(progress->biases, call->biases, call->sampling.biases_count * sizeof *call->biases);
    progress->check = check_of(progress);
    net_progress_note(net, call, NULL);
}

/* ---- what is whole --------------------------------------------------------------------------- */

bool net_progress_is_whole(const struct net *net, uint32_t slot)
{
    const struct net_progress *progress = &net->progress[slot];
    uint32_t context_tokens = net->calls->context_tokens;
    return progress->check == check_of(progress) && progress->prompt_tokens <= context_tokens &&
           progress->max_tokens <= context_tokens - progress->prompt_tokens;
}

bool net_progress_has_prompt(const struct net *net, uint32_t slot)
{
    const struct net_progress *progress = &net->progress[slot];
    return digest_of(net->calls->calls[slot].tokens, progress->prompt_tokens) ==
           progress->prompt_digest;
}

bool net_progress_has_tokens(const struct net *net, uint32_t slot,
                             const struct net_progress_version *version)
{
    const struct net_progress *progress = &net->progress[slot];
    const uint32_t *generated = net->calls->calls[slot].tokens + progress->prompt_tokens;
    const struct wire_done *done = &version->done;
    return version->check == check_of_version(progress, version) &&
           version->tokens <= progress->max_tokens &&
           wire_digest(WIRE_DIGEST_START, generated, version->tokens) == version->digest &&
           (done->finish == CALL_FINISH_NONE ||
            (version->tokens <= done->generated_tokens &&
             done->generated_tokens <= progress->max_tokens &&
             wire_digest(version->digest, generated + version->tokens,
                         done->generated_tokens - version->tokens) == done->digest));
}

const struct net_progress_version *net_progress_last(const struct net_progress *progress)
{
    const struct net_progress_version *versions = progress->versions;
    return &versions[versions[1].number > versions[0].number];
}

void net_progress_check(const struct net *net)
{
    for (uint32_t slot = 0; slot < net->calls->count; slot++) {
        const struct call *call = &net->calls->calls[slot];
        const struct net_progress *progress = &net->progress[slot];
        bool is_open = call->state != CALL_FREE && call->connection != CALL_NONE &&
                       call->workflow == CALL_NONE;
        const struct net_progress_version *version = net_progress_last(progress);
        ASSERT(is_open || progress->check == 0 || version->is_closed);
        ASSERT(progress->check == 0 || progress->check == check_of(progress));
        ASSERT(!is_open || progress->check == 0 ||
               (version->check == check_of_version(progress, version) && !version->is_closed &&
                version->tokens == call->emit.sent_tokens && version->digest == call->emit.digest));
    }
}
