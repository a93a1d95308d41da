/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a workflow of the SDK as the record that the optimiser works on, without an appliance: for
 * `agx flow --explain` and for the lab. It goes through the same composition as in the appliance.
 *
 * Memory: from the heap, a few MiB; state: one struct.
 */
#include <stdbool.h>

#include "config/workflow/compose.h"
#include "tools/sdk/flow.h"

struct flow_record {
    struct workflow *workflow;              /* in INTAKE: composed, not yet optimised */
    /* private */
    struct workflow_table table;
    void *memory;
};

/* NULL, or what is wrong with the workflow. *node is where; WORKFLOW_NONE: nowhere in it. */
const char *flow_record_fill(struct flow_record *record, const struct agx_flow *flow,
                             const struct workflow_encoder *encoder, uint32_t *node);
void flow_record_free(struct flow_record *record);

/* The encoder of --explain: a literal byte is a token, and the markers of synthetic tokens are
 * tokens that differ from every byte, and by name and position from each other. */
#define FLOW_SYMBOL_NAMES_MAX 4000
struct flow_symbols {
    const char *fault;                      /* why it gave no tokens, or NULL */
    uint32_t names_count;
    struct flow_symbol_name { char text[64]; uint32_t bytes; } names[FLOW_SYMBOL_NAMES_MAX];
};
uint32_t flow_encode_symbols(void *self, const struct workflow_literal *literal, uint32_t *tokens,
                             uint32_t max);
