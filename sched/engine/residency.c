/* SPDX-License-Identifier: MIT */
/*
 * What: a call and its KV blocks, from sched's side. kvmem knows contents, here is who may find
 * them and what becomes of them.
 *
 *   no blocks --claim--> claimed --take--> resident --preempt, end--> no blocks, contents cached
 *       ^                   |                  |
 *       +----- give_back ---+------ drop ------+
 *
 *   salt   sharing off, or a call with a fault: one for each call, so it finds its own blocks after
 *          a preemption and nobody else does; program: one for each entry that the process table
 *          ever had; domain: one for each trust domain. Numbers of ours, not hashes and not from
 *          the wire: no two are equal by chance or by the choice of an id. Declared prefixes are
 *          found under all of them, but by a call with a fault
 *   rank   what a preempted call has computed is SAVED, evicted last; everything else RETAINED.
 *          Without retention all that is cached is some preempted call's, whoever looks at it
 *
 * A call that has blocks joins the list of residents when the plan's cursor comes past it
 * (queue.c); it leaves it here.
 *
 * Invariants: kv_tokens is what the call's blocks hold; it is 0 without blocks. A call that ends
 * leaves nothing SAVED behind that it still finds: contents that nobody will be back for must not
 * outrank others (docs/caveats.md names those that it does not find).
 * Bounds: O(blocks of the call).
 */
#include "sched/engine/residency.h"

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

static void claim(struct sched_engine *engine, struct call *call)
{
    uint32_t known = sched_call_known(call);
    ASSERT(call->kv_tokens == 0 && !sched_call_is_resident(engine, call));
    call->kv_tokens = kvmem_claim(engine->kv, call->slot, salt_of(engine->sched, call),
                                  call->tokens, known);
    ASSERT(call->kv_tokens < known);
    ASSERT((call->kv_tokens > 0) == sched_call_is_resident(engine, call));
}

static void keep(struct sched_engine *engine, struct call *call, enum kvmem_rank rank,
                 uint64_t now_us)
{
    kvmem_keep(engine->kv, call->slot, call->tokens, call->kv_tokens, rank, now_us);
    ASSERT(!sched_call_is_resident(engine, call));
    call->kv_tokens = 0;
}

bool sched_residency_is_kept(const struct sched_engine *engine, const struct call *call)
{
    return kvmem_is_kept(engine->kv, call->slot, call->tokens, sched_call_known(call) - 1);
}

void sched_residency_claim(struct sched_engine *engine, struct call *call)
{
    claim(engine, call);
    engine->resident_calls += sched_call_is_resident(engine, call);
}

void sched_residency_give_back(struct sched_engine *engine, struct call *call, uint64_t now_us)
{
    bool is_saved = call->computed_tokens > 0 || engine->kv->settings.retain_drop_us == 0;
    if (sched_call_is_resident(engine, call)) {
        leave(engine, call);
        keep(engine, call, is_saved ? KVMEM_SAVED : KVMEM_RETAINED, now_us);
    }
}

void sched_residency_take(struct sched_engine *engine, struct call *call, uint32_t positions,
                          bool claimed, uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    uint32_t swapped_in = kvmem_call_pins(engine->kv, call->slot);
    ASSERT(positions >= call->kv_tokens);
    if (claimed && call->computed_tokens == 0) {
        sched->stats->prefix_hit_tokens += call->kv_tokens;
        sched->stats->declared_hit_tokens += kvmem_call_declared(engine->kv, call->slot) *
                                             engine->kv->settings.block_tokens;
    } else if (claimed) {
        sched->stats->restored_tokens += call->kv_tokens;
    }
    if (call->kv_tokens > call->computed_tokens) {
        call->computed_tokens = call->kv_tokens;
    }
    if (swapped_in > 0) {
        sched_note(sched, call, now_us, (struct event_what){EVENT_SWAPPED_IN, {swapped_in}});
    }
    engine->resident_calls += !sched_call_is_resident(engine, call);
    kvmem_reserve(engine->kv, call->slot, positions);
}

void sched_residency_preempt(struct sched_engine *engine, struct call *call, uint64_t now_us)
{
    const struct sched *sched = engine->sched;
    ASSERT(call->state == CALL_QUEUED);
    sched_note(sched, call, now_us,
               (struct event_what){EVENT_PREEMPTED, {kvmem_call_blocks(engine->kv, call->slot),
                                                     call->kv_tokens}});
    leave(engine, call);
    keep(engine, call, KVMEM_SAVED, now_us);
    call->preemptions++;
    sched->stats->preemptions++;
}

void sched_residency_drop(struct sched_engine *engine, struct call *call)
{
    if (sched_call_is_resident(engine, call)) {
        leave(engine, call);
        kvmem_drop(engine->kv, call->slot);
    }
    call->kv_tokens = 0;
}

/* Without blocks, a call that has computed something may have SAVED contents: it takes them once
 * more, to give them up at the lower rank. */
void sched_residency_end(struct sched_engine *engine, struct call *call, bool wrong,
                         uint64_t now_us)
{
    bool is_resident = sched_call_is_resident(engine, call);
    bool is_private = sharing_of(engine->sched, call) == SCHED_SHARING_OFF;
    if (is_resident && (wrong || is_private)) {
        sched_residency_drop(engine, call);
        return;
    }
    if (is_resident) {
        leave(engine, call);
    } else if (call->computed_tokens > 0) {
        claim(engine, call);
    }
    if (is_private) {
        kvmem_forget(engine->kv, call->slot);
        call->kv_tokens = 0;
    } else if (sched_call_is_resident(engine, call)) {
        keep(engine, call, KVMEM_RETAINED, now_us);
    }
}
