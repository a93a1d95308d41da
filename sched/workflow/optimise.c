/* SPDX-License-Identifier: MIT */
/*
 * What: the steps of the optimiser, one after the other, a bounded part of them in each call.
 *
 * `auto` takes Algorithm 1's order or that of a greedy rule, whichever costs least by the model,
 * and the first of equal ones.
 */
#include "sched/workflow/optimise.h"

enum status workflow_optimise_begin(struct workflow_optimiser *optimiser, struct workflow *flow,
                                    const struct workflow_optimise_params *params)
{
    TRY(op_graph_fill(&optimiser->graph, flow, params->input_tokens));
    optimiser->flow = flow;
    optimiser->params = *params;
    optimiser->phase = OPTIMISE_TREE;
    optimiser->next = 0;
    template_tree_init(&optimiser->tree, &optimiser->graph, params->input_tokens);
    return STATUS_OK;
}

/* ---- phases ---------------------------------------------------------------------------------- */

static bool has_algorithm(enum workflow_order_kind kind)
{
    return kind == WORKFLOW_ORDER_AUTO || kind == WORKFLOW_ORDER_HELIUM;
}

static struct greedy_rule rule_of(const struct workflow_optimiser *optimiser)
{
    switch (optimiser->params.order) {
    case WORKFLOW_ORDER_LSPF:
        return (struct greedy_rule){.kind = GREEDY_SHARED};
    case WORKFLOW_ORDER_ARRIVAL:
        return (struct greedy_rule){.kind = GREEDY_ARRIVAL};
    case WORKFLOW_ORDER_RANDOM:
        return (struct greedy_rule){.kind = GREEDY_RANDOM};
    case WORKFLOW_ORDER_OPWISE:
    case WORKFLOW_ORDER_QUERYWISE:
        return (struct greedy_rule){.kind = GREEDY_NODES};
    default:
        return greedy_rules[optimiser->next];
    }
}

static void begin_schedule(struct workflow_optimiser *optimiser)
{
    op_schedule_init(&optimiser->schedule, &optimiser->tree, optimiser->params.kv_tokens);
    if (optimiser->phase == OPTIMISE_HELIUM) {
        helium_begin(&optimiser->helium, &optimiser->schedule);
    } else {
        greedy_begin(&optimiser->greedy, rule_of(optimiser), optimiser->params.seed);
    }
}

static void grow_tree(struct workflow_optimiser *optimiser, int64_t *work)
{
    while (optimiser->next < optimiser->graph.count && *work > 0) {
        template_tree_add(&optimiser->tree, optimiser->next++);
        *work -= WORKFLOW_LLMS_MAX + 4 * (int64_t)optimiser->tree.work;
    }
    if (optimiser->next < optimiser->graph.count) {
        return;
    }
    bool is_helium = has_algorithm(optimiser->params.order);
    op_schedule_init(&optimiser->schedule, &optimiser->tree, optimiser->params.kv_tokens);
    greedy_measure(&optimiser->greedy, &optimiser->schedule);
    optimiser->next = 0;
    optimiser->phase = is_helium ? OPTIMISE_HELIUM : OPTIMISE_GREEDY;
    begin_schedule(optimiser);
}

static void write_order(struct workflow_optimiser *optimiser)
{
    enum sequence_kind kind = SEQUENCE_EACH;
    if (has_algorithm(optimiser->params.order) || optimiser->params.order == WORKFLOW_ORDER_LSPF) {
        kind = SEQUENCE_SHARED;
    } else if (optimiser->params.order == WORKFLOW_ORDER_QUERYWISE) {
        kind = SEQUENCE_ALL;
    }
    sequence_write(&optimiser->groups, &optimiser->best, kind, optimiser->params.share_min,
                   optimiser->flow);
    optimiser->phase = OPTIMISE_DONE;
}

/* A schedule is done: the first one, or the cheapest so far, is kept. */
static void compare(struct workflow_optimiser *optimiser)
{
    bool is_first = optimiser->phase == OPTIMISE_HELIUM ||
                    !has_algorithm(optimiser->params.order);
    if (is_first || optimiser->schedule.now < optimiser->best.now) {
        optimiser->best = optimiser->schedule;
    }
    optimiser->next += optimiser->phase == OPTIMISE_GREEDY;
    optimiser->phase = OPTIMISE_GREEDY;
    if (optimiser->params.order == WORKFLOW_ORDER_AUTO && optimiser->next < GREEDY_RULES) {
        begin_schedule(optimiser);
    } else {
        write_order(optimiser);
    }
}

bool workflow_optimise_step(struct workflow_optimiser *optimiser, uint32_t work)
{
    int64_t left = work;
    while (optimiser->phase != OPTIMISE_DONE && left > 0) {
        if (optimiser->phase == OPTIMISE_TREE) {
            grow_tree(optimiser, &left);
        } else if (optimiser->phase == OPTIMISE_HELIUM
                       ? helium_step(&optimiser->helium, &left)
                       : greedy_step(&optimiser->greedy, &left)) {
            compare(optimiser);
        }
    }
    return optimiser->phase == OPTIMISE_DONE;
}
