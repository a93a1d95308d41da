/* SPDX-License-Identifier: MIT */
/*
 * What: the frames of workflows that are more than their fixed part, in both directions.
 *
 * How: net/frames.def has the fixed parts and their ranges. FLOW_OPEN holds nodes, outputs and
 * texts; a node holds stops, a name and operands. Each list is decoded after the count that governs
 * it was checked. What depends on the kind of a node is in check_kind().
 *
 * Invariants and bounds as in net/wire.c: nothing is read beyond `count`; a refusal changes only
 * `fault`; no state, no assertion; time is linear in the frame. An operand of an accepted FLOW_OPEN
 * is an earlier node or a text that is there: there are no cycles.
 */
#include "net/wire.h"

#include <string.h>

#include "net/utf8.h"
#include "net/wire_frame.h"

/* ---- what several frames have ---------------------------------------------------------------- */

static uint32_t u32_at(const uint8_t *list, uint32_t index)
{
    const uint8_t *at = list + (uint64_t)index * sizeof(uint32_t);
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* `count` bytes of the frame, in their place. */
static const uint8_t *skip(struct bytes *in, uint64_t count)
{
    const uint8_t *at = in->source + in->at;
    in->failed = in->failed || count > bytes_left(in);
    in->at += in->failed ? 0 : (uint32_t)count;
    return at;
}

static enum status check_utf8(const uint8_t *text, uint32_t count, enum wire_field field,
                              uint64_t found, struct wire_fault *fault)
{
    return utf8_is_valid((const char *)text, count) ? STATUS_OK
                                                    : wire_refuse(fault, STATUS_BAD_TEXT, field,
                                                                  found);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void move_stops(struct bytes *bytes, struct wire_flow_node *node)
{
    for (uint32_t i = 0; i < node->sampling.stop_ids_count; i++) {
        bytes_u32(bytes, &node->sampling.stop_ids[i]);
    }
    for (uint32_t i = 0; i < node->stop_texts_count; i++) {
        struct call_stop_text *text = &node->stop_texts[i];
        bytes_u16(bytes, &text->length_bytes);
        bytes->failed = bytes->failed || text->length_bytes > CALL_STOP_TEXT_BYTES;
        bytes_block(bytes, text->bytes, bytes->failed ? 0 : text->length_bytes);
    }
}

/* What no range of a single field says: a node has only what its kind can use. */
static enum status check_kind(const struct wire_flow_node *node, struct wire_fault *fault)
{
    const struct call_sampling *sampling = &node->sampling;
    bool is_llm = node->kind == WIRE_NODE_LLM;
    bool has_value = is_llm || node->kind == WIRE_NODE_LAMBDA;
    const struct { enum wire_field field; bool is_allowed; uint64_t found; } rules[] = {
        {WIRE_FIELD_OPERANDS, node->kind != WIRE_NODE_INPUT || node->operands_count == 0,
         node->operands_count},
        {WIRE_FIELD_MAX_TOKENS, has_value == (node->max_tokens > 0), node->max_tokens},
        {WIRE_FIELD_FLAGS, is_llm || node->flags == 0, node->flags},
        {WIRE_FIELD_TEMPERATURE, is_llm || sampling->temperature == 0.0f, 1},
        {WIRE_FIELD_TOP_K, is_llm || sampling->top_k == 0, sampling->top_k},
        {WIRE_FIELD_TOP_P, is_llm == (sampling->top_p > 0.0f), 0},
        {WIRE_FIELD_MIN_P, is_llm || sampling->min_p == 0.0f, 1},
        {WIRE_FIELD_REPEAT_PENALTY, is_llm == (sampling->repeat_penalty > 0.0f), 0},
        {WIRE_FIELD_SEED, is_llm || sampling->seed == 0, sampling->seed},
        {WIRE_FIELD_STOP_IDS, is_llm || sampling->stop_ids_count == 0, sampling->stop_ids_count},
        {WIRE_FIELD_STOP_TEXTS, is_llm || node->stop_texts_count == 0, node->stop_texts_count},
    };
    for (uint32_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!rules[i].is_allowed) {
            return wire_refuse_range(fault, rules[i].field, rules[i].found, 0, 0);
        }
    }
    return STATUS_OK;
}

static enum status check_stop_texts(const struct wire_flow_node *node, struct wire_fault *fault)
{
    for (uint32_t i = 0; i < node->stop_texts_count; i++) {
        const struct call_stop_text *text = &node->stop_texts[i];
        if (text->length_bytes == 0 || text->length_bytes > CALL_STOP_TEXT_BYTES) {
            return wire_refuse_range(fault, WIRE_FIELD_STOP_TEXTS, text->length_bytes, 1,
                                     CALL_STOP_TEXT_BYTES);
        }
        TRY(check_utf8((const uint8_t *)text->bytes, text->length_bytes, WIRE_FIELD_STOP_TEXTS, i,
                       fault));
    }
    return STATUS_OK;
}

/* An operand is an EARLIER node, or a text. */
static enum status check_operands(const struct wire_flow_node *node, uint32_t index,
                                  uint32_t texts_count, struct wire_fault *fault)
{
    for (uint32_t i = 0; i < node->operands_count; i++) {
        uint32_t operand = u32_at(node->operands, i);
        uint32_t count = (operand & WIRE_IS_TEXT) != 0 ? texts_count : index;
        if ((operand & ~WIRE_IS_TEXT) >= count) {
            return wire_refuse_range(fault, WIRE_FIELD_OPERANDS, operand & ~WIRE_IS_TEXT, 0,
                                     count > 0 ? count - 1 : 0);
        }
    }
    return STATUS_OK;
}

/* Everything but the fixed part, whose counts are in their ranges. */
static void read_node_tail(struct bytes *in, struct wire_flow_node *node)
{
    move_stops(in, node);
    if (node->kind == WIRE_NODE_LAMBDA) {
        bytes_name(in, node->name, sizeof node->name);
    }
    node->operands = skip(in, (uint64_t)node->operands_count * sizeof(uint32_t));
}

static enum status decode_node(struct bytes *in, uint32_t index, uint32_t texts_count,
                               struct wire_fault *fault, uint64_t *operands)
{
    struct wire_flow_node node;
    memset(&node, 0, sizeof node);
    wire_layout_move(&wire_flow_node_layout, in, &node);
    TRY(wire_check_fixed(&wire_flow_node_layout, in, &node, fault));
    TRY(check_kind(&node, fault));
    read_node_tail(in, &node);
    TRY(check_stop_texts(&node, fault));
    TRY(wire_check_fixed(&wire_flow_node_layout, in, &node, fault));
    *operands += node.operands_count;
    return check_operands(&node, index, texts_count, fault);
}

void wire_flow_node_next(struct bytes *nodes, struct wire_flow_node *node)
{
    memset(node, 0, sizeof *node);
    wire_layout_move(&wire_flow_node_layout, nodes, node);
    read_node_tail(nodes, node);
}

bool wire_flow_node_put(struct bytes *nodes, const struct wire_flow_node *node)
{
    struct wire_flow_node copy = *node;
    wire_layout_move(&wire_flow_node_layout, nodes, &copy);
    if (copy.sampling.stop_ids_count > WIRE_STOP_IDS_MAX ||
        copy.stop_texts_count > CALL_STOP_TEXTS_MAX) {
        nodes->failed = true;
        return false;
    }
    move_stops(nodes, &copy);
    if (copy.kind == WIRE_NODE_LAMBDA) {
        bytes_name(nodes, copy.name, sizeof copy.name);
    }
    wire_put_block(nodes, copy.operands, (uint64_t)copy.operands_count * sizeof(uint32_t));
    return !nodes->failed;
}

/* ---- texts and columns ----------------------------------------------------------------------- */

static void text_next(struct bytes *in, struct wire_flow_text *text, uint32_t flag)
{
    uint32_t length = 0;
    bytes_u32(in, &length);
    text->is_special = (length & flag) != 0;
    text->count = length & ~flag;
    text->bytes = (const char *)skip(in, text->count);
}

void wire_flow_text_next(struct bytes *texts, struct wire_flow_text *text)
{
    text_next(texts, text, WIRE_IS_SPECIAL);
}

void wire_flow_column_next(struct bytes *columns, struct wire_flow_text *column)
{
    text_next(columns, column, 0);
}

static enum status decode_texts(struct bytes *in, uint32_t count, uint32_t flag,
                                enum wire_field field, struct wire_fault *fault)
{
    for (uint32_t i = 0; i < count; i++) {
        struct wire_flow_text text;
        text_next(in, &text, flag);
        if (in->failed) {
            return wire_check_end(in, fault);
        }
        TRY(check_utf8((const uint8_t *)text.bytes, text.count, field, i, fault));
    }
    return wire_check_end(in, fault);
}

static bool text_put(struct bytes *out, const struct wire_flow_text *text, uint32_t flag)
{
    uint32_t length = text->count | (text->is_special ? flag : 0);
    out->failed = out->failed || (text->count & WIRE_IS_SPECIAL) != 0;
    bytes_u32(out, &length);
    wire_put_block(out, (const uint8_t *)text->bytes, text->count);
    return !out->failed;
}

bool wire_flow_text_put(struct bytes *texts, const struct wire_flow_text *text)
{
    return text_put(texts, text, WIRE_IS_SPECIAL);
}

bool wire_flow_column_put(struct bytes *columns, const struct wire_flow_text *column)
{
    return text_put(columns, column, 0);
}

/* ---- FLOW_OPEN ------------------------------------------------------------------------------- */

static enum status decode_outputs(struct bytes *in, struct wire_flow_open *frame,
                                  struct wire_fault *fault)
{
    frame->outputs = skip(in, (uint64_t)frame->outputs_count * sizeof(uint32_t));
    for (uint32_t i = 0; i < frame->outputs_count && !in->failed; i++) {
        uint32_t node = u32_at(frame->outputs, i);
        if (node >= frame->nodes_count) {
            return wire_refuse_range(fault, WIRE_FIELD_OUTPUTS, node, 0,
                                     (uint64_t)frame->nodes_count - 1);
        }
    }
    return in->failed ? wire_check_end(in, fault) : STATUS_OK;
}

static enum status decode_nodes(struct bytes *in, struct wire_flow_open *frame,
                                struct wire_fault *fault)
{
    uint64_t operands = 0;
    frame->nodes = in->source + in->at;
    for (uint32_t i = 0; i < frame->nodes_count; i++) {
        TRY(decode_node(in, i, frame->texts_count, fault, &operands));
    }
    frame->nodes_bytes = (uint32_t)(in->source + in->at - frame->nodes);
    return operands == frame->operands_count
               ? STATUS_OK
               : wire_refuse_range(fault, WIRE_FIELD_OPERANDS, frame->operands_count, operands,
                                   operands);
}

enum status wire_flow_open_decode(const uint8_t *bytes, uint32_t count,
                                  struct wire_flow_open *frame, struct wire_fault *fault)
{
    struct bytes in = bytes_reader(bytes, count);
    struct wire_flow_open got;
    memset(&got, 0, sizeof got);
    wire_layout_move(&wire_flow_open_layout, &in, &got);
    *fault = (struct wire_fault){.frame_type = WIRE_FLOW_OPEN, .call_id = got.flow_id};
    TRY(wire_check_fixed(&wire_flow_open_layout, &in, &got, fault));
    TRY(decode_nodes(&in, &got, fault));
    TRY(decode_outputs(&in, &got, fault));
    got.texts = bytes + in.at;
    got.texts_bytes = bytes_left(&in);
    TRY(decode_texts(&in, got.texts_count, WIRE_IS_SPECIAL, WIRE_FIELD_TEXTS, fault));
    *frame = got;
    return STATUS_OK;
}

uint32_t wire_flow_open_encode(const struct wire_flow_open *frame, uint8_t *bytes, uint32_t max)
{
    struct bytes out = wire_frame_open(bytes, max);
    struct wire_flow_open copy = *frame;
    wire_layout_move(&wire_flow_open_layout, &out, &copy);
    wire_put_block(&out, copy.nodes, copy.nodes_bytes);
    wire_put_block(&out, copy.outputs, (uint64_t)copy.outputs_count * sizeof(uint32_t));
    wire_put_block(&out, copy.texts, copy.texts_bytes);
    return wire_frame_close(&out, WIRE_FLOW_OPEN);
}

/* ---- ROW, ANSWER ----------------------------------------------------------------------------- */

enum status wire_flow_row_decode(const uint8_t *bytes, uint32_t count, struct wire_flow_row *frame,
                                 struct wire_fault *fault)
{
    struct bytes in = bytes_reader(bytes, count);
    struct wire_flow_row got;
    memset(&got, 0, sizeof got);
    wire_layout_move(&wire_flow_row_layout, &in, &got);
    *fault = (struct wire_fault){.frame_type = WIRE_ROW, .call_id = got.flow_id};
    TRY(wire_check_fixed(&wire_flow_row_layout, &in, &got, fault));
    got.columns = bytes + in.at;
    got.columns_bytes = bytes_left(&in);
    TRY(decode_texts(&in, got.columns_count, 0, WIRE_FIELD_COLUMNS, fault));
    *frame = got;
    return STATUS_OK;
}

uint32_t wire_flow_row_encode(const struct wire_flow_row *frame, uint8_t *bytes, uint32_t max)
{
    struct bytes out = wire_frame_open(bytes, max);
    struct wire_flow_row copy = *frame;
    wire_layout_move(&wire_flow_row_layout, &out, &copy);
    wire_put_block(&out, copy.columns, copy.columns_bytes);
    return wire_frame_close(&out, WIRE_ROW);
}

enum status wire_flow_answer_decode(const uint8_t *bytes, uint32_t count,
                                    struct wire_flow_answer *frame, struct wire_fault *fault)
{
    struct bytes in = bytes_reader(bytes, count);
    struct wire_flow_answer got;
    memset(&got, 0, sizeof got);
    wire_layout_move(&wire_flow_answer_layout, &in, &got);
    *fault = (struct wire_fault){.frame_type = WIRE_ANSWER, .call_id = got.flow_id};
    TRY(wire_check_fixed(&wire_flow_answer_layout, &in, &got, fault));
    got.text_bytes = bytes_left(&in);
    got.text = skip(&in, got.text_bytes);
    if (got.failed != 0 && got.text_bytes > 0) {
        return wire_refuse(fault, STATUS_BAD_FRAME_LENGTH, WIRE_FIELD_LENGTH, count);
    }
    TRY(check_utf8(got.text, got.text_bytes, WIRE_FIELD_TEXTS, got.text_bytes, fault));
    *frame = got;
    return STATUS_OK;
}

uint32_t wire_flow_answer_encode(const struct wire_flow_answer *frame, uint8_t *bytes,
                                 uint32_t max)
{
    struct bytes out = wire_frame_open(bytes, max);
    struct wire_flow_answer copy = *frame;
    wire_layout_move(&wire_flow_answer_layout, &out, &copy);
    wire_put_block(&out, copy.text, copy.text_bytes);
    return wire_frame_close(&out, WIRE_ANSWER);
}

/* ---- VALUE, ASK ------------------------------------------------------------------------------ */

enum status wire_flow_value_decode(const uint8_t *bytes, uint32_t count,
                                   struct wire_flow_value *frame, struct wire_fault *fault)
{
    struct bytes in = bytes_reader(bytes, count);
    struct wire_flow_value got;
    memset(&got, 0, sizeof got);
    wire_layout_move(&wire_flow_value_layout, &in, &got);
    *fault = (struct wire_fault){.frame_type = WIRE_VALUE, .call_id = got.flow_id};
    TRY(wire_check_fixed(&wire_flow_value_layout, &in, &got, fault));
    got.tokens = skip(&in, (uint64_t)got.tokens_count * sizeof(uint32_t));
    got.text = skip(&in, got.text_bytes);
    TRY(wire_check_end(&in, fault));
    TRY(check_utf8(got.text, got.text_bytes, WIRE_FIELD_TEXTS, got.text_bytes, fault));
    *frame = got;
    return STATUS_OK;
}

uint32_t wire_flow_value_encode(const struct wire_flow_value *frame, const uint32_t *tokens,
                                uint8_t *bytes, uint32_t max)
{
    struct bytes out = wire_frame_open(bytes, max);
    struct wire_flow_value copy = *frame;
    wire_layout_move(&wire_flow_value_layout, &out, &copy);
    for (uint32_t i = 0; i < copy.tokens_count && !out.failed; i++) {
        uint32_t token = tokens[i];
        bytes_u32(&out, &token);
    }
    wire_put_block(&out, copy.text, copy.text_bytes);
    return wire_frame_close(&out, WIRE_VALUE);
}

enum status wire_flow_ask_decode(const uint8_t *bytes, uint32_t count, struct wire_flow_ask *frame,
                                 struct wire_fault *fault)
{
    struct bytes in = bytes_reader(bytes, count);
    struct wire_flow_ask got;
    memset(&got, 0, sizeof got);
    wire_layout_move(&wire_flow_ask_layout, &in, &got);
    *fault = (struct wire_fault){.frame_type = WIRE_ASK, .call_id = got.flow_id};
    TRY(wire_check_fixed(&wire_flow_ask_layout, &in, &got, fault));
    got.text = skip(&in, got.text_bytes);
    TRY(wire_check_end(&in, fault));
    TRY(check_utf8(got.text, got.text_bytes, WIRE_FIELD_TEXTS, got.text_bytes, fault));
    *frame = got;
    return STATUS_OK;
}

uint32_t wire_flow_ask_encode(const struct wire_flow_ask *frame, uint8_t *bytes, uint32_t max)
{
    struct bytes out = wire_frame_open(bytes, max);
    struct wire_flow_ask copy = *frame;
    wire_layout_move(&wire_flow_ask_layout, &out, &copy);
    wire_put_block(&out, copy.text, copy.text_bytes);
    return wire_frame_close(&out, WIRE_ASK);
}

uint64_t wire_row_digest(uint32_t row, uint64_t digest)
{
    uint8_t bytes[sizeof row + sizeof digest];
    struct bytes out = bytes_writer(bytes, sizeof bytes);
    bytes_u32(&out, &row);
    bytes_u64(&out, &digest);
    return fnv_add(WIRE_DIGEST_START, bytes, sizeof bytes);
}
