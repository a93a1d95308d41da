/* SPDX-License-Identifier: MIT */
#pragma once
/* What: how much service each program has received, in memory that outlives the core, so that its
 * successor knows. Private to sched/. */
#include "sched/sched.h"

struct sched_kept_version {
    uint64_t number;                /* of the change that wrote it; 0: none */
    uint64_t domain;
    uint8_t id[CALL_PROGRAM_ID_BYTES];
    uint64_t service_us, wait_us;   /* the service includes that of open calls so far */
    uint64_t halved_us, started_us, last_arrival_us, last_completion_us;
    struct sched_spent spent;
    char class_name[CALL_CLASS_BYTES];      /* empty: none, or one that has no name */
    uint64_t cost_foreseen, cost, served, key_base;     /* as this policy counts them */
    uint32_t policy;
    uint32_t calls_ended;
    uint64_t in_use;                /* 0: the entry is free */
    uint64_t check;                 /* digest of all above, for this entry */
};

struct sched_kept_program {         /* of the entry in this place of the process table */
    struct sched_kept_version versions[2];
    uint64_t number;                /* versions[number % 2] counts; one store, after it is whole */
};

struct sched_kept_clock_version {
    uint64_t number, virtual_time;
    uint64_t check;                 /* digest of all above */
};
struct sched_kept_clock {           /* of the ideal system (ideal.h): as an entry */
    struct sched_kept_clock_version versions[2];
    uint64_t number;
};

void sched_kept_plan_memory(struct memory_plan *plan, uint32_t programs);
void sched_kept_init(struct sched *sched, struct arena *kept);
/* Notes the program as it is now. O(1). */
void sched_kept_note(struct sched *sched, uint32_t program);
/* All rows of a step are charged: notes the program if one of them was its. */
void sched_kept_settle(struct sched *sched, uint32_t program);
/* Notes that the entry is free. O(1). */
void sched_kept_free(struct sched *sched, uint32_t program);
/* Notes the clock of the ideal system as it is now. */
void sched_kept_note_clock(struct sched *sched);
/* What the last core has noted of the clock; NULL: nothing, or nothing that is whole. */
const struct sched_kept_clock_version *sched_kept_read_clock(const struct sched *sched);
/* What it has noted of the entry; NULL: it is free, or what is there is torn. */
const struct sched_kept_version *sched_kept_read(const struct sched *sched, uint32_t program);
void sched_kept_check(const struct sched *sched);
