/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the builder of a workflow: operators, one after the other, as FLOW_OPEN has them.
 * Part of libagx.a; docs/workflows.md says what a workflow is.
 *
 *   static uint8_t memory[1 << 16];
 *   struct agx_flow flow;
 *   agx_flow_init(&flow, memory, sizeof memory);
 *   uint32_t question = agx_flow_input(&flow, 60);
 *   const struct agx_piece pieces[] = {AGX_TEXT("Q: "), AGX_VALUE(question), AGX_TEXT("\nA:")};
 *   uint32_t answer = agx_flow_llm(&flow, pieces, 3, &(struct agx_operator){.max_tokens = 64});
 *   agx_flow_output(&flow, answer);
 *   if (flow.result != AGX_OK) ...
 *
 * State: one struct and the caller's memory; no allocation. The first error stays in `result`, and
 * every later function does nothing, so one check at the end is enough.
 */
#include <stddef.h>
#include <stdint.h>

#include "tools/sdk/agx.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AGX_FLOW_NONE        UINT32_MAX
#define AGX_FLOW_NODES_MAX   256
#define AGX_FLOW_NAME_BYTES  31         /* longest name of a lambda */
#define AGX_FLOW_COUNT_MAX   UINT16_MAX /* operands of all nodes; texts; outputs */

enum agx_node { AGX_NODE_INPUT, AGX_NODE_TEXT, AGX_NODE_LLM, AGX_NODE_LAMBDA };

struct agx_piece {              /* part of what a node composes */
    uint32_t node;              /* whose value it is; AGX_FLOW_NONE: the text */
    const char *text;           /* UTF-8; copied */
    size_t text_bytes;
    int parse_special;          /* special tokens in the text are tokens */
};
#define AGX_TEXT(words)  {AGX_FLOW_NONE, (words), sizeof(words) - 1, 0}     /* of a literal */
#define AGX_VALUE(of)    {(of), NULL, 0, 0}

struct agx_operator {           /* zero is a good default, except for `max_tokens` */
    uint32_t max_tokens;        /* of a value: LLM and lambda, at least 1 */
    uint32_t est_tokens;        /* length of a value, as far as is known; 0: max_tokens */
    float temperature;          /* these as in struct agx_call; LLM only */
    uint32_t top_k;
    float top_p, min_p, repeat_penalty;
    uint64_t seed;
    int ignore_eos;
    const uint32_t *stop_ids;
    uint32_t stop_ids_count;
    const char *stop_texts[AGX_STOP_TEXTS_MAX];
    uint32_t stop_texts_count;
};

struct agx_flow {
    enum agx_result result;     /* AGX_OK, AGX_ERROR_ARGUMENT or AGX_ERROR_SPACE */
    uint32_t nodes_count, operands_count, texts_count, outputs_count;
    uint32_t outputs[AGX_FLOW_NODES_MAX];
    uint8_t kinds[AGX_FLOW_NODES_MAX];      /* enum agx_node */
    /* private: only tools/sdk/flow.c */
    uint8_t *memory;
    uint32_t bytes, texts_bytes, nodes_bytes;       /* the texts, then the nodes */
};

/* `memory` must stay valid as long as `flow` is used. */
void agx_flow_init(struct agx_flow *flow, void *memory, size_t bytes);
/* Each adds a node and returns its number, or AGX_FLOW_NONE after an error. Operands are earlier
 * nodes. Inputs are the columns of a row, in their order; `est_tokens` 0: 64. */
uint32_t agx_flow_input(struct agx_flow *flow, uint32_t est_tokens);
uint32_t agx_flow_text(struct agx_flow *flow, const struct agx_piece *pieces, uint32_t count);
uint32_t agx_flow_llm(struct agx_flow *flow, const struct agx_piece *pieces, uint32_t count,
                      const struct agx_operator *how);
/* The client answers what it composes. Lambdas of one name are the same function. */
uint32_t agx_flow_lambda(struct agx_flow *flow, const char *name, const struct agx_piece *pieces,
                         uint32_t count, const struct agx_operator *how);
void agx_flow_output(struct agx_flow *flow, uint32_t node);

struct agx_flow_head { uint64_t flow_id; uint8_t program_id[AGX_ID_BYTES]; uint32_t flags; };
/* The frame FLOW_OPEN, header and all. Returns its bytes, or 0: there are more than `max`. */
size_t agx_flow_write(const struct agx_flow *flow, const struct agx_flow_head *head,
                      uint8_t *frame, size_t max);

#ifdef __cplusplus
}
#endif
