/* SPDX-License-Identifier: MIT */
#pragma once
#include "sched/workflow/op_graph.h"
struct workflow_optimise_params { uint32_t kv_tokens, share_min, input_tokens; enum workflow_order_kind order; uint64_t seed; };
struct workflow_optimiser { struct op_graph graph; struct workflow *flow; };
enum status workflow_optimise_begin(struct workflow_optimiser *o, struct workflow *flow, const struct workflow_optimise_params *p);
bool workflow_optimise_step(struct workflow_optimiser *o, uint32_t leaves);
