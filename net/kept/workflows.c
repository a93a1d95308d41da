/* SPDX-License-Identifier: MIT */
/*
 * What: open workflows in memory that the core's successor takes up (take_up_flows.c).
 *
 * A workflow is kept as what its client has said, and been told; order, instances and calls follow
 * from that again. FLOW_OPEN and rows are written once, into places that no version names. A pass
 * writes a version of each workflow that it has changed, and the commit of its connection makes all
 * of them hold (connections.c). One whose client is away has no connection: what is written of it
 * holds at once.
 *
 * Death: a version counts when its check word is right, a row when its own is, which the version
 * names. A row on record yields its place to one that comes in the same pass: if the core dies
 * before that pass has its version, what was on record there is lost. No client waits for it.
 *
 * Bounds: a version is O(rows); a row, its columns.
 */
#include "net/kept/workflows.h"

#include <string.h>

#include "config/base/fnv.h"
#include "net/kept/replies.h"
#include "net/workflow/workflow.h"

STATIC_ASSERT(offsetof(struct net_kept_flow_version, told) ==
                  offsetof(struct net_kept_flow_version, check) + sizeof(uint64_t),
              "the check word stands between what is digested");

void net_kept_flows_plan_memory(struct memory_plan *plan, const struct limits *limits)
{
    const struct workflow_limits *of = &limits->workflow;
    memory_plan_add(plan, MEMORY_KEPT, "net open workflows", of->workflows,
                    sizeof(struct net_kept_flow));
    memory_plan_add(plan, MEMORY_KEPT, "net rows", (uint64_t)of->workflows * of->rows,
                    sizeof(struct net_kept_row));
    memory_plan_add(plan, MEMORY_KEPT, "net FLOW_OPEN", of->workflows, limits->frame_bytes);
}

void net_kept_flows_init(struct net *net, struct arena *kept)
{
    const struct limits *limits = net->settings.limits;
    const struct workflow_limits *of = &limits->workflow;
    net->kept.flows = arena_take(kept, of->workflows, sizeof *net->kept.flows);
    net->kept.rows = arena_take(kept, (uint64_t)of->workflows * of->rows, sizeof *net->kept.rows);
    net->kept.payloads = arena_take(kept, of->workflows, limits->frame_bytes);
}

struct net_kept_row *net_kept_row(const struct net *net, uint32_t index, uint32_t place)
{
    ASSERT(place < net->workflows->limits.rows);
    return &net->kept.rows[(uint64_t)index * net->workflows->limits.rows + place];
}

uint8_t *net_kept_flow_payload(const struct net *net, uint32_t index)
{
    return net->kept.payloads + (uint64_t)index * net->settings.limits->frame_bytes;
}

static const struct net_kept_flow_version *last_of(const struct net *net, uint32_t index)
{
    const struct net_kept_flow *kept = &net->kept.flows[index];
    return &kept->versions[net_kept_flow_last(kept)];
}

/* ---- check words: never 0 -------------------------------------------------------------------- */

static uint64_t check_of_version(const struct net *net,
                                 const struct net_kept_flow_version *version)
{
    uint64_t told_bytes = net->workflows->limits.rows * sizeof version->told[0];
    uint64_t digest = fnv_add_words(FNV_START, version,
                                    offsetof(struct net_kept_flow_version, check));
    return fnv_add_words(digest, version->told, told_bytes) | 1;
}

bool net_kept_flow_is_whole(const struct net *net, const struct net_kept_flow_version *version)
{
    return version->check == check_of_version(net, version);
}

/* The columns lie from the beginning of the row's place up to the values of nodes. */
static uint64_t check_of_row(const struct net *net, uint32_t index, const struct net_kept_row *row)
{
    const uint32_t *columns = net_flow(net, index)->values + row->values.first;
    uint64_t digest = fnv_add_words(FNV_START, row, offsetof(struct net_kept_row, check));
    return fnv_add_words(digest, columns, (uint64_t)(row->nodes_first - row->values.first) *
                                              sizeof *columns) | 1;
}

bool net_kept_row_is_whole(const struct net *net, uint32_t index, uint32_t place)
{
    const struct net_kept_row *row = net_kept_row(net, index, place);
    uint32_t value_tokens = net->workflows->limits.value_tokens;
    return row->values.first <= row->nodes_first && row->nodes_first <= value_tokens &&
           row->values.count <= value_tokens - row->values.first &&
           row->check == check_of_row(net, index, row);
}

/* ---- while the core lives -------------------------------------------------------------------- */

void net_kept_flow_begin(struct net *net, uint32_t index, const uint8_t *payload, uint32_t bytes)
{
    memcpy(net_kept_flow_payload(net, index), payload, bytes);
    net_kept_flow_note(net, index);
}

void net_kept_flow_row(struct net *net, uint32_t index, uint32_t place)
{
    struct workflow_row *row = &net_flow(net, index)->rows[place];
    struct net_kept_row *kept = net_kept_row(net, index, place);
    struct net_kept_row next;
    memset(&next, 0, sizeof next);
    next.life = row->life = kept->life + 1;
    next.request = row->request;
    next.number = row->number;
    next.nodes_first = row->nodes_first;
    next.values = row->values;
    memcpy(next.columns, row->columns, sizeof next.columns);
    memcpy(next.heads, row->heads, sizeof next.heads);
    next.check = check_of_row(net, index, &next);
    memcpy(kept, &next, sizeof next);
}

