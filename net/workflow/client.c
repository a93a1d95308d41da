/* SPDX-License-Identifier: MIT */
/*
 * What: which connection has a workflow, and what becomes of it when that goes. A workflow with
 * KEEP goes on for settings.linger_us; its client may come back for it in that time. Every other
 * one is cancelled, as calls are.
 *
 * A workflow that is DONE and has told its client so stays while it is kept, for a client that has
 * not got the last frames. It is OPEN again when that comes back, since rows that are not on record
 * any more are executed again. It yields to a new workflow when no slot is free.
 *
 * Invariants: the workflows of a connection are a circular list. net asks sched at most once to
 * cancel a workflow; the inbox keeps room for that.
 */
#include "net/workflow/workflow.h"

#include <string.h>

#include "net/kept/workflows.h"

/* ---- the list of a connection ---------------------------------------------------------------- */

uint32_t net_flow_find(const struct net *net, uint32_t connection, uint64_t flow_id)
{
    const struct net_connection *of = &net->connections[connection];
    uint32_t at = of->flows_first;
    for (uint32_t i = 0; i < of->flows_count; i++) {
        if (net_flow(net, at)->flow_id == flow_id) {
            return at;
        }
        at = net_flow(net, at)->emit.next;
    }
    return WORKFLOW_NONE;
}

void net_flow_attach(struct net *net, uint32_t index, uint32_t connection)
{
    struct net_connection *of = &net->connections[connection];
    struct workflow *flow = net_flow(net, index);
    flow->connection = connection;
    flow->key = of->key;
    flow->gid = of->gid;
    flow->emit.next = flow->emit.prev = index;
    if (of->flows_count++ > 0) {
        struct workflow *first = net_flow(net, of->flows_first);
        flow->emit.next = of->flows_first;
        flow->emit.prev = first->emit.prev;
        net_flow(net, first->emit.prev)->emit.next = index;
        first->emit.prev = index;
    } else {
        of->flows_first = index;
    }
}

void net_flow_detach(struct net *net, uint32_t index)
{
    struct workflow *flow = net_flow(net, index);
    struct net_connection *of = &net->connections[flow->connection];
    ASSERT(of->flows_count > 0);
    net_flow(net, flow->emit.prev)->emit.next = flow->emit.next;
    net_flow(net, flow->emit.next)->emit.prev = flow->emit.prev;
    of->flows_first = of->flows_first == index ? flow->emit.next : of->flows_first;
    of->flows_first = --of->flows_count > 0 ? of->flows_first : WORKFLOW_NONE;
    flow->connection = CALL_NONE;
    flow->emit.linger_until_us = 0;
}

void net_flow_command(struct net *net, uint32_t index, struct command command)
{
    command.workflow = index;
    command.workflow_generation = net_flow(net, index)->generation;
    exchange_command(net->exchange, &command);
}

/* What its client is not there for any more is not kept. */
static void note(struct net *net, uint32_t index)
{
    if (net_flow(net, index)->connection != CALL_NONE) {
        net_kept_flow_note(net, index);
    } else {
        net_kept_flow_end(net, index);
    }
}

static void cancel(struct net *net, uint32_t index)
{
    struct workflow *flow = net_flow(net, index);
    if (!flow->emit.cancel_sent && flow->state != WORKFLOW_DONE) {
        flow->emit.cancel_sent = true;
        net_flow_command(net, index, (struct command){.kind = COMMAND_WORKFLOW_CANCEL});
        note(net, index);
    }
}

/* ---- a client that goes, and comes back ------------------------------------------------------ */

bool net_flow_is_kept(const struct net *net, const struct workflow *flow)
{
    bool is_over = flow->state == WORKFLOW_DONE && flow->status != STATUS_OK;
    return flow->keep && net->settings.linger_us > 0 && !flow->emit.cancel_sent &&
           flow->state != WORKFLOW_CANCELLING && !is_over;
}

void net_flow_await_none(struct workflow *flow)
{
    for (uint32_t row = 0; row < flow->rows_max; row++) {
        flow->rows[row].is_awaited = false;
        memset(flow->rows[row].asked, 0, sizeof flow->rows[row].asked);
    }
}

void net_flow_resume(struct net *net, uint32_t index, uint32_t connection)
{
    struct workflow *flow = net_flow(net, index);
    ASSERT(flow->connection == CALL_NONE && net_flow_is_kept(net, flow));
    flow->emit = (struct workflow_emit){.is_resumed = true};
    flow->is_closed = false;
    flow->may_ask = flow->may_stream = true;
    if (flow->state == WORKFLOW_DONE && !net->draining) {
        flow->state = WORKFLOW_OPEN;
    }
    net_flow_attach(net, index, connection);
    net_kept_flow_note(net, index);
    net_flow_await_none(flow);
    exchange_workflow_news(net->exchange, index);
}

