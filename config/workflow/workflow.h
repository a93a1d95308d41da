/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the record of one workflow, from the FLOW_OPEN frame to FLOW_DONE, and the pool of them. A
 * workflow is a graph of operators that a client submits once; then it sends rows of inputs, and
 * for each row every operator that an output needs is executed once (paper 002, Helium).
 *
 *   FREE --net--> INTAKE --> ORDERING --> OPEN --closed, and no row is open--> DONE --net--> FREE
 *                               |          |                                   ^
 *                               +----------+--> CANCELLING --no call is open---+
 *
 *   node      an operator; every operand is an earlier node, so there are no cycles
 *   piece     part of what a node composes: a literal text, as tokens, or the value of a node
 *   row       one set of inputs; a column is an input node
 *   instance  a node for a row; it becomes a call, a question to the client, or a copy
 *   value     the tokens that an instance gave: without the one that ended its call, and without
 *             those that hold part of a stop text
 *
 * Owner: net in INTAKE and once DONE; sched in between. A row likewise: net's while FREE and GIVEN,
 * then sched's, and net's again once it is DONE. `emit` is always net's. `order` and what a node
 * holds below its banner are sched's.
 *
 * Invariants: TEXT nodes are inlined: no piece names one. Two literals of a node are never
 * neighbours. Everything is counted at boot: struct workflow_limits.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/call.h"
#include "config/base/heap.h"
#include "config/workflow/set.h"
#include "config/workflow/emit.h"
#include "config/workflow/limits.h"

#define WORKFLOW_NONE         UINT32_MAX
#define WORKFLOW_LLMS_MAX     128       /* of them, after pruning and merging */
#define WORKFLOW_ROWS_MAX     64        /* that are open at once: bits of a word */
#define WORKFLOW_OUTPUTS_MAX  WORKFLOW_NODES_MAX
#define WORKFLOW_NAME_BYTES   32        /* of a lambda, zero-terminated when it is shorter */

enum workflow_kind { WORKFLOW_INPUT, WORKFLOW_TEXT, WORKFLOW_LLM, WORKFLOW_LAMBDA };
enum workflow_state {
    WORKFLOW_FREE, WORKFLOW_INTAKE, WORKFLOW_ORDERING, WORKFLOW_OPEN,
    WORKFLOW_CANCELLING, WORKFLOW_DONE,
};
/* Values of workflow.order, and of `agx flow --order`. */
enum workflow_order_kind {
    WORKFLOW_ORDER_AUTO, WORKFLOW_ORDER_HELIUM, WORKFLOW_ORDER_LSPF, WORKFLOW_ORDER_ARRIVAL,
    WORKFLOW_ORDER_OPWISE, WORKFLOW_ORDER_QUERYWISE, WORKFLOW_ORDER_RANDOM,
};

struct workflow_span { uint32_t first, count; };

struct workflow_piece {
    uint32_t node;                  /* whose value it is; WORKFLOW_NONE: a literal */
    struct workflow_span tokens;    /* of a literal, in workflow.tokens */
};

/* How an LLM node is called. Compared byte by byte when nodes are merged: unused bytes are 0. */
struct workflow_call {
    struct call_sampling sampling;  /* stop_ids: those that the client names */
    bool ignore_eos;
    uint32_t stop_texts_count;
    struct call_stop_text stop_texts[CALL_STOP_TEXTS_MAX];
};

struct workflow_node {
    enum workflow_kind kind;
    bool is_output;
    uint32_t pieces_first, pieces_count;    /* INPUT: none */
    uint32_t max_tokens;            /* LLM, LAMBDA: of a value; INPUT: 0 */
    uint32_t est_tokens;            /* of a value, as the client foresees it: 1 .. */
    char name[WORKFLOW_NAME_BYTES]; /* LAMBDA */
    struct workflow_call call;      /* LLM */
    /* Set by sched (sched/workflow/optimise.c). */
    uint32_t same_as;               /* the first node that is equal; itself: none is */
    bool is_needed;                 /* for an output */
    struct workflow_set columns;    /* inputs that it depends on */
    uint32_t value_offset;          /* of its value in the tokens of a row */
    struct workflow_span readers;   /* nodes that read its value, in workflow.readers */
    uint32_t operands;              /* distinct nodes that it reads, inputs excepted */
    uint32_t op;                    /* LLM: its place in order.ops */
};

/* What the optimiser says: sched/workflow/. An op is an LLM node that is needed and merged with no
 * earlier one; ops are numbered in the order of nodes. */
