/* SPDX-License-Identifier: MIT */
/*
 * What: the end of a step (Algorithm 1, lines 15 to 23): tokens taken, service charged, calls
 * finished or demoted. And the end of a step that never came back: the worker died, and all KV
 * with it.
 *
 * Invariants: rows are the core's own copy of the plan. Outs are copied first, then checked, and
 * only then acted upon: whatever a worker writes, and whenever, a step is taken as a whole or not
 * at all. A finished call is not demoted as well.
 *
 *   impossible    no working engine says this, whatever it was asked: nothing of the step counts,
 *                 the worker has to go (SCHED_REFUTED), the calls are computed again
 *   not finite    the model itself may do this to a prompt, so the worker is only suspected: the
 *                 call is computed again, from its own tokens alone, and its blocks are forgotten
 *                 before another call can share them
 *
 * Either counts as a fault of each call whose row it was. The second fault of a call ends it: by
 * then it was computed twice (docs/decisions/0025).
 * Bounds: O(rows * N); a lost worker costs O(resident calls + rows).
 *
 * A standby that did not enter the step was not served and goes on waiting. One that entered pays
 * for its rounds; until then it waited (docs/decisions/0006).
 */
#include <string.h>

#include "sched/ending.h"
#include "sched/engine/active/active.h"
#include "sched/engine/active/exchange.h"
#include "sched/engine/draft.h"
#include "sched/engine/logprob.h"
#include "sched/engine/progress.h"
#include "sched/engine/queue.h"
#include "sched/engine/residency.h"
#include "sched/engine/share/tenant.h"
#include "sched/engine/starvation.h"
#include "sched/engine/suspicion.h"
#include "sched/kept.h"
#include "sched/key.h"
#include "sched/levels.h"
#include "sched/policy.h"

/* Of the core's copy. */
static uint32_t *out_tokens(const struct sched_engine *engine, uint32_t index)
{
    return engine->out_tokens + (uint64_t)index * engine->sched->settings.steps_per_plan;
}

/* Appends tokens up to the first that ends the call; what was sampled after it is dropped. */
static enum call_finish take_tokens(struct sched *sched, struct call *call,
                                    const uint32_t *tokens, uint32_t count)
{
    enum call_finish finish = CALL_FINISH_NONE;
    uint32_t *end = call->tokens + sched_call_known(call);
    uint32_t taken = 0;
    ASSERT(count <= call->max_tokens - call->generated_tokens);
    ASSERT(sched_call_known(call) + count <= sched->calls->context_tokens);
    while (taken < count && finish == CALL_FINISH_NONE) {
        finish = sched_call_stop_reason(call, tokens[taken++]);
    }
    memcpy(end, tokens, taken * sizeof *end);
    call->generated_tokens += taken;
    sched->stats->tokens_generated += taken;
    bool is_whole = call->generated_tokens == call->max_tokens;
    return finish == CALL_FINISH_NONE && is_whole ? CALL_FINISH_LENGTH : finish;
}

/* High-water mark and statistics of the positions that the row has computed. True when some of
 * them were never computed before. */
static bool count_positions(struct sched *sched, struct call *call,
                            const struct step_planned *planned, uint32_t produced)
{
    uint32_t fed = planned->tokens_count + (produced > 0 ? produced - 1 : 0);
    uint32_t known = sched_call_known(call);
    uint32_t recomputed = 0;
    if (call->computed_tokens > planned->first_position) {
        recomputed = call->computed_tokens - planned->first_position;
        recomputed = recomputed < fed ? recomputed : fed;
    }
    call->kv_tokens = planned->first_position + fed;
    /* An engine may feed tokens after a stop; they are not the call's. */
    call->kv_tokens = call->kv_tokens < known ? call->kv_tokens : known;
    sched->stats->tokens_computed += fed;
    sched->stats->recomputed_tokens += recomputed;
    if (call->kv_tokens <= call->computed_tokens) {
        return false;
    }
    call->computed_tokens = call->kv_tokens;
    return true;
}

/* After its first fault a call is computed again. True when this fault ends the call. */
static bool add_fault(const struct sched *sched, struct call *call, uint64_t now_us)
{
    call->faults++;
    sched_note(sched, call, now_us, (struct event_what){EVENT_FAULTED, {call->faults}});
    return call->faults == CALL_FAULTS_MAX;
}

