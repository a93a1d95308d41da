/* SPDX-License-Identifier: MIT */
/*
 * What: the builder of workflows. The caller's memory holds two lists as FLOW_OPEN has them: the
 * texts, then the nodes, which move up when a text is added. Equal texts are kept once.
 *
 * Bounds: no allocation; a search of all texts for each new one.
 */
#include "tools/sdk/flow.h"

#include <string.h>

#include "config/base/assert.h"
#include "net/wire.h"

#define TEXT_BYTES_MAX (WIRE_IS_SPECIAL - 1)

STATIC_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "outputs are sent as they lie in memory");
STATIC_ASSERT((int)AGX_NODE_LAMBDA == (int)WIRE_NODE_LAMBDA, "kinds are wire values");
STATIC_ASSERT(AGX_FLOW_NAME_BYTES + 1 == WIRE_NODE_NAME_BYTES, "one length of names");
STATIC_ASSERT(AGX_STOP_IDS_MAX == WIRE_STOP_IDS_MAX, "one limit of stop ids");
STATIC_ASSERT(AGX_STOP_TEXTS_MAX == CALL_STOP_TEXTS_MAX, "one limit of stop texts");

void agx_flow_init(struct agx_flow *flow, void *memory, size_t bytes)
{
    memset(flow, 0, sizeof *flow);
    flow->memory = memory;
    flow->bytes = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

static uint32_t fail(struct agx_flow *flow, enum agx_result result)
{
    flow->result = flow->result != AGX_OK ? flow->result : result;
    return AGX_FLOW_NONE;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static uint32_t find_text(const struct agx_flow *flow, const struct wire_flow_text *text)
{
    struct bytes texts = bytes_reader(flow->memory, flow->texts_bytes);
    for (uint32_t i = 0; i < flow->texts_count; i++) {
        struct wire_flow_text at;
        wire_flow_text_next(&texts, &at);
        if (at.count == text->count && at.is_special == text->is_special &&
            memcmp(at.bytes, text->bytes, at.count) == 0) {
            return i;
        }
    }
    return AGX_FLOW_NONE;
}

/* Its index; AGX_FLOW_NONE after an error. */
static uint32_t add_text(struct agx_flow *flow, const struct agx_piece *piece)
{
    if (piece->text_bytes > TEXT_BYTES_MAX) {
        return fail(flow, AGX_ERROR_SPACE);
    }
    const struct wire_flow_text text = {.bytes = piece->text != NULL ? piece->text : "",
                                        .count = (uint32_t)piece->text_bytes,
                                        .is_special = piece->parse_special != 0};
    uint32_t found = find_text(flow, &text), used = flow->texts_bytes + flow->nodes_bytes;
    if (found != AGX_FLOW_NONE) {
        return found;
    }
    uint64_t more = sizeof(uint32_t) + (uint64_t)text.count;
    if (more > flow->bytes - used || flow->texts_count == AGX_FLOW_COUNT_MAX) {
        return fail(flow, AGX_ERROR_SPACE);
    }
    memmove(flow->memory + flow->texts_bytes + more, flow->memory + flow->texts_bytes,
            flow->nodes_bytes);
    struct bytes texts = bytes_writer(flow->memory + flow->texts_bytes, (uint32_t)more);
    wire_flow_text_put(&texts, &text);
    flow->texts_bytes += (uint32_t)more;
    return flow->texts_count++;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Puts the operands of the next node at the end of the memory, below which the texts grow. */
static const uint8_t *put_operands(struct agx_flow *flow, const struct agx_piece *pieces,
                                   uint32_t count)
{
    struct bytes operands = bytes_writer(flow->memory + flow->bytes,
                                         count * (uint32_t)sizeof(uint32_t));
    for (uint32_t i = 0; i < count && flow->result == AGX_OK; i++) {
        bool is_text = pieces[i].node == AGX_FLOW_NONE;
        uint32_t operand = is_text ? add_text(flow, &pieces[i]) | WIRE_IS_TEXT : pieces[i].node;
        if (!is_text && operand >= flow->nodes_count) {
            fail(flow, AGX_ERROR_ARGUMENT);
        }
        bytes_u32(&operands, &operand);
    }
    return operands.target;
}

static void put_node(struct agx_flow *flow, struct wire_flow_node *node,
                     const struct agx_piece *pieces)
{
    node->operands = put_operands(flow, pieces, node->operands_count);
    uint32_t used = flow->texts_bytes + flow->nodes_bytes;
    struct bytes nodes = bytes_writer(flow->memory + used, flow->bytes - used);
    if (flow->result == AGX_OK && !wire_flow_node_put(&nodes, node)) {
        fail(flow, AGX_ERROR_SPACE);
    }
    if (flow->result == AGX_OK) {
        flow->nodes_bytes += nodes.at;
        flow->operands_count += node->operands_count;
        flow->kinds[flow->nodes_count++] = node->kind;
    }
}

/* The number of the node, or AGX_FLOW_NONE. */
static uint32_t add_node(struct agx_flow *flow, struct wire_flow_node *node,
                         const struct agx_piece *pieces)
{
    uint32_t operands_bytes = node->operands_count * (uint32_t)sizeof(uint32_t);
    if (flow->result != AGX_OK || flow->nodes_count == AGX_FLOW_NODES_MAX ||
        node->operands_count > AGX_FLOW_COUNT_MAX - flow->operands_count ||
        operands_bytes > flow->bytes - flow->texts_bytes - flow->nodes_bytes) {
        return fail(flow, AGX_ERROR_SPACE);
    }
    flow->bytes -= operands_bytes;
    put_node(flow, node, pieces);
    flow->bytes += operands_bytes;
    return flow->result == AGX_OK ? flow->nodes_count - 1 : AGX_FLOW_NONE;
}

uint32_t agx_flow_input(struct agx_flow *flow, uint32_t est_tokens)
{
    struct wire_flow_node node = {.kind = WIRE_NODE_INPUT, .est_tokens = est_tokens};
    return add_node(flow, &node, NULL);
}

uint32_t agx_flow_text(struct agx_flow *flow, const struct agx_piece *pieces, uint32_t count)
{
    struct wire_flow_node node = {.kind = WIRE_NODE_TEXT, .operands_count = count};
    return add_node(flow, &node, pieces);
}

/* Stops and sampling, as CALL has them: what is 0 and means off gets the value that does. */
static bool set_sampling(struct wire_flow_node *node, const struct agx_operator *how)
{
    struct call_sampling *sampling = &node->sampling;
    *sampling = (struct call_sampling){
        .seed = how->seed, .temperature = how->temperature, .top_k = how->top_k,
        .top_p = how->top_p != 0 ? how->top_p : 1, .min_p = how->min_p,
        .repeat_penalty = how->repeat_penalty != 0 ? how->repeat_penalty : 1,
        .stop_ids_count = how->stop_ids_count};
    node->flags = how->ignore_eos ? WIRE_FLOW_NODE_IGNORE_EOS : 0;
    node->stop_texts_count = how->stop_texts_count;
    if (how->stop_ids_count > AGX_STOP_IDS_MAX || how->stop_texts_count > AGX_STOP_TEXTS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < how->stop_ids_count; i++) {
        sampling->stop_ids[i] = how->stop_ids[i];
    }
    for (uint32_t i = 0; i < how->stop_texts_count; i++) {
        struct call_stop_text *text = &node->stop_texts[i];
        size_t bytes = strnlen(how->stop_texts[i], CALL_STOP_TEXT_BYTES + 1);
        if (bytes == 0 || bytes > CALL_STOP_TEXT_BYTES) {
            return false;
        }
        text->length_bytes = (uint16_t)bytes;
        memcpy(text->bytes, how->stop_texts[i], bytes);
    }
    return true;
}

uint32_t agx_flow_llm(struct agx_flow *flow, const struct agx_piece *pieces, uint32_t count,
                      const struct agx_operator *how)
{
    struct wire_flow_node node = {.kind = WIRE_NODE_LLM, .operands_count = count,
                                  .max_tokens = how->max_tokens, .est_tokens = how->est_tokens};
    if (!set_sampling(&node, how)) {
        return fail(flow, AGX_ERROR_ARGUMENT);
    }
    return add_node(flow, &node, pieces);
}

uint32_t agx_flow_lambda(struct agx_flow *flow, const char *name, const struct agx_piece *pieces,
                         uint32_t count, const struct agx_operator *how)
{
    struct wire_flow_node node = {.kind = WIRE_NODE_LAMBDA, .operands_count = count,
                                  .max_tokens = how->max_tokens, .est_tokens = how->est_tokens};
    size_t bytes = strnlen(name, sizeof node.name);
    if (bytes == sizeof node.name) {
        return fail(flow, AGX_ERROR_ARGUMENT);
    }
    memcpy(node.name, name, bytes);
    return add_node(flow, &node, pieces);
}

void agx_flow_output(struct agx_flow *flow, uint32_t node)
{
    if (flow->result != AGX_OK) {
        return;
    }
    if (node >= flow->nodes_count || flow->outputs_count == AGX_FLOW_NODES_MAX) {
        fail(flow, node >= flow->nodes_count ? AGX_ERROR_ARGUMENT : AGX_ERROR_SPACE);
        return;
    }
    flow->outputs[flow->outputs_count++] = node;
}

size_t agx_flow_write(const struct agx_flow_run *run, uint8_t *frame, size_t max)
{
    const struct agx_flow *flow = run->flow;
    struct wire_flow_open open = {
        .flow_id = run->flow_id,
        .flags = (run->keep ? WIRE_FLOW_OPEN_KEEP : 0) |
                 (run->want_text ? WIRE_FLOW_OPEN_WANT_TEXT : 0),
        .nodes_count = (uint16_t)flow->nodes_count,
        .operands_count = (uint16_t)flow->operands_count,
        .outputs_count = (uint16_t)flow->outputs_count,
        .texts_count = (uint16_t)flow->texts_count,
        .nodes = flow->memory + flow->texts_bytes, .nodes_bytes = flow->nodes_bytes,
        .outputs = (const uint8_t *)flow->outputs,
        .texts = flow->memory, .texts_bytes = flow->texts_bytes};
    memcpy(open.program_id, run->program_id, sizeof open.program_id);
    if (flow->result != AGX_OK) {
        return 0;
    }
    return wire_flow_open_encode(&open, frame, max < UINT32_MAX ? (uint32_t)max : UINT32_MAX);
}
