/* SPDX-License-Identifier: MIT */
/*
 * What: a heap of the open calls that have a deadline, by their slots. Equal deadlines come in no
 * particular order.
 * Bounds: first O(1), push and remove O(log calls).
 */
#include "sched/deadline.h"

#include "sched/call.h"

void sched_deadline_push(struct sched *sched, const struct call *call)
{
    if (call->deadline_us != UINT64_MAX) {
        heap_set(&sched->deadlines, call->slot, call->deadline_us);
    }
}

void sched_deadline_remove(struct sched *sched, const struct call *call)
{
    if (call->deadline_us != UINT64_MAX) {
        heap_remove(&sched->deadlines, call->slot);
    }
}

struct call *sched_deadline_first(const struct sched *sched)
{
    return sched_call_or_null(sched, heap_first(&sched->deadlines));
}

uint64_t sched_deadline_next_us(const struct sched *sched)
{
    return heap_first_key(&sched->deadlines);
}

void sched_deadline_check(const struct sched *sched)
{
    const struct heap *heap = &sched->deadlines;
    heap_check(heap);
    ASSERT(heap->count <= sched->open_calls);
    for (uint32_t place = 0; place < heap->count; place++) {
        ASSERT(heap->entries[place].key == sched_call(sched, heap->entries[place].id)->deadline_us);
        ASSERT(heap->entries[place].key != UINT64_MAX);
    }
}
