/* SPDX-License-Identifier: MIT */
/*
 * What: plans, and their text: the format of docs/workflows.md, line by line.
 */
#include "tools/agx/flow/plan.h"

#include <inttypes.h>
#include <stdlib.h>

#define WORK_OF_A_STEP 1000000u

static const char *name_of(const struct plan *plan, uint32_t node)
{
    return plan->file->names[node].name;
}

/* ---- making ---------------------------------------------------------------------------------- */

STATIC_ASSERT(FLOW_VALUE_TOKENS_MAX <= OP_OUT_MAX, "the cost model cuts no length of a file");
static const char no_memory[] = "more memory than there is";

/* False, after the message, with the place of the statement that defines the node. */
static bool refuse(const struct plan *plan, uint32_t node, const char *fault)
{
    if (node == WORKFLOW_NONE) {
        fprintf(stderr, "agx flow: %s: %s\n", plan->file->path, fault);
    } else {
        const struct flow_node_name *name = &plan->file->names[node];
        fprintf(stderr, "agx flow: %s:%" PRIu32 ":%" PRIu32 ": %s: %s\n", plan->file->path,
                name->line, name->column, name->name, fault);
    }
    return false;
}

/* False, after the message what is too much of a workflow that has been pruned and merged. */
static bool refuse_size(const struct plan *plan)
{
    const struct workflow *workflow = plan->workflow;
    uint32_t left = 0, first_beyond = WORKFLOW_NONE;
    char fault[128];
    for (uint32_t n = 0; n < workflow->nodes_count; n++) {
        bool is_left = workflow_is_op(workflow, n) && workflow->nodes[n].kind == WORKFLOW_LLM;
        first_beyond = is_left && left == WORKFLOW_LLMS_MAX ? n : first_beyond;
        left += is_left;
    }
    if (first_beyond == WORKFLOW_NONE) {
        return refuse(plan, WORKFLOW_NONE, "the max of all operators together is 2^32 or more");
    }
    snprintf(fault, sizeof fault, "%" PRIu32 " llm operators are left when equal ones are merged, "
             "expected at most %d", left, WORKFLOW_LLMS_MAX);
    return refuse(plan, first_beyond, fault);
}

static bool optimise(const struct plan *plan, const struct workflow_optimise_params *params)
{
    struct workflow_optimiser *optimiser = calloc(1, sizeof *optimiser);
    if (optimiser == NULL) {
        return refuse(plan, WORKFLOW_NONE, no_memory);
    }
    enum status status = workflow_optimise_begin(optimiser, plan->record.workflow, params);
    while (status == STATUS_OK && !workflow_optimise_step(optimiser, WORK_OF_A_STEP)) {
    }
    free(optimiser);
    return status == STATUS_OK || refuse_size(plan);
}

bool flow_plan_make(struct plan *plan, const struct flow_file *file,
               const struct workflow_optimise_params *params)
{
    struct flow_symbols *symbols = calloc(1, sizeof *symbols);
    const struct workflow_encoder encoder = {flow_encode_symbols, symbols};
    uint32_t node = WORKFLOW_NONE;
    const char *fault = no_memory;
    *plan = (struct plan){.file = file};
    if (symbols != NULL) {
        fault = flow_record_fill(&plan->record, &file->flow, &encoder, &node);
        fault = fault != NULL && symbols->fault != NULL ? symbols->fault : fault;
    }
    plan->workflow = plan->record.workflow;
    free(symbols);
    bool made = fault == NULL ? optimise(plan, params) : refuse(plan, node, fault);
    if (!made) {
        plan_free(plan);
    }
    return made;
}

void plan_free(struct plan *plan)
{
    flow_record_free(&plan->record);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_columns(const struct plan *plan, const struct workflow_set *columns,
                          FILE *out)
{
    const char *before = "";
    for (uint32_t i = 0; i < plan->workflow->inputs_count; i++) {
        if (workflow_set_has(columns, i)) {
            fprintf(out, "%s%s", before, name_of(plan, plan->workflow->inputs[i]));
            before = ",";
        }
    }
    fputs(*before == '\0' ? "-" : "", out);
}

static void print_op(const struct plan *plan, const struct workflow_op *op, FILE *out)
{
    const struct workflow_node *node = &plan->workflow->nodes[op->node];
    fprintf(out, "op %s prompt=%" PRIu32 " static=%" PRIu32 " new=%" PRIu32 " out=%" PRIu32
            " columns=", name_of(plan, op->node), op->prompt_tokens, op->static_tokens,
            op->new_tokens, node->est_tokens);
    print_columns(plan, &node->columns, out);
    fputc('\n', out);
}

/* Members as they were scheduled. */
static void print_sequence(const struct plan *plan, uint32_t sequence, FILE *out)
{
    const struct workflow_order *order = &plan->workflow->order;
    fprintf(out, "sequence %" PRIu32, sequence);
    for (uint32_t i = 0; i < order->ops_count; i++) {
        if (order->ops[i].sequence == sequence) {
            fprintf(out, " %s", name_of(plan, order->ops[i].node));
        }
    }
    fputc('\n', out);
}

static uint32_t count_kind(const struct plan *plan, enum workflow_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->workflow->nodes_count; i++) {
        count += plan->workflow->nodes[i].kind == kind;
    }
    return count;
}

void plan_print(const struct plan *plan, FILE *out)
{
    const struct workflow *workflow = plan->workflow;
    const struct workflow_order *order = &workflow->order;
    fprintf(out, "flow llm=%" PRIu32 " lambda=%" PRIu32 " inputs=%" PRIu32 " outputs=%" PRIu32 "\n",
            count_kind(plan, WORKFLOW_LLM), count_kind(plan, WORKFLOW_LAMBDA),
            workflow->inputs_count, workflow->outputs_count);
    fprintf(out, "pruned %" PRIu32 " merged %" PRIu32 " left %" PRIu32 "\n", order->pruned,
            order->merged, order->left);
    for (uint32_t i = 0; i < order->ops_count; i++) {
        print_op(plan, &order->ops[i], out);
    }
    for (uint32_t i = 0; i < order->sequences_count; i++) {
        print_sequence(plan, i, out);
    }
    fprintf(out, "steps %" PRIu64 "\n", order->steps);
}

/* ---- what the pictures share ----------------------------------------------------------------- */

/* True when node `to` reads the value of node `from`. */
static bool reads(const struct workflow *workflow, uint32_t to, uint32_t from)
{
    const struct workflow_node *node = &workflow->nodes[to];
    for (uint32_t i = 0; i < node->pieces_count; i++) {
        if (workflow->pieces[node->pieces_first + i].node == from) {
            return true;
        }
    }
    return false;
}

uint32_t plan_operand_next(const struct plan *plan, uint32_t to, uint32_t from)
{
    uint32_t next = from == WORKFLOW_NONE ? 0 : from + 1;
    while (next < to && !reads(plan->workflow, to, next)) {
        next++;
    }
    return next < to ? next : WORKFLOW_NONE;
}

uint32_t plan_place(const struct plan *plan, uint32_t node)
{
    const struct workflow_order *order = &plan->workflow->order;
    for (uint32_t i = 0; i < order->ops_count; i++) {
        if (order->ops[i].node == node) {
            return i + 1;
        }
    }
    return 0;
}
