/* SPDX-License-Identifier: MIT */
/*
 * What: the end of a step (Algorithm 1, lines 15 to 23): tokens taken, service charged, calls
 * finished or demoted. And the end of a step that never came back: the worker died, and all KV
 * with it.
 *
 * Invariants: rows are the core's own copy of the plan; outs are copied before anybody looks at
 * them, and looked at before anything is done, so whatever a worker writes, and whenever, a step is
 * taken as a whole or not at all. A finished call is not demoted as well.
 *
 *   impossible    no engine that works says this, whatever it was asked: nothing of the step
 *                 counts, the worker has to go (SCHED_REFUTED), the calls are computed again
 *   not finite    the model itself may do this to a prompt, so the worker is only doubted: the call
 *                 is computed again, from its own tokens alone, and its blocks are forgotten before
 *                 anybody can share them
 *
 * Either is a fault of the calls whose rows they were, and the second fault of a call ends it: by
 * then it was computed twice (docs/decisions/0025).
 * Bounds: O(rows * N); a lost worker costs O(resident calls + rows).
 *
 * Recompute is service, for the engine did the work, but it does not use up quantum, it lengthens
 * it: a call is not demoted before it has made as much progress as its way back has cost. Calls
 * with quanta shorter than their recompute would otherwise take the pool from each other for
 * nothing.
 *
 * A standby that did not enter was not served: it goes on waiting as if nothing had happened. One
 * that did pays for its rounds, and waited until then (docs/decisions/0006).
 */
#include "sched/ending.h"
#include "sched/policy.h"
#include "sched/queue.h"
#include "sched/residency.h"

static enum call_finish stop_reason(const struct call *call, uint32_t token)
{
    uint32_t count = call->sampling.stop_ids_count;
    uint32_t eos = call->eos_id_index_plus_1;
    ASSERT(count <= CALL_STOP_IDS_MAX);
    if (eos > 0 && eos <= count && call->sampling.stop_ids[eos - 1] == token) {
        return CALL_FINISH_EOS;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (call->sampling.stop_ids[i] == token) {
            return CALL_FINISH_STOP_ID;
        }
    }
    return CALL_FINISH_NONE;
}

/* Of the core's copy. */
static uint32_t *out_tokens(const struct sched *sched, uint32_t index)
{
    return sched->out_tokens + (uint64_t)index * sched->settings.steps_per_plan;
}

/* Appends tokens up to the first that ends the call; what was sampled after it is dropped. */
static enum call_finish take_tokens(struct sched *sched, struct call *call,
                                    const uint32_t *tokens, uint32_t count)
{
    enum call_finish finish = CALL_FINISH_NONE;
    uint32_t *end = call->tokens + call->prompt_tokens + call->generated_tokens;
    uint32_t taken = 0;
    ASSERT(count <= call->max_tokens - call->generated_tokens);
    ASSERT(call->prompt_tokens + call->generated_tokens + count <= sched->calls->context_tokens);
    while (taken < count && finish == CALL_FINISH_NONE) {
        end[taken] = tokens[taken];
        finish = stop_reason(call, tokens[taken++]);
    }
    call->generated_tokens += taken;
    sched->stats->tokens_generated += taken;
    bool is_whole = call->generated_tokens == call->max_tokens;
    return finish == CALL_FINISH_NONE && is_whole ? CALL_FINISH_LENGTH : finish;
}

/* Quantum, high-water mark and statistics of the positions that the row has computed. */
static void count_positions(struct sched *sched, struct call *call,
                            const struct step_planned *planned, uint32_t produced,
                            uint64_t duration_us)
{
    uint32_t fed = planned->tokens_count + (produced > 0 ? produced - 1 : 0);
    uint32_t known = call->prompt_tokens + call->generated_tokens;
    uint32_t recomputed = 0;
    if (call->computed_tokens > planned->first_position) {
        recomputed = call->computed_tokens - planned->first_position;
        recomputed = recomputed < fed ? recomputed : fed;
    }
    call->kv_tokens = planned->first_position + fed;
    /* An engine may feed tokens behind a stop; they are not the call's. */
    call->kv_tokens = call->kv_tokens < known ? call->kv_tokens : known;
    sched->stats->tokens_computed += fed;
    sched->stats->recomputed_tokens += recomputed;
    if (call->kv_tokens > call->computed_tokens) {
        call->computed_tokens = call->kv_tokens;
        call->quantum_left_us -=
            duration_us < call->quantum_left_us ? duration_us : call->quantum_left_us;
    } else if (call->quantum_left_us <= UINT64_MAX - duration_us) {
        call->quantum_left_us += duration_us;
    }
}

