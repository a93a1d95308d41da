/* SPDX-License-Identifier: MIT */
/*
 * What: INVARIANT_ACCOUNTS, by counting: what each trust domain holds of each table, read from the
 * tables themselves, against what the file of keys says. Not from the counts that the stages keep.
 */
#include <string.h>

#include "net/kept/replies.h"
#include "selftest/sim/sim.h"

struct held {
    uint32_t of[QUOTA_KINDS][QUOTA_ACCOUNTS_MAX];
};

/* 0: a client without a key. The simulator's own reading of a domain's number. */
static uint32_t account_of(const struct sim *sim, uint64_t domain)
{
    for (uint32_t i = 0; i < sim->keys.domains_count; i++) {
        if (domain == net_domain_of_key(i)) {
            return 1 + i;
        }
    }
    return 0;
}

static void count_net(const struct sim *sim, struct held *held)
{
    const struct net *net = &sim->loop.net;
    for (uint32_t i = 0; i < sim->limits.connections; i++) {
        const struct net_connection *connection = &net->connections[i];
        bool is_in = connection->state == NET_OPEN || (connection->state != NET_CLOSED &&
                                                       connection->peer_kind == WORLD_PEER_LOCAL);
        held->of[QUOTA_CONNECTIONS][account_of(sim, connection->domain)] += is_in;
    }
    for (uint32_t i = 0; i < sim->limits.replies; i++) {
        const struct net_reply *reply = &net->replies.records[i];
        if (reply->number != 0) {
            uint32_t account = account_of(sim, reply->domain);
            held->of[QUOTA_REPLIES][account]++;
            held->of[QUOTA_REPLY_TOKENS][account] += reply->done.generated_tokens;
        }
    }
}

static void count(const struct sim *sim, struct held *held)
{
    memset(held, 0, sizeof *held);
    count_net(sim, held);
    for (uint32_t i = 0; i < sim->limits.calls; i++) {
        const struct call *call = &sim->loop.calls.calls[i];
        held->of[QUOTA_CALLS][account_of(sim, call->domain)] += call->state != CALL_FREE;
    }
    for (uint32_t i = 0; i < sim->limits.programs; i++) {
        const struct program *program = &sim->loop.sched.programs[i];
        held->of[QUOTA_PROGRAMS][account_of(sim, program->domain)] += program->in_use;
    }
    for (uint32_t i = 0; i < sim->limits.workflow.workflows; i++) {
        const struct workflow *flow = &sim->loop.workflows.workflows[i];
        held->of[QUOTA_WORKFLOWS][account_of(sim, flow->domain)] += flow->state != WORKFLOW_FREE;
    }
}

static void check_table(struct sim *sim, const struct held *held, enum quota_kind kind)
{
    uint64_t used = 0, owed = 0;
    for (uint32_t i = 0; i <= sim->keys.domains_count; i++) {
        const struct quota_bounds *may = &sim->quotas.of[kind][i];
        uint32_t has = held->of[kind][i];
        SIM_REQUIRE(sim, has <= may->max, INVARIANT_ACCOUNTS, "account %u has %u of table %d, and "
                    "may have %u", i, has, kind, may->max);
        used += has;
        owed += may->min > has ? may->min - has : 0;
    }
    SIM_REQUIRE(sim, used + owed <= sim->quotas.totals[kind], INVARIANT_ACCOUNTS,
                "%llu of %u places of table %d are used, and %llu are owed",
                (unsigned long long)used, sim->quotas.totals[kind], kind,
                (unsigned long long)owed);
}

/* The key with which the client of the call has come in; NULL: none. Of a workflow that goes on
 * under another key than before, what was open then is no fault. */
static const char *key_of(const struct sim *sim, const struct call *call)
{
    const struct net *net = &sim->loop.net;
    if (call->workflow == CALL_NONE) {
        return call->connection != CALL_NONE ? net->connections[call->connection].key_id : NULL;
    }
    const struct workflow *flow = &sim->loop.workflows.workflows[call->workflow];
    return flow->key != NET_KEY_NONE && !flow->emit.is_resumed ? net->keys[flow->key].id : NULL;
}

/* Calls that clients with the key, and their workflows, have open. */
static void check_key(struct sim *sim, uint32_t key)
{
    const struct config_key *its = &sim->keys.keys[key];
    uint64_t limit = sim->options.limits_calls_per_key.number;
    uint64_t most = its->calls_max != 0 ? its->calls_max : limit;
    uint32_t open = 0;
    for (uint32_t i = 0; i < sim->limits.calls; i++) {
        const struct call *call = &sim->loop.calls.calls[i];
        const char *id = call->state != CALL_FREE ? key_of(sim, call) : NULL;
        open += id != NULL && memcmp(id, its->id, sizeof its->id) == 0;
    }
    SIM_REQUIRE(sim, open <= most, INVARIANT_ACCOUNTS,
                "key %u has %u calls open, and may have %llu", key, open,
                (unsigned long long)most);
}

void invariants_check_accounts(struct sim *sim)
{
    struct held held;
    count(sim, &held);
    for (enum quota_kind kind = 0; kind < QUOTA_KINDS; kind++) {
        check_table(sim, &held, kind);
    }
    for (uint32_t i = 0; i < sim->keys.count; i++) {
        check_key(sim, i);
    }
}
