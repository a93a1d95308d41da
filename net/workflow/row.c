/* SPDX-License-Identifier: MIT */
/*
 * What: ROW and ANSWER frames into a workflow's tokens, and commands for the scheduler.
 *
 * A row gets its place before its columns are tokens: the largest gap. Its columns are encoded
 * there, in the place where they will stay, and what is left must do for all the values that the
 * row can have. Rows that are on record only, because a kept workflow's client might ask again,
 * yield their places, the oldest first.
 *
 * Invariants: a refusal leaves the workflow as it was, but for rows on record that have yielded.
 * Bounds: linear in the frame, but for vocab_encode(); O(rows^2) for each row that yields.
 */
#include "net/workflow/workflow.h"

#include <string.h>

#include "net/bytes.h"
#include "config/base/fnv.h"
#include "net/kept/replies.h"
#include "net/kept/workflows.h"

static uint32_t find_row(const struct workflow *flow, uint32_t number)
{
    for (uint32_t row = 0; row < flow->rows_max; row++) {
        if (flow->rows[row].state != WORKFLOW_ROW_FREE && flow->rows[row].number == number) {
            return row;
        }
    }
    return WORKFLOW_NONE;
}

static bool may_have_rows(const struct workflow *flow)
{
    return !flow->is_closed && !flow->emit.cancel_sent &&
           (flow->state == WORKFLOW_ORDERING || flow->state == WORKFLOW_OPEN ||
            flow->state == WORKFLOW_DONE);
}

/* ---- a place --------------------------------------------------------------------------------- */

/* The row on record that came first yields. */
static bool yield_one(struct net *net, uint32_t index)
{
    struct workflow *flow = net_flow(net, index);
    struct workflow_row *oldest = NULL;
    for (uint32_t row = 0; row < flow->rows_max; row++) {
        struct workflow_row *its = &flow->rows[row];
        bool is_on_record = its->state == WORKFLOW_ROW_SENT || its->state == WORKFLOW_ROW_DONE;
        if (is_on_record && !its->is_awaited &&
            (oldest == NULL || its->arrival < oldest->arrival)) {
            oldest = its;
        }
    }
    if (oldest == NULL) {
        return false;
    }
    oldest->state = WORKFLOW_ROW_FREE;
    net_kept_flow_note(net, index);
    return true;
}

