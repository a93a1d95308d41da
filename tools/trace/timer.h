/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what is due when: a binary heap of (time, item), each item at most once. Earliest first;
 * among equals the smaller item, so that a replay asks in the same order each time.
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
/* UINT64_MAX: nothing will ever be due. */
uint64_t timer_next_us(const struct timer *timer);
