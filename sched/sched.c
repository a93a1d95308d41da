/* SPDX-License-Identifier: MIT */
/*
 * What: the scheduler as a whole: its memory, its birth, its end and its gauges. What it does in a
 * pass is in intake.c and, for each engine, in engine/plan.c and engine/settle.c; what the policies
 * differ in is in policy.c.
 * Owner: the loop thread. sched owns a call from its admission to its end (config/base/call.h).
 */
#include "sched/sched.h"

#include "config/base/bounds.h"
#include "sched/class/recall.h"
#include "sched/deadline.h"
#include "sched/ending.h"
#include "sched/engine/active/active.h"
#include "sched/engine/member.h"
#include "sched/engine/queue.h"
#include "sched/key.h"
#include "sched/levels.h"
#include "sched/policy.h"
#include "sched/program.h"
#include "sched/engine/share/tenant.h"

void sched_settings_fill(struct sched_settings *settings, const struct options *options,
                         const struct limits *limits)
{
    *settings = (struct sched_settings){
        .engines = limits->engines,
        .policy = option_sched_policy(options),
        .service = option_sched_service(options),
        .queues = (uint32_t)options->sched_queues.number,
        .quantum_us = options->sched_quantum.number,
        .quantum_growth = (uint32_t)options->sched_quantum_growth.number,
        .beta_milli = options->sched_beta.number,
        .wait_max_us = options->sched_wait_max.number,
        .steps_per_plan = limits->steps_per_plan,
        .speculate = limits->speculate,
        .recall_tokens = limits->recall_tokens,
        .batch_calls = limits->batch_calls,
        .standby_calls = limits->standby_calls,
        .prefill_tokens = limits->prefill_tokens,
        .context_tokens = limits->context_tokens,
        .vocab_tokens = limits->vocab_tokens,
        .program_idle_us = options->limits_program_idle.number,
        .active_programs = (uint32_t)options->sched_active_set.number,
        .exchange_permille = (uint32_t)options->sched_exchange_share.number,
        .small_permille = (uint32_t)options->sched_small_share.number,
        .half_life_us = options->sched_half_life.number,
        .calls = limits->calls,
        .programs = limits->programs,
        .classes = limits->classes,
        .tenants = option_sched_tenants(options) == OPTION_SCHED_TENANTS_FAIR ? limits->tenants : 1,
        .calls_per_program = limits->calls_per_program,
        .sharing = option_kv_sharing(options),
        .balance = option_sched_balance(options),
        .balance_tokens = (uint32_t)options->sched_balance_tokens.number,
        .virtual_clock = option_sched_virtual_clock(options),
        .retag = option_sched_retag(options) == OPTION_SCHED_RETAG_YES,
        .cut_steps = option_sched_cut_steps(options) == OPTION_SCHED_CUT_STEPS_YES,
        .prefetch = option_sched_prefetch(options) == OPTION_SCHED_PREFETCH_YES,
    };
    sched_workflow_settings_fill(&settings->workflow, options, limits);
}

void sched_plan_memory(struct memory_plan *plan, const struct sched_settings *settings)
{
    uint64_t rows = (uint64_t)settings->batch_calls + settings->standby_calls;
    uint64_t all_rows = settings->engines * rows;
    sched_tenant_plan_memory(plan, settings);
    sched_program_plan_memory(plan, settings->programs);
    sched_recall_plan_memory(plan, settings);
    sched_class_plan_memory(plan, settings->classes);
    memory_plan_add(plan, MEMORY_CORE, "sched engines", settings->engines,
                    sizeof(struct sched_engine));
    sched_member_plan_memory(plan, settings);
    sched_active_plan_memory(plan, settings);
    sched_job_plan_memory(plan, settings->calls);
    heap_plan_memory(plan, "sched deadlines", settings->calls);
    sched_key_plan_memory(plan, settings);
    sched_workflow_plan_memory(plan, settings);
    if (sched_policy_has_key(settings->policy)) {
        memory_plan_add(plan, MEMORY_CORE, "sched order", settings->calls,
                        sizeof(struct sched_node));
    }
    memory_plan_add(plan, MEMORY_CORE, "sched planned rows", all_rows,
                    sizeof(struct step_planned));
    memory_plan_add(plan, MEMORY_CORE, "sched outs", all_rows, sizeof(struct step_out));
    memory_plan_add(plan, MEMORY_CORE, "sched out tokens", all_rows,
                    (uint64_t)settings->steps_per_plan * sizeof(uint32_t));
}

