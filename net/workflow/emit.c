/* SPDX-License-Identifier: MIT */
/*
 * What: the frames of a workflow to its client:
 *
 *   FLOW_OK   ASK* and, of each row, VALUE* ROW_DONE   FLOW_DONE
 *
 * What is next is looked up each time; only what has begun (emit.said) is gone on with. So news
 * that find no room cost nothing: they stay in the record, and the row stays in its place.
 *
 * Invariants: each row that its client waits for gets one ROW_DONE; each FLOW_OK one FLOW_DONE. The
 * digest of a row is over its values in the order of outputs, however they were sent.
 * Bounds: a frame O(rows + nodes); and one walk over all instances, where any may have news.
 */
#include "net/workflow/workflow.h"

#include <string.h>

#include "net/bytes.h"
#include "net/kept/workflows.h"

/* ---- what is next ---------------------------------------------------------------------------- */

static void mark_sent(struct workflow_row *row, uint32_t output)
{
    row->outputs_sent[output / 64] |= UINT64_C(1) << output % 64;
}

/* From the question after the last one on, so that many of them cost one walk. */
static bool begin_ask(struct workflow *flow)
{
    uint32_t count = flow->rows_max * flow->nodes_count;
    for (uint32_t i = 0; flow->may_ask && i < count; i++) {
        uint32_t at = (flow->emit.ask_next + i) % count;
        uint32_t row = at / flow->nodes_count, node = at % flow->nodes_count;
        const struct workflow_instance *instance = &flow->instances[at];
        /* After a break a row is the client's only once it has sent it again. */
        if (flow->rows[row].is_awaited && flow->rows[row].state == WORKFLOW_ROW_OPEN &&
            workflow_is_op(flow, node) && instance->state == WORKFLOW_ASKED &&
            !net_flow_was_asked(flow, row, node)) {
            flow->rows[row].asked[node / 64] |= UINT64_C(1) << node % 64;
            flow->emit.ask_next = at + 1;
            flow->emit.said = (struct workflow_said){.kind = WORKFLOW_SAYS_ASK, .row = row,
                                                     .index = node};
            return true;
        }
    }
    flow->may_ask = false;
    return false;
}

/* Where the outputs begin that may be sent. One that had no value when a later one was sent stays
 * without: a core that takes over may know it, from another row, but its row has failed. */
static uint32_t first_unsent(const struct workflow *flow, uint32_t row)
{
    uint32_t first = flow->stream ? 0 : flow->outputs_count;
    while (first > 0 && !net_flow_was_sent(flow, row, first - 1)) {
        first--;
    }
    return first;
}

/* The first output of the row that is known and was not sent. */
static bool begin_value(struct workflow *flow, uint32_t index)
{
    struct workflow_row *row = &flow->rows[index];
    uint32_t first = first_unsent(flow, index);
    for (uint32_t output = first; output < flow->outputs_count; output++) {
        if (!net_flow_was_sent(flow, index, output) &&
            net_said_is_known(flow, index, flow->outputs[output])) {
            if (!flow->stream && first == 0) {
                row->failed_as = row->status;
            }
            mark_sent(row, output);
            flow->emit.said = (struct workflow_said){.kind = WORKFLOW_SAYS_VALUE, .row = index,
                                                     .index = output};
            return true;
        }
    }
    return false;
}

/* Of the rows that the client waits for and that are in this state, the one that came first. */
static uint32_t first_awaited(const struct workflow *flow, enum workflow_row_state state)
{
    uint32_t first = WORKFLOW_NONE;
    for (uint32_t row = 0; row < flow->rows_max; row++) {
        const struct workflow_row *its = &flow->rows[row];
        if (its->is_awaited && its->state == state &&
            (first == WORKFLOW_NONE || its->arrival < flow->rows[first].arrival)) {
            first = row;
        }
    }
    return first;
}

/* From the row of the last frame on. */
static bool begin_stream(struct workflow *flow)
{
    for (uint32_t i = 0; flow->stream && flow->may_stream && i < flow->rows_max; i++) {
        uint32_t row = (flow->emit.said.row + i) % flow->rows_max;
        if (flow->rows[row].is_awaited && flow->rows[row].state == WORKFLOW_ROW_OPEN &&
            begin_value(flow, row)) {
            return true;
        }
    }
    flow->may_stream = false;
    return false;
}

/* ---- frames: each returns false where there is no room --------------------------------------- */

static bool push(struct net *net, const struct workflow *flow, uint32_t count, uint64_t now_us)
{
    if (count > 0) {
        net_connection_push(net, &net->connections[flow->connection], count, now_us);
    }
    return count > 0;
}

static bool send_ok(struct net *net, struct workflow *flow, uint8_t *bytes, uint32_t room)
{
    const struct wire_flow_ok ok = {
        .flow_id = flow->flow_id, .given = flow->order.given, .pruned = flow->order.pruned,
        .merged = flow->order.merged, .left = flow->order.left, .rows = flow->rows_max,
        .flags = flow->emit.is_resumed ? WIRE_FLOW_OK_RESUMED : 0};
    uint32_t count = wire_flow_ok_encode(&ok, bytes, room);
    flow->emit.ok_sent = count > 0;
    return push(net, flow, count, net->emit_us);
}

