/* SPDX-License-Identifier: MIT */
/*
 * What: a reload: the appliance is told of other keys and users. A client whose key is gone, or has
 * another secret, or whose user is on no list, is disconnected and not let in again; all others see
 * nothing of it, though their keys have other numbers. A user who is let in by his group from now
 * on is disconnected, and comes back. In the calm phase all keys and users are there.
 *
 * Domains and what they may have stay as they are: so INVARIANT_ACCOUNTS holds throughout.
 */
#include <string.h>

#include "selftest/sim/sim.h"

void sim_admit_all(struct sim *sim)
{
    struct config_error error;
    sim->admission.keys = sim->keys;
    sim->admits_some = false;
    SIM_REQUIRE(sim, config_access_fill(&sim->admission.access, &sim->options, 0, &error) ==
                         STATUS_OK, INVARIANT_WORLD, "%s", error.text);
}

static bool has_known_key(const struct sim *sim, uint32_t key)
{
    const struct config_key *own = &sim->keys.keys[key];
    bool is_there = false;
    for (uint32_t i = 0; i < sim->admission.keys.count; i++) {
        const struct config_key *other = &sim->admission.keys.keys[i];
        is_there = is_there || (memcmp(other->id, own->id, sizeof own->id) == 0 &&
                                memcmp(other->secret, own->secret, sizeof own->secret) == 0);
    }
    return is_there;
}

/* `groups`: of those that the user is in, how many count. */
static bool has_known_user(const struct sim *sim, uint32_t uid, uint32_t groups)
{
    return config_access_allows(&sim->admission.access, uid, &uid, groups);
}

bool sim_is_shut_out(const struct sim *sim, const struct sim_client *client)
{
    return (client->listener == SIM_LISTENER_UNIX && !has_known_user(sim, client->uid, 1)) ||
           (client->listener == SIM_LISTENER_TCP && sim->swarm.has_keys &&
            !has_known_key(sim, client->key));
}

bool sim_comes_by_group(const struct sim *sim, const struct sim_client *client)
{
    return client->listener == SIM_LISTENER_UNIX &&
           config_access_allows(&sim->admission.access, UINT32_MAX, &client->uid, 1);
}

/* By his group he could come in, but he is in as a user. */
static bool must_come_again(const struct sim *sim, const struct sim_client *client)
{
    return client->listener == SIM_LISTENER_UNIX && !has_known_user(sim, client->uid, 0) &&
           !(client->peer != SIM_NONE && sim->peers[client->peer].by_group);
}

static void shut_out(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->swarm.clients; i++) {
        struct sim_client *client = &sim->clients[i];
        if (must_come_again(sim, client) || sim_is_shut_out(sim, client)) {
            client->excused = client->is_shut_out = true;
        }
    }
}

/* From any of them on, so that they have other numbers. */
static void draw_keys(struct sim *sim)
{
    struct config_keys *now = &sim->admission.keys;
    uint32_t first = sim->keys.count > 0 ? sim_choose(sim, sim->keys.count) : 0;
    now->count = 0;
    for (uint32_t i = 0; i < sim->keys.count; i++) {
        struct config_key *key = &now->keys[now->count];
        uint32_t kind = sim_choose(sim, 6);
        *key = sim->keys.keys[(first + i) % sim->keys.count];
        key->secret[0] ^= kind == 5;
        now->count += kind != 4;
    }
}

/* Each is on the list of users, or on that of groups, or on none. */
static void draw_users(struct sim *sim)
{
    struct config_access *now = &sim->admission.access;
    uint32_t count = now->uids_count;
    now->uids_count = now->gids_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t kind = sim_choose(sim, 6), user = now->uids[i];
        now->gids[now->gids_count] = user;
        now->gids_count += kind == 5;
        now->uids[now->uids_count] = user;
        now->uids_count += kind < 4;
    }
}

void sim_draw_admission(struct sim *sim)
{
    sim_admit_all(sim);
    sim->admits_some = true;
    draw_keys(sim);
    draw_users(sim);
    shut_out(sim);
    sim_say(sim, "%u of %u keys may come in, %u users, %u groups", sim->admission.keys.count,
            sim->keys.count, sim->admission.access.uids_count, sim->admission.access.gids_count);
}

void sim_may_reload(struct sim *sim)
{
    if (sim->calm && sim->admits_some) {
        sim_admit_all(sim);
    } else if (sim_fault(sim, SIM_FAULT_RELOAD)) {
        sim_draw_admission(sim);
    } else {
        return;
    }
    sim->orders.admission = &sim->admission;
}

/* What a workflow of a client that is shut out has begun ends, also while the client is away. */
static void check_flows(struct sim *sim)
{
    const struct workflow_table *flows = &sim->loop.workflows;
    for (uint32_t i = 0; i < flows->limits.workflows; i++) {
        const struct workflow *flow = &flows->workflows[i];
        uint32_t uid = (uint32_t)flow->domain;
        bool is_user = flow->state != WORKFLOW_FREE && net_domain_is_user(flow->domain);
        SIM_REQUIRE(sim, !is_user || has_known_user(sim, uid, 1) || !flow->keep,
                    INVARIANT_ACCOUNTS, "a workflow of user %u goes on, who is on no list", uid);
    }
}

void sim_reload_end(struct sim *sim)
{
    const struct net *net = &sim->loop.net;
    if (sim->orders.admission == NULL) {
        return;
    }
    sim->orders.admission = NULL;
    check_flows(sim);
    for (uint32_t i = 0; i < sim->limits.connections; i++) {
        const struct net_connection *connection = &net->connections[i];
        uint32_t client = connection->state == NET_OPEN
                              ? sim->peers[connection->handle - SIM_LISTENERS].client : SIM_NONE;
        SIM_REQUIRE(sim, client == SIM_NONE || !sim_is_shut_out(sim, &sim->clients[client]),
                    INVARIANT_ACCOUNTS,
                    "client %u is in, by a key or as a user that is known no more", client);
    }
}