static void check_wiring(const struct sched_settings *settings, const struct sched_wiring *wiring)
{
    uint64_t rows = (uint64_t)settings->batch_calls + settings->standby_calls;
    ASSERT(settings->engines > 0 && settings->engines <= SCHED_ENGINES_MAX);
    ASSERT(settings->batch_calls > 0 && settings->steps_per_plan > 0);
    ASSERT(settings->prefill_tokens > 0 && settings->vocab_tokens > 0);
    ASSERT(settings->context_tokens <= wiring->calls->context_tokens);
    ASSERT(settings->calls == wiring->calls->count);
    for (uint32_t i = 0; i < settings->engines; i++) {
        const struct step_layout *layout = &wiring->engines[i].step.layout;
        ASSERT(rows <= layout->rows_max);
        ASSERT(settings->steps_per_plan <= layout->steps_max);
        ASSERT(settings->prefill_tokens + rows <= layout->tokens_max);
        ASSERT(settings->speculate == 0 || sched_recall_most(settings) + settings->context_tokens <=
                                               layout->past_max);
        ASSERT(wiring->engines[i].kv->settings.calls == wiring->calls->count);
        ASSERT(wiring->engines[i].kv->settings.holders == settings->programs);
    }
}

static void init_lane(const struct sched *sched, struct sched_lane *lane)
{
    const struct sched_list empty = {.head = CALL_NONE, .tail = CALL_NONE};
    for (uint32_t i = 0; i < sched->settings.queues; i++) {
        lane->queues[i] = lane->held[i] =
            (struct sched_queue){.lists = {empty, empty, empty}, .jobs = empty,
                                 .cursor = SCHED_JOB_NONE, .root = SCHED_JOB_NONE};
    }
    STATIC_ASSERT(CALL_LISTS == 3, "each is empty");
}

static void init_lanes(struct sched *sched, struct arena *arena)
{
    uint32_t tenants = sched->settings.tenants, engines = sched->settings.engines;
    struct sched_lane *lanes = arena_take(arena, (uint64_t)engines * tenants, sizeof *lanes);
    uint32_t *dealt = arena_take(arena, (uint64_t)engines * tenants, sizeof *dealt);
    for (uint32_t i = 0; i < engines * tenants; i++) {
        init_lane(sched, &lanes[i]);
    }
    for (uint32_t i = 0; i < engines; i++) {
        sched->engines[i].lanes = lanes + (uint64_t)i * tenants;
        sched->engines[i].dealt = dealt + (uint64_t)i * tenants;
    }
}

static void init_engines(struct sched *sched, const struct sched_wiring *wiring,
                         struct arena *arena)
{
    const struct sched_settings *settings = &sched->settings;
    uint64_t rows = (uint64_t)settings->batch_calls + settings->standby_calls;
    uint64_t all_rows = settings->engines * rows;
    sched->engines = arena_take(arena, settings->engines, sizeof(struct sched_engine));
    if (sched_policy_has_key(settings->policy)) {
        sched->nodes = arena_take(arena, settings->calls, sizeof(struct sched_node));
    }
    struct step_planned *planned = arena_take(arena, all_rows, sizeof *planned);
    struct step_out *outs = arena_take(arena, all_rows, sizeof *outs);
    uint32_t *out_tokens =
        arena_take(arena, all_rows, (uint64_t)settings->steps_per_plan * sizeof *out_tokens);
    for (uint32_t i = 0; i < settings->engines; i++) {
        sched->engines[i] = (struct sched_engine){
            .sched = sched, .index = i,
            .kv = wiring->engines[i].kv, .step = wiring->engines[i].step,
            .planned = planned + i * rows, .outs = outs + i * rows,
            .taker = CALL_NONE, .step_cost = SCHED_STEP_COST_MIN,
            .out_tokens = out_tokens + i * rows * settings->steps_per_plan};
        sched_member_init(&sched->engines[i], arena);
        sched_active_init(&sched->engines[i], arena);
    }
    init_lanes(sched, arena);
}

void sched_init(struct sched *sched, const struct sched_settings *settings,
                const struct sched_wiring *wiring, struct arena *arena)
{
    struct arena *kept = wiring->kept != NULL ? wiring->kept : arena;
    check_wiring(settings, wiring);
    *sched = (struct sched){.settings = *settings, .calls = wiring->calls,
                            .exchange = wiring->exchange, .stats = wiring->stats};
    sched_tenant_init(sched, arena);
    sched_program_init(sched, arena, kept);
    sched_recall_init(sched, arena);
    sched_class_init(sched, arena);
    sched_job_init(sched, arena);
    heap_init(&sched->deadlines, settings->calls, arena);
    sched_key_init(sched, arena);
    sched_workflow_init(sched, wiring->workflows, arena, kept);
    sched_policy_init(sched);
    sched_levels_init(sched);
    init_engines(sched, wiring, arena);
}