static uint32_t free_row(const struct workflow *flow)
{
    for (uint32_t row = 0; row < flow->rows_max; row++) {
        if (flow->rows[row].state == WORKFLOW_ROW_FREE) {
            return row;
        }
    }
    return WORKFLOW_NONE;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* One way of the column, at `*at`, which moves on. False where it does not fit before `end`. */
static bool encode(struct net *net, struct workflow *flow, const struct workflow_literal *literal,
                   struct workflow_span *place, uint32_t end)
{
    uint32_t first = place->first + place->count;
    uint32_t count = net_flow_encode(net, literal, flow->values + first, end - first);
    *place = (struct workflow_span){first, count};
    return count != UINT32_MAX;
}

uint64_t net_flow_column_digest(const struct workflow *flow, struct workflow_span column)
{
    return fnv_add(FNV_START, flow->values + column.first,
                   (uint64_t)column.count * sizeof *flow->values);
}

/* The columns of the row, in its place, in the ways that prompts need them; what is left of the
 * place must hold the values. False where it does not. */
static bool encode_columns(struct net *net, struct workflow *flow, const struct wire_flow_row *wire,
                           struct workflow_row *row)
{
    struct bytes columns = bytes_reader(wire->columns, wire->columns_bytes);
    uint32_t end = row->values.first + row->values.count;
    struct workflow_span place = {row->values.first, 0};
    for (uint32_t i = 0; i < wire->columns_count; i++) {
        struct wire_flow_text column;
        wire_flow_column_next(&columns, &column);
        const struct workflow_text text = {column.bytes, column.count, false};
        struct workflow_literal literal = {.parts = &text, .parts_count = 1, .leads = true};
        bool leads = workflow_set_has(&flow->leading, i);
        bool follows = workflow_set_has(&flow->following, i);
        if (leads && !encode(net, flow, &literal, &place, end)) {
            return false;
        }
        row->heads[i] = row->columns[i] = leads ? place : (struct workflow_span){place.first, 0};
        literal.leads = false;
        if (follows && !encode(net, flow, &literal, &place, end)) {
            return false;
        }
        row->columns[i] = follows ? place : row->columns[i];
        row->digests[i] = net_flow_column_digest(flow, row->columns[i]);
    }
    row->nodes_first = place.first + place.count;
    return end - row->nodes_first >= flow->row_value_tokens;
}

/* ---- ROW ------------------------------------------------------------------------------------- */

static enum status admit_row(struct net_frame *frame, const struct wire_flow_row *wire,
                             uint32_t *index)
{
    const struct net *net = frame->net;
    *index = net_flow_find(net, frame->connection, wire->flow_id);
    if (*index == WORKFLOW_NONE || !may_have_rows(net_flow(net, *index))) {
        return net_frame_fault(frame, STATUS_BAD_FLOW_UNKNOWN, WIRE_FIELD_FLOW_ID, wire->flow_id,
                               0);
    }
    uint32_t inputs = net_flow(net, *index)->inputs_count;
    if (wire->columns_count != inputs) {
        frame->fault.min = inputs;
        return net_frame_fault(frame, STATUS_BAD_FIELD, WIRE_FIELD_COLUMNS, wire->columns_count,
                               inputs);
    }
    return STATUS_OK;
}

/* One that is longer than the tokenizer's scratch fits in no place: no row on record has to yield
 * before that is said. */
static enum status admit_columns(struct net_frame *frame, const struct wire_flow_row *wire)
{
    const struct net *net = frame->net;
    uint32_t most = net->encoder == NULL ? net->flow_intake.literal_bytes_max : UINT32_MAX;
    struct bytes columns = bytes_reader(wire->columns, wire->columns_bytes);
    for (uint32_t i = 0; i < wire->columns_count; i++) {
        struct wire_flow_text column;
        wire_flow_column_next(&columns, &column);
        if (column.count > most) {
            return net_frame_fault(frame, STATUS_BAD_FLOW_SIZE, WIRE_FIELD_COLUMNS, column.count,
                                   most);
        }
    }
    return STATUS_OK;
}

/* A row with this number is there: it is answered from what is on record, if it is the same one
 * and its client is not waiting for it already. */
static enum status answer_again(struct net_frame *frame, uint32_t index, uint32_t at)
{
    struct workflow *flow = net_flow(frame->net, index);
    struct workflow_row *row = &flow->rows[at];
    uint64_t request = net_reply_request(frame->payload, frame->payload_bytes);
    if (row->is_awaited || row->request != request) {
        return net_frame_fault(frame, STATUS_BAD_ROW_REUSED, WIRE_FIELD_ROW, row->number, 0);
    }
    row->is_awaited = true;
    flow->may_ask = flow->may_stream = true;
    memset(row->outputs_sent, 0, sizeof row->outputs_sent);
    row->digest = WIRE_DIGEST_START;
    row->failed_as = STATUS_OK;
    row->state = row->state == WORKFLOW_ROW_SENT ? WORKFLOW_ROW_DONE : row->state;
    net_kept_flow_note(frame->net, index);
    exchange_workflow_news(frame->net->exchange, index);
    return STATUS_OK;
}

static enum status refuse_for_room(struct net_frame *frame, const struct workflow *flow,
                                   uint32_t number, bool is_alone)
{
    const struct workflow_limits *limits = &frame->net->settings.limits->workflow;
    if (is_alone) {
        return net_frame_fault(frame, STATUS_BAD_FLOW_SIZE, WIRE_FIELD_COLUMNS,
                               (uint64_t)limits->value_tokens + 1,
                               limits->value_tokens - flow->row_value_tokens);
    }
    return net_frame_fault(frame, STATUS_BUSY_ROWS, WIRE_FIELD_ROW, number, limits->rows);
}

/* Finds a place for the row and fills it; rows on record yield until there is one. Columns that did
 * not fit are encoded again when the place is twice as large, or none yields any more: so a client
 * that fills the record costs a few encodings of its row, and not one for each row that yields. */
static enum status place_row(struct net_frame *frame, uint32_t index,
                             const struct wire_flow_row *wire, uint32_t *at)
{
    struct net *net = frame->net;
    struct workflow *flow = net_flow(net, index);
    uint32_t value_tokens = net->settings.limits->workflow.value_tokens;
    uint32_t least = flow->row_value_tokens, enough = least;
    for (bool is_last = false;; is_last = !yield_one(net, index)) {
        *at = free_row(flow);
        const struct workflow_span room = net_flow_room(flow, value_tokens);
        if (*at != WORKFLOW_NONE && room.count >= (is_last ? least : enough)) {
            struct workflow_row *row = &flow->rows[*at];
            *row = (struct workflow_row){.number = wire->row, .values = room,
                                         .digest = WIRE_DIGEST_START};
            if (encode_columns(net, flow, wire, row)) {
                row->values.count = row->nodes_first + flow->row_value_tokens - room.first;
                return STATUS_OK;
            }
            least = room.count + 1;
            enough = 2 * room.count + 1;
        }
        if (is_last) {
            return refuse_for_room(frame, flow, wire->row, room.count == value_tokens);
        }
    }
}

enum status net_flow_row_intake(struct net_frame *frame)
{
    struct net *net = frame->net;
    struct wire_flow_row wire;
    uint32_t index, at;
    TRY(wire_flow_row_decode(frame->payload, frame->payload_bytes, &wire, &frame->fault));
    frame->fault.call_id = wire.flow_id;
    TRY(admit_row(frame, &wire, &index));
    struct workflow *flow = net_flow(net, index);
    at = find_row(flow, wire.row);
    if (at != WORKFLOW_NONE) {
        return answer_again(frame, index, at);
    }
    if (net->draining) {
        return net_frame_fault(frame, STATUS_BUSY_DRAINING, WIRE_FIELD_ROW, wire.row, 0);
    }
    if (flow->state == WORKFLOW_DONE) {
        return net_frame_fault(frame, STATUS_BAD_FLOW_UNKNOWN, WIRE_FIELD_NONE, 0, 0);
    }
    TRY(admit_columns(frame, &wire));
    TRY(place_row(frame, index, &wire, &at));
    struct workflow_row *row = &flow->rows[at];
    row->state = WORKFLOW_ROW_GIVEN;
    row->arrival = flow->rows_given++;
    row->request = net_reply_request(frame->payload, frame->payload_bytes);
    row->is_awaited = true;
    net_kept_flow_row(net, index, at);
    net_kept_flow_note(net, index);
    net->stats->rows_accepted++;
    net_flow_command(net, index, (struct command){.kind = COMMAND_WORKFLOW_ROW, .row = at});
    return STATUS_OK;
}

/* ---- ANSWER ---------------------------------------------------------------------------------- */

static bool is_known(const struct workflow *flow, uint32_t row, uint32_t node)
{
    return workflow_instance(flow, row, node)->state == WORKFLOW_KNOWN;
}

/* The core before this one has acted on the same bytes, and died before it could say so: there is a
 * value, or the answer was that there is none, and the question is still noted as open. */
static bool was_answered(const struct workflow *flow, uint32_t row, uint32_t node)
{
    const struct workflow_instance *instance = workflow_instance(flow, row, node);
    bool has_failed = instance->state == WORKFLOW_FAILED && instance->status == STATUS_BAD_LAMBDA;
    return net_flow_has_begun(flow, row) && (is_known(flow, row, node) || has_failed);
}

static enum status admit_answer(struct net_frame *frame, const struct wire_flow_answer *wire,
                                uint32_t *index, uint32_t *row)
{
    const struct net *net = frame->net;
    *index = net_flow_find(net, frame->connection, wire->flow_id);
    if (*index == WORKFLOW_NONE) {
        return net_frame_fault(frame, STATUS_BAD_FLOW_UNKNOWN, WIRE_FIELD_FLOW_ID, wire->flow_id,
                               0);
    }
    const struct workflow *flow = net_flow(net, *index);
    *row = find_row(flow, wire->row);
    bool is_op = *row != WORKFLOW_NONE && wire->node < flow->nodes_count &&
                 workflow_is_op(flow, wire->node);
    bool is_asked = is_op && flow->rows[*row].state == WORKFLOW_ROW_OPEN &&
                    workflow_instance(flow, *row, wire->node)->state == WORKFLOW_ASKED;
    return is_op && net_flow_was_asked(flow, *row, wire->node) &&
                   (is_asked || was_answered(flow, *row, wire->node)) ? STATUS_OK
                    : net_frame_fault(frame, STATUS_BAD_NODE_UNKNOWN, WIRE_FIELD_NODE, wire->node,
                                      0);
}

enum status net_flow_answer_intake(struct net_frame *frame)
{
    struct net *net = frame->net;
    struct wire_flow_answer wire;
    uint32_t index, row, count = 0;
    TRY(wire_flow_answer_decode(frame->payload, frame->payload_bytes, &wire, &frame->fault));
    frame->fault.call_id = wire.flow_id;
    TRY(admit_answer(frame, &wire, &index, &row));
    struct workflow *flow = net_flow(net, index);
    uint32_t max_tokens = flow->nodes[wire.node].max_tokens;
    /* A second answer would write over this one before the scheduler has seen it. */
    flow->rows[row].asked[wire.node / 64] &= ~(UINT64_C(1) << wire.node % 64);
    net_kept_flow_note(net, index);
    if (is_known(flow, row, wire.node)) {
        return STATUS_OK;
    }
    if (wire.failed == 0) {
        const struct workflow_text text = {(const char *)wire.text, wire.text_bytes, false};
        const struct workflow_literal literal = {.parts = &text, .parts_count = 1};
        count = net_flow_encode(net, &literal, workflow_value(flow, row, wire.node), max_tokens);
    }
    bool is_too_long = count == UINT32_MAX;
    net_flow_command(net, index,
                     (struct command){.kind = COMMAND_WORKFLOW_ANSWER, .row = row,
                                      .node = wire.node, .tokens_count = is_too_long ? 0 : count,
                                      .failed = wire.failed != 0 || is_too_long});
    return !is_too_long ? STATUS_OK
                        : net_frame_fault(frame, STATUS_BAD_FIELD, WIRE_FIELD_MAX_TOKENS,
                                          (uint64_t)max_tokens + 1, max_tokens);
}