struct workflow_op {
    uint32_t node;
    uint32_t prompt_tokens, static_tokens, new_tokens;  /* est for values; before the first value;
                                                           not shared with the op before it */
    uint32_t sequence, place;       /* inner sequence, and place in it */
};
struct workflow_order {
    uint32_t ops_count;
    struct workflow_op ops[WORKFLOW_LLMS_MAX];  /* in the order in which they are scheduled */
    uint32_t sequences_count;
    struct workflow_sequence {
        uint32_t ops_count;
        bool by_row;                /* key (sequence, row, place), else (sequence, place, row) */
    } sequences[WORKFLOW_LLMS_MAX]; /* in the order in which they are complete */
    uint64_t steps;                 /* token steps of the schedule, by the cost model */
    uint32_t given, pruned, merged, left;   /* LLM and LAMBDA nodes */
};

enum workflow_row_state { WORKFLOW_ROW_FREE, WORKFLOW_ROW_GIVEN, WORKFLOW_ROW_OPEN,
                          WORKFLOW_ROW_DONE, WORKFLOW_ROW_SENT };
struct workflow_row {
    enum workflow_row_state state;
    uint32_t number;                /* the client's */
    uint32_t arrival;               /* rows that came before it */
    struct workflow_span values;    /* its part of workflow.values: columns, then values of nodes */
    uint32_t nodes_first;           /* where the values of nodes begin */
    struct workflow_span columns[WORKFLOW_INPUTS_MAX];  /* in workflow.values; */
    struct workflow_span heads[WORKFLOW_INPUTS_MAX];    /* as they are where they begin a prompt */
    uint64_t digests[WORKFLOW_INPUTS_MAX];  /* of the columns' tokens */
    uint64_t request;               /* digest of the frame */
    uint32_t unknown;               /* instances that are neither KNOWN nor FAILED */
    enum status status;             /* OK, or why the first output that has no value has none */
    uint32_t calls, shared, fetched;
    bool goes_on;                   /* GIVEN: a core that died had it, and may have ends of it */
    /* net's (net/workflow/). */
    uint64_t life;                  /* no other row of this place has had the same */
    bool is_awaited;                /* its client is there, and has no ROW_DONE of it yet */
    uint64_t asked[WORKFLOW_NODES_MAX / 64];    /* bits: ASK was sent, and no ANSWER has come */
    uint64_t outputs_sent[WORKFLOW_OUTPUTS_MAX / 64];   /* bits */
    uint64_t digest;                /* of the values sent, in the order in which they were */
    enum status failed_as;          /* how it had failed when the first of them was; else OK */
};

enum workflow_instance_state {
    WORKFLOW_WAITING,               /* `missing` operands have no value yet */
    WORKFLOW_READY, WORKFLOW_CALLED, WORKFLOW_ASKED,
    WORKFLOW_SHARED,                /* waits for an equal one */
    WORKFLOW_KNOWN, WORKFLOW_FAILED,
};
struct workflow_instance {
    uint8_t state;                  /* enum workflow_instance_state */
    bool is_probed;                 /* READY: the prompt cache did not know it */
    uint16_t status;                /* FAILED: enum status */
    uint32_t missing;
    uint32_t value_tokens;          /* KNOWN: at row.values.first + node.value_offset */
    uint32_t call;                  /* CALLED: slot */
    uint32_t owner;                 /* SHARED: the instance of this workflow that it equals, or
                                       WORKFLOW_NONE: one that the prompt cache knows */
    uint32_t cache_entry;           /* of the prompt cache, that it fills or waits for */
    uint32_t wait_next;             /* next that waits for the same entry */
    uint64_t since_us;              /* ASKED: since when */
};

struct workflow_kept_end {          /* how an instance has ended: sched/workflow/kept_end.h */
    uint32_t value_tokens;          /* of the value, which is in its place; */
    uint32_t status;                /* or enum status: why there is none */
    uint64_t check;                 /* digest of the row, of all above, and of the tokens */
};

