/* SPDX-License-Identifier: MIT */
/*
 * What: a core goes on with the workflows that the one before it has left. Each is filled from its
 * FLOW_OPEN as if that had just come, and ordered again; its rows are given again, from the tokens
 * of their columns, and what their instances had ended with is recalled as they begin. Until then
 * its client is told nothing, and none of its frames is acted on; then what had come before the
 * death is acted on before anything is sent, as it was, or would have been, by the core that died.
 *
 * A workflow whose connection is lost goes on without a client if that may come back (KEEP). One
 * that lacks a row which its client waits for is given up with its connection.
 *
 * Death: a core may die here, too; what it has done is done again.
 * Bounds: O(workflows * rows^2), and all FLOW_OPENs and columns.
 */
#include <string.h>

#include "net/auth/auth.h"
#include "net/intake.h"
#include "net/kept/replies.h"
#include "net/kept/workflows.h"
#include "net/workflow/workflow.h"

/* ---- versions -------------------------------------------------------------------------------- */

/* Its connection has committed it, or there is none. */
static bool holds(const struct net *net, const struct net_kept_flow_version *version)
{
    uint32_t connection = version->connection;
    return connection == CALL_NONE || (connection < net->settings.limits->connections &&
                                       version->number <= net->kept.of[connection].number);
}

/* The last that holds; NULL: none does. What is newer does not, and must not once the connection's
 * number has grown: it is wiped. */
static struct net_kept_flow_version *choose(const struct net *net, struct net_kept_flow *kept)
{
    uint32_t last = net_kept_flow_last(kept);
    for (uint32_t i = 0; i < 2; i++) {
        struct net_kept_flow_version *version = &kept->versions[last ^ i];
        if (net_kept_flow_is_whole(net, version) && holds(net, version)) {
            return version;
        }
        memset(version, 0, sizeof *version);
    }
    return NULL;
}