/* Nothing that the engine has computed for this call counts. */
static enum call_finish settle_not_finite(struct sched_engine *engine, struct call *call,
                                          uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    sched->stats->rows_not_finite++;
    call->preemptions++;
    sched_residency_drop(engine, call);
    sched_job_restage(engine, call, SCHED_STAGE_DISPLACED, now_us);
    return add_fault(sched, call, now_us) ? CALL_FINISH_FAILED : CALL_FINISH_NONE;
}

/* Takes what the row brought. Returns why the call ends; NONE: it goes on. */
static enum call_finish settle_out(struct sched_engine *engine, uint32_t index, uint64_t now_us,
                                   bool *is_progress)
{
    struct sched *sched = engine->sched;
    const struct step_planned *planned = &engine->planned[index];
    struct call *call = sched_call(sched, planned->call);
    uint32_t produced = engine->outs[index].produced;
    enum call_finish finish = take_tokens(sched, call, out_tokens(engine, index), produced);
    *is_progress = count_positions(sched, call, planned, produced);
    kvmem_settle(engine->kv, call->slot, call->tokens, call->kv_tokens);
    sched_draft_settle(engine, index, now_us);
    return finish;
}

/* Notes that the call was in the step that ends now. */
static void note_row(const struct sched_engine *engine, uint32_t index, uint64_t duration_us,
                     uint32_t produced, uint64_t now_us)
{
    const struct step_planned *planned = &engine->planned[index];
    sched_note(engine->sched, sched_call(engine->sched, planned->call), now_us,
               (struct event_what){EVENT_RAN, {index, event_value(duration_us),
                                               planned->tokens_count, produced}});
}

/* The call ends as asked, or as its row says, or goes back to its queue. */
static void end_or_requeue(struct sched *sched, struct call *call, enum call_finish finish,
                           bool has_news, uint64_t now_us)
{
    if (call->cancel) {
        sched_call_end_cancelled(sched, call, now_us);
    } else if (finish != CALL_FINISH_NONE) {
        enum status status = finish == CALL_FINISH_FAILED ? STATUS_DEVICE_NUMERIC : STATUS_OK;
        sched_call_end(sched, call, finish, status, now_us);
    } else if (call->expired) {
        sched_call_end(sched, call, CALL_FINISH_DEADLINE, STATUS_GONE_DEADLINE, now_us);
    } else {
        call->state = CALL_QUEUED;
        call->waiting_since_us = now_us;
        sched_active_grow(sched_engine_of(sched, call), call);
        if (has_news) {
            exchange_emit(sched->exchange, call);
        }
    }
}

/* The row counts for its tenant. */
static void use_row(const struct sched_engine *engine, uint32_t index, uint64_t service_us)
{
    const struct call *call = sched_call(engine->sched, engine->planned[index].call);
    const struct sched_use use = {.rows = service_us,
                                  .prompt_tokens = engine->planned[index].tokens_count - 1,
                                  .blocks = kvmem_call_blocks(engine->kv, call->slot)};
    sched_tenant_use(engine->sched, sched_job_of(engine->sched, call)->tenant, &use);
}

static void settle_row(struct sched_engine *engine, uint32_t index, uint64_t duration_us,
                       uint64_t now_us)
{
    struct sched *sched = engine->sched;
    struct call *call = sched_call(sched, engine->planned[index].call);
    uint32_t generated_before = call->generated_tokens;
    bool is_progress = false;
    sched_call_charge(sched, call, duration_us, now_us);
    use_row(engine, index, duration_us);
    enum call_finish finish = engine->outs[index].result == STEP_ROW_NOT_FINITE
                                  ? settle_not_finite(engine, call, now_us)
                                  : settle_out(engine, index, now_us, &is_progress);
    sched_starvation_charge(engine, sched_job_of(sched, call), duration_us);
    sched_job_charge(sched_job_of(sched, call), duration_us, is_progress, now_us);
    sched_active_charge(engine, call, duration_us, is_progress);
    if (is_progress) {
        engine->turn_is_over = true;
        sched_job_charge_others(engine, call->program, duration_us);
    }
    sched_suspicion_settle(sched, call);
    uint32_t produced = call->generated_tokens - generated_before;
    const struct step_planned *planned = &engine->planned[index];
    sched_key_charge(sched, call, planned->first_position + planned->tokens_count, produced);
    note_row(engine, index, duration_us, produced, now_us);
    sched_progress_note(sched, call, call->generated_tokens, now_us);
    end_or_requeue(sched, call, finish, produced > 0, now_us);
}

