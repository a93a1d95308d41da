/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: workflows: the builder, operator by operator, and runs over rows. Part of libagx.a;
 * docs/workflows.md says what a workflow is.
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

/* ---- runs ------------------------------------------------------------------------------------ */

#define AGX_FLOW_ROWS_MAX 64            /* open at once */

struct agx_text { const char *bytes; size_t count; };       /* UTF-8 */

enum agx_flow_event_kind {
    AGX_FLOW_OPENED,            /* `given` .. `rows`, `is_resumed` */
    AGX_FLOW_VALUE,             /* part of a value: `row`, `output`, `tokens`, `text`, `is_last` */
    AGX_FLOW_ASK,               /* part of a lambda's argument: `row`, `node`, `text`, `is_last`;
                                   after the last one agx_flow_answer() is due */
    AGX_FLOW_ROW_DONE,          /* `row`, `code`, `calls` .. `fetched` */
    AGX_FLOW_DONE,              /* the same of the whole; the run is not open any more */
};
struct agx_flow_event {         /* pointers are valid until the next agx_next() */
    enum agx_flow_event_kind kind;
    struct agx_flow_run *run;
    uint32_t given, pruned, merged, left;   /* LLM nodes and lambdas: sent, not needed, equal to an
                                               earlier one, executed */
    uint32_t rows;              /* OPENED: that may be open at once; DONE: that were */
    int is_resumed;             /* the workflow was open before: it goes on */
    uint32_t row, node;
    uint32_t output;            /* index among the outputs */
    const uint32_t *tokens;     /* [tokens_count], from index `first_index` of the value on */
    uint32_t tokens_count, first_index;
    struct agx_text text;
    int is_last;
    uint16_t code;              /* 0: complete; else why not (docs/protocol.md, table of errors) */
    uint64_t calls, shared, fetched;        /* executed; taken from an equal one; known before */
};

struct agx_flow_run {           /* zero, but for these; must stay in its place until FLOW_DONE */
    const struct agx_flow *flow;
    uint64_t flow_id;           /* unique among the workflows of the client's trust domain */
    uint8_t program_id[AGX_ID_BYTES];
    int keep;                   /* it outlives a break, for as long as the appliance allows */
    int want_text;              /* values have text, too */
    /* private */
    int state;
    uint32_t asked_bytes;       /* of the argument that is coming */
    uint32_t rows_done;
    uint64_t digest;            /* sum over them */
    struct agx_flow_row {
        uint32_t number, output, tokens;
        uint64_t digest;
        int is_open;
    } rows[AGX_FLOW_ROWS_MAX];
    struct agx_flow_event event;
    struct agx_flow_run *next;
};

/* Requests, as those of agx.h. A refusal is an AGX_REFUSED event whose call_id is the flow id, and
 * agx_fault() names the frame. The number of a row that is refused as busy is in `found`: send it
 * again when another row is done. After a break workflows are no longer open here: when
 * agx_resume() has succeeded, open them again, with the same bytes; with `keep` they go on.
 *
 * Columns are those of the inputs, in their order. AGX_ERROR_SPACE: as many rows are open as may
 * be, or the frame has no room in the buffer. */
enum agx_result agx_flow_open(struct agx *agx, struct agx_flow_run *run);
enum agx_result agx_flow_row(struct agx *agx, struct agx_flow_run *run, uint32_t row,
                             const struct agx_text *columns, uint32_t count);
struct agx_flow_answer { uint32_t row, node; struct agx_text text; int failed; };
enum agx_result agx_flow_answer(struct agx *agx, struct agx_flow_run *run,
                                const struct agx_flow_answer *answer);
/* No more rows: AGX_FLOW_DONE follows when all are done; with `cancel` open rows end at once. */
enum agx_result agx_flow_end(struct agx *agx, struct agx_flow_run *run, int cancel);

/* The frame FLOW_OPEN of a run, header and all. Returns its bytes, or 0: it has more than `max`. */
size_t agx_flow_write(const struct agx_flow_run *run, uint8_t *frame, size_t max);

#ifdef __cplusplus
}
#endif
