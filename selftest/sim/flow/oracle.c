/* SPDX-License-Identifier: MIT */
/*
 * What: what the clients of workflows must receive: one FLOW_OK for each FLOW_OPEN that is not
 * refused, one ROW_DONE for each ROW, one FLOW_DONE for each FLOW_OK, and in between the values
 * that flow/twin.c says, in order, with the digests of their tokens. A row that fails needs a
 * reason.
 */
#include <string.h>

#include "selftest/sim/sim.h"

#define REQUIRE(condition, ...) SIM_REQUIRE(sim, condition, INVARIANT_WORKFLOW, __VA_ARGS__)

struct sim_flow *sim_flow_find(struct sim *sim, uint32_t client, uint64_t flow_id)
{
    for (uint32_t i = 0; i < SIM_FLOWS_MAX; i++) {
        struct sim_flow *flow = &sim->flows[i];
        if (flow->in_use && flow->client == client && flow->flow_id == flow_id) {
            return flow;
        }
    }
    return NULL;
}

void sim_flow_excuse(struct sim *sim, uint64_t flow_id, enum status status)
{
    for (uint32_t i = 0; i < SIM_FLOWS_MAX; i++) {
        if (sim->flows[i].in_use && sim->flows[i].flow_id == flow_id) {
            sim->flows[i].excuses |= UINT64_C(1) << status;
            sim->flows[i].spoilt++;
        }
    }
}

void sim_flow_note_death(struct sim *sim, uint64_t flow_id)
{
    for (uint32_t i = 0; i < SIM_FLOWS_MAX; i++) {
        if (sim->flows[i].in_use && sim->flows[i].flow_id == flow_id) {
            sim->flows[i].deaths_alone++;
        }
    }
}

static struct sim_flow *open_flow(struct sim *sim, uint32_t client, uint64_t flow_id)
{
    struct sim_flow *flow = sim_flow_find(sim, client, flow_id);
    REQUIRE(flow != NULL && flow->is_open && !flow->is_over,
            "client %u: a frame for workflow %llx, which is not open", client,
            (unsigned long long)flow_id);
    return flow;
}

struct sim_flow_row *sim_flow_row_find(struct sim_flow *flow, uint32_t number,
                                       enum sim_row_state state)
{
    for (uint32_t i = 0; i < SIM_FLOW_ROWS; i++) {
        if (flow->rows[i].state == state && flow->rows[i].number == number) {
            return &flow->rows[i];
        }
    }
    return NULL;
}

static struct sim_flow_row *open_row(struct sim *sim, struct sim_flow *flow, uint32_t number)
{
    struct sim_flow_row *row = sim_flow_row_find(flow, number, SIM_ROW_SENT);
    REQUIRE(row != NULL, "workflow %llx: a frame for row %u, which waits for none",
            (unsigned long long)flow->flow_id, number);
    return row;
}

uint32_t sim_flow_rows_due(const struct sim_flow *flow)
{
    uint32_t count = flow->bad_rows;
    for (uint32_t i = 0; i < SIM_FLOW_ROWS; i++) {
        count += flow->rows[i].state == SIM_ROW_SENT ? flow->rows[i].copies : 0;
    }
    return count;
}

void sim_flow_end_if_told(struct sim_flow *flow)
{
    flow->in_use = !flow->is_over || sim_flow_rows_due(flow) > flow->refused;
}

/* ---- FLOW_OK --------------------------------------------------------------------------------- */

/* How many of these are executed: LLM nodes and lambdas. */
static uint32_t count_ops(const struct sim_graph *graph, uint32_t nodes)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        count += (nodes >> i & 1) != 0 && (graph->nodes[i].wire.kind == WIRE_NODE_LLM ||
                                           graph->nodes[i].wire.kind == WIRE_NODE_LAMBDA);
    }
    return count;
}

/* These nodes and all that they read, as bits. */
static uint32_t with_operands(const struct sim_graph *graph, uint32_t nodes)
{
    for (uint32_t i = graph->nodes_count; i-- > 0;) {
        const struct sim_flow_node *node = &graph->nodes[i];
        for (uint32_t o = 0; (nodes >> i & 1) != 0 && o < node->wire.operands_count; o++) {
            bool is_text = (node->operands[o] & WIRE_IS_TEXT) != 0;
            nodes |= is_text ? 0 : 1u << node->operands[o];
        }
    }
    return nodes;
}

static uint32_t needed(const struct sim_graph *graph)
{
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < graph->outputs_count; i++) {
        nodes |= 1u << graph->outputs[i];
    }
    return with_operands(graph, nodes);
}

