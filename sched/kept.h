/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what each program has had, for the successor of a core that dies. Private to sched/. */
#include "sched/sched.h"

struct sched_kept_version {
    uint64_t number;                /* of the change that wrote it; 0: none */
    uint64_t domain;
    uint8_t id[CALL_PROGRAM_ID_BYTES];
    uint64_t service_us, wait_us;   /* the service with that of open calls, as far as they are */
    uint64_t halved_us, started_us, last_arrival_us, last_completion_us;
    struct sched_spent spent;
    char class_name[CALL_CLASS_BYTES];      /* empty: none, or one that has no name */
    uint64_t cost_foreseen, cost, served, key_base;     /* of a policy with keys, which is */
    uint32_t policy;
    uint32_t calls_ended;
    uint64_t in_use;                /* 0: the entry is free */
    uint64_t check;                 /* digest of all above, for this entry */
};

struct sched_kept_program {         /* of the entry in this place of the process table */
    struct sched_kept_version versions[2];
    uint64_t number;                /* versions[number % 2] holds: written after it, at once */
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
/* A step's rows are charged: notes the program, once for all of them. */
void sched_kept_settle(struct sched *sched, uint32_t program);
/* The entry is free. O(1). */
void sched_kept_end(struct sched *sched, uint32_t program);
/* The clock of the ideal system has moved. */
void sched_kept_note_clock(struct sched *sched);
/* What a core has left of that; NULL: nothing that is whole. */
const struct sched_kept_clock_version *sched_kept_recall_clock(const struct sched *sched);
/* What a core has left of the entry; NULL: nothing that is whole, or nothing. */
const struct sched_kept_version *sched_kept_recall(const struct sched *sched, uint32_t program);
void sched_kept_check(const struct sched *sched);