void net_workflow_release_alone(struct net *net, uint32_t index)
{
    const struct workflow *flow = net_flow(net, index);
    if (flow->state == WORKFLOW_DONE && !net_flow_is_kept(net, flow)) {
        net_kept_flow_end(net, index);
        workflow_release(net->workflows, index);
    }
}

void net_workflow_abandon(struct net *net, uint32_t connection)
{
    struct net_connection *of = &net->connections[connection];
    while (of->flows_count > 0) {
        uint32_t index = of->flows_first;
        bool is_kept = net_flow_is_kept(net, net_flow(net, index));
        if (is_kept) {
            net_kept_flow_leave(net, index);
        }
        net_flow_detach(net, index);
        if (!is_kept) {
            net_kept_flow_end(net, index);
            cancel(net, index);
        }
        net_workflow_release_alone(net, index);
    }
}

void net_workflow_shut_out(struct net *net, uint32_t index)
{
    struct workflow *flow = net_flow(net, index);
    flow->keep = false;
    cancel(net, index);
    if (flow->connection == CALL_NONE) {
        net_workflow_release_alone(net, index);
    }
}

/* True when it has ended, and its client is away. */
static bool is_left(const struct workflow *flow)
{
    return flow->state == WORKFLOW_DONE && flow->connection == CALL_NONE;
}

bool net_flow_make_room(struct net *net, uint64_t domain)
{
    uint64_t firsts[QUOTA_ACCOUNTS_MAX];
    for (uint32_t i = 0; i < QUOTA_ACCOUNTS_MAX; i++) {
        firsts[i] = QUOTA_AGE_NONE;
    }
    for (uint32_t i = net_flows_count(net); i > 0; i--) {
        const struct workflow *flow = net_flow(net, i - 1);
        firsts[flow->account] = is_left(flow) ? i - 1 : firsts[flow->account];
    }
    uint32_t victim = net_flows_count(net) > 0
                          ? quota_victim(&net->workflows->quota, quota_account(domain), 1, firsts)
                          : QUOTA_ACCOUNT_NONE;
    if (victim == QUOTA_ACCOUNT_NONE) {
        return false;
    }
    net_kept_flow_end(net, (uint32_t)firsts[victim]);
    workflow_release(net->workflows, (uint32_t)firsts[victim]);
    return true;
}

static bool is_away(const struct workflow *flow)
{
    return flow->state != WORKFLOW_FREE && flow->connection == CALL_NONE &&
           !flow->emit.cancel_sent;
}

void net_workflow_expire(struct net *net, uint64_t now_us)
{
    for (uint32_t i = 0; i < net_flows_count(net); i++) {
        struct workflow *flow = net_flow(net, i);
        if (!is_away(flow)) {
            continue;
        }
        if (flow->emit.linger_until_us == 0) {
            flow->emit.linger_until_us = now_us + net->settings.linger_us;
        } else if (now_us >= flow->emit.linger_until_us) {
            flow->keep = false;
            cancel(net, i);
            net_workflow_release_alone(net, i);
        }
    }
}

uint64_t net_workflow_next_us(const struct net *net)
{
    uint64_t next_us = UINT64_MAX;
    for (uint32_t i = 0; i < net_flows_count(net); i++) {
        const struct workflow *flow = net_flow(net, i);
        if (is_away(flow) && flow->emit.linger_until_us < next_us) {
            next_us = flow->emit.linger_until_us;
        }
    }
    return next_us;
}

/* ---- what its client's key may have ---------------------------------------------------------- */

uint32_t net_workflow_calls(const struct net *net, uint32_t key)
{
    return net->workflows != NULL ? workflow_calls_of_key(net->workflows, key) : 0;
}

void net_workflow_bound(struct net *net)
{
    for (uint32_t i = 0; i < net_flows_count(net); i++) {
        struct workflow *flow = net_flow(net, i);
        const struct net_key *key = flow->key != NET_KEY_NONE ? &net->keys[flow->key] : NULL;
        uint32_t open = key != NULL ? key->calls_open : 0;
        uint32_t max = key != NULL ? key->calls_max : UINT32_MAX;
        flow->calls_max = max > open ? max - open : 0;
    }
}

