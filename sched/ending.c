/* SPDX-License-Identifier: MIT */
/*
 * What: a call's account of time, and its end. Every way to end an accepted call goes through
 * sched_call_end(): length, stop, cancel, deadline, failure, shutdown.
 *
 *   waiting   time in a queue outside a step in flight; added up when it is needed
 *   service   time of the steps that it was in; prefill and recompute count (docs/decisions/0001);
 *             of a standby, the part of the step that it was in (docs/decisions/0006)
 *
 * Invariants: a call ends once. After its end it is in no list of sched and owns no block; its
 * tokens stay for net. What it received is credited to its program however it ended. What it has
 * computed stays cached, unless it failed: the engine is then not trusted with it.
 * Bounds: O(its blocks + log calls).
 */
#include "sched/ending.h"

#include "sched/deadline.h"
#include "sched/engine/active/active.h"
#include "sched/class/recall.h"
#include "sched/engine/job.h"
#include "sched/engine/need.h"
#include "sched/engine/residency.h"
#include "sched/engine/suspicion.h"
#include "sched/engine/active/working_set.h"
#include "sched/kept.h"
#include "sched/key.h"
#include "sched/policy.h"
#include "sched/class/prediction.h"
#include "sched/program.h"

void sched_call_accrue_wait(struct call *call, uint64_t now_us)
{
    uint64_t waited_us = sched_elapsed_us(call->waiting_since_us, now_us);
    ASSERT(call->state == CALL_QUEUED);
    call->wait_us += waited_us;
    call->waiting_since_us = now_us;
}

/* The program's service counts this much more of the call's. */
static void credit(struct sched *sched, const struct call *call, uint64_t duration_us,
                   uint64_t now_us)
{
    struct program *program = &sched->programs[call->program];
    sched_program_decay(sched, call->program, now_us);
    sched_policy_credit(sched, &program->service_us, call, duration_us);
}

void sched_call_charge(struct sched *sched, struct call *call, uint64_t duration_us,
                       uint64_t now_us)
{
    struct program *program = &sched->programs[call->program];
    ASSERT(call->state == CALL_RUNNING);
    call->service_us += duration_us;
    if (sched_policy_orders_programs(sched)) {
        credit(sched, call, duration_us, now_us);
    }
    sched_policy_credit(sched, &program->attained_us, call, duration_us);
    program->kept_is_behind = true;
}

void sched_call_enter(const struct sched *sched, struct call *call, uint32_t first_position,
                      uint64_t now_us)
{
    sched_call_accrue_wait(call, now_us);
    sched_job_enter(sched_job_of(sched, call), now_us);
    bool is_first = call->first_run_us == 0;
    call->first_run_us = is_first ? now_us : call->first_run_us;
    if (is_first || first_position < call->cached_tokens) {
        call->cached_tokens =
            first_position < call->prompt_tokens ? first_position : call->prompt_tokens;
    }
}

static void count_end(struct stats *stats, enum call_finish finish)
{
    ASSERT(finish != CALL_FINISH_NONE && finish != CALL_FINISH_REFUSED);
    switch (finish) {
    case CALL_FINISH_CANCELLED:
        stats->calls_cancelled++;
        return;
    case CALL_FINISH_DEADLINE:
        stats->calls_expired++;
        return;
    case CALL_FINISH_FAILED:
        stats->calls_failed++;
        return;
    default:
        stats->calls_completed++;
    }
}

/* The answer has these tokens; the last ones may be published and not settled. */
static void answer_with(struct sched *sched, struct call *call, uint32_t tokens)
{
    ASSERT(tokens <= call->published_tokens);
    if (tokens > call->generated_tokens) {
        sched->stats->tokens_generated += tokens - call->generated_tokens;
    }
    call->generated_tokens = tokens;
}

static void note_times(struct sched *sched, const struct call *call, uint64_t now_us)
{
    struct times *times = &sched->times;
    histogram_note(&times->all[TIME_QUEUE_WAIT], call->wait_us, 1);
    histogram_note(&times->queue_wait[sched_job_of(sched, call)->queue], call->wait_us, 1);
    sched_note_time(sched, TIME_CALL, call->arrived_us, now_us);
}

