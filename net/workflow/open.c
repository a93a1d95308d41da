/* SPDX-License-Identifier: MIT */
/*
 * What: a FLOW_OPEN frame into a record, and a command for the scheduler. The same FLOW_OPEN after
 * a break finds its workflow again.
 *
 * How: decode (fields, ranges, no cycles), then admit (limits, ids: changes nothing), then fill a
 * record. Texts can turn out too long only when they are tokens, in their place; the record is
 * released then, and no other stage has seen it.
 *
 * Invariants: a refusal leaves every table as it was. A workflow that is pushed on the inbox has
 * passed every check that needs no optimiser: each id is in the vocabulary, each LLM node's
 * max_tokens leaves room for a prompt, and the values of a row fit flow->values.
 *
 * Bounds: linear in the frame, but for workflow_compose() and vocab_encode().
 */
#include "net/workflow/workflow.h"

#include <string.h>

#include "net/bytes.h"
#include "net/kept/replies.h"
#include "net/kept/workflows.h"

#define EST_INPUT 64u               /* of an input, where the client says nothing */

STATIC_ASSERT((int)WIRE_NODE_INPUT == WORKFLOW_INPUT && (int)WIRE_NODE_LAMBDA == WORKFLOW_LAMBDA,
              "kinds of nodes are wire values");
STATIC_ASSERT(WIRE_NODE_NAME_BYTES == WORKFLOW_NAME_BYTES, "one size of names");

/* ---- admission: changes nothing -------------------------------------------------------------- */

/* Another workflow of the same ids is open. */
static enum status judge_open(struct net_frame *frame, uint32_t index, uint64_t request,
                              uint32_t *resumed)
{
    const struct workflow *flow = net_flow(frame->net, index);
    bool is_own = flow->connection == frame->connection;
    if (is_own || flow->request != request) {
        return net_frame_fault(frame, STATUS_BAD_FLOW_OPEN, WIRE_FIELD_FLOW_ID, flow->flow_id, 0);
    }
    if (flow->connection != CALL_NONE || !net_flow_is_kept(frame->net, flow)) {
        return net_frame_fault(frame, STATUS_BUSY_CALL_OPEN, WIRE_FIELD_FLOW_ID, flow->flow_id, 0);
    }
    *resumed = index;
    return STATUS_OK;
}

/* As with calls: an id is unique in its program and on its connection. */
static enum status admit_id(struct net_frame *frame, const struct wire_flow_open *wire,
                            uint32_t *resumed)
{
    const struct net *net = frame->net;
    uint64_t domain = net->connections[frame->connection].domain;
    uint64_t request = net_reply_request(frame->payload, frame->payload_bytes);
    if (net_flow_find(net, frame->connection, wire->flow_id) != WORKFLOW_NONE) {
        return net_frame_fault(frame, STATUS_BAD_FLOW_OPEN, WIRE_FIELD_FLOW_ID, wire->flow_id, 0);
    }
    for (uint32_t i = 0; i < net_flows_count(net); i++) {
        const struct workflow *flow = net_flow(net, i);
        if (flow->state != WORKFLOW_FREE && flow->domain == domain &&
            flow->flow_id == wire->flow_id &&
            memcmp(flow->program_id, wire->program_id, sizeof wire->program_id) == 0) {
            return judge_open(frame, i, request, resumed);
        }
    }
    return STATUS_OK;
}

/* The one table of what a workflow may have. */
static enum status admit_size(struct net_frame *frame, const struct wire_flow_open *wire)
{
    const struct workflow_limits *limits = &frame->net->settings.limits->workflow;
    const struct { enum wire_field field; uint32_t found, max; } rows[] = {
        {WIRE_FIELD_NODES, wire->nodes_count, limits->nodes},
        {WIRE_FIELD_OPERANDS, wire->operands_count, limits->pieces},
        {WIRE_FIELD_OUTPUTS, wire->outputs_count, WORKFLOW_OUTPUTS_MAX},
        {WIRE_FIELD_TEXTS, wire->texts_count, limits->pieces},
    };
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].found > rows[i].max) {
            return net_frame_fault(frame, STATUS_BAD_FLOW_SIZE, rows[i].field, rows[i].found,
                                   rows[i].max);
        }
    }
    return STATUS_OK;
}

