/* SPDX-License-Identifier: MIT */
/*
 * What: the tokens of a step that runs, published round by round, so that a client gets each one
 * when it is sampled and not when the step ends.
 *
 * Published is less than settled: the call's account, its KV and its state stay as they were when
 * the step began, and the step is still settled as a whole or not at all. But a published token may
 * have been sent, so it is a promise. When the step is lost, the tokens are computed again, and
 * settle.c refutes a step that says anything else. A call that ends before its time keeps them.
 *
 * Invariants: generated_tokens <= published_tokens <= max_tokens; a token after one that ends the
 * call is never published, nor an id that the vocabulary does not have, nor a token before its log
 * probabilities are in their ring, if the call asks for them.
 * Bounds: O(rows + new tokens) for each round; O(1) when the step has had no round since.
 */
#include "sched/engine/progress.h"

#include "sched/ending.h"
#include "sched/engine/logprob.h"

void sched_progress_note(struct sched *sched, struct call *call, uint32_t tokens, uint64_t now_us)
{
    if (tokens <= call->published_tokens) {
        return;
    }
    if (call->first_token_us == 0) {
        call->first_token_us = call->last_token_us = now_us;
        sched_note_time(sched, TIME_FIRST_TOKEN, call->arrived_us, now_us);
        sched_note(sched, call, now_us, (struct event_what){.kind = EVENT_FIRST_TOKEN});
        call->published_tokens++;
    }
    uint32_t more = tokens - call->published_tokens;
    if (more > 0) {
        sched_note_time(sched, TIME_TOKEN_GAP, call->last_token_us, now_us);
        histogram_note(&sched->times.all[TIME_TOKEN_GAP], 0, more - 1);
        call->last_token_us = now_us;
        call->published_tokens = tokens;
    }
}

/* True when the newest published token ends the call. */
static bool has_last_token(const struct call *call)
{
    const uint32_t *end = call->tokens + call->prompt_tokens + call->published_tokens;
    return call->published_tokens > call->generated_tokens &&
           sched_call_stop_reason(call, end[-1]) != CALL_FINISH_NONE;
}

/* Tokens that the row has produced. 0 of an out that cannot be: settle.c judges it. */
static uint32_t produced_by(const struct sched_engine *engine, uint32_t index)
{
    const volatile struct step_out *out = step_out(&engine->step, index);
    uint32_t produced = step_out_published(step_out(&engine->step, index));
    bool is_possible = out->result == STEP_ROW_OK &&
                       produced <= engine->planned[index].decode_steps;
    return is_possible ? produced : 0;
}

/* Copies what the row has produced beyond what is published. Returns how many generated tokens the
 * call then has. */
static uint32_t read_row(const struct sched_engine *engine, uint32_t index, const struct call *call)
{
    const volatile uint32_t *tokens = step_out_tokens(&engine->step, index);
    uint32_t end = call->generated_tokens + produced_by(engine, index);
    uint32_t at = call->published_tokens;
    ASSERT(end <= call->max_tokens);
    while (at < end) {
        uint32_t token = tokens[at - call->generated_tokens];
        if (token >= engine->sched->settings.vocab_tokens ||
            !sched_logprob_take(engine, index, at, at + 1, &token)) {
            return at;
        }
        call->tokens[call->prompt_tokens + at++] = token;
        if (sched_call_stop_reason(call, token) != CALL_FINISH_NONE) {
            return at;
        }
    }
    return at;
}

static void publish_row(struct sched_engine *engine, uint32_t index, uint64_t now_us)
{
    struct sched *sched = engine->sched;
    const struct step_planned *planned = &engine->planned[index];
    struct call *call = sched_call(sched, planned->call);
    if (call->generation != planned->call_generation || call->state != CALL_RUNNING ||
        has_last_token(call)) {
        return;
    }
    uint32_t tokens = read_row(engine, index, call);
    if (tokens > call->published_tokens) {
        sched_progress_note(sched, call, tokens, now_us);
        exchange_emit(sched->exchange, call);
    }
}

void sched_engine_progress(struct sched_engine *engine, uint64_t now_us)
{
    ASSERT(engine->step_in_flight);
    uint32_t rounds = step_progress_rounds(&engine->step, engine->sequence);
    if (rounds == engine->rounds_published) {
        return;
    }
    engine->rounds_published = rounds;
    for (uint32_t i = 0; i < engine->planned_count; i++) {
        publish_row(engine, i, now_us);
    }
}
