/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: orders that take, again and again, the operator that is best by a rule among those that are
 * ready: the baselines of paper 002, and the rules of which `auto` takes the cheapest order.
 * Private to sched/workflow/.
 */
#include "sched/workflow/schedule.h"

enum greedy_kind {
    GREEDY_WEIGHED,                 /* the least sum of idle time, lost sharing, urgency */
    GREEDY_NODES,                   /* in the order of nodes */
    GREEDY_ARRIVAL,                 /* what is ready first, then in the order of nodes */
    GREEDY_SHARED,                  /* LSPF: the most shared with the last, of what may start */
    GREEDY_RANDOM,
};
struct greedy_rule {
    enum greedy_kind kind;
    uint8_t idle, loss, tail;       /* WEIGHED */
};
struct greedy {
    struct op_schedule *schedule;
    struct greedy_rule rule;
    uint64_t random;                /* state */
    uint64_t tail[WORKFLOW_LLMS_MAX];           /* of the longest chain from an op to the end */
    uint32_t best_shared[WORKFLOW_LLMS_MAX];    /* the most that it can share with another one */
};

#define GREEDY_RULES 20
extern const struct greedy_rule greedy_rules[GREEDY_RULES];

/* Once for a schedule's graph and tree. */
void greedy_measure(struct greedy *greedy, struct op_schedule *schedule);
void greedy_begin(struct greedy *greedy, struct greedy_rule rule, uint64_t seed);
/* Goes on until all operators are scheduled, or *work is used up: it is reduced by what was done.
 * True when all are scheduled. */
bool greedy_step(struct greedy *greedy, int64_t *work);
