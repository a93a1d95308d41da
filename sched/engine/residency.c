/* SPDX-License-Identifier: MIT */
/*
 * What: a call and its KV blocks, as sched sees them. kvmem knows contents; this file knows which
 * calls may find them, and what becomes of them.
 *
 *   no blocks --ask--> an answer --commit--> resident --preempt, end--> no blocks, contents cached
 *       ^                  |                     |
 *       +------ touch -----+-------- drop -------+
 *
 *   salt   sharing off, or a call with a fault: one for each call, so that it alone finds its own
 *          blocks after a preemption; program: one for each entry that the process table ever had;
 *          domain: one for each trust domain. Salts are numbers of ours, not hashes and not from
 *          the wire: no two are equal by chance or by the choice of an id. Declared prefixes are
 *          found under all of them, but by a call with a fault
 *   use    what a call leaves is its program's. As long as the call waits, what it has left and
 *          what it has asked for is needed as much as its program is (need.c); when it has ended,
 *          what it leaves goes by age
 *
 * A call that has blocks joins the list of residents when the plan's cursor comes past it
 * (queue.c); it leaves it here.
 *
 * Invariants: kv_tokens is what the call's blocks hold; it is 0 without blocks.
 * Bounds: O(blocks of the call).
 */
#include "sched/engine/residency.h"

#include "sched/engine/active/exchange.h"
#include "sched/engine/queue.h"

#define SALT_OF_CALL (KVMEM_SALT_ALONE / 2)     /* no program lives to have such a number, and no
                                                   domain has */

/* A call with a fault is computed from its own tokens alone: what it found before may be wrong. */
static enum sched_sharing sharing_of(const struct sched *sched, const struct call *call)
{
    return call->faults > 0 ? SCHED_SHARING_OFF : sched->settings.sharing;
}

static uint64_t salt_of(const struct sched *sched, const struct call *call)
{
    switch (sharing_of(sched, call)) {
    case SCHED_SHARING_OFF:
        return (call->faults > 0 ? KVMEM_SALT_ALONE : 0) | SALT_OF_CALL |
               (uint64_t)call->slot << 32 | call->generation;
    case SCHED_SHARING_PROGRAM:
        return sched->programs[call->program].salt;
    case SCHED_SHARING_DOMAIN:
        break;
    }
    return call->domain;
}

static void leave(struct sched_engine *engine, struct call *call)
{
    ASSERT(engine->resident_calls > 0 && sched_call_is_resident(engine, call));
    engine->resident_calls--;
    sched_queue_leave_residents(engine, call);
}

struct kvmem_answer sched_residency_ask(const struct sched_engine *engine, const struct call *call,
                                        bool whole)
{
    bool is_resident = sched_call_is_resident(engine, call);
    const struct kvmem_question question = {
        .call = call->slot, .holder = call->program, .whole = whole,
        .salt = is_resident ? 0 : salt_of(engine->sched, call),
        .tokens = call->tokens, .count = sched_call_known(call)};
    struct kvmem_answer answer = kvmem_ask(engine->kv, &question);
    if (is_resident) {
        answer.positions = call->kv_tokens;
    }
    return answer;
}

/* What the call has found counts as computed. */
static void count_found(struct sched_engine *engine, struct call *call,
                        const struct kvmem_answer *answer)
{
    struct stats *stats = engine->sched->stats;
    if (call->computed_tokens == 0) {
        stats->prefix_hit_tokens += answer->positions;
        engine->sched->programs[call->program].misses =
            answer->positions == 0 && call->prompt_tokens > engine->sched->settings.balance_tokens;
        stats->declared_hit_tokens +=
            answer->declared_blocks * engine->kv->settings.block_tokens;
    } else {
        stats->restored_tokens += answer->positions;
    }
    if (answer->positions > call->computed_tokens) {
        call->computed_tokens = answer->positions;
    }
}