/* The connection that it was told by goes on. */
static bool is_here(const struct net *net, const struct net_kept_flow_version *version)
{
    uint32_t index = version->connection;
    return index != CALL_NONE && net->connections[index].state == NET_OPEN &&
           net->connections[index].domain == version->domain &&
           net_kept_holds(net, index, version->number, version->number);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void restore_row(struct net *net, uint32_t index, uint32_t place,
                        const struct net_kept_told *told)
{
    struct workflow *flow = net_flow(net, index);
    const struct net_kept_row *kept = net_kept_row(net, index, place);
    struct workflow_row *row = &flow->rows[place];
    *row = (struct workflow_row){
        .state = WORKFLOW_ROW_GIVEN, .number = kept->number, .request = kept->request,
        .arrival = told->arrival, .values = kept->values, .nodes_first = kept->nodes_first,
        .is_awaited = told->is_awaited, .digest = told->digest, .goes_on = true,
        .failed_as = (enum status)told->failed_as, .life = kept->life};
    memcpy(row->asked, told->asked, sizeof row->asked);
    memcpy(row->outputs_sent, told->outputs_sent, sizeof row->outputs_sent);
    memcpy(row->columns, kept->columns, sizeof row->columns);
    memcpy(row->heads, kept->heads, sizeof row->heads);
    for (uint32_t i = 0; i < flow->inputs_count; i++) {
        row->digests[i] = net_flow_column_digest(flow, row->columns[i]);
    }
}

/* Rows that are there count from 0 on, in the order in which they came. */
static void number_rows(struct workflow *flow, const struct net_kept_flow_version *version)
{
    for (uint32_t i = 0; i < flow->rows_max; i++) {
        struct workflow_row *row = &flow->rows[i];
        if (row->state != WORKFLOW_ROW_GIVEN) {
            continue;
        }
        row->arrival = 0;
        for (uint32_t other = 0; other < flow->rows_max; other++) {
            bool is_earlier = flow->rows[other].state == WORKFLOW_ROW_GIVEN &&
                              version->told[other].arrival < version->told[i].arrival;
            row->arrival += is_earlier;
        }
        flow->rows_given++;
    }
}

/* False: it lacks a row that its client waits for. One that is away sends it again. */
static bool restore_rows(struct net *net, uint32_t index,
                         const struct net_kept_flow_version *version, bool is_away)
{
    struct workflow *flow = net_flow(net, index);
    for (uint32_t place = 0; place < flow->rows_max; place++) {
        const struct net_kept_told *told = &version->told[place];
        bool is_whole = told->row != 0 && told->row == net_kept_row(net, index, place)->check &&
                        net_kept_row_is_whole(net, index, place);
        if (is_whole) {
            restore_row(net, index, place, told);
        } else if (told->row != 0 && told->is_awaited && !is_away) {
            return false;
        }
    }
    number_rows(flow, version);
    const struct workflow_said *said = &flow->emit.said;
    return is_away || said->kind == WORKFLOW_SAYS_NOTHING ||
           flow->rows[said->row].state == WORKFLOW_ROW_GIVEN;
}

/* ---- it goes on ------------------------------------------------------------------------------ */

static bool is_over(const struct workflow *flow)
{
    return flow->state == WORKFLOW_CANCELLING || flow->state == WORKFLOW_DONE;
}

/* All rows have begun again, or will not. */
static bool has_begun(const struct workflow *flow)
{
    return is_over(flow) || (flow->state == WORKFLOW_OPEN && flow->rows_begun == flow->rows_given);
}

bool net_kept_flows_wait(const struct net *net, const struct net_connection *connection)
{
    bool any = false;
    uint32_t at = connection->flows_first;
    for (uint32_t i = 0; i < connection->flows_count; i++) {
        const struct workflow *flow = net_flow(net, at);
        any = any || (flow->emit.is_taken_up && !has_begun(flow));
        at = flow->emit.next;
    }
    return any;
}

/* Each output that the client has had is known. */
static bool row_is_as_told(const struct workflow *flow, uint32_t row)
{
    bool is_known = true;
    for (uint32_t output = 0; is_known && output < flow->outputs_count; output++) {
        is_known = !net_flow_was_sent(flow, row, output) ||
                   net_said_is_known(flow, row, flow->outputs[output]);
    }
    return is_known;
}

/* What its client was told of it is as it was; it is not where a value is lost by garbage, or rows
 * have ended before they could begin again: with the engine. */
static bool is_as_told(const struct workflow *flow)
{
    bool is_as_told = net_said_can_go_on(flow);
    for (uint32_t row = 0; is_as_told && row < flow->rows_max; row++) {
        is_as_told = !flow->rows[row].is_awaited || row_is_as_told(flow, row);
    }
    return is_as_told;
}

static void settle(struct net *net, uint32_t index)
{
    struct workflow *flow = net_flow(net, index);
    flow->emit.is_taken_up = false;
    if (flow->emit.cancel_sent && !is_over(flow)) {
        net_flow_command(net, index, (struct command){.kind = COMMAND_WORKFLOW_CANCEL});
    }
    if (flow->connection != CALL_NONE && is_as_told(flow)) {
        exchange_workflow_news(net->exchange, index);
    } else if (flow->connection != CALL_NONE) {
        net_connection_close(net, flow->connection);
    }
}

/* It speaks again once all of its connection's workflows may: what had come before the death may be
 * for any of them. */
static bool is_due(const struct net *net, const struct workflow *flow)
{
    uint32_t connection = flow->connection;
    return flow->state != WORKFLOW_FREE && flow->emit.is_taken_up && has_begun(flow) &&
           (connection == CALL_NONE || !net_kept_flows_wait(net, &net->connections[connection]));
}

void net_kept_flows_settle(struct net *net)
{
    for (uint32_t i = 0; i < net_flows_count(net); i++) {
        if (is_due(net, net_flow(net, i))) {
            settle(net, i);
        }
    }
}

bool net_kept_flows_are_due(const struct net *net)
{
    bool any = false;
    for (uint32_t i = 0; i < net_flows_count(net); i++) {
        any = any || is_due(net, net_flow(net, i));
    }
    return any;
}

/* ---- a workflow ------------------------------------------------------------------------------ */

/* Fills the record, which is INTAKE. */
static bool restore(struct net *net, uint32_t index, const struct net_kept_flow_version *version,
                    bool is_away)
{
    struct net_frame frame = {
        .net = net, .connection = version->connection, .type = WIRE_FLOW_OPEN,
        .payload = net_kept_flow_payload(net, index), .payload_bytes = version->request_bytes};
    struct workflow *flow = net_flow(net, index);
    if (version->request_bytes > net->settings.limits->frame_bytes ||
        net_reply_request(frame.payload, frame.payload_bytes) != version->request ||
        net_flow_open_again(&frame, index) != STATUS_OK) {
        return false;
    }
    flow->is_closed = version->is_closed;
    flow->emit = version->emit;
    flow->emit.linger_until_us = 0;
    flow->emit.is_taken_up = true;
    flow->may_ask = flow->may_stream = true;
    return restore_rows(net, index, version, is_away);
}

/* Its client is away. False: it could not come in any more. */
static bool let_go_on(struct net *net, uint32_t index, const struct net_kept_flow_version *version)
{
    struct workflow *flow = net_flow(net, index);
    uint32_t key = net_kept_find_key(net, version->key_id, version->domain, version->key_print);
    bool may_come = net_domain_is_user(version->domain)
                        ? config_access_allows(&net->settings.access, (uint32_t)version->domain,
                                               &version->gid, 1)
                        : version->key_print == 0 || key != NET_KEY_NONE;
    net_flow_await_none(flow);
    flow->emit = (struct workflow_emit){0};
    flow->key = key;
    flow->gid = version->gid;
    return may_come && flow->keep && net->settings.linger_us > 0 && !version->emit.cancel_sent;
}

static void begin(struct net *net, uint32_t index, uint32_t connection)
{
    struct workflow *flow = net_flow(net, index);
    flow->state = WORKFLOW_ORDERING;
    net->stats->workflows_continued++;
    if (connection != CALL_NONE) {
        net_flow_attach(net, index, connection);
        net_kept_flow_note(net, index);     /* rows have other numbers */
    }
    net_flow_command(net, index, (struct command){.kind = COMMAND_WORKFLOW_OPEN});
}

static void take_up(struct net *net, uint32_t index)
{
    const struct net_kept_flow_version *version = choose(net, &net->kept.flows[index]);
    if (version == NULL || !version->is_there) {
        return;
    }
    bool is_away = !is_here(net, version);
    if (!workflow_take_slot(net->workflows, index, version->domain)) {
        net_kept_flow_end(net, index);
        return;
    }
    bool goes_on = restore(net, index, version, is_away) &&
                   (!is_away || let_go_on(net, index, version));
    if (goes_on) {
        begin(net, index, is_away ? CALL_NONE : version->connection);
    } else {
        net_kept_flow_end(net, index);
        workflow_release(net->workflows, index);
    }
}

void net_kept_flows_take_up(struct net *net, bool may_stay)
{
    for (uint32_t i = 0; i < net_flows_count(net); i++) {
        if (may_stay) {
            take_up(net, i);
        } else {
            net_kept_flow_end(net, i);
        }
    }
}
