/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: due times: a binary heap of (time, item), each item at most once. Earliest first; of equal
 * times the smaller item, so that a replay has the same order each time.
 */
#include <stdbool.h>
#include <stdint.h>

struct timer_entry { uint64_t due_us; uint32_t item; };
struct timer {
    struct timer_entry *entries;    /* [room], a heap */
    uint32_t count, room;
};

/* Room for `room` items; false: out of memory. */
bool timer_init(struct timer *timer, uint32_t room);
void timer_free(struct timer *timer);
void timer_push(struct timer *timer, uint64_t due_us, uint32_t item);
/* Takes the earliest item that is due; false: none is. */
bool timer_pop(struct timer *timer, uint64_t now_us, uint32_t *item);
/* UINT64_MAX: the timer is empty. */
uint64_t timer_next_us(const struct timer *timer);