void sim_flow_take_ok(struct sim *sim, uint32_t client, const struct wire_flow_ok *frame)
{
    struct sim_flow *flow = sim_flow_find(sim, client, frame->flow_id);
    bool is_resumed = (frame->flags & WIRE_FLOW_OK_RESUMED) != 0;
    REQUIRE(flow != NULL && flow->is_asked && !flow->is_open && !flow->is_over,
            "client %u: FLOW_OK for workflow %llx, which is not being opened", client,
            (unsigned long long)frame->flow_id);
    const struct sim_graph *graph = &flow->graph;
    uint32_t given = count_ops(graph, UINT32_MAX);
    REQUIRE(sim->swarm.has_words, "a workflow without a vocabulary");
    bool is_unordered = frame->given == 0 && frame->left == 0 &&
                        (flow->is_cancelled || sim_has_failed(sim) || sim->orders.drain);
    uint32_t pruned = given - count_ops(graph, needed(graph));
    REQUIRE(is_unordered || (frame->given == given && frame->pruned == pruned &&
                             given == pruned + frame->merged + frame->left),
            "FLOW_OK: %u given, %u pruned, %u merged, %u left; %u were given", frame->given,
            frame->pruned, frame->merged, frame->left, given);
    REQUIRE(frame->rows == sim->limits.workflow.rows, "FLOW_OK: %u rows", frame->rows);
    REQUIRE(!is_resumed || (flow->was_open && (graph->flags & WIRE_FLOW_OPEN_KEEP) != 0),
            "workflow %llx is resumed, and was not open", (unsigned long long)flow->flow_id);
    flow->is_open = true;
    flow->may_be_closed = flow->may_be_closed && is_resumed;
    sim_say(sim, "client %u: workflow %llx is open%s", client, (unsigned long long)flow->flow_id,
            is_resumed ? " again" : "");
}

/* ---- VALUE, ASK ------------------------------------------------------------------------------ */

/* The bytes are those of the text from so many on. */
static void check_text(struct sim *sim, const struct sim_flow_value *value,
                       struct sim_flow_said *said, const struct wire_flow_value *frame)
{
    static char text[SIM_VALUE_TEXT_BYTES];
    uint32_t bytes = sim_words_spell(value->tokens, value->count, text);
    bool fits = said->text_bytes <= bytes && frame->text_bytes <= bytes - said->text_bytes;
    REQUIRE(fits && memcmp(text + said->text_bytes, frame->text, frame->text_bytes) == 0,
            "row %u, output %u: '%.*s' at byte %u of '%.*s'", frame->row, frame->output,
            (int)frame->text_bytes, (const char *)frame->text, said->text_bytes, (int)bytes, text);
    said->text_bytes += frame->text_bytes;
    REQUIRE((frame->flags & WIRE_VALUE_LAST) == 0 || said->text_bytes == bytes,
            "row %u, output %u: %u bytes of the %u of '%.*s'", frame->row, frame->output,
            said->text_bytes, bytes, (int)bytes, text);
}

static void check_tokens(struct sim *sim, const struct sim_flow_value *value,
                         struct sim_flow_said *said, const struct wire_flow_value *frame)
{
    struct bytes in = bytes_reader(frame->tokens, frame->tokens_count * (uint32_t)sizeof(uint32_t));
    for (uint32_t i = 0; i < frame->tokens_count; i++) {
        uint32_t token = 0, index = said->received++;
        bytes_u32(&in, &token);
        REQUIRE(index < value->count && token == value->tokens[index],
                "row %u, output %u: token %u is %u; there are %u", frame->row, frame->output, index,
                token, value->count);
    }
}

/* Without STREAM the outputs come in their order. */
static void check_order(struct sim *sim, const struct sim_flow *flow,
                        const struct sim_flow_row *row, uint32_t output)
{
    bool streams = (flow->graph.flags & WIRE_FLOW_OPEN_STREAM) != 0;
    for (uint32_t i = 0; i < flow->graph.outputs_count && !streams; i++) {
        REQUIRE(i <= output || (row->outputs[i].received == 0 && !row->outputs[i].is_whole),
                "row %u: output %u after output %u", row->number, output, i);
    }
}