/* After its first fault a call is computed again. True: this is the one that ends it. */
static bool add_fault(struct sched *sched, uint32_t call_index, uint64_t now_us)
{
    struct call *call = sched_call(sched, call_index);
    call->faults++;
    event_log_note_call(sched->settings.event_log, now_us, sched->calls, call_index,
                      (struct event_what){EVENT_FAULTED, {call->faults}});
    return call->faults == CALL_FAULTS_MAX;
}

/* What the engine has computed for this call is worth nothing. */
static enum call_finish settle_not_finite(struct sched *sched, uint32_t call_index, uint64_t now_us)
{
    sched->stats->rows_not_finite++;
    sched_call(sched, call_index)->preemptions++;
    sched_residency_drop(sched, call_index);
    return add_fault(sched, call_index, now_us) ? CALL_FINISH_FAILED : CALL_FINISH_NONE;
}

/* What the row means for its call: NONE when the call goes on. */
static enum call_finish settle_out(struct sched *sched, uint32_t index, uint64_t duration_us)
{
    const struct step_planned *planned = &sched->planned[index];
    struct call *call = sched_call(sched, planned->call);
    uint32_t produced = sched->outs[index].produced;
    enum call_finish finish = take_tokens(sched, call, out_tokens(sched, index), produced);
    count_positions(sched, call, planned, produced, duration_us);
    kvmem_settle(sched->kv, planned->call, call->tokens, call->kv_tokens);
    return finish;
}

/* The call was in the step that ends now. */
static void note_row(struct sched *sched, uint32_t index, uint64_t duration_us, uint32_t produced,
                     uint64_t now_us)
{
    const struct step_planned *planned = &sched->planned[index];
    event_log_note_call(sched->settings.event_log, now_us, sched->calls, planned->call,
                      (struct event_what){EVENT_RAN, {index, event_value(duration_us),
                                                      planned->tokens_count, produced}});
}

static void settle_row(struct sched *sched, uint32_t index, uint64_t duration_us, uint64_t now_us)
{
    uint32_t call_index = sched->planned[index].call;
    struct call *call = sched_call(sched, call_index);
    uint32_t generated_before = call->generated_tokens;
    sched_call_charge(call, duration_us);
    enum call_finish finish = sched->outs[index].result == STEP_ROW_NOT_FINITE
                                  ? settle_not_finite(sched, call_index, now_us)
                                  : settle_out(sched, index, duration_us);
    note_row(sched, index, duration_us, call->generated_tokens - generated_before, now_us);
    if (call->generated_tokens > generated_before && call->first_token_us == 0) {
        call->first_token_us = now_us;
        event_log_note_call(sched->settings.event_log, now_us, sched->calls, call_index,
                          (struct event_what){.kind = EVENT_FIRST_TOKEN});
    }
    if (call->cancel) {
        sched_call_end_cancelled(sched, call_index, now_us);
    } else if (finish != CALL_FINISH_NONE) {
        enum status status = finish == CALL_FINISH_FAILED ? STATUS_DEVICE_NUMERIC : STATUS_OK;
        sched_call_end(sched, call_index, finish, status, now_us);
    } else if (call->expired) {
        sched_call_end(sched, call_index, CALL_FINISH_DEADLINE, STATUS_GONE_DEADLINE, now_us);
    } else {
        call->state = CALL_QUEUED;
        call->waiting_since_us = now_us;
        if (call->generated_tokens > generated_before) {
            exchange_emit(sched->exchange, sched->calls, call_index);
        }
    }
}

/* Its share of the step, had it entered `produced` rounds before the end; no more than a standby
 * can have, whatever the worker wrote. */
static uint64_t standby_share_us(const struct sched *sched, uint32_t index, uint32_t produced,
                                 uint32_t step_rounds, uint64_t duration_us)
{
    uint32_t rounds = sched->planned[index].decode_steps;
    rounds = produced < rounds ? produced : rounds;
    step_rounds = step_rounds > rounds ? step_rounds : rounds + 1;
    return duration_us / step_rounds * rounds + duration_us % step_rounds * rounds / step_rounds;
}

