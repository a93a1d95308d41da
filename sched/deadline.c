/* SPDX-License-Identifier: MIT */
/*
 * What: a binary heap of the open calls that have a deadline. Equal deadlines come in no particular
 * order. Its array lies with the call table and has an entry for each call, so it is never full.
 * Invariants: entry i is not later than its children 2i + 1 and 2i + 2; call.deadline_slot is the
 * inverse of the array.
 * Bounds: first O(1), push and remove O(log calls).
 */
#include "sched/deadline.h"

#include "sched/queue.h"

static uint32_t entry(const struct sched *sched, uint32_t slot)
{
    ASSERT(slot < sched->deadlines_count);
    return sched->calls->deadlines[slot];
}

static uint64_t due_us(const struct sched *sched, uint32_t slot)
{
    return sched_call(sched, entry(sched, slot))->deadline_us;
}

static void put(struct sched *sched, uint32_t slot, uint32_t call)
{
    ASSERT(slot < sched->deadlines_count);
    sched->calls->deadlines[slot] = call;
    sched_call(sched, call)->deadline_slot = slot;
}

static void rise(struct sched *sched, uint32_t slot)
{
    uint32_t call = entry(sched, slot);
    uint64_t call_due_us = due_us(sched, slot);
    while (slot > 0 && due_us(sched, (slot - 1) / 2) > call_due_us) {
        put(sched, slot, entry(sched, (slot - 1) / 2));
        slot = (slot - 1) / 2;
    }
    put(sched, slot, call);
}

static void sink(struct sched *sched, uint32_t slot)
{
    uint32_t call = entry(sched, slot);
    uint64_t call_due_us = due_us(sched, slot);
    for (;;) {
        uint32_t child = 2 * slot + 1;
        if (child + 1 < sched->deadlines_count &&
            due_us(sched, child + 1) < due_us(sched, child)) {
            child++;
        }
        if (child >= sched->deadlines_count || due_us(sched, child) >= call_due_us) {
            break;
        }
        put(sched, slot, entry(sched, child));
        slot = child;
    }
    put(sched, slot, call);
}

void sched_deadline_push(struct sched *sched, uint32_t call_index)
{
    struct call *call = sched_call(sched, call_index);
    call->deadline_slot = CALL_NONE;
    if (call->deadline_us == UINT64_MAX) {
        return;
    }
    ASSERT(sched->deadlines_count < sched->calls->count);
    put(sched, sched->deadlines_count++, call_index);
    rise(sched, call->deadline_slot);
}

void sched_deadline_remove(struct sched *sched, uint32_t call_index)
{
    struct call *call = sched_call(sched, call_index);
    uint32_t slot = call->deadline_slot;
    if (slot == CALL_NONE) {
        return;
    }
    ASSERT(entry(sched, slot) == call_index);
    uint32_t last = entry(sched, sched->deadlines_count - 1);
    call->deadline_slot = CALL_NONE;
    sched->deadlines_count--;
    if (last != call_index) {
        put(sched, slot, last);
        rise(sched, slot);
        sink(sched, sched_call(sched, last)->deadline_slot);
    }
}

uint32_t sched_deadline_first(const struct sched *sched)
{
    return sched->deadlines_count > 0 ? entry(sched, 0) : CALL_NONE;
}

uint64_t sched_deadline_next_us(const struct sched *sched)
{
    return sched->deadlines_count > 0 ? due_us(sched, 0) : UINT64_MAX;
}

void sched_deadline_check(const struct sched *sched)
{
    ASSERT(sched->deadlines_count <= sched->open_calls);
    for (uint32_t slot = 0; slot < sched->deadlines_count; slot++) {
        const struct call *call = sched_call(sched, entry(sched, slot));
        ASSERT(call->deadline_slot == slot);
        ASSERT(call->deadline_us != UINT64_MAX);
        ASSERT(slot == 0 || due_us(sched, (slot - 1) / 2) <= call->deadline_us);
    }
}
