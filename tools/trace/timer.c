/* SPDX-License-Identifier: MIT */
#include "tools/trace/timer.h"

#include <stdlib.h>

#include "config/base/assert.h"

/*
 * What: a binary heap; entry i is not later than entries 2i + 1 and 2i + 2.
 * Bounds: O(log count) for push and pop; memory is taken once.
 */

static bool is_earlier(struct timer_entry a, struct timer_entry b)
{
    return a.due_us < b.due_us || (a.due_us == b.due_us && a.item < b.item);
}

bool timer_init(struct timer *timer, uint32_t room)
{
    *timer = (struct timer){.entries = calloc(room, sizeof *timer->entries), .room = room};
    return timer->entries != NULL;
}

void timer_free(struct timer *timer)
{
    free(timer->entries);
}

void timer_push(struct timer *timer, uint64_t due_us, uint32_t item)
{
    ASSERT(timer->count < timer->room);
    struct timer_entry entry = {.due_us = due_us, .item = item};
    uint32_t at = timer->count++;
    while (at > 0 && is_earlier(entry, timer->entries[(at - 1) / 2])) {
        timer->entries[at] = timer->entries[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    timer->entries[at] = entry;
}

/* Puts `entry` where the root was. */
static void sink(struct timer *timer, struct timer_entry entry)
{
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= timer->count) {
            break;
        }
        if (child + 1 < timer->count &&
            is_earlier(timer->entries[child + 1], timer->entries[child])) {
            child++;
        }
        if (!is_earlier(timer->entries[child], entry)) {
            break;
        }
        timer->entries[at] = timer->entries[child];
        at = child;
    }
    timer->entries[at] = entry;
}

bool timer_pop(struct timer *timer, uint64_t now_us, uint32_t *item)
{
    if (timer->count == 0 || timer->entries[0].due_us > now_us) {
        return false;
    }
    *item = timer->entries[0].item;
    struct timer_entry last = timer->entries[--timer->count];
    if (timer->count > 0) {
        sink(timer, last);
    }
    return true;
}

uint64_t timer_next_us(const struct timer *timer)
{
    return timer->count > 0 ? timer->entries[0].due_us : UINT64_MAX;
}