static void settle_standby(struct sched *sched, uint32_t index, uint32_t step_rounds,
                           uint64_t duration_us, uint64_t now_us)
{
    const struct step_planned *planned = &sched->planned[index];
    const struct step_out *out = &sched->outs[index];
    struct call *call = sched_call(sched, planned->call);
    uint64_t share_us = standby_share_us(sched, index, out->produced, step_rounds, duration_us);
    ASSERT(share_us < duration_us || duration_us == 0);
    call->standby = false;
    call->state = CALL_QUEUED;
    if (out->result == STEP_ROW_OK && out->produced == 0) {
        sched_call_end_if_asked(sched, planned->call, now_us);
        return;
    }
    sched->stats->standbys_entered++;
    sched_call_enter(call, planned->first_position, now_us - share_us);
    call->state = CALL_RUNNING;
    settle_row(sched, index, share_us, now_us);
}

/* Still the call that was planned? After sched_fail_all() it need not be. */
static bool is_live(const struct sched *sched, uint32_t index)
{
    const struct step_planned *planned = &sched->planned[index];
    const struct call *call = sched_call(sched, planned->call);
    return call->generation == planned->call_generation && call->state == CALL_RUNNING;
}

/* Lines 20 to 23. At the head the rows come in reverse, so that they keep their order. */
static void demote_rows(struct sched *sched, uint64_t now_us)
{
    for (uint32_t i = 0; i < sched->planned_count; i++) {
        bool to_head = sched_policy_demotes_to_head(sched);
        const struct step_planned *planned =
            &sched->planned[to_head ? sched->planned_count - 1 - i : i];
        const struct call *call = sched_call(sched, planned->call);
        if (call->generation != planned->call_generation || call->state != CALL_QUEUED ||
            !sched_policy_demotes(sched, call)) {
            continue;
        }
        uint32_t queue = sched_policy_demotion_queue(sched, call);
        sched_queue_move(sched, planned->call, queue, to_head);
        if (sched->settings.queues > 1) {
            sched->stats->demotions++;
            event_log_note_call(sched->settings.event_log, now_us, sched->calls, planned->call,
                              (struct event_what){EVENT_DEMOTED, {queue}});
        }
    }
}

/* The moves of the step are done. */
static void settle_moves(struct sched *sched, uint64_t now_us)
{
    uint64_t out_before = sched->kv->counters.out_blocks;
    kvmem_moved(sched->kv);
    uint64_t out = sched->kv->counters.out_blocks - out_before;
    if (out > 0) {
        event_log_note(sched->settings.event_log, now_us,
                     (struct event_what){EVENT_SWAPPED_OUT, {event_value(out)}});
    }
}

static uint32_t read_rounds(const struct sched *sched)
{
    uint32_t rounds = *(const volatile uint32_t *)step_rounds(&sched->step);
    return rounds < sched->settings.steps_per_plan ? rounds : sched->settings.steps_per_plan;
}

/* Everything that the worker wrote is read once; no more tokens than were asked for. */
static void read_outs(struct sched *sched)
{
    for (uint32_t i = 0; i < sched->planned_count; i++) {
        const volatile struct step_out *out = step_out(&sched->step, i);
        const volatile uint32_t *tokens = step_out_tokens(&sched->step, i);
        struct step_out own = {.result = out->result, .produced = out->produced};
        uint32_t asked = sched->planned[i].decode_steps;
        uint32_t count = own.produced < asked ? own.produced : asked;
        uint32_t *own_tokens = out_tokens(sched, i);
        for (uint32_t t = 0; t < count; t++) {
            own_tokens[t] = tokens[t];
        }
        sched->outs[i] = own;
    }
}

/* Could an engine that works have said this of the row? */
static bool is_possible(const struct sched *sched, uint32_t index)
{
    const struct step_out *out = &sched->outs[index];
    uint32_t decode_steps = sched->planned[index].decode_steps;
    bool must_sample = index < sched->planned_active && decode_steps > 0;
    if (out->result == STEP_ROW_NOT_FINITE) {
        return true;
    }
    if (out->result != STEP_ROW_OK || out->produced > decode_steps ||
        (must_sample && out->produced == 0)) {
        return false;
    }
    const uint32_t *tokens = out_tokens(sched, index);
    uint32_t largest = 0;
    for (uint32_t t = 0; t < out->produced; t++) {
        largest = tokens[t] > largest ? tokens[t] : largest;
    }
    return largest < sched->settings.vocab_tokens;
}

