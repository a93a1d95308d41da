/* SPDX-License-Identifier: MIT */
/*
 * What: a binary heap of the open calls that have a deadline. Equal deadlines come in no particular
 * order. Its array lies in the call table and has an entry for each call, so it is never full.
 * Invariants: entry i is not later than its children 2i + 1 and 2i + 2; call.deadline_slot is the
 * inverse of the array.
 * Bounds: first O(1), push and remove O(log calls).
 */
#include "sched/deadline.h"

#include "sched/call.h"

static struct call *entry(const struct sched *sched, uint32_t place)
{
    ASSERT(place < sched->deadlines_count);
    return sched_call(sched, sched->calls->deadlines[place]);
}

static uint64_t due_us(const struct sched *sched, uint32_t place)
{
    return entry(sched, place)->deadline_us;
}

static void put(struct sched *sched, uint32_t place, struct call *call)
{
    ASSERT(place < sched->deadlines_count);
    sched->calls->deadlines[place] = call->slot;
    call->deadline_slot = place;
}

static void rise(struct sched *sched, struct call *call)
{
    uint32_t place = call->deadline_slot;
    while (place > 0 && due_us(sched, (place - 1) / 2) > call->deadline_us) {
        put(sched, place, entry(sched, (place - 1) / 2));
        place = (place - 1) / 2;
    }
    put(sched, place, call);
}

static void sink(struct sched *sched, struct call *call)
{
    uint32_t place = call->deadline_slot;
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child + 1 < sched->deadlines_count &&
            due_us(sched, child + 1) < due_us(sched, child)) {
            child++;
        }
        if (child >= sched->deadlines_count || due_us(sched, child) >= call->deadline_us) {
            break;
        }
        put(sched, place, entry(sched, child));
        place = child;
    }
    put(sched, place, call);
}

void sched_deadline_push(struct sched *sched, struct call *call)
{
    call->deadline_slot = CALL_NONE;
    if (call->deadline_us == UINT64_MAX) {
        return;
    }
    ASSERT(sched->deadlines_count < sched->calls->count);
    put(sched, sched->deadlines_count++, call);
    rise(sched, call);
}

void sched_deadline_remove(struct sched *sched, struct call *call)
{
    uint32_t place = call->deadline_slot;
    if (place == CALL_NONE) {
        return;
    }
    ASSERT(entry(sched, place) == call);
    struct call *last = entry(sched, sched->deadlines_count - 1);
    call->deadline_slot = CALL_NONE;
    sched->deadlines_count--;
    if (last != call) {
        put(sched, place, last);
        rise(sched, last);
        sink(sched, last);
    }
}

struct call *sched_deadline_first(const struct sched *sched)
{
    return sched->deadlines_count > 0 ? entry(sched, 0) : NULL;
}

uint64_t sched_deadline_next_us(const struct sched *sched)
{
    return sched->deadlines_count > 0 ? due_us(sched, 0) : UINT64_MAX;
}

void sched_deadline_check(const struct sched *sched)
{
    ASSERT(sched->deadlines_count <= sched->open_calls);
    for (uint32_t place = 0; place < sched->deadlines_count; place++) {
        const struct call *call = entry(sched, place);
        ASSERT(call->deadline_slot == place);
        ASSERT(call->deadline_us != UINT64_MAX);
        ASSERT(place == 0 || due_us(sched, (place - 1) / 2) <= call->deadline_us);
    }
}
