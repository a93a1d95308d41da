/* SPDX-License-Identifier: MIT */
#pragma once
/* What: from what a client says to the pieces of a record (compose.c). */
#include "config/base/status.h"
#include "config/workflow/workflow.h"

struct workflow_text { const char *bytes; uint32_t count; bool parse_special; };
struct workflow_operand { uint32_t node, text; };   /* one of them is WORKFLOW_NONE */
struct workflow_source {            /* as FLOW_OPEN brings it, decoded; nodes are in the record */
    const struct workflow_operand *operands;
    uint32_t operands_count;
    struct workflow_span of_node[WORKFLOW_NODES_MAX];   /* operands of each node */
    const struct workflow_text *texts;
    uint32_t texts_count;
    void *lists;                    /* room for what is only needed while it is composed */
    uint64_t lists_bytes;
};
/* A literal: its parts are one text. */
struct workflow_literal {
    const struct workflow_text *parts;
    uint32_t parts_count;
    bool leads;                     /* it begins a prompt */
};
/* Text to tokens: net's is the vocabulary's, that of `agx flow --explain` a token for each byte.
 * Returns the number of tokens, or UINT32_MAX: more than max. */
struct workflow_encoder {
    uint32_t (*encode)(void *self, const struct workflow_literal *literal, uint32_t *tokens,
                       uint32_t max);
    void *self;
};
/* Fills the pieces and tokens of every node: TEXT nodes inlined, neighbouring literals joined and
 * encoded as one text, equal literals kept once: two pieces of one role are equal just when they
 * have the same tokens. A TEXT node that is no output has no pieces: what reads it has them.
 * `kind` and `is_output` of all nodes must be set, and operands be earlier nodes. BUSY_SPACE: a
 * limit or the room for lists is too small, or texts within texts are too many; *node is where. */
MUST_CHECK enum status workflow_compose(struct workflow *flow, const struct workflow_limits *limits,
                                        const struct workflow_source *source,
                                        const struct workflow_encoder *encoder, uint32_t *node);
/* True when the value of an input begins the prompt of some call; when it comes elsewhere too: in
 * a prompt, in a question to the client or as an output. Both may be: the column is encoded in two
 * ways then. After workflow_compose(). */
bool workflow_input_leads(const struct workflow *flow, uint32_t node);
bool workflow_input_follows(const struct workflow *flow, uint32_t node);
