/* SPDX-License-Identifier: MIT */
#include "sched/workflow/optimise.h"
enum status workflow_optimise_begin(struct workflow_optimiser *o, struct workflow *flow, const struct workflow_optimise_params *p)
{
    o->flow = flow;
    flow->order.kind = p->order;
    return op_graph_fill(&o->graph, flow, p->input_tokens);
}
bool workflow_optimise_step(struct workflow_optimiser *o, uint32_t leaves)
{
    struct workflow_order *order = &o->flow->order;
    order->ops_count = order->sequences_count = o->graph.count;
    for (uint32_t i = 0; i < o->graph.count; i++) {
        order->ops[i] = (struct workflow_op){.node = o->graph.ops[i].node, .prompt_tokens = o->graph.ops[i].prompt_tokens, .sequence = i};
        order->sequences[i] = (struct workflow_sequence){.ops_count = 1};
    }
    return true;
}
