/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the cache-aware schedule of paper 002 (Algorithm 1): down the templated radix tree, by
 * critical path, with a `force` that always ends. It can be stopped after any selection.
 * Private to sched/workflow/.
 */
#include "sched/workflow/schedule.h"

struct helium {
    struct op_schedule *schedule;
    bool is_forced_pass, force;
    uint32_t depth;                 /* frames in use */
    struct helium_frame {
        uint16_t node;
        struct op_set tried;        /* places of children */
    } frames[TEMPLATE_TREE_DEPTH_MAX];
    /* The selection's own: siblings with something left, in the order of places. */
    uint32_t siblings_count, work;
    struct helium_sibling {
        uint16_t node;
        uint8_t place;
        bool is_candidate;
        struct op_set left;         /* operators */
        uint64_t earliest;          /* of a candidate */
        struct op_set reach;        /* siblings that it leads to: those that read it, and on */
        struct op_set component;    /* siblings that it leads to and that lead to it; itself */
        uint32_t chain;             /* components on the longest chain that begins at its own */
    } siblings[WORKFLOW_LLMS_MAX];
};

void helium_begin(struct helium *helium, struct op_schedule *schedule);
/* Goes on until all operators are scheduled, or *work is used up: it is reduced by what was done. A
 * selection, of at most 50,000, is not divided. True when all are scheduled. */
bool helium_step(struct helium *helium, int64_t *work);