/* The standby's share of the step, if it entered `produced` rounds before the end. Bounded by what
 * a standby can have, whatever the worker wrote. */
static uint64_t standby_share_us(const struct sched_engine *engine, uint32_t index,
                                 uint32_t produced, uint32_t step_rounds, uint64_t duration_us)
{
    uint32_t rounds = engine->planned[index].decode_steps;
    rounds = produced < rounds ? produced : rounds;
    step_rounds = step_rounds > rounds ? step_rounds : rounds + 1;
    return duration_us / step_rounds * rounds + duration_us % step_rounds * rounds / step_rounds;
}

static void settle_standby(struct sched_engine *engine, uint32_t index, uint32_t step_rounds,
                           uint64_t duration_us, uint64_t now_us)
{
    struct sched *sched = engine->sched;
    const struct step_planned *planned = &engine->planned[index];
    const struct step_out *out = &engine->outs[index];
    struct call *call = sched_call(sched, planned->call);
    uint64_t share_us = standby_share_us(engine, index, out->produced, step_rounds, duration_us);
    ASSERT(share_us < duration_us || duration_us == 0);
    call->standby = false;
    call->state = CALL_QUEUED;
    if (out->result == STEP_ROW_OK && out->produced == 0) {
        sched_call_end_if_asked(sched, call, now_us);
        return;
    }
    sched->stats->standbys_entered++;
    sched_call_enter(sched, call, planned->first_position, now_us - share_us);
    call->state = CALL_RUNNING;
    settle_row(engine, index, share_us, now_us);
}

/* The call of this row. NULL when the slot holds another call by now, as after sched_fail_all(). */
static struct call *call_of(const struct sched_engine *engine, uint32_t index)
{
    const struct step_planned *planned = &engine->planned[index];
    struct call *call = sched_call(engine->sched, planned->call);
    return call->generation == planned->call_generation ? call : NULL;
}

static bool is_live(const struct sched_engine *engine, uint32_t index)
{
    const struct call *call = call_of(engine, index);
    return call != NULL && call->state == CALL_RUNNING;
}

/* Lines 20 to 23. At the head the rows come in reverse, so that they keep their order. */
static void settle_jobs(struct sched_engine *engine, uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    bool to_head = sched_policy_demotes_to_head(sched);
    for (uint32_t i = 0; i < engine->planned_count; i++) {
        const struct call *call = call_of(engine, to_head ? engine->planned_count - 1 - i : i);
        struct sched_job *job = call != NULL ? sched_job_after(sched, call) : NULL;
        if (job != NULL) {
            sched_job_settle(engine, job, now_us);
        }
        if (call != NULL) {
            sched_job_settle_others(engine, call->program, now_us);
            sched_key_settle(engine->sched, call, now_us);
            sched_kept_settle(engine->sched, call->program);
        }
    }
}

/* That the rows were fed beyond one for each. With a budget of one token there is no row with more:
 * there those count that only read. */
static uint32_t prompt_tokens(const struct sched_engine *engine)
{
    bool is_least = engine->sched->settings.prefill_tokens == 1;
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < engine->planned_active; i++) {
        bool only_reads = engine->planned[i].decode_steps == 0;
        tokens += engine->planned[i].tokens_count - (is_least && only_reads ? 0 : 1);
    }
    return tokens;
}

/* The moves of the step are done. */
static void settle_moves(struct sched_engine *engine, uint64_t now_us)
{
    uint64_t out_before = engine->kv->counters.out_blocks;
    kvmem_moved(engine->kv);
    uint64_t out = engine->kv->counters.out_blocks - out_before;
    if (out > 0) {
        event_log_note(engine->sched->settings.event_log, now_us,
                       (struct event_what){EVENT_SWAPPED_OUT, {event_value(out)}});
    }
}

static uint32_t read_rounds(const struct sched_engine *engine)
{
    uint32_t most = engine->sched->settings.steps_per_plan;
    uint32_t rounds = *(const volatile uint32_t *)step_rounds(&engine->step);
    return rounds < most ? rounds : most;
}

/* What settling a row touches of its call, beyond what the plan has touched. */
static void cpu_prefetch_row(const struct sched_engine *engine, uint32_t index)
{
    const struct call *call = sched_call(engine->sched, engine->planned[index].call);
    sched_cpu_prefetch(&call->eos_id_index_plus_1, sizeof call->eos_id_index_plus_1);
    sched_cpu_prefetch(&call->first_token_us, sizeof call->first_token_us);
}

