/* SPDX-License-Identifier: MIT */
/*
 * What: the commands of a pass. They become calls in queues, entries of the process table and
 * workflows; then deadlines, stale programs and KV that was kept long enough are dealt with.
 *
 *   CALL           refused (FINISHED, CALL_FINISH_REFUSED) or queued; starts its program if needed
 *   CANCEL         ends a waiting call now; a running one ends when its step settles
 *   PROGRAM_START  idempotent        PROGRAM_END  refused while calls are open
 *
 * Bounds: one inbox, all passed deadlines at O(log calls) each, 64 stale programs a pass.
 */
#include "sched/admission.h"
#include "sched/class/prediction.h"
#include "sched/deadline.h"
#include "sched/ending.h"
#include "sched/engine/plan.h"
#include "sched/kept.h"
#include "sched/program.h"

#include <string.h>

static void refuse(struct sched *sched, struct call *call, enum status status, uint64_t now_us)
{
    ASSERT(status != STATUS_OK);
    call->state = CALL_FINISHED;
    call->finish = CALL_FINISH_REFUSED;
    call->status = status;
    call->finished_us = now_us;
    event_log_note_ended(sched->settings.event_log, now_us, call);
    sched->stats->calls_refused++;
    sched_note(sched, call, now_us, (struct event_what){EVENT_REFUSED, {status_wire(status)}});
    exchange_emit(sched->exchange, call);
}

static void intake_call(struct sched *sched, const struct command *command, uint64_t now_us)
{
    struct call *call = sched_call(sched, command->call);
    enum status status = sched_admit(sched, call, command->class_name, now_us);
    if (status != STATUS_OK) {
        refuse(sched, call, status, now_us);
    } else if (call->cancel || call->connection == CALL_NONE) {
        sched_call_end_cancelled(sched, call, now_us);
    } else if (call->deadline_us > now_us) {
        sched_plan_arrival(sched_engine_of(sched, call), call);
    }
}

static void intake_cancel(struct sched *sched, const struct command *command, uint64_t now_us)
{
    struct call *call = sched_call(sched, command->call);
    if (call->generation == command->call_generation && call->cancel &&
        call->state == CALL_QUEUED) {
        sched_call_end_cancelled(sched, call, now_us);
    }
}

static void intake_program(struct sched *sched, const struct command *command, uint64_t now_us)
{
    struct program last = {0};
    uint32_t program = SCHED_PROGRAM_NONE;
    struct answer answer = {
        .kind = command->kind,
        .connection = command->connection,
        .connection_generation = command->connection_generation,
    };
    memcpy(answer.program_id, command->program_id, sizeof answer.program_id);
    if (command->kind == COMMAND_PROGRAM_END) {
        answer.status = sched_program_end(sched, command->domain, command->program_id, now_us,
                                          &last);
    } else {
        answer.status = sched_program_start(sched, command->domain, command->program_id, now_us,
                                            &program);
        if (answer.status == STATUS_OK) {
            sched_class_join(sched, program, command->class_name);
            sched_program_decay(sched, program, now_us);
            sched_kept_note(sched, program);
            last = sched->programs[program];
        }
    }
    answer.service_us = last.service_us;
    answer.wait_us = last.wait_us;
    answer.calls = last.calls_ended;
    exchange_answer(sched->exchange, &answer);
}

static void expire_calls(struct sched *sched, uint64_t now_us)
{
    while (sched_deadline_next_us(sched) <= now_us) {
        struct call *call = sched_deadline_first(sched);
        if (call->state == CALL_RUNNING) {
            call->expired = true;
            sched_deadline_remove(sched, call);
        } else {
            sched_call_end(sched, call, CALL_FINISH_DEADLINE, STATUS_GONE_DEADLINE, now_us);
        }
    }
}

/* Admission touches memory that has not been touched for long. It is prefetched for all calls of
 * the inbox before the first is admitted, or each would wait for its own cache misses. */
static void cpu_prefetch_calls(const struct sched *sched)
{
    const struct exchange *exchange = sched->exchange;
    for (uint32_t i = 0; i < ring_count(&exchange->inbox_ring); i++) {
        const struct command *command = &exchange->inbox[ring_at(&exchange->inbox_ring, i)];
        if (command->kind == COMMAND_CALL) {
            const struct call *call = sched_call(sched, command->call);
            sched_program_cpu_prefetch(sched, call->domain, call->program_id);
        }
    }
}

void sched_intake(struct sched *sched, uint64_t now_us)
{
    struct exchange *exchange = sched->exchange;
    cpu_prefetch_calls(sched);
    while (!ring_is_empty(&exchange->inbox_ring)) {
        const struct command *command = &exchange->inbox[ring_pop(&exchange->inbox_ring)];
        switch (command->kind) {
        case COMMAND_CALL:
            intake_call(sched, command, now_us);
            break;
        case COMMAND_CANCEL:
            intake_cancel(sched, command, now_us);
            break;
        case COMMAND_PROGRAM_START:
        case COMMAND_PROGRAM_END:
            intake_program(sched, command, now_us);
            break;
        case COMMAND_WORKFLOW_OPEN:
        case COMMAND_WORKFLOW_ROW:
        case COMMAND_WORKFLOW_ANSWER:
        case COMMAND_WORKFLOW_CLOSE:
        case COMMAND_WORKFLOW_CANCEL:
            sched_workflow_command(sched, command, now_us);
            break;
        }
    }
    expire_calls(sched, now_us);
    sched_workflow_pass(sched, now_us);
    sched_program_expire(sched, now_us);
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        if (!sched->engines[i].step_in_flight) {
            kvmem_expire(sched->engines[i].kv, now_us, false);  /* moves go with the next plan */
        }
    }
}
