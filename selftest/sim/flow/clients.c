/* SPDX-License-Identifier: MIT */
/*
 * What: clients of workflows, without the SDK's session. They open small graphs, send rows (some
 * equal, some twice, some with too few columns, some after FLOW_CLOSE), answer questions late,
 * twice or never, and ones that were never asked, close, cancel, and go away. After a break they
 * open some of their workflows again, by the same bytes, and send the rows that have no ROW_DONE
 * again.
 */
#include <string.h>

#include "selftest/sim/sim.h"

enum flow_action { FLOW_ACT_ROW, FLOW_ACT_OPEN, FLOW_ACT_REST, FLOW_ACT_CLOSE, FLOW_ACT_CANCEL,
                   FLOW_ACT_BAD_ROW, FLOW_ACT_ODD_ANSWER, FLOW_ACT_ROWS, FLOW_ACT_ROW_AGAIN };

static struct sim_client *client_at(struct sim *sim, uint32_t client)
{
    return &sim->clients[client];
}

uint32_t sim_flows_open(const struct sim *sim, uint32_t client)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SIM_FLOWS_MAX; i++) {
        count += sim->flows[i].in_use && sim->flows[i].client == client;
    }
    return count;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* For people. */
static void say_graph(struct sim *sim, const struct sim_graph *graph)
{
    static const char *const kinds[] = {"input", "text", "llm", "lambda"};
    char operands[64] = "";
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        const struct sim_flow_node *node = &graph->nodes[i];
        uint32_t at = 0;
        for (uint32_t o = 0; o < node->wire.operands_count; o++) {
            bool is_text = (node->operands[o] & WIRE_IS_TEXT) != 0;
            const struct sim_flow_text *text = &graph->texts[node->operands[o] & ~WIRE_IS_TEXT];
            at += (uint32_t)(is_text ? sprintf(operands + at, " '%.*s'", (int)text->count,
                                               text->bytes)
                                     : sprintf(operands + at, " %u", node->operands[o]));
        }
        operands[at] = '\0';
        sim_say(sim, "    node %u: %s max=%u%s%s =%s", i, kinds[node->wire.kind],
                node->wire.max_tokens, node->stop != NULL ? " stop=" : "",
                node->stop != NULL ? node->stop : "", operands);
    }
    for (uint32_t i = 0; i < graph->outputs_count; i++) {
        sim_say(sim, "    output %u: node %u", i, graph->outputs[i]);
    }
}

/* A new one, or that of another workflow: each waits for calls of the other. */
static void draw_graph(struct sim *sim, struct sim_flow *flow)
{
    const struct sim_flow *other = &sim->flows[sim_choose(sim, SIM_FLOWS_MAX)];
    if (sim_choose(sim, 3) == 2 && other != flow && other->in_use) {
        flow->graph = other->graph;
    } else {
        sim_graph_draw(sim, &flow->graph);
    }
}

static void open_flow(struct sim *sim, uint32_t client)
{
    struct sim_flow *flow = NULL;
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];
    uint8_t *room = sim_raw_room(client);
    for (uint32_t i = 0; i < SIM_FLOWS_MAX && flow == NULL; i++) {
        flow = sim->flows[i].in_use ? NULL : &sim->flows[i];
    }
    if (flow == NULL || room == NULL) {
        return;
    }
    *flow = (struct sim_flow){
        .in_use = true, .client = client, .is_asked = true, .since_us = sim->loop.now_us,
        .flow_id = (uint64_t)client << 40 | ++client_at(sim, client)->calls_number};
    draw_graph(sim, flow);
    sim_flow_program_id(program_id);
    flow->frame_bytes = sim_graph_frame(&flow->graph, flow->flow_id, program_id, flow->frame,
                                        sizeof flow->frame);
    ASSERT(flow->frame_bytes > 0 && flow->frame_bytes <= sim->limits.frame_bytes);
    memcpy(room, flow->frame, flow->frame_bytes);
    sim_raw_made(client, flow->frame_bytes);
    sim_say(sim, "client %u: opens workflow %llx: %u nodes, %u inputs, %u outputs, flags %u",
            client, (unsigned long long)flow->flow_id, flow->graph.nodes_count,
            flow->graph.inputs_count, flow->graph.outputs_count, flow->graph.flags);
    say_graph(sim, &flow->graph);
}

