/* SPDX-License-Identifier: MIT */
/*
 * What: a reload: the appliance is told of other keys. A client whose key is gone, or has another
 * secret, is disconnected and not let in again; all others see nothing of it, though their keys
 * have other numbers. In the calm phase all keys are there.
 *
 * Domains and what they may have stay as they are: so INVARIANT_ACCOUNTS holds throughout.
 */
#include <string.h>

#include "selftest/sim/sim.h"

void sim_admit_all(struct sim *sim)
{
    struct config_error error;
    sim->admission.keys = sim->keys;
    SIM_REQUIRE(sim, config_access_fill(&sim->admission.access, &sim->options, 0, &error) ==
                         STATUS_OK, INVARIANT_WORLD, "%s", error.text);
}

static bool is_known(const struct sim *sim, uint32_t key)
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

bool sim_is_shut_out(const struct sim *sim, const struct sim_client *client)
{
    return sim->swarm.has_keys && client->listener == SIM_LISTENER_TCP &&
           !is_known(sim, client->key);
}

static void shut_out(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->swarm.clients; i++) {
        struct sim_client *client = &sim->clients[i];
        if (sim_is_shut_out(sim, client)) {
            client->excused = client->is_shut_out = true;
        }
    }
}

/* From any of them on, so that they have other numbers. */
static void draw_keys(struct sim *sim)
{
    struct config_keys *now = &sim->admission.keys;
    uint32_t first = sim_choose(sim, sim->keys.count);
    now->count = 0;
    for (uint32_t i = 0; i < sim->keys.count; i++) {
        struct config_key *key = &now->keys[now->count];
        uint32_t kind = sim_choose(sim, 6);
        *key = sim->keys.keys[(first + i) % sim->keys.count];
        key->secret[0] ^= kind == 5;
        now->count += kind != 4;
    }
}

void sim_draw_admission(struct sim *sim)
{
    if (sim->swarm.has_keys) {
        draw_keys(sim);
        shut_out(sim);
        sim_say(sim, "%u of %u keys may come in", sim->admission.keys.count, sim->keys.count);
    }
}

void sim_may_reload(struct sim *sim)
{
    bool ends = sim->calm && memcmp(&sim->admission.keys, &sim->keys, sizeof sim->keys) != 0;
    if (ends) {
        sim_admit_all(sim);
    } else if (sim_fault(sim, SIM_FAULT_RELOAD)) {
        sim_draw_admission(sim);
    } else {
        return;
    }
    sim->orders.admission = &sim->admission;
}

void sim_reload_end(struct sim *sim)
{
    const struct net *net = &sim->loop.net;
    if (sim->orders.admission == NULL) {
        return;
    }
    sim->orders.admission = NULL;
    for (uint32_t i = 0; i < sim->limits.connections; i++) {
        const struct net_connection *connection = &net->connections[i];
        uint32_t client = connection->state == NET_OPEN
                              ? sim->peers[connection->handle - SIM_LISTENERS].client : SIM_NONE;
        SIM_REQUIRE(sim, client == SIM_NONE || !sim_is_shut_out(sim, &sim->clients[client]),
                    INVARIANT_ACCOUNTS, "client %u is in by a key that is no longer known", client);
    }
}