/* Whose row is impossible has a fault. True: there is one, and the step is not believed. */
static bool find_impossible(struct sched *sched, uint64_t now_us)
{
    uint32_t impossible = 0;
    for (uint32_t i = 0; i < sched->planned_count; i++) {
        if (is_possible(sched, i)) {
            continue;
        }
        impossible++;
        if (is_live(sched, i) && add_fault(sched, sched->planned[i].call, now_us)) {
            sched_call_fail(sched, sched->planned[i].call, STATUS_DEVICE_FAILED, now_us);
        }
    }
    return impossible > 0;
}

static void settle_rows(struct sched *sched, uint64_t duration_us, uint64_t now_us)
{
    uint32_t step_rounds = read_rounds(sched);
    for (uint32_t i = 0; i < sched->planned_count; i++) {
        if (!is_live(sched, i)) {
            sched->stats->late_results++;
        } else if (i < sched->planned_active) {
            settle_row(sched, i, duration_us, now_us);
        } else {
            settle_standby(sched, i, step_rounds, duration_us, now_us);
        }
    }
}

enum sched_verdict sched_settle(struct sched *sched, uint64_t now_us)
{
    uint64_t duration_us = sched_elapsed_us(sched->step_submitted_us, now_us);
    uint64_t not_finite_before = sched->stats->rows_not_finite;
    ASSERT(sched->step_in_flight);
    read_outs(sched);
    if (find_impossible(sched, now_us)) {
        return SCHED_REFUTED;
    }
    sched->step_in_flight = false;
    settle_moves(sched, now_us);
    settle_rows(sched, duration_us, now_us);
    demote_rows(sched, now_us);
    sched->planned_count = sched->planned_active = 0;
    sched->stats->steps++;
    sched->stats->engine_busy_us += duration_us;
    event_log_note(sched->settings.event_log, now_us,
                 (struct event_what){EVENT_STEP_ENDED, {event_value(duration_us)}});
    return sched->stats->rows_not_finite > not_finite_before ? SCHED_DOUBTED : SCHED_BELIEVED;
}

/* The lost step served nobody: its time counts as waiting. */
static void requeue(struct sched *sched, uint32_t index, uint64_t now_us)
{
    uint32_t call_index = sched->planned[index].call;
    struct call *call = sched_call(sched, call_index);
    ASSERT(call->state == CALL_RUNNING);
    call->state = CALL_QUEUED;
    if (!call->standby) {
        call->waiting_since_us = sched->step_submitted_us;
    }
    call->standby = false;
    sched_call_end_if_asked(sched, call_index, now_us);
}

/* Before a call ends: there must be nothing left to keep. */
static void drop_everything(struct sched *sched)
{
    for (uint32_t i = 0; i < sched->settings.queues; i++) {
        const struct sched_list *residents = &sched->queues[i].lists[CALL_LIST_RESIDENT];
        while (residents->head != CALL_NONE) {
            uint32_t call_index = residents->head;
            ASSERT(sched_residency_has(sched, call_index));
            sched_call(sched, call_index)->preemptions++;
            sched_residency_drop(sched, call_index);
        }
    }
    ASSERT(sched->resident_calls == 0);
    kvmem_lost(sched->kv);
}

void sched_engine_lost(struct sched *sched, uint64_t now_us)
{
    event_log_note(sched->settings.event_log, now_us, (struct event_what){.kind =
                                                                          EVENT_ENGINE_LOST});
    drop_everything(sched);
    if (sched->step_in_flight) {
        sched->step_in_flight = false;
        sched->stats->steps_lost++;
        sched->stats->engine_busy_us += sched_elapsed_us(sched->step_submitted_us, now_us);
        for (uint32_t i = 0; i < sched->planned_count; i++) {
            if (is_live(sched, i)) {
                requeue(sched, i, now_us);
            }
        }
    }
    sched->planned_count = sched->planned_active = 0;
}