/* What its program has had, and said. */
static void settle_program(struct sched *sched, const struct call *call, uint64_t now_us)
{
    struct program *program = &sched->programs[call->program];
    if (!sched_policy_orders_programs(sched)) {
        credit(sched, call, call->service_us, now_us);
    } else {
        sched_program_decay(sched, call->program, now_us);
    }
    if (program->attained_us < program->service_us) {
        program->attained_us = program->service_us;     /* halved while the call ran */
    }
    program->wait_us += call->wait_us;
    program->calls_ended++;
    sched_class_spend(program, call);
    sched_recall_note(sched, call);
}

void sched_call_end(struct sched *sched, struct call *call, enum call_finish finish,
                    enum status status, uint64_t now_us)
{
    struct sched_engine *engine = sched_engine_of(sched, call);
    ASSERT(call->state == CALL_QUEUED || call->state == CALL_RUNNING);
    ASSERT(call->finish == CALL_FINISH_NONE);
    if (finish >= CALL_FINISH_CANCELLED) {
        answer_with(sched, call, call->published_tokens);   /* the client may have them */
    }
    ASSERT(finish == CALL_FINISH_STOP_TEXT || call->published_tokens == call->generated_tokens);
    if (call->state == CALL_QUEUED) {
        sched_call_accrue_wait(call, now_us);
    }
    note_times(sched, call, now_us);
    sched_active_end_call(engine, call);
    sched_working_set_learn(sched, call);
    sched_need_ended(sched, call);
    sched_suspicion_drop(sched, call);
    sched_residency_end(engine, call, finish == CALL_FINISH_FAILED, now_us);
    sched_job_close(engine, call);
    sched_deadline_remove(sched, call);
    settle_program(sched, call, now_us);
    sched_program_detach(sched, call, now_us);
    sched_kept_note(sched, call->program);
    sched_active_ended(engine, call->program, now_us);
    call->standby = false;
    call->state = CALL_FINISHED;
    call->finish = finish;
    call->status = status;
    call->finished_us = now_us;
    if (--sched->open_calls == 0) {
        sched_key_rest(sched, now_us);
    }
    count_end(sched->stats, finish);
    sched_note(sched, call, now_us,
               (struct event_what){EVENT_FINISHED, {finish, status_wire(status),
                                                    call->generated_tokens, call->preemptions}});
    event_log_note_ended(sched->settings.event_log, now_us, call);
    if (call->workflow != CALL_NONE) {
        sched_workflow_ended(&sched->workflows, call->slot);
    }
    exchange_emit(sched->exchange, call);
}

void sched_call_end_cancelled(struct sched *sched, struct call *call, uint64_t now_us)
{
    if (!call->stop_text_hit) {
        sched_call_end(sched, call, CALL_FINISH_CANCELLED, STATUS_GONE_CANCELLED, now_us);
        return;
    }
    /* Tokens that were sampled after the stop string are not part of the answer. */
    answer_with(sched, call, call->stop_text_tokens);
    sched_call_end(sched, call, CALL_FINISH_STOP_TEXT, STATUS_OK, now_us);
}

void sched_call_end_if_asked(struct sched *sched, struct call *call, uint64_t now_us)
{
    if (call->cancel) {
        sched_call_end_cancelled(sched, call, now_us);
    } else if (call->expired) {
        sched_call_end(sched, call, CALL_FINISH_DEADLINE, STATUS_GONE_DEADLINE, now_us);
    }
}

void sched_call_fail(struct sched *sched, struct call *call, enum status status, uint64_t now_us)
{
    if (call->standby) {
        call->state = CALL_QUEUED;      /* whether it entered will never be known */
    }
    sched_call_end_if_asked(sched, call, now_us);
    if (call->state != CALL_FINISHED) {
        sched_call_end(sched, call, CALL_FINISH_FAILED, status, now_us);
    }
}
