/* SPDX-License-Identifier: MIT */
/*
 * What: the scheduler as a whole: its memory, its birth, its end and its gauges. What it does in
 * a pass is in intake.c, plan.c and settle.c; what the policies differ in is in policy.c.
 * Owner: the loop thread. sched owns a call from its admission to its end (appliance/base/call.h).
 */
#include "sched/sched.h"

#include "sched/deadline.h"
#include "sched/ending.h"
#include "sched/policy.h"
#include "sched/program.h"
#include "sched/queue.h"

void sched_plan_memory(struct plan *plan, const struct sched_settings *settings)
{
    sched_program_plan(plan, settings->programs);
    plan_add(plan, TIER_CORE, "sched planned rows", settings->batch_calls,
             sizeof(struct sched_planned));
}

void sched_init(struct sched *sched, const struct sched_settings *settings,
                struct call_table *calls, struct exchange *exchange, struct kvmem *kv,
                const struct step *step, struct stats *stats, struct arena *arena)
{
    ASSERT(settings->batch_calls > 0 && settings->batch_calls <= step->layout.rows_max);
    ASSERT(settings->steps_per_plan > 0 && settings->steps_per_plan <= step->layout.steps_max);
    ASSERT(settings->prefill_tokens > 0);
    ASSERT((uint64_t)settings->prefill_tokens + settings->batch_calls <= step->layout.tokens_max);
    ASSERT(settings->context_tokens <= calls->context_tokens);
    ASSERT(settings->vocab_tokens > 0);
    ASSERT(kv->calls_count == calls->count);
    *sched = (struct sched){
        .settings = *settings, .calls = calls, .exchange = exchange, .kv = kv, .step = *step,
        .stats = stats,
    };
    sched_program_init(sched, arena);
    sched->planned = arena_take(arena, settings->batch_calls, sizeof(struct sched_planned));
    sched_policy_init(sched);
}

uint64_t sched_next_us(const struct sched *sched, uint64_t now_us)
{
    uint64_t deadline_us = sched_deadline_next_us(sched);
    uint64_t program_us = sched_program_next_us(sched);
    uint64_t next_us = deadline_us < program_us ? deadline_us : program_us;
    return next_us > now_us ? next_us : now_us;
}

bool sched_is_idle(const struct sched *sched)
{
    return sched->open_calls == 0;
}

void sched_fail_all(struct sched *sched, enum status status, uint64_t now_us)
{
    uint64_t duration_us = sched_elapsed_us(sched->step_submitted_us, now_us);
    for (uint32_t i = 0; i < sched->settings.queues; i++) {
        while (sched->queues[i].head != CALL_NONE) {
            uint32_t call_index = sched->queues[i].head;
            if (sched_call(sched, call_index)->state == CALL_RUNNING) {
                sched_call_charge(sched_call(sched, call_index), duration_us);
            }
            sched_call_end(sched, call_index, CALL_FINISH_FAILED, status, now_us);
        }
    }
    ASSERT(sched_is_idle(sched));
    ASSERT(sched->resident_calls == 0);
}

/* O(calls): for a snapshot, not for every pass. */
void sched_report(const struct sched *sched)
{
    struct stats *stats = sched->stats;
    stats->calls_open = stats->calls_running = stats->calls_waiting = stats->calls_paused = 0;
    for (uint32_t i = 0; i < sched->calls->count; i++) {
        const struct call *call = sched_call(sched, i);
        bool is_queued = call->state == CALL_QUEUED;
        bool has_ended =
            call->state == CALL_FINISHED && call->finish != CALL_FINISH_REFUSED;
        stats->calls_running += call->state == CALL_RUNNING;
        stats->calls_paused += is_queued && call->paused;
        stats->calls_waiting += is_queued && !call->paused;
        stats->calls_open += is_queued || call->state == CALL_RUNNING || has_ended;
    }
    stats->programs_open = sched->programs_count;
    stats->kv_blocks_total = sched->kv->blocks_count;
    stats->kv_blocks_used = sched->kv->blocks_count - kvmem_free_blocks(sched->kv);
}