/* Texts need a vocabulary that can encode; texts of values, stops and lambdas one that decodes. */
static enum status admit_text(struct net_frame *frame, const struct wire_flow_open *wire)
{
    const struct gguf_vocab_info *info = &frame->net->vocab->info;
    if (info->kind == VOCAB_NONE && frame->net->encoder == NULL) {
        return net_frame_fault(frame, STATUS_BAD_FIELD, WIRE_FIELD_TEXTS, wire->texts_count, 0);
    }
    uint32_t allowed = WIRE_FLOW_OPEN_FLAGS_ALL & ~(uint32_t)WIRE_FLOW_OPEN_WANT_TEXT;
    bool writes = info->token_bytes_max <= NET_TOKEN_TEXT_BYTES_MAX;
    return writes || (wire->flags & ~allowed) == 0
               ? STATUS_OK
               : net_frame_fault(frame, STATUS_BAD_FIELD, WIRE_FIELD_FLAGS, wire->flags, allowed);
}

static enum status admit_llm(struct net_frame *frame, const struct wire_flow_node *node)
{
    const struct net *net = frame->net;
    uint32_t context_tokens = net->settings.limits->context_tokens;
    uint32_t vocab_tokens = net->settings.limits->vocab_tokens;
    if (node->max_tokens >= context_tokens) {
        return net_frame_fault(frame, STATUS_BAD_PROMPT_LENGTH, WIRE_FIELD_MAX_TOKENS,
                               node->max_tokens, context_tokens - 1);
    }
    for (uint32_t i = 0; i < node->sampling.stop_ids_count; i++) {
        if (node->sampling.stop_ids[i] >= vocab_tokens) {
            return net_frame_fault(frame, STATUS_BAD_TOKEN, WIRE_FIELD_STOP_IDS,
                                   node->sampling.stop_ids[i], vocab_tokens - 1);
        }
    }
    return STATUS_OK;
}

static enum status admit_kind(struct net_frame *frame, const struct wire_flow_node *node)
{
    bool writes = frame->net->vocab->info.token_bytes_max <= NET_TOKEN_TEXT_BYTES_MAX;
    if (!writes && node->kind == WIRE_NODE_LAMBDA) {
        return net_frame_fault(frame, STATUS_BAD_FIELD, WIRE_FIELD_KIND, node->kind, WIRE_NODE_LLM);
    }
    if (!writes && node->stop_texts_count > 0) {
        return net_frame_fault(frame, STATUS_BAD_FIELD, WIRE_FIELD_STOP_TEXTS,
                               node->stop_texts_count, 0);
    }
    return node->kind == WIRE_NODE_LLM ? admit_llm(frame, node) : STATUS_OK;
}

static enum status admit_nodes(struct net_frame *frame, const struct wire_flow_open *wire)
{
    uint32_t value_tokens = frame->net->settings.limits->workflow.value_tokens;
    struct bytes nodes = bytes_reader(wire->nodes, wire->nodes_bytes);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < wire->nodes_count; i++) {
        struct wire_flow_node node;
        wire_flow_node_next(&nodes, &node);
        TRY(admit_kind(frame, &node));
        sum += node.max_tokens;
    }
    return sum <= value_tokens ? STATUS_OK
                               : net_frame_fault(frame, STATUS_BAD_FLOW_SIZE,
                                                 WIRE_FIELD_MAX_TOKENS, sum, value_tokens);
}

static enum status admit_graph(struct net_frame *frame, const struct wire_flow_open *wire)
{
    TRY(admit_text(frame, wire));
    TRY(admit_size(frame, wire));
    return admit_nodes(frame, wire);
}

static enum status admit(struct net_frame *frame, const struct wire_flow_open *wire,
                         uint32_t *resumed)
{
    TRY(admit_id(frame, wire, resumed));
    if (*resumed != WORKFLOW_NONE) {
        return STATUS_OK;
    }
    if (frame->net->draining) {
        return net_frame_fault(frame, STATUS_BUSY_DRAINING, WIRE_FIELD_NONE, 0, 0);
    }
    return admit_graph(frame, wire);
}

/* ---- filling a record ------------------------------------------------------------------------ */

