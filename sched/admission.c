/* SPDX-License-Identifier: MIT */
/*
 * What: a call into the queues: those that net brings (intake.c), and those that workflows make
 * (workflow/release.c).
 *
 * Invariants: admission checks everything before it changes anything; a call that could never fit
 * the KV pool is refused here, so the first call in order always fits (plan.c relies on it).
 * Bounds: O(log calls), and what kvmem asks to look a prompt up.
 */
#include "sched/admission.h"

#include "sched/balance.h"
#include "sched/call.h"
#include "sched/class/prediction.h"
#include "sched/deadline.h"
#include "sched/engine/active/active.h"
#include "sched/engine/queue.h"
#include "sched/engine/residency.h"
#include "sched/kept.h"
#include "sched/key.h"
#include "sched/program.h"

/* Changes nothing. The last token of a call is never fed, so this asks for one position too many.
 * In return the rule is simple: prompt and max_tokens together fit the pool, or they do not. */
static enum status admit(const struct sched *sched, const struct call *call)
{
    uint64_t tokens = (uint64_t)call->prompt_tokens + call->max_tokens;
    const struct kvmem_settings *kv = &sched->engines[0].kv->settings;      /* all are alike */
    uint64_t pool = (uint64_t)kv->device_blocks * kv->block_tokens;
    uint64_t table = (uint64_t)kv->blocks_per_call * kv->block_tokens;
    if (sched->draining && call->workflow == CALL_NONE) {
        return STATUS_BUSY_DRAINING;
    }
    if (sched->engine_failed) {
        return STATUS_DEVICE_FAILED;
    }
    if (call->prompt_tokens == 0 || call->max_tokens == 0 ||
        tokens > sched->settings.context_tokens || tokens > pool || tokens > table) {
        return STATUS_BAD_PROMPT_LENGTH;
    }
    return STATUS_OK;
}

void sched_admission_enter(struct sched *sched, struct call *call, uint64_t now_us)
{
    struct sched_engine *engine = sched_engine_of(sched, call);
    call->walk_sequence = 0;            /* each engine counts its own plans */
    const struct kvmem_answer answer = sched_residency_look(engine, call);
    sched_active_arrive(engine, call, &answer);
    sched_job_open(engine, call);
    sched_residency_touch(engine, call, &answer, now_us);
    sched_active_admit(engine, call, now_us);
}

/* Algorithm 1, lines 9 to 14. */
static void commit(struct sched *sched, struct call *call, uint32_t program, uint64_t now_us)
{
    call->program = program;
    call->engine = (uint8_t)sched_balance_route(sched, call);
    sched_program_attach(sched, call, now_us);
    sched_program_decay(sched, program, now_us);
    sched_class_foresee(sched, call);
    call->state = CALL_QUEUED;
    call->priority_us = sched->programs[program].service_us;
    call->waiting_since_us = now_us;
    call->arrived_us = call->arrived_us == 0 ? now_us : call->arrived_us;
    sched_deadline_push(sched, call);
    sched_key_arrive(sched, call, now_us);
    sched_admission_enter(sched, call, now_us);
    sched->open_calls++;
    sched->stats->calls_accepted++;
    sched->stats->tokens_prompt += call->prompt_tokens;
    sched_note(sched, call, now_us,
               (struct event_what){EVENT_QUEUED,
                                   {call->queue, call->prompt_tokens, call->max_tokens}});
    exchange_emit(sched->exchange, call);
}

static bool is_at_limit(const struct sched *sched, uint32_t program)
{
    uint32_t limit = sched->settings.calls_per_program;
    return limit != 0 && sched->programs[program].active_calls >= limit;
}

enum status sched_admit(struct sched *sched, struct call *call, const char *class_name,
                        uint64_t now_us)
{
    uint32_t program = SCHED_PROGRAM_NONE;
    ASSERT(call->state == CALL_INTAKE);
    TRY(admit(sched, call));
    TRY(sched_program_start(sched, call->domain, call->program_id, now_us, &program));
    if (is_at_limit(sched, program)) {
        return STATUS_BUSY_CALLS_OF_PROG;
    }
    sched_class_join(sched, program, class_name);
    commit(sched, call, program, now_us);
    sched_kept_note(sched, program);
    return STATUS_OK;
}
