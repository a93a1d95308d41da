/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: workflows as their clients know them: what was drawn and sent, and what has come back. Part
 * of sim.h.
 *
 *   flow/draw.c      graphs, rows and their frames    flow/clients.c   who sends what, and when
 *   flow/twin.c      what every value must be         flow/oracle.c    what comes back
 *                                                     flow/frames.c    its frames, and refusals
 *
 * All workflows of a run have one program id, and greedy nodes one seed: the tokens of the fake
 * engine depend on the program (its KV is salted) and on the seed, and the prompt cache, which is
 * a trust domain's, knows neither. For the same reason workflow clients have trust domains without
 * hostile clients where there is a cache: a hostile client's workflow may have any program and
 * seed.
 */
#include "net/wire.h"

struct sim;

#define SIM_FLOWS_MAX        8
#define SIM_FLOW_NODES       8
#define SIM_FLOW_OPERANDS    4
#define SIM_FLOW_TEXTS       6
#define SIM_FLOW_TEXT_BYTES  8
#define SIM_FLOW_OUTPUTS     4
#define SIM_FLOW_ROWS        8
#define SIM_FLOW_FRAME_BYTES 1024
#define SIM_JOINED_BYTES     1024       /* of neighbouring texts */
#define SIM_VALUE_TOKENS     4096       /* of the longest composition */
#define SIM_VALUE_TEXT_BYTES 16384      /* its text, replacements included */

struct sim_flow_text { uint32_t count; char bytes[SIM_FLOW_TEXT_BYTES]; };

struct sim_flow_node {
    struct wire_flow_node wire;
    uint32_t operands[SIM_FLOW_OPERANDS];
    const char *stop;               /* NULL: none */
};

/* What a client draws, and FLOW_OPEN says. */
struct sim_graph {
    uint32_t flags;
    uint32_t nodes_count, inputs_count, outputs_count, texts_count;
    struct sim_flow_node nodes[SIM_FLOW_NODES];
    uint32_t outputs[SIM_FLOW_OUTPUTS];
    struct sim_flow_text texts[SIM_FLOW_TEXTS];
};

enum sim_row_state {
    SIM_ROW_FREE,
    SIM_ROW_SENT,                   /* it has no answer yet */
    SIM_ROW_DUE,                    /* it will be sent again over the next connection */
    SIM_ROW_DONE,
};

/* What has come back of one node's value, or of a question. */
struct sim_flow_said { uint32_t received, text_bytes; bool is_whole; };

struct sim_flow_row {
    enum sim_row_state state;
    uint32_t number, copies;        /* SENT: so often, without an answer */
    struct sim_flow_text columns[SIM_FLOW_NODES];
    struct sim_flow_said outputs[SIM_FLOW_OUTPUTS];
    struct sim_flow_said asks[SIM_FLOW_NODES];      /* is_whole: it can be answered */
    bool is_answered[SIM_FLOW_NODES];
};

struct sim_flow {
    bool in_use;
    uint32_t client;
    uint64_t flow_id;
    struct sim_graph graph;
    uint8_t frame[SIM_FLOW_FRAME_BYTES];            /* FLOW_OPEN: sent again byte for byte */
    uint32_t frame_bytes;
    bool is_asked;                  /* FLOW_OPEN was sent over this connection */
    bool is_open;                   /* FLOW_OK has come over this connection */
    bool is_over;                   /* FLOW_DONE has come; rows that came too late are refused */
    bool was_open;                  /* before a break */
    bool is_closed, is_cancelled;   /* by the client, over this connection */
    bool may_be_closed;             /* over an earlier one */
    uint64_t since_us;              /* when it was opened first */
    uint64_t retry_us;              /* until then it is not opened again */
    struct sim_flow_row rows[SIM_FLOW_ROWS];
    uint32_t rows_number, rows_done;
    uint32_t bad_rows;              /* that were sent, and must be refused */
    uint32_t refused;               /* ROWs: the ERRORs do not say which */
    uint64_t digest, calls, shared, fetched;        /* sums of ROW_DONE */
    uint32_t spoilt;                /* times that the engine spoilt a call of it ... */
    uint64_t excuses;               /* ... and how: a bit for each enum status */
    uint32_t deaths_alone;          /* of workers in steps that a call of it was alone in */
};