static uint32_t u32_at(const uint8_t *list, uint32_t index)
{
    struct bytes in = bytes_reader(list + (uint64_t)index * sizeof(uint32_t), sizeof(uint32_t));
    uint32_t value = 0;
    bytes_u32(&in, &value);
    return value;
}

/* Nodes are compared byte by byte later: minus zero is zero. */
static void fill_call(struct workflow_call *call, const struct wire_flow_node *wire)
{
    call->sampling = wire->sampling;
    call->sampling.temperature += 0.0f;
    call->sampling.min_p += 0.0f;
    call->ignore_eos = (wire->flags & WIRE_FLOW_NODE_IGNORE_EOS) != 0;
    call->stop_texts_count = wire->stop_texts_count;
    memcpy(call->stop_texts, wire->stop_texts, sizeof call->stop_texts);
}

static void fill_operands(struct net_flow_intake *intake, uint32_t index,
                          const struct wire_flow_node *wire)
{
    struct workflow_source *source = &intake->source;
    source->of_node[index] = (struct workflow_span){source->operands_count, wire->operands_count};
    for (uint32_t i = 0; i < wire->operands_count; i++) {
        uint32_t operand = u32_at(wire->operands, i), at = operand & ~WIRE_IS_TEXT;
        bool is_text = (operand & WIRE_IS_TEXT) != 0;
        intake->operands[source->operands_count++] =
            (struct workflow_operand){.node = is_text ? WORKFLOW_NONE : at,
                                      .text = is_text ? at : WORKFLOW_NONE};
    }
}

static void fill_node(struct workflow *flow, uint32_t index, const struct wire_flow_node *wire)
{
    struct workflow_node *node = &flow->nodes[index];
    memset(node, 0, sizeof *node);
    node->kind = (enum workflow_kind)wire->kind;
    node->max_tokens = wire->max_tokens;
    node->est_tokens = wire->est_tokens;
    if (node->est_tokens == 0) {
        node->est_tokens = node->kind == WORKFLOW_INPUT ? EST_INPUT
                           : node->max_tokens > 0       ? node->max_tokens
                                                        : 1;
    }
    memcpy(node->name, wire->name, sizeof node->name);
    if (node->kind == WORKFLOW_LLM) {
        fill_call(&node->call, wire);
    }
    node->same_as = index;
    if (node->kind == WORKFLOW_INPUT) {
        flow->inputs[flow->inputs_count++] = index;
    }
    flow->row_value_tokens += node->max_tokens;
}

static void fill_lists(struct net *net, struct workflow *flow, const struct wire_flow_open *wire)
{
    struct net_flow_intake *intake = &net->flow_intake;
    struct bytes nodes = bytes_reader(wire->nodes, wire->nodes_bytes);
    struct bytes texts = bytes_reader(wire->texts, wire->texts_bytes);
    intake->source.operands = intake->operands;
    intake->source.texts = intake->texts;
    intake->source.lists = intake->lists;
    intake->source.lists_bytes = net->workflows->limits.value_tokens * sizeof *intake->lists;
    intake->source.operands_count = 0;
    intake->source.texts_count = wire->texts_count;
    flow->nodes_count = wire->nodes_count;
    for (uint32_t i = 0; i < wire->nodes_count; i++) {
        struct wire_flow_node node;
        wire_flow_node_next(&nodes, &node);
        fill_node(flow, i, &node);
        fill_operands(intake, i, &node);
    }
    flow->outputs_count = wire->outputs_count;
    for (uint32_t i = 0; i < wire->outputs_count; i++) {
        flow->outputs[i] = u32_at(wire->outputs, i);
        flow->nodes[flow->outputs[i]].is_output = true;
    }
    for (uint32_t i = 0; i < wire->texts_count; i++) {
        struct wire_flow_text text;
        wire_flow_text_next(&texts, &text);
        intake->texts[i] = (struct workflow_text){text.bytes, text.count, text.is_special};
    }
}

/* An output may be named twice. Each row is gone through output by output and piece by piece, so
 * what all of them say has the bound of what all nodes do. */
