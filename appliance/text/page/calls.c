/* SPDX-License-Identifier: MIT */
/* What: the page `calls`: a line for each call that holds a slot. */
#include "appliance/text/page/calls.h"

#include "appliance/text/page/column.h"
#include "config/base/assert.h"

static const char *call_state_name(const struct sched *sched, const struct call *call)
{
    static const char *const names[] = {
        [CALL_FREE] = "free    ", [CALL_INTAKE] = "intake  ", [CALL_QUEUED] = "queued  ",
        [CALL_RUNNING] = "running ", [CALL_FINISHED] = "finished"};
    ASSERT(call->state <= CALL_FINISHED);
    if (call->standby) {
        return "standby ";
    }
    if (call->state == CALL_QUEUED && (call->paused || sched->jobs[call->job].held)) {
        return call->paused ? "paused  " : "held    ";
    }
    return names[call->state];
}

/* Up to now: its account is brought up to date only when it gets a row. */
static uint64_t wait_us(const struct call *call, uint64_t now_us)
{
    bool waits = call->state == CALL_QUEUED || (call->state == CALL_RUNNING && call->standby);
    uint64_t since_us = waits ? call->waiting_since_us : now_us;
    return call->wait_us + (since_us < now_us ? now_us - since_us : 0);
}

/* Why it waits; a dash if it does not. */
static const char *reason_name(const struct sched *sched, const struct call *call)
{
    static const char *const names[] = {
        [SCHED_REASON_NEXT] = "next", [SCHED_REASON_BATCH] = "batch", [SCHED_REASON_KV] = "kv",
        [SCHED_REASON_BUDGET] = "budget", [SCHED_REASON_MOVES] = "moves",
        [SCHED_REASON_INACTIVE] = "inactive", [SCHED_REASON_CLIENT] = "client",
        [SCHED_REASON_ENGINE] = "engine"};
    bool waits = call->state == CALL_QUEUED || (call->state == CALL_RUNNING && call->standby);
    return waits ? names[sched_call_reason(sched, call)] : "-";
}

/* The slot of the connection that it came by, itself or in a workflow; or a dash. */
static void add_connection(struct text *page, const struct textport_view *view,
                           const struct call *call)
{
    uint32_t connection = call->connection;
    if (call->workflow != CALL_NONE) {
        connection = view->sched->workflows.table->workflows[call->workflow].connection;
    }
    if (connection == CALL_NONE) {
        text_add(page, "      -");
    } else {
        text_add_column(page, connection, 6);
    }
}

/* An open call moves with its job; others have left the queue that they name. */
static uint32_t queue_of(const struct sched *sched, const struct call *call)
{
    bool is_open = call->state == CALL_QUEUED || call->state == CALL_RUNNING;
    return is_open ? sched->jobs[call->job].queue : call->queue;
}

void textpage_calls(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    text_add(page, "   slot state    program queue  prompt  output    wait_ms service_ms blocks "
                   "preempted cached arrival_ms engine   conn why\n");
    for (uint32_t i = 0; i < view->calls->count; i++) {
        const struct call *call = &view->calls->calls[i];
        if (call->state == CALL_FREE) {
            continue;
        }
        text_add_u64_padded(page, i, 7, ' ');
        text_add(page, " ");
        text_add(page, call_state_name(view->sched, call));
        if (call->program == CALL_NONE) {
            text_add(page, "       -");
        } else {
            text_add_column(page, call->program, 7);
        }
        text_add_column(page, queue_of(view->sched, call), 5);
        text_add_column(page, call->prompt_tokens, 7);
        text_add_column(page, call->generated_tokens, 7);
        text_add_column(page, wait_us(call, now_us) / 1000, 10);
        text_add_column(page, call->service_us / 1000, 10);
        text_add_column(page, kvmem_call_blocks(view->sched->engines[call->engine].kv, i), 6);
        text_add_column(page, call->preemptions, 9);
        text_add_column(page, call->cached_tokens, 6);
        text_add_column(page, text_elapsed_ms(call->arrived_us, now_us), 10);
        text_add_column(page, call->engine, 6);
        add_connection(page, view, call);
        text_add(page, " ");
        text_add(page, reason_name(view->sched, call));
        text_add(page, "\n");
    }
}