bool net_workflow_waits_for(const struct net *net, uint32_t key)
{
    for (uint32_t i = 0; key != NET_KEY_NONE && i < net_flows_count(net); i++) {
        const struct workflow *flow = net_flow(net, i);
        if (flow->state == WORKFLOW_OPEN && flow->key == key && flow->ready.count > 0) {
            return true;
        }
    }
    return false;
}

/* ---- FLOW_CLOSE, FLOW_CANCEL ----------------------------------------------------------------- */

enum status net_flow_end_intake(struct net_frame *frame)
{
    struct net *net = frame->net;
    struct wire_flow_end end;
    TRY(wire_flow_end_decode(frame->payload, frame->payload_bytes, &end, &frame->fault));
    frame->fault.call_id = end.flow_id;
    uint32_t index = net_flow_find(net, frame->connection, end.flow_id);
    if (index == WORKFLOW_NONE) {
        return net_frame_fault(frame, STATUS_BAD_FLOW_UNKNOWN, WIRE_FIELD_FLOW_ID, end.flow_id, 0);
    }
    if (frame->type == WIRE_FLOW_CANCEL) {
        cancel(net, index);
        return STATUS_OK;
    }
    net_flow(net, index)->is_closed = true;
    net_kept_flow_note(net, index);
    net_flow_command(net, index, (struct command){.kind = COMMAND_WORKFLOW_CLOSE});
    exchange_workflow_news(net->exchange, index);   /* one that has ended before is told so now */
    return STATUS_OK;
}

/* ---- memory, invariants ---------------------------------------------------------------------- */

void net_workflow_plan_memory(struct memory_plan *plan, const struct limits *limits,
                              uint32_t text_bytes_max)
{
    uint32_t count = limits->workflow.workflows > 0 ? limits->workflow.pieces : 0;
    memory_plan_add(plan, MEMORY_CORE, "net flow operands", count,
                    sizeof(struct workflow_operand));
    memory_plan_add(plan, MEMORY_CORE, "net flow texts", count, sizeof(struct workflow_text));
    memory_plan_add(plan, MEMORY_CORE, "net flow lists",
                    count > 0 ? limits->workflow.value_tokens : 0, sizeof(uint32_t));
    memory_plan_add(plan, MEMORY_CORE, "net flow literal", count > 0 ? text_bytes_max : 0, 1);
}

void net_workflow_init(struct net *net, uint32_t text_bytes_max, struct arena *arena)
{
    const struct workflow_limits *limits = &net->settings.limits->workflow;
    uint32_t count = limits->workflows > 0 ? limits->pieces : 0;
    struct net_flow_intake *intake = &net->flow_intake;
    intake->operands = arena_take(arena, count, sizeof(struct workflow_operand));
    intake->texts = arena_take(arena, count, sizeof(struct workflow_text));
    intake->lists = arena_take(arena, count > 0 ? limits->value_tokens : 0, sizeof(uint32_t));
    intake->literal_bytes_max = count > 0 ? text_bytes_max : 0;
    intake->literal = arena_take(arena, intake->literal_bytes_max, 1);
}

static void check_quota(const struct net *net)
{
    const struct quota *quota = &net->workflows->quota;
    uint32_t counted[QUOTA_ACCOUNTS_MAX] = {0};
    for (uint32_t i = 0; i < net_flows_count(net); i++) {
        const struct workflow *flow = net_flow(net, i);
        ASSERT(flow->state == WORKFLOW_FREE || flow->account == quota_account(flow->domain));
        counted[flow->account] += flow->state != WORKFLOW_FREE;
    }
    quota_check(quota);
    ASSERT(memcmp(counted, quota->used_by, sizeof counted) == 0);
}

/* Each workflow of a connection is in its list, and each that is in none waits for its client or
 * for its end. */
void net_workflow_check(const struct net *net)
{
    uint32_t attached = 0, listed = 0;
    for (uint32_t i = 0; i < net_flows_count(net); i++) {
        const struct workflow *flow = net_flow(net, i);
        bool is_attached = flow->state != WORKFLOW_FREE && flow->connection != CALL_NONE;
        attached += is_attached;
        ASSERT(!is_attached || net_flow_find(net, flow->connection, flow->flow_id) == i);
        ASSERT(flow->state != WORKFLOW_INTAKE);
        ASSERT(flow->key == NET_KEY_NONE || flow->key < net->keys_count);
    }
    for (uint32_t i = 0; i < net->settings.limits->connections; i++) {
        listed += net->connections[i].flows_count;
    }
    ASSERT(attached == listed);
    if (net->workflows != NULL) {
        check_quota(net);
    }
}