void sim_flow_take_value(struct sim *sim, uint32_t client, const struct wire_flow_value *frame)
{
    struct sim_flow *flow = open_flow(sim, client, frame->flow_id);
    struct sim_flow_row *row = open_row(sim, flow, frame->row);
    REQUIRE(frame->output < flow->graph.outputs_count, "output %u", frame->output);
    struct sim_flow_said *said = &row->outputs[frame->output];
    const struct sim_flow_value *value =
        sim_flow_value(sim, flow, row, flow->graph.outputs[frame->output]);
    REQUIRE(value->status == STATUS_OK, "row %u: output %u has a value, and cannot", frame->row,
            frame->output);
    REQUIRE(!said->is_whole && frame->first_index == said->received,
            "row %u, output %u: tokens from %u on, after %u%s", frame->row, frame->output,
            frame->first_index, said->received, said->is_whole ? ", which were all" : "");
    check_order(sim, flow, row, frame->output);
    check_tokens(sim, value, said, frame);
    if ((flow->graph.flags & WIRE_FLOW_OPEN_WANT_TEXT) != 0) {
        check_text(sim, value, said, frame);
    } else {
        REQUIRE(frame->text_bytes == 0, "text that was not asked for");
    }
    said->is_whole = (frame->flags & WIRE_VALUE_LAST) != 0;
    REQUIRE(!said->is_whole || said->received == value->count, "row %u, output %u: %u tokens of %u",
            frame->row, frame->output, said->received, value->count);
}

void sim_flow_take_ask(struct sim *sim, uint32_t client, const struct wire_flow_ask *frame)
{
    static char text[SIM_VALUE_TEXT_BYTES];
    struct sim_flow *flow = open_flow(sim, client, frame->flow_id);
    struct sim_flow_row *row = sim_flow_row_find(flow, frame->row, SIM_ROW_DUE);
    row = row != NULL ? row : open_row(sim, flow, frame->row);
    REQUIRE(frame->node < flow->graph.nodes_count &&
                flow->graph.nodes[frame->node].wire.kind == WIRE_NODE_LAMBDA,
            "node %u is asked, and is no lambda", frame->node);
    struct sim_flow_said *said = &row->asks[frame->node];
    if (said->is_whole && sim->is_garbled) {    /* the answer may be lost */
        *said = (struct sim_flow_said){0};
        row->is_answered[frame->node] = false;
    }
    uint32_t bytes = sim_flow_argument(sim, flow, row, frame->node, text);
    REQUIRE(bytes != UINT32_MAX, "row %u: lambda %u is asked, and cannot be", frame->row,
            frame->node);
    REQUIRE(!said->is_whole && frame->first_byte == said->received &&
                frame->text_bytes <= bytes - said->received &&
                memcmp(text + said->received, frame->text, frame->text_bytes) == 0,
            "row %u, lambda %u: '%.*s' at byte %u of '%.*s'", frame->row, frame->node,
            (int)frame->text_bytes, (const char *)frame->text, frame->first_byte, (int)bytes, text);
    said->received += frame->text_bytes;
    said->is_whole = (frame->flags & WIRE_ASK_LAST) != 0;
    REQUIRE(!said->is_whole || said->received == bytes, "row %u, lambda %u: %u bytes of %u",
            frame->row, frame->node, said->received, bytes);
}

/* ---- ROW_DONE, FLOW_DONE --------------------------------------------------------------------- */

static bool has_lambda(const struct sim_graph *graph)
{
    bool any = false;
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        any = any || graph->nodes[i].wire.kind == WIRE_NODE_LAMBDA;
    }
    return any;
}

bool sim_flow_is_late(const struct sim *sim, const struct sim_flow *flow)
{
    const struct options *options = &sim->options;
    uint64_t waited_us = sim->loop.now_us - flow->since_us;
    uint64_t lambda_us = has_lambda(&flow->graph) ? options->workflow_lambda.number : 0;
    uint64_t call_us = options->limits_call_deadline.number;
    return (lambda_us > 0 && waited_us >= lambda_us) || (call_us > 0 && waited_us >= call_us);
}

/* True when something that is no fault of the workflow can have ended it, or a row, so. */
static bool may_end(const struct sim *sim, const struct sim_flow *flow, enum status status)
{
    return (status == STATUS_GONE_CANCELLED && flow->is_cancelled) ||
           (status == STATUS_GONE_SHUTDOWN && sim->orders.drain) ||
           (status == STATUS_DEVICE_FAILED && sim_has_failed(sim));
}

/* A row can share what began before it: its workflow must have been open for long enough. */
static bool may_fail(const struct sim *sim, const struct sim_flow *flow, enum status status)
{
    return may_end(sim, flow, status) ||
           (status == STATUS_GONE_DEADLINE && sim_flow_is_late(sim, flow)) ||
           (status == STATUS_DEVICE_POISON && flow->deaths_alone >= CALL_DEATHS_MAX) ||
           (flow->spoilt >= CALL_FAULTS_MAX && (flow->excuses >> status & 1) != 0);
}