static void put_row(struct sim *sim, struct sim_flow *flow, const struct sim_flow_row *row,
                    uint32_t columns_count)
{
    uint8_t *room = sim_raw_room(flow->client);
    ASSERT(room != NULL);
    sim_raw_made(flow->client, sim_row_frame(flow, row, columns_count, room, SIM_FLOW_FRAME_BYTES));
    sim_say(sim, "client %u: row %u of workflow %llx, %u columns '%.*s' '%.*s'", flow->client,
            row->number, (unsigned long long)flow->flow_id, columns_count,
            (int)row->columns[0].count, row->columns[0].bytes, (int)row->columns[1].count,
            row->columns[1].bytes);
}

static void send_row(struct sim *sim, struct sim_flow *flow)
{
    struct sim_flow_row *row = NULL;
    for (uint32_t i = 0; i < SIM_FLOW_ROWS && row == NULL; i++) {
        bool is_free = flow->rows[i].state == SIM_ROW_FREE || flow->rows[i].state == SIM_ROW_DONE;
        row = is_free ? &flow->rows[i] : NULL;
    }
    if (row != NULL && sim_raw_room(flow->client) != NULL) {
        sim_row_draw(sim, flow, row);
        row->copies = 1;
        put_row(sim, flow, row, flow->graph.inputs_count);
    }
}

/* A row that was sent before, open or not, by the same bytes. */
static void send_row_again(struct sim *sim, struct sim_flow *flow)
{
    struct sim_flow_row *row = &flow->rows[sim_choose(sim, SIM_FLOW_ROWS)];
    bool was_sent = row->state == SIM_ROW_SENT || row->state == SIM_ROW_DONE;
    if (was_sent && sim_raw_room(flow->client) != NULL) {
        row->state = SIM_ROW_SENT;
        row->copies++;
        put_row(sim, flow, row, flow->graph.inputs_count);
    }
}

/* A row that must be refused: with other columns than inputs, or after FLOW_CLOSE. */
static void send_bad_row(struct sim *sim, struct sim_flow *flow)
{
    struct sim_flow_row row;
    uint32_t inputs = flow->graph.inputs_count;
    if (sim_raw_room(flow->client) != NULL) {
        sim_row_draw(sim, flow, &row);
        flow->bad_rows++;
        put_row(sim, flow, &row, inputs > 0 ? inputs - 1 : 1);
    }
}

static void send_end(struct sim *sim, struct sim_flow *flow, enum wire_type type)
{
    const struct wire_flow_end end = {.flow_id = flow->flow_id};
    uint8_t *room = sim_raw_room(flow->client);
    if (room != NULL) {
        sim_raw_made(flow->client, wire_flow_end_encode(&end, type, room, SIM_FLOW_FRAME_BYTES));
        client_at(sim, flow->client)->strays++;
        for (uint32_t i = 0; i < SIM_FLOW_ROWS; i++) {
            struct sim_flow_row *row = &flow->rows[i];
            row->state = row->state == SIM_ROW_DUE ? SIM_ROW_FREE : row->state;
        }
        flow->is_closed = true;
        flow->is_cancelled = flow->is_cancelled || type == WIRE_FLOW_CANCEL;
        sim_say(sim, "client %u: %s workflow %llx", flow->client,
                type == WIRE_FLOW_CANCEL ? "cancels" : "closes",
                (unsigned long long)flow->flow_id);
    }
}

static void send_answer(struct sim *sim, const struct sim_flow *flow,
                        const struct wire_flow_answer *answer)
{
    uint8_t *room = sim_raw_room(flow->client);
    if (room != NULL) {
        sim_raw_made(flow->client, wire_flow_answer_encode(answer, room, SIM_FLOW_FRAME_BYTES));
        client_at(sim, flow->client)->strays++;
    }
}

static void answer(struct sim *sim, struct sim_flow *flow, struct sim_flow_row *row, uint32_t node)
{
    static char text[SIM_VALUE_TEXT_BYTES];
    struct sim_flow_text value;
    if (sim_raw_room(flow->client) == NULL) {
        return;
    }
    uint32_t bytes = sim_flow_argument(sim, flow, row, node, text);
    bool has_value = sim_flow_lambda(text, bytes, flow->graph.nodes[node].wire.max_tokens, &value);
    const struct wire_flow_answer frame = {
        .flow_id = flow->flow_id, .row = row->number, .node = node, .failed = !has_value,
        .text = (const uint8_t *)value.bytes, .text_bytes = has_value ? value.count : 0};
    send_answer(sim, flow, &frame);
    row->is_answered[node] = true;
}