void net_kept_flow_note(struct net *net, uint32_t index)
{
    struct workflow *flow = net_flow(net, index);
    flow->emit.is_noted = true;
    net->connections[flow->connection].is_noted = true;
}

static struct net_kept_told told_of(const struct net *net, uint32_t index, uint32_t place)
{
    const struct workflow *flow = net_flow(net, index);
    const struct workflow_row *row = &flow->rows[place];
    struct net_kept_told told = {0};
    if (row->state != WORKFLOW_ROW_FREE) {
        told.row = net_kept_row(net, index, place)->check;
        told.digest = row->digest;
        told.arrival = row->arrival;
        told.is_awaited = row->is_awaited;
        told.failed_as = (uint16_t)row->failed_as;
        memcpy(told.outputs_sent, row->outputs_sent, sizeof told.outputs_sent);
        memcpy(told.asked, row->asked, sizeof told.asked);
    }
    return told;
}

static void fill(const struct net *net, uint32_t index, struct net_kept_flow_version *version)
{
    const struct workflow *flow = net_flow(net, index);
    version->domain = flow->domain;
    version->request = flow->request;
    version->request_bytes = flow->request_bytes;
    version->is_there = true;
    version->is_closed = flow->is_closed;
    version->gid = flow->gid;
    version->emit = flow->emit;
    version->emit.is_noted = false;
    for (uint32_t place = 0; place < flow->rows_max; place++) {
        version->told[place] = told_of(net, index, place);
    }
}

/* Over the older version. */
static void write_version(struct net *net, uint32_t index, bool is_there, uint32_t connection)
{
    struct net_kept_flow *kept = &net->kept.flows[index];
    uint32_t last = net_kept_flow_last(kept);
    struct net_kept_flow_version *version = &kept->versions[1 - last];
    uint32_t by = net_flow(net, index)->connection;
    memset(version, 0, sizeof *version);            /* padding is digested, too */
    if (is_there) {
        const struct net_kept_peer *peer = &net->kept.of[by].peer;
        fill(net, index, version);
        memcpy(version->key_id, peer->key_id, sizeof version->key_id);
        version->key_print = peer->key_print;
    }
    version->connection = connection;
    version->number = connection != CALL_NONE ? net_kept_next_version(net, connection) : 0;
    version->turn = kept->versions[last].turn + 1;
    version->check = check_of_version(net, version);
    net_flow(net, index)->emit.is_noted = false;
}

void net_kept_flows_write(struct net *net, uint32_t connection)
{
    const struct net_connection *of = &net->connections[connection];
    uint32_t at = of->flows_first;
    for (uint32_t i = 0; i < of->flows_count; i++) {
        const struct workflow *flow = net_flow(net, at);
        if (flow->emit.is_noted) {
            write_version(net, at, true, connection);
        }
        at = flow->emit.next;
    }
}

void net_kept_flow_leave(struct net *net, uint32_t index)
{
    ASSERT(net_flow(net, index)->connection != CALL_NONE);
    write_version(net, index, true, CALL_NONE);
}

void net_kept_flow_end(struct net *net, uint32_t index)
{
    if (last_of(net, index)->is_there) {
        write_version(net, index, false, net_flow(net, index)->connection);
    }
}

uint64_t net_kept_flows_mark(const struct net *net, uint32_t connection)
{
    const struct net_connection *of = &net->connections[connection];
    uint64_t mark = 0;
    uint32_t at = of->flows_first;
    for (uint32_t i = 0; i < of->flows_count; i++) {
        mark ^= last_of(net, at)->check;
        at = net_flow(net, at)->emit.next;
    }
    return mark;
}

/* ---- reporting ------------------------------------------------------------------------------- */

/* Nothing changes without a note. */
static void check_one(const struct net *net, uint32_t index)
{
    const struct workflow *flow = net_flow(net, index);
    const struct net_kept_flow_version *last = last_of(net, index);
    struct net_kept_flow_version now;
    memset(&now, 0, sizeof now);
    fill(net, index, &now);
    ASSERT(net_kept_flow_is_whole(net, last) && last->is_there);
    ASSERT(last->connection == flow->connection && last->domain == flow->domain &&
           last->request == flow->request && last->is_closed == flow->is_closed);
    if (flow->connection != CALL_NONE) {
        ASSERT(last->number <= net->kept.of[flow->connection].number);
        ASSERT(memcmp(last->told, now.told, sizeof now.told) == 0);
        ASSERT(memcmp(&last->emit.said, &now.emit.said, sizeof now.emit.said) == 0);
        ASSERT(last->emit.rows == flow->emit.rows && last->emit.digest == flow->emit.digest);
    }
}

void net_kept_flows_check(const struct net *net)
{
    for (uint32_t i = 0; i < net_flows_count(net); i++) {
        const struct workflow *flow = net_flow(net, i);
        bool is_attached = flow->state != WORKFLOW_FREE && flow->connection != CALL_NONE;
        if (is_attached && !flow->emit.is_noted) {
            check_one(net, i);
        }
        ASSERT(flow->state != WORKFLOW_FREE || !last_of(net, i)->is_there);
    }
}