/* Values that are not streamed go in the order of outputs. */
static uint64_t digest_of(const struct workflow *flow, uint32_t row)
{
    uint64_t digest = WIRE_DIGEST_START;
    if (!flow->stream) {
        return flow->rows[row].digest;
    }
    for (uint32_t output = 0; output < flow->outputs_count; output++) {
        struct workflow_said said = {.kind = WORKFLOW_SAYS_VALUE, .row = row, .index = output};
        if (!net_said_is_known(flow, row, flow->outputs[output])) {
            continue;
        }
        for (struct workflow_run run; (run = net_said_run(flow, &said)).count > 0;) {
            digest = wire_digest(digest, run.tokens, run.count);
            said.at += run.count;
        }
    }
    return digest;
}

/* The client has been told all of the row: it is on record, or its place is free. */
static void let_go(struct workflow *flow, struct workflow_row *row, uint64_t digest)
{
    struct workflow_emit *emit = &flow->emit;
    emit->rows++;
    emit->calls += row->calls;
    emit->shared += row->shared;
    emit->fetched += row->fetched;
    emit->digest += wire_row_digest(row->number, digest);
    row->is_awaited = false;
    row->state = flow->keep ? WORKFLOW_ROW_SENT : WORKFLOW_ROW_FREE;
}

/* One that has no code would read as success. */
static enum status told(enum status status)
{
    ASSERT(status == STATUS_OK || status_wire(status) != 0);
    return status;
}

static bool send_row_done(struct net *net, struct workflow *flow, uint32_t index, uint8_t *bytes,
                          uint32_t room)
{
    struct workflow_row *row = &flow->rows[index];
    if (room < WIRE_HEADER_BYTES + sizeof(struct wire_bytes_flow_row_done)) {
        return false;               /* before the digest, which costs a walk over all values */
    }
    enum status status = row->failed_as != STATUS_OK ? row->failed_as : row->status;
    const struct wire_flow_row_done done = {
        .flow_id = flow->flow_id, .row = row->number, .status = told(status),
        .calls = row->calls, .shared = row->shared, .fetched = row->fetched,
        .digest = digest_of(flow, index)};
    uint32_t count = wire_flow_row_done_encode(&done, bytes, room);
    if (!push(net, flow, count, net->emit_us)) {
        return false;
    }
    let_go(flow, row, done.digest);
    return true;
}

static bool send_done(struct net *net, uint32_t index, uint8_t *bytes, uint32_t room)
{
    struct workflow *flow = net_flow(net, index);
    const struct workflow_emit *emit = &flow->emit;
    const struct wire_flow_done done = {
        .flow_id = flow->flow_id, .status = told(flow->status), .rows = emit->rows,
        .calls = emit->calls, .shared = emit->shared, .fetched = emit->fetched,
        .digest = emit->digest};
    if (!push(net, flow, wire_flow_done_encode(&done, bytes, room), net->emit_us)) {
        return false;
    }
    net->connections[flow->connection].active_us = net->emit_us;
    net_kept_flow_end(net, index);
    net_flow_detach(net, index);
    net_workflow_release_alone(net, index);
    return true;
}

/* ---- all news of a workflow ------------------------------------------------------------------ */

static bool is_over(const struct workflow *flow)
{
    return flow->state == WORKFLOW_DONE && (flow->is_closed || flow->status != STATUS_OK);
}

/* Sends one frame. False: there is nothing more to say (`*is_all`), or no room for it. */
static bool send_next(struct net *net, uint32_t index, bool *is_all)
{
    struct workflow *flow = net_flow(net, index);
    struct net_connection *connection = &net->connections[flow->connection];
    uint32_t room = net_connection_room_of_calls(net, connection);
    uint8_t *bytes = net_connection_tail(net, connection);
    bool is_ordered = flow->state == WORKFLOW_OPEN || flow->state == WORKFLOW_DONE ||
                      flow->state == WORKFLOW_CANCELLING;
    *is_all = false;
    if (is_ordered && !flow->emit.ok_sent) {
        return send_ok(net, flow, bytes, room);
    }
    uint32_t row = first_awaited(flow, WORKFLOW_ROW_DONE);
    if (flow->emit.said.kind != WORKFLOW_SAYS_NOTHING || begin_ask(flow) || begin_stream(flow) ||
        (row != WORKFLOW_NONE && begin_value(flow, row))) {
        return push(net, flow, net_said_frame(net, flow, bytes, room), net->emit_us);
    }
    if (row != WORKFLOW_NONE) {
        return send_row_done(net, flow, row, bytes, room);
    }
    *is_all = !is_over(flow);
    return !*is_all && send_done(net, index, bytes, room);
}

bool net_workflow_send(struct net *net, uint32_t index, uint64_t now_us)
{
    const struct workflow *flow = net_flow(net, index);
    const struct workflow_emit before = flow->emit;
    uint32_t generation = flow->generation;
    bool is_all = false, has_sent = false;
    net->emit_us = now_us;
    if (before.is_taken_up) {
        return true;
    }
    while (send_next(net, index, &is_all)) {
        has_sent = true;
        if (flow->generation != generation || flow->connection == CALL_NONE) {
            return true;
        }
    }
    if (has_sent || memcmp(&flow->emit, &before, sizeof before) != 0) {
        net_kept_flow_note(net, index);
    }
    return is_all;
}

bool net_workflow_is_flushed(const struct net *net)
{
    for (uint32_t i = 0; i < net_flows_count(net); i++) {
        const struct workflow *flow = net_flow(net, i);
        if (flow->state != WORKFLOW_FREE && flow->connection != CALL_NONE &&
            (is_over(flow) || first_awaited(flow, WORKFLOW_ROW_DONE) != WORKFLOW_NONE)) {
            return false;
        }
    }
    return true;
}