/* Why this output can have no value, as bits: that of anything that it reads. */
static uint64_t reasons(struct sim *sim, const struct sim_flow *flow,
                        const struct sim_flow_row *row, uint32_t output)
{
    uint32_t nodes = with_operands(&flow->graph, 1u << flow->graph.outputs[output]);
    uint64_t statuses = 0;
    for (uint32_t i = 0; i < flow->graph.nodes_count; i++) {
        if ((nodes >> i & 1) != 0) {
            statuses |= UINT64_C(1) << sim_flow_value(sim, flow, row, i)->status;
        }
    }
    return statuses & ~(UINT64_C(1) << STATUS_OK);
}

static const struct sim_flow_value *output_value(struct sim *sim, const struct sim_flow *flow,
                                                 const struct sim_flow_row *row, uint32_t output)
{
    return sim_flow_value(sim, flow, row, flow->graph.outputs[output]);
}

static void check_row(struct sim *sim, const struct sim_flow *flow, const struct sim_flow_row *row,
                      const struct wire_flow_row_done *frame)
{
    uint64_t digest = WIRE_DIGEST_START;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < flow->graph.outputs_count; i++) {
        const struct sim_flow_value *value = output_value(sim, flow, row, i);
        bool is_whole = row->outputs[i].is_whole;
        REQUIRE(is_whole || row->outputs[i].received == 0, "row %u: half of output %u", row->number,
                i);
        if (is_whole) {
            digest = wire_digest(digest, value->tokens, value->count);
        } else if (status == STATUS_OK) {
            status = frame->status;
            REQUIRE(status != STATUS_OK, "row %u is done, and output %u is missing", row->number,
                    i);
            REQUIRE((reasons(sim, flow, row, i) >> status & 1) != 0 ||
                        may_fail(sim, flow, status),
                    "row %u, output %u: failed without a reason: %s", row->number, i,
                    status_text(status));
        }
    }
    REQUIRE(frame->status == status || may_end(sim, flow, frame->status),
            "row %u has all its outputs, and failed: %s", row->number,
            status_text(frame->status));
    REQUIRE(frame->digest == digest, "row %u: its digest is not that of its tokens", row->number);
}

void sim_flow_take_row_done(struct sim *sim, uint32_t client,
                            const struct wire_flow_row_done *frame)
{
    struct sim_flow *flow = open_flow(sim, client, frame->flow_id);
    struct sim_flow_row *row = open_row(sim, flow, frame->row);
    check_row(sim, flow, row, frame);
    uint32_t ops = count_ops(&flow->graph, needed(&flow->graph));
    REQUIRE(frame->calls + frame->shared + frame->fetched <= ops,
            "row %u: %u calls, %u shared, %u fetched, of %u", row->number, frame->calls,
            frame->shared, frame->fetched, ops);
    memset(row->outputs, 0, sizeof row->outputs);
    memset(row->asks, 0, sizeof row->asks);
    memset(row->is_answered, 0, sizeof row->is_answered);
    row->state = --row->copies > 0 ? SIM_ROW_SENT : SIM_ROW_DONE;
    flow->rows_done++;
    flow->calls += frame->calls;
    flow->shared += frame->shared;
    flow->fetched += frame->fetched;
    flow->digest += wire_row_digest(row->number, frame->digest);
    sim_say(sim, "client %u: row %u of workflow %llx is done: %s, %u calls, %u shared, %u fetched",
            client, row->number, (unsigned long long)flow->flow_id, status_text(frame->status),
            frame->calls, frame->shared, frame->fetched);
}

void sim_flow_take_flow_done(struct sim *sim, uint32_t client, const struct wire_flow_done *frame)
{
    struct sim_flow *flow = open_flow(sim, client, frame->flow_id);
    bool is_closed = flow->is_closed || flow->may_be_closed;
    REQUIRE((frame->status == STATUS_OK && is_closed) || may_end(sim, flow, frame->status),
            "workflow %llx ended by itself: %s", (unsigned long long)flow->flow_id,
            status_text(frame->status));
    REQUIRE(frame->rows == flow->rows_done && frame->calls == flow->calls &&
                frame->shared == flow->shared && frame->fetched == flow->fetched &&
                frame->digest == flow->digest,
            "workflow %llx: FLOW_DONE counts %u rows, %llu calls, %llu shared, %llu fetched; its "
            "client %u, %llu, %llu, %llu, and the digest is %s", (unsigned long long)flow->flow_id,
            frame->rows, (unsigned long long)frame->calls, (unsigned long long)frame->shared,
            (unsigned long long)frame->fetched, flow->rows_done, (unsigned long long)flow->calls,
            (unsigned long long)flow->shared, (unsigned long long)flow->fetched,
            frame->digest == flow->digest ? "equal" : "another");
    flow->is_over = true;
    sim_say(sim, "client %u: workflow %llx is done: %s", client,
            (unsigned long long)flow->flow_id, status_text(frame->status));
    sim_flow_end_if_told(flow);
}