/* Reads everything that the worker wrote, once, and no more tokens than were asked for. */
static void read_outs(struct sched_engine *engine)
{
    for (uint32_t i = 0; i < engine->planned_count; i++) {
        cpu_prefetch_row(engine, i);
        const volatile struct step_out *out = step_out(&engine->step, i);
        const volatile uint32_t *tokens = step_out_tokens(&engine->step, i);
        struct step_out own = {.result = out->result, .produced = out->produced,
                               .drafted = out->drafted, .agreed = out->agreed,
                               .refused = out->refused};
        uint32_t asked = engine->planned[i].decode_steps;
        uint32_t count = own.produced < asked ? own.produced : asked;
        uint32_t *own_tokens = out_tokens(engine, i);
        for (uint32_t t = 0; t < count; t++) {
            own_tokens[t] = tokens[t];
        }
        engine->outs[i] = own;
    }
}

/* True when a token of the row is not the one that a step has published for its place. */
static bool contradicts(const struct call *call, const uint32_t *tokens, uint32_t count)
{
    const uint32_t *known = call->tokens + sched_call_known(call);
    uint32_t published = call->published_tokens - call->generated_tokens;
    ASSERT(call->published_tokens >= call->generated_tokens);
    return published > 0 &&
           memcmp(tokens, known, (count < published ? count : published) * sizeof *tokens) != 0;
}

/* Those of tokens that are not published yet; false when they cannot be. */
static bool take_logprobs(const struct sched_engine *engine, uint32_t index)
{
    const struct call *call = call_of(engine, index);
    if (!is_live(engine, index) || call_logprob_entries(&call->sampling) == 0) {
        return true;
    }
    uint32_t published = call->published_tokens - call->generated_tokens;
    uint32_t produced = engine->outs[index].produced;
    return produced <= published ||
           sched_logprob_take(engine, index, call->published_tokens,
                              call->generated_tokens + produced,
                              out_tokens(engine, index) + published);
}

/* True when an engine that works can have said this of the row. */
static bool is_possible(const struct sched_engine *engine, uint32_t index)
{
    const struct step_out *out = &engine->outs[index];
    uint32_t decode_steps = engine->planned[index].decode_steps;
    bool must_sample = index < engine->planned_active && decode_steps > 0;
    if (out->result == STEP_ROW_NOT_FINITE) {
        return true;
    }
    if (out->result != STEP_ROW_OK || out->produced > decode_steps ||
        (must_sample && out->produced == 0) || !sched_draft_is_possible(engine, index)) {
        return false;
    }
    const uint32_t *tokens = out_tokens(engine, index);
    if (is_live(engine, index) && contradicts(call_of(engine, index), tokens, out->produced)) {
        return false;                   /* one that has ended has as many tokens as it was told */
    }
    uint32_t largest = 0;
    for (uint32_t t = 0; t < out->produced; t++) {
        largest = tokens[t] > largest ? tokens[t] : largest;
    }
    return largest < engine->sched->settings.vocab_tokens && take_logprobs(engine, index);
}

/* Gives a fault to each call whose row is impossible. True when there is one: the step is then not
 * believed. */
static bool find_impossible(struct sched_engine *engine, uint64_t now_us)
{
    struct sched *sched = engine->sched;
    uint32_t impossible = 0;
    for (uint32_t i = 0; i < engine->planned_count; i++) {
        if (is_possible(engine, i)) {
            continue;
        }
        impossible++;
        struct call *call = call_of(engine, i);
        if (is_live(engine, i) && add_fault(sched, call, now_us)) {
            sched_call_fail(sched, call, STATUS_DEVICE_FAILED, now_us);
        }
    }
    return impossible > 0;
}

static void settle_rows(struct sched_engine *engine, uint32_t step_rounds, uint64_t duration_us,
                        uint64_t now_us)
{
    for (uint32_t i = 0; i < engine->planned_count; i++) {
        if (!is_live(engine, i)) {
            engine->sched->stats->late_results++;
        } else if (i < engine->planned_active) {
            settle_row(engine, i, duration_us, now_us);
        } else {
            settle_standby(engine, i, step_rounds, duration_us, now_us);
        }
    }
}