void sched_take_up(struct sched *sched, uint64_t now_us)
{
    sched_program_take_up(sched, now_us);
}

uint64_t sched_next_us(const struct sched *sched, uint64_t now_us)
{
    uint64_t next_us = lesser(sched_deadline_next_us(sched), sched_program_next_us(sched));
    next_us = lesser(next_us, sched_workflow_next_us(sched, now_us));
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        const struct sched_engine *engine = &sched->engines[i];
        next_us = engine->step_in_flight ? next_us : lesser(next_us, kvmem_next_us(engine->kv));
    }
    return next_us > now_us ? next_us : now_us;
}

bool sched_is_idle(const struct sched *sched)
{
    return sched->open_calls == 0 && sched_workflow_is_idle(sched);
}

static void fail_queue(struct sched_engine *engine, const struct sched_queue *queue,
                       enum status status, uint64_t now_us)
{
    struct sched *sched = engine->sched;
    uint64_t duration_us = sched_elapsed_us(engine->step_submitted_us, now_us);
    struct call *call;
    while ((call = sched_queue_first(engine, queue, CALL_LIST_ALL)) != NULL) {
        if (call->state == CALL_RUNNING && !call->standby) {
            sched_call_charge(sched, call, duration_us, now_us);
        }
        sched_call_fail(sched, call, status, now_us);
    }
}

static void fail_calls(struct sched_engine *engine, enum status status, uint64_t now_us)
{
    for (uint32_t i = 0; i < engine->sched->tenants.count; i++) {
        for (uint32_t q = 0; q < engine->sched->settings.queues; q++) {
            fail_queue(engine, &engine->lanes[i].queues[q], status, now_us);
            fail_queue(engine, &engine->lanes[i].held[q], status, now_us);
        }
    }
    ASSERT(engine->resident_calls == 0);
}

void sched_fail_all(struct sched *sched, enum status status, uint64_t now_us)
{
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        fail_calls(&sched->engines[i], status, now_us);
    }
    sched_workflow_fail_all(sched, status, now_us);
    ASSERT(sched_is_idle(sched));
}

void sched_give_up(struct sched *sched, uint64_t now_us)
{
    sched->engine_failed = true;
    sched_fail_all(sched, STATUS_DEVICE_FAILED, now_us);
}

static void zero_kv(struct stats *stats)
{
    stats->kv_blocks_total = stats->kv_blocks_used = stats->kv_blocks_declared = 0;
    stats->kv_blocks_cached = stats->kv_host_blocks_total = stats->kv_host_blocks_used = 0;
    stats->kv_host_blocks_mirrors = stats->swap_returned_blocks = 0;
    stats->swap_out_blocks = stats->swap_in_blocks = stats->swap_transfers = 0;
    stats->kv_copied_blocks = stats->kv_dropped_blocks = 0;
}

static void add_kv(const struct kvmem *kv, struct stats *stats)
{
    stats->kv_blocks_total += kv->settings.device_blocks;
    stats->kv_blocks_used += kvmem_owned(kv);
    stats->kv_blocks_declared += kvmem_declared(kv);
    stats->kv_blocks_cached += kvmem_available(kv) - kvmem_free(kv);
    stats->kv_host_blocks_total += kv->settings.host_blocks;
    stats->kv_host_blocks_used += kvmem_host_used(kv);
    stats->kv_host_blocks_mirrors += kvmem_host_mirrors(kv);
    stats->swap_out_blocks += kv->counters.out_blocks;
    stats->swap_returned_blocks += kv->counters.returned_blocks;
    stats->swap_in_blocks += kv->counters.in_blocks;
    stats->swap_transfers += kv->counters.out_moves + kv->counters.in_moves;
    stats->kv_copied_blocks += kv->counters.copied_blocks;
    stats->kv_dropped_blocks += kv->counters.dropped_blocks;
}

static void report_active(const struct sched *sched)
{
    struct stats *stats = sched->stats;
    stats->programs_active = stats->programs_waiting = stats->working_set_blocks = 0;
    for (uint32_t i = 0; i < sched->settings.programs; i++) {
        const struct program *program = &sched->programs[i];
        bool is_active = program->in_use && sched_program_is_active(sched, i);
        stats->programs_active += is_active;
        stats->programs_waiting += program->in_use && !is_active && program->active_calls > 0;
    }
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        const struct sched_active *active = &sched->engines[i].active;
        stats->working_set_blocks += active->blocks + active->common_blocks;
    }
}

/* O(calls + programs): for a snapshot, not for every pass. */
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
    stats->classes_known = sched->classes.count;
    sched_workflow_report(sched);
    report_active(sched);
    zero_kv(stats);
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        add_kv(sched->engines[i].kv, stats);
    }
}
