/* SPDX-License-Identifier: MIT */
/*
 * What: draws small graphs and rows, and writes their frames. They are small so that equal nodes,
 * equal rows and equal prompts are frequent.
 */
#include <string.h>

#include "selftest/sim/sim.h"

#define GREEDY_SEED 77              /* of all greedy nodes: flows.h says why */

void sim_flow_program_id(uint8_t *id)
{
    sim_program_id(SIM_PROGRAMS_MAX, id);       /* no other client's */
}

static struct sim_flow_text draw_text(struct sim *sim, uint32_t bytes_max)
{
    struct sim_flow_text text = {.count = sim_choose(sim, bytes_max + 1)};
    for (uint32_t i = 0; i < text.count; i++) {
        text.bytes[i] = "ab c"[sim_choose(sim, 4)];
    }
    return text;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void draw_call(struct sim *sim, struct sim_flow_node *node)
{
    struct wire_flow_node *wire = &node->wire;
    bool is_sampled = sim_choose(sim, 8) == 7;
    wire->flags = (uint8_t)(sim_choose(sim, 4) == 3 ? WIRE_FLOW_NODE_IGNORE_EOS : 0);
    wire->sampling = (struct call_sampling){
        .top_p = 1.0f, .repeat_penalty = sim_choose(sim, 8) == 7 ? 1.5f : 1.0f,
        .temperature = is_sampled ? 0.5f : 0.0f,
        .seed = is_sampled ? sim_choose(sim, 3) : GREEDY_SEED};
    if (sim_choose(sim, 4) == 3) {
        wire->sampling.stop_ids_count = 1;
        wire->sampling.stop_ids[0] = sim_choose(sim, sim->limits.vocab_tokens);
    }
    if (sim_choose(sim, 4) == 3) {
        struct call_stop_text *text = &wire->stop_texts[0];
        node->stop = sim_words_stop(sim_choose(sim, 8));
        wire->stop_texts_count = 1;
        text->length_bytes = (uint16_t)strlen(node->stop);
        memcpy(text->bytes, node->stop, text->length_bytes);
    }
}

static uint32_t draw_operand(struct sim *sim, const struct sim_graph *graph, uint32_t index)
{
    bool is_text = graph->texts_count > 0 && (index == 0 || sim_choose(sim, 2) == 0);
    return is_text ? WIRE_IS_TEXT | sim_choose(sim, graph->texts_count)
                   : sim_choose(sim, index);
}

static void draw_node(struct sim *sim, struct sim_graph *graph, uint32_t index)
{
    static const enum wire_node_kind kinds[] = {
        WIRE_NODE_LLM, WIRE_NODE_LLM, WIRE_NODE_INPUT, WIRE_NODE_TEXT, WIRE_NODE_LLM,
        WIRE_NODE_LAMBDA, WIRE_NODE_INPUT, WIRE_NODE_LLM};
    struct sim_flow_node *node = &graph->nodes[index];
    *node = (struct sim_flow_node){.wire.kind = (uint8_t)kinds[sim_choose(sim, 8)],
                                   .wire.est_tokens = sim_choose(sim, 2) * sim_choose(sim, 20)};
    if (node->wire.kind == WIRE_NODE_INPUT) {
        graph->inputs_count++;
        return;
    }
    if (graph->texts_count + index > 0) {
        node->wire.operands_count = sim_choose(sim, SIM_FLOW_OPERANDS + 1);
    }
    for (uint32_t i = 0; i < node->wire.operands_count; i++) {
        node->operands[i] = draw_operand(sim, graph, index);
    }
    if (node->wire.kind == WIRE_NODE_TEXT) {
        return;
    }
    node->wire.max_tokens = 1 + sim_choose(sim, 12);
    if (node->wire.kind == WIRE_NODE_LLM) {
        draw_call(sim, node);
    } else {
        memcpy(node->wire.name, sim_choose(sim, 2) == 0 ? "f" : "g", 2);
    }
}

void sim_graph_draw(struct sim *sim, struct sim_graph *graph)
{
    *graph = (struct sim_graph){
        .flags = sim_choose(sim, WIRE_FLOW_OPEN_FLAGS_ALL + 1),
        .nodes_count = sim_between(sim, 1, SIM_FLOW_NODES),
        .texts_count = sim_choose(sim, SIM_FLOW_TEXTS + 1)};
    for (uint32_t i = 0; i < graph->texts_count; i++) {
        graph->texts[i] = draw_text(sim, SIM_FLOW_TEXT_BYTES);
    }
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        draw_node(sim, graph, i);
    }
    graph->outputs_count = sim_between(sim, 1, SIM_FLOW_OUTPUTS);
    for (uint32_t i = 0; i < graph->outputs_count; i++) {
        graph->outputs[i] = graph->nodes_count - 1 - sim_choose(sim, graph->nodes_count);
    }
}