void sched_residency_commit(struct sched_engine *engine, struct call *call,
                            const struct kvmem_answer *answer, uint32_t positions,
                            uint64_t now_us)
{
    ASSERT(answer->call == call->slot);
    if (!answer->is_owned) {
        ASSERT(call->kv_tokens == 0);
        if (call->computed_tokens == 0 && answer->positions < call->found_tokens) {
            sched_exchange_pay_lost(engine, call->found_tokens - answer->positions);
        }
        count_found(engine, call, answer);
        call->kv_tokens = answer->positions;
        engine->resident_calls++;
    }
    if (answer->host_blocks > 0) {
        sched_note(engine->sched, call, now_us,
                   (struct event_what){EVENT_SWAPPED_IN, {answer->host_blocks}});
    }
    kvmem_commit(engine->kv, answer, positions);
}

void sched_residency_touch(struct sched_engine *engine, const struct call *call,
                           const struct kvmem_answer *answer, uint64_t now_us)
{
    if (!answer->is_owned) {
        kvmem_touch(engine->kv, answer, (struct kvmem_use){call->program, true, now_us});
    }
}

/* True when nothing that the call may find can be cached: its program alone could have left it. */
static bool is_in_vain(const struct sched_engine *engine, const struct call *call)
{
    const struct kvmem_held held = kvmem_held(engine->kv, call->program);
    return sharing_of(engine->sched, call) != SCHED_SHARING_DOMAIN &&
           held.device + held.host == 0;
}

struct kvmem_answer sched_residency_look(const struct sched_engine *engine,
                                         const struct call *call)
{
    if (is_in_vain(engine, call)) {
        return (struct kvmem_answer){.call = call->slot, .is_owned = true};
    }
    return sched_residency_ask(engine, call, false);
}

/* The call gives up its blocks, and leaves their contents behind. */
static void keep(struct sched_engine *engine, struct call *call, bool waits, uint64_t now_us)
{
    leave(engine, call);
    kvmem_keep(engine->kv, call->slot, call->tokens, call->kv_tokens,
               (struct kvmem_use){call->program, waits, now_us});
    call->kv_tokens = 0;
}

/* What a call leaves whose client does not read goes by age, or it would outrank the KV of calls
 * that can run for as long as the client likes; where nothing is kept by age, it is kept all the
 * same. */
static bool is_awaited(const struct sched_engine *engine, const struct call *call)
{
    return (!call->paused && !call->cancel) || engine->kv->settings.retain_drop_us == 0;
}

void sched_residency_preempt(struct sched_engine *engine, struct call *call, uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    ASSERT(call->state == CALL_QUEUED);
    sched_note(sched, call, now_us,
               (struct event_what){EVENT_PREEMPTED, {kvmem_call_blocks(engine->kv, call->slot),
                                                     call->kv_tokens}});
    keep(engine, call, is_awaited(engine, call), now_us);
    call->preemptions++;
    sched->stats->preemptions++;
    sched_job_restage(engine, call, SCHED_STAGE_DISPLACED, now_us);
}

void sched_residency_drop(struct sched_engine *engine, struct call *call)
{
    if (sched_call_is_resident(engine, call)) {
        leave(engine, call);
        kvmem_drop(engine->kv, call->slot);
    }
    call->kv_tokens = 0;
}

/* What a call without blocks has left, or asked for, goes by age from now on, or is forgotten when
 * only this call could find it. */
static void end_without_blocks(struct sched_engine *engine, const struct call *call,
                               bool is_private, uint64_t now_us)
{
    const struct kvmem_answer answer = sched_residency_ask(engine, call, false);
    if (is_private) {
        kvmem_forget(engine->kv, &answer);
    } else {
        kvmem_touch(engine->kv, &answer, (struct kvmem_use){call->program, false, now_us});
    }
}

void sched_residency_end(struct sched_engine *engine, struct call *call, bool wrong,
                         uint64_t now_us)
{
    bool is_private = sharing_of(engine->sched, call) == SCHED_SHARING_OFF;
    if (!sched_call_is_resident(engine, call)) {
        end_without_blocks(engine, call, is_private, now_us);
    } else if (wrong || is_private) {
        sched_residency_drop(engine, call);
    } else {
        keep(engine, call, false, now_us);
    }
}
