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
 * Who has blocks joins the list of residents when the plan's cursor comes past it (queue.c); it
 * leaves it here.
 *
 * Invariants: kv_tokens is what the call's blocks hold; it is 0 without blocks. A call that ends
 * leaves nothing SAVED behind that it still finds: contents that nobody will be back for must not
 * outrank others (docs/caveats.md names those that it does not find).
 * Bounds: O(blocks of the call).
 */
#include "sched/residency.h"

#include "sched/queue.h"

#define SALT_OF_CALL (KVMEM_SALT_ALONE / 2)     /* no program lives to have such a number, and no
                                                   domain has */

/* A call with a fault is computed from its own tokens alone: what it found before may be wrong. */
static enum sched_sharing sharing_of(const struct sched *sched, const struct call *call)
{
    return call->faults > 0 ? SCHED_SHARING_OFF : sched->settings.sharing;
}

static uint64_t salt_of(const struct sched *sched, uint32_t call_index)
{
    const struct call *call = sched_call(sched, call_index);
    switch (sharing_of(sched, call)) {
    case SCHED_SHARING_OFF:
        return (call->faults > 0 ? KVMEM_SALT_ALONE : 0) | SALT_OF_CALL |
               (uint64_t)call_index << 32 | call->generation;
    case SCHED_SHARING_PROGRAM:
        return sched->programs[call->program].salt;
    case SCHED_SHARING_DOMAIN:
        break;
    }
    return call->domain;
}

static void leave(struct sched *sched, uint32_t call_index)
{
    ASSERT(sched->resident_calls > 0 && sched_residency_has(sched, call_index));
    sched->resident_calls--;
    sched_queue_leave_residents(sched, call_index);
}

bool sched_residency_has(const struct sched *sched, uint32_t call_index)
{
    return kvmem_call_blocks(sched->kv, call_index) > 0;
}

static void claim(struct sched *sched, uint32_t call_index)
{
    struct call *call = sched_call(sched, call_index);
    uint32_t known = call->prompt_tokens + call->generated_tokens;
    ASSERT(call->kv_tokens == 0 && !sched_residency_has(sched, call_index));
    call->kv_tokens = kvmem_claim(sched->kv, call_index, salt_of(sched, call_index),
                                  call->tokens, known);
    ASSERT(call->kv_tokens < known);
    ASSERT((call->kv_tokens > 0) == sched_residency_has(sched, call_index));
}

static void keep(struct sched *sched, uint32_t call_index, enum kvmem_rank rank, uint64_t now_us)
{
    struct call *call = sched_call(sched, call_index);
    kvmem_keep(sched->kv, call_index, call->tokens, call->kv_tokens, rank, now_us);
    ASSERT(!sched_residency_has(sched, call_index));
    call->kv_tokens = 0;
}

bool sched_residency_is_kept(const struct sched *sched, uint32_t call_index)
{
    const struct call *call = sched_call(sched, call_index);
    return kvmem_is_kept(sched->kv, call_index, call->tokens,
                         call->prompt_tokens + call->generated_tokens - 1);
}

void sched_residency_claim(struct sched *sched, uint32_t call_index)
{
    claim(sched, call_index);
    sched->resident_calls += sched_residency_has(sched, call_index);
}

void sched_residency_give_back(struct sched *sched, uint32_t call_index, uint64_t now_us)
{
    bool is_saved = sched_call(sched, call_index)->computed_tokens > 0 ||
                    sched->kv->settings.retain_drop_us == 0;
    if (sched_residency_has(sched, call_index)) {
        leave(sched, call_index);
        keep(sched, call_index, is_saved ? KVMEM_SAVED : KVMEM_RETAINED, now_us);
    }
}

void sched_residency_take(struct sched *sched, uint32_t call_index, uint32_t positions,
                          bool claimed, uint64_t now_us)
{
    struct call *call = sched_call(sched, call_index);
    uint32_t swapped_in = kvmem_call_pins(sched->kv, call_index);
    ASSERT(positions >= call->kv_tokens);
    if (claimed && call->computed_tokens == 0) {
        sched->stats->prefix_hit_tokens += call->kv_tokens;
        sched->stats->declared_hit_tokens += kvmem_call_declared(sched->kv, call_index) *
                                             sched->kv->settings.block_tokens;
    } else if (claimed) {
        sched->stats->restored_tokens += call->kv_tokens;
    }
    if (call->kv_tokens > call->computed_tokens) {
        call->computed_tokens = call->kv_tokens;
    }
    if (swapped_in > 0) {
        event_log_note_call(sched->settings.event_log, now_us, sched->calls, call_index,
                          (struct event_what){EVENT_SWAPPED_IN, {swapped_in}});
    }
    sched->resident_calls += !sched_residency_has(sched, call_index);
    kvmem_reserve(sched->kv, call_index, positions);
}

void sched_residency_preempt(struct sched *sched, uint32_t call_index, uint64_t now_us)
{
    struct call *call = sched_call(sched, call_index);
    ASSERT(call->state == CALL_QUEUED);
    event_log_note_call(sched->settings.event_log, now_us, sched->calls, call_index,
                      (struct event_what){EVENT_PREEMPTED,
                                          {kvmem_call_blocks(sched->kv, call_index),
                                           call->kv_tokens}});
    leave(sched, call_index);
    keep(sched, call_index, KVMEM_SAVED, now_us);
    call->preemptions++;
    sched->stats->preemptions++;
}

void sched_residency_drop(struct sched *sched, uint32_t call_index)
{
    if (sched_residency_has(sched, call_index)) {
        leave(sched, call_index);
        kvmem_drop(sched->kv, call_index);
    }
    sched_call(sched, call_index)->kv_tokens = 0;
}

/* Without blocks, a call that has computed something may have SAVED contents: it takes them once
 * more, to give them up at the lower rank. */
void sched_residency_end(struct sched *sched, uint32_t call_index, bool wrong, uint64_t now_us)
{
    const struct call *call = sched_call(sched, call_index);
    bool is_resident = sched_residency_has(sched, call_index);
    bool is_private = sharing_of(sched, call) == SCHED_SHARING_OFF;
    if (is_resident && (wrong || is_private)) {
        sched_residency_drop(sched, call_index);
        return;
    }
    if (is_resident) {
        leave(sched, call_index);
    } else if (call->computed_tokens > 0) {
        claim(sched, call_index);
    }
    if (is_private) {
        kvmem_forget(sched->kv, call_index);
        sched_call(sched, call_index)->kv_tokens = 0;
    } else if (sched_residency_has(sched, call_index)) {
        keep(sched, call_index, KVMEM_RETAINED, now_us);
    }
}