/* Questions, each at its own time, and some not at all. */
static void answer_some(struct sim *sim, struct sim_flow *flow)
{
    for (uint32_t i = 0; i < SIM_FLOW_ROWS * SIM_FLOW_NODES; i++) {
        struct sim_flow_row *row = &flow->rows[i / SIM_FLOW_NODES];
        uint32_t node = i % SIM_FLOW_NODES;
        bool is_open = row->state == SIM_ROW_SENT || row->state == SIM_ROW_DUE;
        bool is_due = is_open && row->asks[node].is_whole && !row->is_answered[node];
        uint32_t mood = is_due && !sim->calm ? sim_choose(sim, 32) : 0;
        if (is_due && mood < 24) {
            answer(sim, flow, row, node);
        } else if (mood == 31) {
            row->asks[node].is_whole = false;   /* never */
        }
    }
}

/* An answer to no question, or to one that has its answer. A row that will come may not have it:
 * one that was sent twice asks twice. */
static void send_odd_answer(struct sim *sim, const struct sim_flow *flow)
{
    const struct sim_flow_row *row = &flow->rows[sim_choose(sim, SIM_FLOW_ROWS)];
    uint32_t node = sim_choose(sim, flow->graph.nodes_count + 1);
    bool is_answered = row->state == SIM_ROW_DONE ||
                       (node < SIM_FLOW_NODES && row->is_answered[node] && row->copies == 1);
    const struct wire_flow_answer frame = {
        .flow_id = flow->flow_id, .row = is_answered ? row->number : UINT32_MAX, .node = node,
        .text = (const uint8_t *)"b", .text_bytes = 1};
    send_answer(sim, flow, &frame);
    client_at(sim, flow->client)->odd_answers++;
}

/* ---- a connection ---------------------------------------------------------------------------- */

/* The same FLOW_OPEN, and then the rows without an answer. */
static void open_again(struct sim *sim, struct sim_flow *flow)
{
    uint8_t *room = sim_raw_room(flow->client);
    if (!flow->is_asked && !flow->is_over && room != NULL && sim->now_us >= flow->retry_us) {
        memcpy(room, flow->frame, flow->frame_bytes);
        sim_raw_made(flow->client, flow->frame_bytes);
        flow->is_asked = true;
        flow->rows_done = 0;
        flow->digest = flow->calls = flow->shared = flow->fetched = 0;
        sim_say(sim, "client %u: opens workflow %llx again", flow->client,
                (unsigned long long)flow->flow_id);
    }
}

static void send_due_rows(struct sim *sim, struct sim_flow *flow)
{
    for (uint32_t i = 0; i < SIM_FLOW_ROWS && flow->is_open; i++) {
        struct sim_flow_row *row = &flow->rows[i];
        if (row->state == SIM_ROW_DUE && sim_raw_room(flow->client) != NULL) {
            row->state = SIM_ROW_SENT;
            row->copies = 1;
            put_row(sim, flow, row, flow->graph.inputs_count);
        }
    }
}

static void go_on(struct sim *sim, uint32_t client)
{
    for (uint32_t i = 0; i < SIM_FLOWS_MAX; i++) {
        struct sim_flow *flow = &sim->flows[i];
        if (flow->in_use && flow->client == client && client_at(sim, client)->state == SIM_OPEN) {
            open_again(sim, flow);
            send_due_rows(sim, flow);
            answer_some(sim, flow);
        }
    }
}

static void send_bytes(struct sim *sim, uint32_t client)
{
    uint32_t max = UINT32_MAX;
    if (sim_raw_unsent(client) > 0 && sim_fault(sim, SIM_FAULT_DRIP)) {
        client_at(sim, client)->excused = true;     /* it may be too slow for net.frame_deadline */
        max = 1;
    }
    sim_raw_send(sim, client, max);
}

/* False: the connection is to be given up. */
static bool take_frames(struct sim *sim, uint32_t client)
{
    struct wire_header header;
    const uint8_t *payload;
    do {
        while ((payload = sim_raw_frame(sim, client, &header)) != NULL) {
            if (!sim_flow_take(sim, client, &header, payload)) {
                return false;
            }
            sim_raw_drop(client, &header);
        }
    } while (sim_raw_receive(sim, client) > 0);
    return true;
}

bool sim_flow_exchange(struct sim *sim, uint32_t client)
{
    bool reads = sim->calm || sim->now_us >= client_at(sim, client)->stalled_until_us;
    if (reads && !take_frames(sim, client)) {
        sim_client_part(sim, client);
        return false;
    }
    if (reads && sim_is_over(sim, client_at(sim, client)->peer)) {
        sim_client_gone(sim, client);
        return false;
    }
    if (!sim->peers[client_at(sim, client)->peer].finished) {
        go_on(sim, client);
        send_bytes(sim, client);
    }
    return true;
}

