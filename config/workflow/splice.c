/* SPDX-License-Identifier: MIT */
/*
 * What: what a node composes for one row, as tokens. Values are spliced as they came: they are
 * never tokenized again, so no value can give a control token.
 */
#include "config/workflow/workflow.h"

#include <string.h>

#include "config/base/assert.h"

struct part { const uint32_t *tokens; uint32_t count; };

static struct part part_of(const struct workflow *flow, uint32_t row_index,
                           const struct workflow_piece *piece, bool begins_prompt)
{
    const struct workflow_row *row = &flow->rows[row_index];
    if (piece->node == WORKFLOW_NONE) {
        return (struct part){flow->tokens + piece->tokens.first, piece->tokens.count};
    }
    if (flow->nodes[piece->node].kind == WORKFLOW_INPUT) {
        uint32_t column = workflow_column(flow, piece->node);
        struct workflow_span span = begins_prompt ? row->heads[column] : row->columns[column];
        return (struct part){flow->values + span.first, span.count};
    }
    uint32_t same = flow->nodes[piece->node].same_as;
    const struct workflow_instance *instance = workflow_instance(flow, row_index, same);
    ASSERT(instance->state == WORKFLOW_KNOWN);
    return (struct part){workflow_value(flow, row_index, same), instance->value_tokens};
}

uint32_t workflow_splice(const struct workflow *flow, uint32_t row, uint32_t node,
                         uint32_t *tokens, uint32_t max)
{
    const struct workflow_node *of = &flow->nodes[node];
    uint32_t count = 0;
    for (uint32_t i = 0; i < of->pieces_count; i++) {
        const struct part part = part_of(flow, row, &flow->pieces[of->pieces_first + i],
                                         i == 0 && of->kind == WORKFLOW_LLM);
        if (part.count > max - count) {
            return UINT32_MAX;
        }
        memcpy(tokens + count, part.tokens, part.count * sizeof *tokens);
        count += part.count;
    }
    return count;
}