static enum status check_outputs(struct net_frame *frame, const struct workflow *flow)
{
    uint64_t pieces = 0, most = frame->net->workflows->limits.pieces;
    for (uint32_t i = 0; i < flow->outputs_count; i++) {
        const struct workflow_node *node = &flow->nodes[flow->outputs[i]];
        pieces += node->kind == WORKFLOW_TEXT ? node->pieces_count : 0;
    }
    return pieces <= most ? STATUS_OK
                          : net_frame_fault(frame, STATUS_BAD_FLOW_SIZE, WIRE_FIELD_OUTPUTS,
                                            pieces, most);
}

static enum status fill(struct net_frame *frame, struct workflow *flow,
                        const struct wire_flow_open *wire)
{
    struct net *net = frame->net;
    const struct workflow_limits *limits = &net->workflows->limits;
    const struct workflow_encoder encoder = {.encode = net_flow_encode, .self = net};
    uint32_t node = 0;
    flow->flow_id = wire->flow_id;
    memcpy(flow->program_id, wire->program_id, sizeof flow->program_id);
    flow->keep = (wire->flags & WIRE_FLOW_OPEN_KEEP) != 0;
    flow->stream = (wire->flags & WIRE_FLOW_OPEN_STREAM) != 0;
    flow->want_text = (wire->flags & WIRE_FLOW_OPEN_WANT_TEXT) != 0;
    flow->request = net_reply_request(frame->payload, frame->payload_bytes);
    flow->request_bytes = frame->payload_bytes;
    fill_lists(net, flow, wire);
    if (workflow_compose(flow, limits, &net->flow_intake.source, &encoder, &node) != STATUS_OK) {
        return flow->pieces_count == limits->pieces
                   ? net_frame_fault(frame, STATUS_BAD_FLOW_SIZE, WIRE_FIELD_OPERANDS,
                                     (uint64_t)limits->pieces + 1, limits->pieces)
                   : net_frame_fault(frame, STATUS_BAD_FLOW_SIZE, WIRE_FIELD_TEXTS,
                                     (uint64_t)limits->tokens + 1, limits->tokens);
    }
    for (uint32_t i = 0; i < flow->inputs_count; i++) {
        if (workflow_input_leads(flow, flow->inputs[i])) {
            workflow_set_add(&flow->leading, i);
        }
        if (workflow_input_follows(flow, flow->inputs[i])) {
            workflow_set_add(&flow->following, i);
        }
    }
    return check_outputs(frame, flow);
}

enum status net_flow_open_again(struct net_frame *frame, uint32_t index)
{
    struct wire_flow_open wire;
    TRY(wire_flow_open_decode(frame->payload, frame->payload_bytes, &wire, &frame->fault));
    TRY(admit_graph(frame, &wire));
    return fill(frame, net_flow(frame->net, index), &wire);
}

enum status net_flow_open_intake(struct net_frame *frame)
{
    struct net *net = frame->net;
    struct wire_flow_open wire;
    uint32_t resumed = WORKFLOW_NONE;
    TRY(wire_flow_open_decode(frame->payload, frame->payload_bytes, &wire, &frame->fault));
    TRY(admit(frame, &wire, &resumed));
    if (resumed != WORKFLOW_NONE) {
        net_flow_resume(net, resumed, frame->connection);
        return STATUS_OK;
    }
    uint64_t domain = net->connections[frame->connection].domain;
    uint32_t index = net->workflows != NULL ? workflow_take(net->workflows, domain) : WORKFLOW_NONE;
    if (index == WORKFLOW_NONE && net_flow_make_room(net, domain)) {
        index = workflow_take(net->workflows, domain);
    }
    if (index == WORKFLOW_NONE) {
        return net_frame_fault(frame, STATUS_BUSY_WORKFLOWS, WIRE_FIELD_NONE, net_flows_count(net),
                               net_flows_count(net));
    }
    struct workflow *flow = net_flow(net, index);
    enum status status = fill(frame, flow, &wire);
    if (status != STATUS_OK) {
        workflow_release(net->workflows, index);
        return status;
    }
    flow->state = WORKFLOW_ORDERING;
    net_flow_attach(net, index, frame->connection);
    net_kept_flow_begin(net, index, frame->payload, frame->payload_bytes);
    net_flow_command(net, index, (struct command){.kind = COMMAND_WORKFLOW_OPEN});
    return STATUS_OK;
}