struct workflow {
    enum workflow_state state;
    uint32_t generation;
    uint64_t flow_id, domain;
    uint32_t account;               /* whose place it is, while it is not FREE */
    uint32_t key, gid;              /* by which its client has come in; CALL_NONE: by none */
    uint32_t calls_max;             /* of all workflows of the key together; net says it anew in
                                       each pass */
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];
    bool keep, stream, want_text;
    bool is_closed;                 /* no more rows come: net's, for a client that resumes may
                                       send more */
    uint32_t connection;            /* slot, or CALL_NONE while the client is away */
    uint64_t request;               /* digest of FLOW_OPEN's payload, */
    uint32_t request_bytes;         /* so long */

    uint32_t nodes_count, pieces_count, tokens_count, readers_count, inputs_count, outputs_count;
    struct workflow_node *nodes;    /* [limits.nodes] */
    struct workflow_piece *pieces;  /* [limits.pieces] */
    uint32_t *tokens;               /* [limits.tokens] */
    uint32_t *readers;              /* [limits.pieces] */
    uint32_t inputs[WORKFLOW_INPUTS_MAX];       /* nodes, in their order */
    struct workflow_set leading, following;     /* workflow_input_leads(), _follows() */
    uint32_t outputs[WORKFLOW_OUTPUTS_MAX];     /* nodes, as the client named them */
    uint32_t row_value_tokens;      /* of a row besides its columns: values of all nodes left */

    struct workflow_row *rows;      /* [rows_max] */
    uint32_t rows_max;              /* limits.rows */
    uint32_t *values;               /* [limits.value_tokens] */
    struct workflow_instance *instances;        /* [limits.rows * limits.nodes]: row, then node */
    struct workflow_kept_end *kept_ends;        /* the same places */
    uint32_t rows_given;            /* since FLOW_OPEN, or since the core took it over */

    struct workflow_order order;
    /* sched's (sched/workflow/). */
    struct heap ready;              /* instances by their place in the order */
    uint32_t open_calls, asked, rows_open;
    uint32_t rows_begun;            /* of those given; the next one has this arrival */
    uint64_t turns;                 /* instances that have been ready: their order of arrival */
    uint64_t open_tokens;           /* of KV that its open calls need besides what they share */
    uint32_t open_op;               /* of the call that was released last */
    uint64_t asked_since_us;        /* of the oldest question, at most */
    bool may_ask, may_stream;       /* there may be a question, or a value, that was not sent: sched
                                       and net set it, net has looked through all of it */
    enum status status;             /* with DONE */
    uint64_t calls, shared, fetched;

    /* net's (net/workflow/). */
    struct workflow_emit emit;
};

struct workflow_table {
    struct workflow *workflows;     /* [limits.workflows] */
    struct workflow_limits limits;
    struct quota quota;             /* the slots, divided among accounts */
};

void workflow_table_plan_memory(struct memory_plan *plan, const struct workflow_limits *limits);
/* Columns, values and ends of instances lie in `kept`, for the core's successor. */
void workflow_table_init(struct workflow_table *table, const struct workflow_limits *limits,
                         struct arena *arena, struct arena *kept);
/* A slot in INTAKE, emptied, for a workflow of this domain; WORKFLOW_NONE: there is none, or it is
 * others'. O(1) but for the search of a free slot. */
uint32_t workflow_take(struct workflow_table *table, uint64_t domain);
/* The same, of this slot, which is FREE. */
bool workflow_take_slot(struct workflow_table *table, uint32_t index, uint64_t domain);
/* The slot must be INTAKE or DONE. Its generation grows. */
void workflow_release(struct workflow_table *table, uint32_t index);

/* Open calls of all workflows of this key; CALL_NONE: none are counted. */
uint32_t workflow_calls_of_key(const struct workflow_table *table, uint32_t key);

static inline struct workflow_instance *workflow_instance(const struct workflow *flow,
                                                          uint32_t row, uint32_t node)
{
    return &flow->instances[(uint64_t)row * flow->nodes_count + node];
}
/* Where the value of a LLM or LAMBDA node is, or will be; there is room for its max_tokens. */
static inline uint32_t *workflow_value(const struct workflow *flow, uint32_t row, uint32_t node)
{
    uint32_t same = flow->nodes[node].same_as;
    return flow->values + flow->rows[row].nodes_first + flow->nodes[same].value_offset;
}
/* The index of an INPUT node among the inputs. */
static inline uint32_t workflow_column(const struct workflow *flow, uint32_t node)
{
    uint32_t column = 0;
    while (flow->inputs[column] != node) {
        column++;
    }
    return column;
}
/* Tokens that lie together. */
struct workflow_run { const uint32_t *tokens; uint32_t count; };
/* The value of an INPUT, LLM or LAMBDA node for this row, which is known. */
struct workflow_run workflow_known(const struct workflow *flow, uint32_t row, uint32_t node);
/* What the node composes for this row: literals, columns and values, all of which are known
 * (splice.c). The number of tokens, or UINT32_MAX: more than `max`. Without BOS. */
uint32_t workflow_splice(const struct workflow *flow, uint32_t row, uint32_t node,
                         uint32_t *tokens, uint32_t max);

static inline bool workflow_is_op(const struct workflow *flow, uint32_t node)
{
    const struct workflow_node *of = &flow->nodes[node];
    return of->is_needed && of->same_as == node &&
           (of->kind == WORKFLOW_LLM || of->kind == WORKFLOW_LAMBDA);
}
