/* SPDX-License-Identifier: MIT */
/*
 * What: what a node composes for one row, as tokens. Values are spliced as they came: they are
 * never tokenized again, so no value can give a control token.
 */
#include "config/workflow/workflow.h"

#include <string.h>

#include "config/base/assert.h"

struct workflow_run workflow_known(const struct workflow *flow, uint32_t row, uint32_t node)
{
    if (flow->nodes[node].kind == WORKFLOW_INPUT) {
        const struct workflow_span span = flow->rows[row].columns[workflow_column(flow, node)];
        return (struct workflow_run){flow->values + span.first, span.count};
    }
    uint32_t same = flow->nodes[node].same_as;
    const struct workflow_instance *instance = workflow_instance(flow, row, same);
    ASSERT(instance->state == WORKFLOW_KNOWN);
    return (struct workflow_run){workflow_value(flow, row, same), instance->value_tokens};
}

static struct workflow_run part_of(const struct workflow *flow, uint32_t row,
                                   const struct workflow_piece *piece, bool begins_prompt)
{
    if (piece->node == WORKFLOW_NONE) {
        return (struct workflow_run){flow->tokens + piece->tokens.first, piece->tokens.count};
    }
    if (begins_prompt && flow->nodes[piece->node].kind == WORKFLOW_INPUT) {
        const struct workflow_span head = flow->rows[row].heads[workflow_column(flow, piece->node)];
        return (struct workflow_run){flow->values + head.first, head.count};
    }
    return workflow_known(flow, row, piece->node);
}

uint32_t workflow_splice(const struct workflow *flow, uint32_t row, uint32_t node,
                         uint32_t *tokens, uint32_t max)
{
    const struct workflow_node *of = &flow->nodes[node];
    uint32_t count = 0;
    for (uint32_t i = 0; i < of->pieces_count; i++) {
        const struct workflow_run part = part_of(flow, row, &flow->pieces[of->pieces_first + i],
                                                 i == 0 && of->kind == WORKFLOW_LLM);
        if (part.count > max - count) {
            return UINT32_MAX;
        }
        memcpy(tokens + count, part.tokens, part.count * sizeof *tokens);
        count += part.count;
    }
    return count;
}
