/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the ideal system of paper 001, 4.3: fair sharing at each moment, of a machine that gives
 * every program all KV that it asks for (generalised processor sharing). It says when each program
 * would end there. Only its clock and its ends are kept.
 *
 *   virtual time V   what a program of weight 1 has been given since the start. While programs of
 *                    weights N are in the system, service S moves it on by S / N
 *   tag F            V when the program arrived, and its cost by its weight. The program leaves
 *                    when V reaches its tag, whatever it really did
 */
#include <stdint.h>

#include "config/base/heap.h"

#define SCHED_IDEAL_NONE  UINT32_MAX
#define SCHED_IDEAL_TIMES 4         /* entries for each program of the process table, which may
                                       forget programs that are still in the ideal system */

struct sched_ideal_entry {
    uint64_t tag;
    uint64_t left_us;               /* when it left */
    uint8_t id[16];                 /* of the program */
    uint32_t program;               /* in the process table, or UINT32_MAX: it was forgotten */
    uint32_t weight;
    uint32_t next;                  /* in the list of free entries, or of those that just left */
};

struct sched_ideal {
    uint64_t virtual_time, remainder;   /* V, and what S / N left over */
    uint64_t weights;               /* N: of the programs in the system */
    struct heap tags;               /* of entries: the smallest leaves first */
    struct sched_ideal_entry *entries;
    uint32_t left;                  /* entries that left during the last advance, in order; the next
                                       advance frees them */
    uint32_t left_last, free;       /* private */
    uint64_t early;                 /* entries that had to leave because all were taken */
};

void sched_ideal_plan_memory(struct memory_plan *plan, uint32_t programs);
void sched_ideal_init(struct sched_ideal *ideal, uint32_t programs, struct arena *arena);
/* Returns the entry; `what` says tag, id, program and weight. O(log programs). */
uint32_t sched_ideal_enter(struct sched_ideal *ideal, const struct sched_ideal_entry *what,
                           uint64_t now_us);
/* True when the entry is in the system and belongs to this program. A program that has left the
 * system keeps the number of its entry, which may be another program's by now. O(1). */
bool sched_ideal_has(const struct sched_ideal *ideal, uint32_t entry, uint32_t program);
/* Gives the entry, which is in the system, another tag. O(log programs). */
void sched_ideal_move(struct sched_ideal *ideal, uint32_t entry, uint64_t tag);
/* Adds service S that was given within this time. Entries whose tags V reaches leave, each at the
 * moment at which V reached it: `left` lists them. O(log programs) for each. */
void sched_ideal_advance(struct sched_ideal *ideal, uint64_t served, uint64_t begun_us,
                         uint64_t duration_us);
/* No call is open: all entries leave, and V becomes the largest tag. */
void sched_ideal_rest(struct sched_ideal *ideal, uint64_t now_us);
void sched_ideal_check(const struct sched_ideal *ideal);