/* What a node's value must be for a row. */
struct sim_flow_value {
    enum status status;             /* or why it has none */
    uint32_t count, tokens[SIM_VALUE_TOKENS];
};

/* ---- flow/draw.c ----------------------------------------------------------------------------- */

void sim_flow_program_id(uint8_t *id);
void sim_graph_draw(struct sim *sim, struct sim_graph *graph);
/* FLOW_OPEN; the number of its bytes. */
uint32_t sim_graph_frame(const struct sim_graph *graph, uint64_t flow_id, const uint8_t *program_id,
                         uint8_t *bytes, uint32_t max);
void sim_row_draw(struct sim *sim, struct sim_flow *flow, struct sim_flow_row *row);
/* ROW, with so many columns. */
uint32_t sim_row_frame(const struct sim_flow *flow, const struct sim_flow_row *row,
                       uint32_t columns_count, uint8_t *bytes, uint32_t max);

/* ---- flow/twin.c ----------------------------------------------------------------------------- */

/* The value of a node, of any kind. */
const struct sim_flow_value *sim_flow_value(struct sim *sim, const struct sim_flow *flow,
                                            const struct sim_flow_row *row, uint32_t node);
/* What a lambda is asked, as text. Returns its bytes. */
uint32_t sim_flow_argument(struct sim *sim, const struct sim_flow *flow,
                           const struct sim_flow_row *row, uint32_t node, char *text);
/* The function of all lambdas. False: it fails. */
bool sim_flow_lambda(const char *text, uint32_t bytes, uint32_t max, struct sim_flow_text *answer);

/* ---- flow/oracle.c, flow/frames.c ------------------------------------------------------------ */

struct sim_flow *sim_flow_find(struct sim *sim, uint32_t client, uint64_t flow_id);
/* The row with this number that is in this state, or NULL. */
struct sim_flow_row *sim_flow_row_find(struct sim_flow *flow, uint32_t number,
                                       enum sim_row_state state);
/* Each checks the frame, which is for this client, and notes what it says. */
void sim_flow_take_ok(struct sim *sim, uint32_t client, const struct wire_flow_ok *frame);
void sim_flow_take_value(struct sim *sim, uint32_t client, const struct wire_flow_value *frame);
void sim_flow_take_ask(struct sim *sim, uint32_t client, const struct wire_flow_ask *frame);
void sim_flow_take_row_done(struct sim *sim, uint32_t client,
                            const struct wire_flow_row_done *frame);
void sim_flow_take_flow_done(struct sim *sim, uint32_t client, const struct wire_flow_done *frame);
/* A call of it, or a question, may have met its deadline: a row can share what began before it, so
 * its workflow must have been open for long enough. */
bool sim_flow_is_late(const struct sim *sim, const struct sim_flow *flow);
/* ROWs that were sent and have neither ROW_DONE nor an ERROR that names them. */
uint32_t sim_flow_rows_due(const struct sim_flow *flow);
/* A workflow that is over is gone once each of its rows has an answer. */
void sim_flow_end_if_told(struct sim_flow *flow);
/* Any of these frames, or an ERROR. False: the connection is to be given up. */
bool sim_flow_take(struct sim *sim, uint32_t client, const struct wire_header *header,
                   const uint8_t *payload);
/* A worker has died in a step that a call of this workflow was alone in. */
void sim_flow_note_death(struct sim *sim, uint64_t flow_id);
/* The engine has spoilt a row of this workflow. */
void sim_flow_excuse(struct sim *sim, uint64_t flow_id, enum status status);

/* ---- flow/clients.c -------------------------------------------------------------------------- */

/* Sends and reads. False when the connection has ended. */
bool sim_flow_exchange(struct sim *sim, uint32_t client);
void sim_flow_act(struct sim *sim, uint32_t client);
/* In the calm phase: nothing new; what is open comes to its end. */
void sim_flow_finish(struct sim *sim, uint32_t client);
/* The connection is gone. True when a workflow goes on over the next one. */
bool sim_flow_part(struct sim *sim, uint32_t client);
/* Number of workflows that the client has open, or will open again. */
uint32_t sim_flows_open(const struct sim *sim, uint32_t client);