/* With KEEP, the client may come back for it. */
static void lose(struct sim *sim, struct sim_flow *flow)
{
    bool is_kept = (flow->graph.flags & WIRE_FLOW_OPEN_KEEP) != 0 && !flow->is_over &&
                   !flow->is_cancelled && sim_choose(sim, 2) == 1;
    flow->in_use = is_kept;
    flow->was_open = true;
    flow->may_be_closed = flow->may_be_closed || flow->is_closed;
    flow->is_asked = flow->is_open = flow->is_closed = false;
    flow->bad_rows = flow->refused = 0;
    for (uint32_t i = 0; i < SIM_FLOW_ROWS; i++) {
        struct sim_flow_row *row = &flow->rows[i];
        row->state = row->state == SIM_ROW_SENT ? SIM_ROW_DUE : row->state;
        memset(row->outputs, 0, sizeof row->outputs);
        memset(row->asks, 0, sizeof row->asks);
        memset(row->is_answered, 0, sizeof row->is_answered);
    }
}

bool sim_flow_part(struct sim *sim, uint32_t client)
{
    for (uint32_t i = 0; i < SIM_FLOWS_MAX; i++) {
        if (sim->flows[i].in_use && sim->flows[i].client == client) {
            lose(sim, &sim->flows[i]);
        }
    }
    return sim_flows_open(sim, client) > 0;
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void act_on(struct sim *sim, struct sim_flow *flow, enum flow_action action)
{
    switch (action) {
    case FLOW_ACT_ROW:
    case FLOW_ACT_ROWS:
        for (uint32_t i = action == FLOW_ACT_ROWS ? sim_choose(sim, 6) : 1; i > 0; i--) {
            if (flow->is_closed) {
                send_bad_row(sim, flow);
            } else if (!flow->may_be_closed) {
                send_row(sim, flow);
            }
        }
        return;
    case FLOW_ACT_CLOSE:
        send_end(sim, flow, WIRE_FLOW_CLOSE);
        return;
    case FLOW_ACT_CANCEL:
        send_end(sim, flow, WIRE_FLOW_CANCEL);
        return;
    case FLOW_ACT_BAD_ROW:
        send_bad_row(sim, flow);
        return;
    case FLOW_ACT_ROW_AGAIN:
        if (!flow->is_closed && !flow->may_be_closed) {
            send_row_again(sim, flow);
        }
        return;
    case FLOW_ACT_ODD_ANSWER:
        send_odd_answer(sim, flow);
        return;
    case FLOW_ACT_OPEN:
    case FLOW_ACT_REST:
        return;
    }
}

void sim_flow_act(struct sim *sim, uint32_t client)
{
    static const enum flow_action actions[] = {
        FLOW_ACT_ROW, FLOW_ACT_ROW, FLOW_ACT_ROWS, FLOW_ACT_OPEN, FLOW_ACT_ROW, FLOW_ACT_OPEN,
        FLOW_ACT_REST, FLOW_ACT_ROWS, FLOW_ACT_ROW_AGAIN, FLOW_ACT_OPEN, FLOW_ACT_ROWS,
        FLOW_ACT_ROW, FLOW_ACT_CLOSE, FLOW_ACT_BAD_ROW, FLOW_ACT_ODD_ANSWER, FLOW_ACT_CANCEL};
    uint32_t index = sim_choose(sim, SIM_FLOWS_MAX);
    enum flow_action action = actions[sim_choose(sim, sizeof actions / sizeof *actions)];
    for (uint32_t i = 0; i < SIM_FLOWS_MAX; i++) {
        struct sim_flow *flow = &sim->flows[(index + i) % SIM_FLOWS_MAX];
        bool may_act = flow->is_asked && !flow->is_over && (flow->is_open || !flow->was_open);
        if (flow->in_use && flow->client == client && may_act && action != FLOW_ACT_OPEN) {
            act_on(sim, flow, action);
            return;
        }
    }
    if (sim_flows_open(sim, client) < sim->swarm.appetite) {
        open_flow(sim, client);
    }
}

static bool has_due_rows(const struct sim_flow *flow)
{
    bool any = false;
    for (uint32_t i = 0; i < SIM_FLOW_ROWS; i++) {
        any = any || flow->rows[i].state == SIM_ROW_DUE;
    }
    return any;
}

void sim_flow_finish(struct sim *sim, uint32_t client)
{
    for (uint32_t i = 0; i < SIM_FLOWS_MAX; i++) {
        struct sim_flow *flow = &sim->flows[i];
        if (flow->in_use && flow->client == client && flow->is_open && !flow->is_closed &&
            !flow->is_over && !has_due_rows(flow)) {
            send_end(sim, flow, WIRE_FLOW_CLOSE);
        }
    }
    if (sim_flows_open(sim, client) == 0 && sim_raw_unsent(client) == 0) {
        sim_client_part(sim, client);
    }
}