void sim_row_draw(struct sim *sim, struct sim_flow *flow, struct sim_flow_row *row)
{
    *row = (struct sim_flow_row){.state = SIM_ROW_SENT, .number = flow->rows_number++};
    for (uint32_t i = 0; i < flow->graph.inputs_count; i++) {
        row->columns[i] = draw_text(sim, 2);    /* equal ones are frequent */
    }
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void put_list(const uint32_t *list, uint32_t count, uint8_t *bytes)
{
    struct bytes out = bytes_writer(bytes, count * (uint32_t)sizeof *list);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t each = list[i];
        bytes_u32(&out, &each);
    }
}

static uint32_t put_nodes(const struct sim_graph *graph, uint8_t *bytes, uint32_t max,
                          uint32_t *operands)
{
    struct bytes out = bytes_writer(bytes, max);
    uint8_t list[SIM_FLOW_OPERANDS * sizeof(uint32_t)];
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        struct wire_flow_node node = graph->nodes[i].wire;
        put_list(graph->nodes[i].operands, node.operands_count, list);
        node.operands = list;
        *operands += node.operands_count;
        bool fits = wire_flow_node_put(&out, &node);
        ASSERT(fits);
    }
    return out.at;
}

static uint32_t put_texts(const struct sim_flow_text *texts, uint32_t count, uint8_t *bytes,
                          uint32_t max)
{
    struct bytes out = bytes_writer(bytes, max);
    for (uint32_t i = 0; i < count; i++) {
        const struct wire_flow_text text = {.bytes = texts[i].bytes, .count = texts[i].count};
        bool fits = wire_flow_text_put(&out, &text);
        ASSERT(fits);
    }
    return out.at;
}

uint32_t sim_graph_frame(const struct sim_graph *graph, uint64_t flow_id, const uint8_t *program_id,
                         uint8_t *bytes, uint32_t max)
{
    uint8_t nodes[SIM_FLOW_FRAME_BYTES], texts[SIM_FLOW_FRAME_BYTES];
    uint8_t outputs[SIM_FLOW_OUTPUTS * sizeof(uint32_t)];
    uint32_t operands = 0;
    struct wire_flow_open frame = {.flow_id = flow_id, .flags = graph->flags, .nodes = nodes,
                                   .outputs = outputs, .texts = texts};
    memcpy(frame.program_id, program_id, sizeof frame.program_id);
    frame.nodes_bytes = put_nodes(graph, nodes, sizeof nodes, &operands);
    frame.texts_bytes = put_texts(graph->texts, graph->texts_count, texts, sizeof texts);
    put_list(graph->outputs, graph->outputs_count, outputs);
    frame.nodes_count = (uint16_t)graph->nodes_count;
    frame.operands_count = (uint16_t)operands;
    frame.outputs_count = (uint16_t)graph->outputs_count;
    frame.texts_count = (uint16_t)graph->texts_count;
    return wire_flow_open_encode(&frame, bytes, max);
}

uint32_t sim_row_frame(const struct sim_flow *flow, const struct sim_flow_row *row,
                       uint32_t columns_count, uint8_t *bytes, uint32_t max)
{
    uint8_t columns[SIM_FLOW_FRAME_BYTES];
    const struct wire_flow_row frame = {
        .flow_id = flow->flow_id, .row = row->number, .columns_count = columns_count,
        .columns = columns,
        .columns_bytes = put_texts(row->columns, columns_count, columns, sizeof columns)};
    return wire_flow_row_encode(&frame, bytes, max);
}