enum sched_verdict sched_engine_settle(struct sched_engine *engine, uint64_t now_us)
{
    struct sched *sched = engine->sched;
    uint64_t duration_us = sched_elapsed_us(engine->step_submitted_us, now_us);
    uint64_t not_finite_before = sched->stats->rows_not_finite;
    ASSERT(engine->step_in_flight);
    read_outs(engine);
    if (find_impossible(engine, now_us)) {
        return SCHED_REFUTED;
    }
    engine->step_in_flight = false;
    uint32_t step_rounds = read_rounds(engine);
    sched_exchange_learn(engine, duration_us, step_rounds, prompt_tokens(engine));
    sched_draft_learn(engine, duration_us, step_rounds);
    settle_moves(engine, now_us);
    uint64_t again_before = sched->stats->recomputed_tokens;
    uint64_t fed_before = sched->stats->tokens_computed;
    settle_rows(engine, step_rounds, duration_us, now_us);
    sched_exchange_pay_lost(engine, sched->stats->recomputed_tokens - again_before);
    sched_exchange_note(engine, sched->stats->tokens_computed - fed_before);
    sched_tenant_settle(engine, duration_us);
    sched_starvation_settle(engine, duration_us);
    sched_key_advance(engine, duration_us, step_rounds);
    settle_jobs(engine, now_us);
    sched_levels_note_step(sched, duration_us, step_rounds);
    engine->planned_count = engine->planned_active = 0;
    sched->stats->steps++;
    sched->stats->engine_busy_us += duration_us;
    event_log_note(sched->settings.event_log, now_us,
                   (struct event_what){EVENT_STEP_ENDED,
                                       {event_value(duration_us),
                                        [EVENT_VALUE_ENGINE] = engine->index}});
    return sched->stats->rows_not_finite > not_finite_before ? SCHED_NOT_FINITE : SCHED_BELIEVED;
}

/* ---- a step that never came back ------------------------------------------------------------- */

/* The lost step served no call: its time counts as waiting. Each may have been the cause. */
static void requeue(struct sched_engine *engine, uint32_t row, uint64_t now_us)
{
    struct call *call = call_of(engine, row);
    ASSERT(call->state == CALL_RUNNING);
    call->state = CALL_QUEUED;
    if (!call->standby) {
        call->waiting_since_us = engine->step_submitted_us;
    }
    call->standby = false;
    sched_call_end_if_asked(engine->sched, call, now_us);
    if (call->state == CALL_QUEUED && sched_suspicion_raise(engine, row)) {
        engine->sched->stats->calls_poisonous++;
        sched_call_fail(engine->sched, call, STATUS_DEVICE_POISON, now_us);
    }
}

static void drop_lane(struct sched_engine *engine, const struct sched_lane *lane, uint64_t now_us)
{
    for (uint32_t i = 0; i < engine->sched->settings.queues; i++) {
        struct call *call;
        while ((call = sched_queue_first(engine, &lane->queues[i], CALL_LIST_RESIDENT)) != NULL) {
            ASSERT(sched_call_is_resident(engine, call));
            call->preemptions++;
            sched_residency_drop(engine, call);
            sched_job_restage(engine, call, SCHED_STAGE_DISPLACED, now_us);
        }
    }
}

/* Comes before any call ends, so that nothing is left that a call could keep. */
static void drop_everything(struct sched_engine *engine, uint64_t now_us)
{
    for (uint32_t i = 0; i < engine->sched->tenants.count; i++) {
        drop_lane(engine, &engine->lanes[i], now_us);
    }
    ASSERT(engine->resident_calls == 0);
    kvmem_lost(engine->kv);
}

void sched_engine_lost(struct sched_engine *engine, uint64_t now_us)
{
    struct sched *sched = engine->sched;
    event_log_note(sched->settings.event_log, now_us,
                   (struct event_what){EVENT_ENGINE_LOST, {[EVENT_VALUE_ENGINE] = engine->index}});
    drop_everything(engine, now_us);
    if (engine->step_in_flight) {
        engine->step_in_flight = false;
        sched->stats->steps_lost++;
        sched->stats->engine_busy_us += sched_elapsed_us(engine->step_submitted_us, now_us);
        for (uint32_t i = 0; i < engine->planned_count; i++) {
            if (is_live(engine, i)) {
                requeue(engine, i, now_us);
            }
        }
    }
    engine->planned_count = engine->planned_active = 0;
}
