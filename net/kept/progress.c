/* SPDX-License-Identifier: MIT */
/*
 * What: what each open call asks and how far it has come, in memory that the core's successor takes
 * up with the calls' tokens (take_up.c).
 *
 * Death: a turn counts when its check word is right and, for a connection that stays, when that has
 * committed it. Tokens count when their digest is that of the turn, which is of this call alone.
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

static uint64_t check_of_turn(const struct net_progress *progress,
                              const struct net_progress_turn *turn)
{
    return fnv_add_words(progress->check, turn, offsetof(struct net_progress_turn, check));
}

static uint64_t digest_of(const uint32_t *tokens, uint32_t count)
{
    return fnv_add_words(FNV_START, tokens, (uint64_t)count * sizeof *tokens);
}

/* ---- while the core lives -------------------------------------------------------------------- */

/* That of the pass that runs now, which is the only one that is not committed; else the older. */
static struct net_progress_turn *turn_to_write(struct net_progress *progress, uint64_t number)
{
    struct net_progress_turn *turns = progress->turns;
    if (turns[0].number == number || turns[1].number == number) {
        return &turns[turns[1].number == number];
    }
    return &turns[turns[1].number < turns[0].number];
}

static void write_turn(struct net *net, const struct call *call, const struct wire_done *done,
                       bool is_closed)
{
    struct net_progress *progress = &net->progress[call->slot];
    uint64_t number = net_kept_next_turn(net, call->connection);
    struct net_progress_turn *turn = turn_to_write(progress, number);
    const struct call_emit *emit = &call->emit;
    if (progress->check == 0) {
        return;                         /* the lab's, which was not asked for in a frame */
    }
    memset(turn, 0, sizeof *turn);      /* padding is digested, too */
    turn->number = number;
    turn->digest = emit->digest;
    turn->tokens = emit->sent_tokens;
    turn->accept_sent = emit->accept_sent;
    turn->is_cancelled = call->cancel && !call->stop_text_hit;     /* that is found again */
    turn->is_closed = is_closed;
    turn->text_bytes = emit->text_bytes;
    turn->held_bytes = emit->held_bytes;
    memcpy(turn->held, emit->held, emit->held_bytes);
    if (done != NULL) {
        turn->done = *done;
    }
    net->connections[call->connection].is_noted = true;
    turn->check = check_of_turn(progress, turn);
}

void net_progress_note(struct net *net, const struct call *call, const struct wire_done *done)
{
    write_turn(net, call, done, false);
}

void net_progress_close(struct net *net, const struct call *call)
{
    write_turn(net, call, NULL, true);
}

void net_progress_begin(struct net *net, const struct call *call)
{
    struct net_progress *progress = &net->progress[call->slot];
    memset(progress, 0, sizeof *progress);
    progress->domain = call->domain;
    memcpy(progress->program_id, call->program_id, sizeof progress->program_id);
    progress->call_id = call->client_call_id;
    progress->request = call->emit.request;
    progress->begun = net_kept_next_turn(net, call->connection);
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
                             const struct net_progress_turn *turn)
{
    const struct net_progress *progress = &net->progress[slot];
    const uint32_t *generated = net->calls->calls[slot].tokens + progress->prompt_tokens;
    const struct wire_done *done = &turn->done;
    return turn->check == check_of_turn(progress, turn) && turn->tokens <= progress->max_tokens &&
           wire_digest(WIRE_DIGEST_START, generated, turn->tokens) == turn->digest &&
           (done->finish == CALL_FINISH_NONE ||
            (turn->tokens <= done->generated_tokens &&
             done->generated_tokens <= progress->max_tokens &&
             wire_digest(turn->digest, generated + turn->tokens,
                         done->generated_tokens - turn->tokens) == done->digest));
}

const struct net_progress_turn *net_progress_last(const struct net_progress *progress)
{
    const struct net_progress_turn *turns = progress->turns;
    return &turns[turns[1].number > turns[0].number];
}

void net_progress_check(const struct net *net)
{
    for (uint32_t slot = 0; slot < net->calls->count; slot++) {
        const struct call *call = &net->calls->calls[slot];
        const struct net_progress *progress = &net->progress[slot];
        bool is_open = call->state != CALL_FREE && call->connection != CALL_NONE &&
                       call->workflow == CALL_NONE;
        const struct net_progress_turn *turn = net_progress_last(progress);
        ASSERT(is_open || progress->check == 0 || turn->is_closed);
        ASSERT(progress->check == 0 || progress->check == check_of(progress));
        ASSERT(!is_open || progress->check == 0 ||
               (turn->check == check_of_turn(progress, turn) && !turn->is_closed &&
                turn->tokens == call->emit.sent_tokens && turn->digest == call->emit.digest));
    }
}
