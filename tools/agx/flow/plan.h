/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the plan of a workflow as the appliance would make it, without an appliance: a literal byte
 * is a token. As text, `agx flow --explain`, and as a picture: DOT, or SVG.
 *
 * Memory: from the heap; state: one struct.
 */
#include <stdio.h>

#include "sched/workflow/optimise.h"
#include "tools/flow/flow_file.h"
#include "tools/flow/record.h"

struct plan {
    const struct flow_file *file;
    struct flow_record record;
    const struct workflow *workflow;        /* optimised */
};

/* False after a message. `file` must stay. */
bool flow_plan_make(struct plan *plan, const struct flow_file *file,
               const struct workflow_optimise_params *params);
void plan_free(struct plan *plan);

void plan_print(const struct plan *plan, FILE *out);
void plan_print_dot(const struct plan *plan, FILE *out);
void plan_print_svg(const struct plan *plan, FILE *out);

/* ---- what the pictures share ----------------------------------------------------------------- */

/* The next node, after `from`, whose value node `to` reads; WORKFLOW_NONE: that was all. Each once;
 * `from` WORKFLOW_NONE begins. TEXT nodes are inlined. */
uint32_t plan_operand_next(const struct plan *plan, uint32_t to, uint32_t from);
/* The place of a node in the order, from 1; 0: it is no LLM that is left. */
uint32_t plan_place(const struct plan *plan, uint32_t node);
