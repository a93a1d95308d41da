/* SPDX-License-Identifier: MIT */
/*
 * What: the scheduler as a whole: its memory, its birth, its end and its gauges. What it does in
 * a pass is in intake.c, plan.c and settle.c; what the policies differ in is in policy.c.
 * Owner: the loop thread. sched owns a call from its admission to its end (config/base/call.h).
 */
#include "sched/sched.h"

#include "sched/deadline.h"
#include "sched/ending.h"
#include "sched/policy.h"
#include "sched/program.h"
#include "sched/queue.h"
#include "sched/residency.h"

void sched_plan_memory(struct memory_plan *plan, const struct sched_settings *settings)
{
    uint64_t rows = (uint64_t)settings->batch_calls + settings->standby_calls;
    sched_program_plan_memory(plan, settings->programs);
    memory_plan_add(plan, MEMORY_CORE, "sched planned rows", rows, sizeof(struct step_planned));
    memory_plan_add(plan, MEMORY_CORE, "sched outs", rows, sizeof(struct step_out));
    memory_plan_add(plan, MEMORY_CORE, "sched out tokens", rows,
             (uint64_t)settings->steps_per_plan * sizeof(uint32_t));
}

void sched_init(struct sched *sched, const struct sched_settings *settings,
                struct call_table *calls, struct exchange *exchange, struct kvmem *kv,
                const struct step *step, struct stats *stats, struct arena *arena)
{
    uint64_t rows = (uint64_t)settings->batch_calls + settings->standby_calls;
    ASSERT(settings->batch_calls > 0 && rows <= step->layout.rows_max);
    ASSERT(settings->steps_per_plan > 0 && settings->steps_per_plan <= step->layout.steps_max);
    ASSERT(settings->prefill_tokens > 0);
    ASSERT(settings->prefill_tokens + rows <= step->layout.tokens_max);
    ASSERT(settings->context_tokens <= calls->context_tokens);
    ASSERT(settings->vocab_tokens > 0);
    ASSERT(kv->settings.calls == calls->count);
    *sched = (struct sched){
        .settings = *settings, .calls = calls, .exchange = exchange, .kv = kv, .step = *step,
        .stats = stats,
    };
    sched_program_init(sched, arena);
    sched->planned = arena_take(arena, rows, sizeof(struct step_planned));
    sched->outs = arena_take(arena, rows, sizeof(struct step_out));
    sched->out_tokens = arena_take(arena, rows,
                                   (uint64_t)settings->steps_per_plan * sizeof(uint32_t));
    sched_policy_init(sched);
}

uint64_t sched_next_us(const struct sched *sched, uint64_t now_us)
{
    uint64_t deadline_us = sched_deadline_next_us(sched);
    uint64_t program_us = sched_program_next_us(sched);
    uint64_t kv_us = sched->step_in_flight ? UINT64_MAX : kvmem_next_us(sched->kv);
    uint64_t next_us = deadline_us < program_us ? deadline_us : program_us;
    next_us = kv_us < next_us ? kv_us : next_us;
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
        const struct sched_list *all = &sched->queues[i].lists[CALL_LIST_ALL];
        while (all->head != CALL_NONE) {
            uint32_t call_index = all->head;
            struct call *call = sched_call(sched, call_index);
            if (call->state == CALL_RUNNING && !call->standby) {
                sched_call_charge(call, duration_us);
            }
            sched_call_fail(sched, call_index, status, now_us);
        }
    }
    ASSERT(sched_is_idle(sched));
    ASSERT(sched->resident_calls == 0);
}

void sched_give_up(struct sched *sched, uint64_t now_us)
{
    sched->engine_failed = true;
    sched_fail_all(sched, STATUS_DEVICE_FAILED, now_us);
}

static void report_kv(const struct kvmem *kv, struct stats *stats)
{
    uint32_t cached = kvmem_available(kv) - kvmem_free(kv);
    stats->kv_blocks_total = kv->settings.device_blocks;
    stats->kv_blocks_used = kvmem_owned(kv);
    stats->kv_blocks_declared = kvmem_declared(kv);
    stats->kv_blocks_cached = cached;
    stats->kv_host_blocks_total = kv->settings.host_blocks;
    stats->kv_host_blocks_used = kvmem_host_used(kv);
    stats->swap_out_blocks = kv->counters.out_blocks;
    stats->swap_in_blocks = kv->counters.in_blocks;
    stats->swap_transfers = kv->counters.out_moves + kv->counters.in_moves;
    stats->kv_copied_blocks = kv->counters.copied_blocks;
    stats->kv_dropped_blocks = kv->counters.dropped_blocks;
}

/* O(calls): for a snapshot, not for every pass. */
void sched_report(const struct sched *sched)
{
    struct stats *stats = sched->stats;
    stats->calls_open = stats->calls_running = stats->calls_waiting = stats->calls_paused = 0;
    for (uint32_t i = 0; i < sched->calls->count; i++) {
        const struct call *call = sched_call(sched, i);
        bool is_queued = call->state == CALL_QUEUED || call->standby;
        bool has_ended =
            call->state == CALL_FINISHED && call->finish != CALL_FINISH_REFUSED;
        stats->calls_running += call->state == CALL_RUNNING && !call->standby;
        stats->calls_paused += is_queued && call->paused;
        stats->calls_waiting += is_queued && !call->paused;
        stats->calls_open += is_queued || call->state == CALL_RUNNING || has_ended;
    }
    stats->programs_open = sched->programs_count;
    report_kv(sched->kv, stats);
}
