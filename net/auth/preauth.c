/* SPDX-License-Identifier: MIT */
/*
 * What: connections on TCP that have not authenticated yet. They hold at most limits.preauth places
 * of the connection table, limits.preauth_per_address of these from one address, so that they
 * cannot take the places of clients that have.
 *
 *   accepted --enter--> preauth --HELLO, AUTH--> admitted
 *                          |
 *                          +-- handshake deadline, a fault, or its place is needed --> closed
 *
 * Which one yields: of those that have had their time the oldest that has said nothing, else the
 * oldest. Their time is 1/SHARE of the handshake's; on loopback, where a round trip takes
 * microseconds, at most LOOPBACK_US since the last word. So short a time counts to the pass before
 * this one: while the appliance itself was kept from the CPU, a word may have come that is not read
 * yet.
 *
 * If the newcomer were refused instead, a few silent connections could keep all others out for
 * good. If the oldest were closed at once, a flood could close each honest handshake before its
 * one round trip is over. Meanwhile newcomers wait in the kernel, where they cost nothing.
 *
 * The address of a newcomer is known only after it is accepted, and behind a load balancer after
 * its header (proxy.c): if that address has its share already, the newcomer is told to try again.
 * On loopback all clients have one address, so the share does not count there
 * (docs/decisions/0087).
 *
 * Invariants: the list is in the order of arrival and holds exactly the connections with
 * is_preauth. A local peer never enters: the kernel has said who it is.
 * Bounds: O(limits.preauth) for an accept.
 */
#include "net/auth/preauth.h"

#define SHARE       4       /* of the handshake's time, during which a connection keeps its place */
#define LOOPBACK_US 10000   /* a hundred round trips: so long on a machine that has other work */

void net_preauth_init(struct net *net)
{
    net->preauth_first = net->preauth_last = NET_CONNECTION_NONE;
}

void net_preauth_enter(struct net *net, uint32_t index)
{
    struct net_connection *connection = &net->connections[index];
    ASSERT(!connection->is_preauth && net->preauth_count < net->settings.limits->preauth);
    connection->is_preauth = true;
    connection->preauth_next = NET_CONNECTION_NONE;
    connection->preauth_prev = net->preauth_last;
    if (net->preauth_last != NET_CONNECTION_NONE) {
        net->connections[net->preauth_last].preauth_next = index;
    } else {
        net->preauth_first = index;
    }
    net->preauth_last = index;
    net->stats->connections_preauth = ++net->preauth_count;
}

void net_preauth_leave(struct net *net, uint32_t index)
{
    struct net_connection *connection = &net->connections[index];
    uint32_t next = connection->preauth_next, previous = connection->preauth_prev;
    ASSERT(connection->is_preauth && net->preauth_count > 0);
    if (previous != NET_CONNECTION_NONE) {
        net->connections[previous].preauth_next = next;
    } else {
        net->preauth_first = next;
    }
    if (next != NET_CONNECTION_NONE) {
        net->connections[next].preauth_prev = previous;
    } else {
        net->preauth_last = previous;
    }
    connection->is_preauth = false;
    net->stats->connections_preauth = --net->preauth_count;
    net->listeners[NET_LISTENER_TCP].again_us = 0;      /* there is a place */
}

static uint64_t yields_us(const struct net *net, uint32_t index)
{
    const struct net_connection *connection = &net->connections[index];
    uint64_t time_us = net->settings.handshake_us / SHARE;
    if (connection->peer_kind == WORLD_PEER_REMOTE) {
        return connection->accepted_us + time_us;
    }
    return connection->active_us + (time_us < LOOPBACK_US ? time_us : LOOPBACK_US);
}

/* Up to when its time counts. */
static uint64_t counts_to_us(const struct net *net, uint32_t index, uint64_t now_us)
{
    return net->connections[index].peer_kind == WORLD_PEER_REMOTE ? now_us : net->polled_us;
}

/* The connection whose place is taken next; NET_CONNECTION_NONE: none has had its time, and `us`
 * says when the first will have. */
static uint32_t find_yielding(const struct net *net, uint64_t now_us, uint64_t *us)
{
    uint32_t oldest = NET_CONNECTION_NONE;
    *us = UINT64_MAX;
    for (uint32_t at = net->preauth_first; at != NET_CONNECTION_NONE;
         at = net->connections[at].preauth_next) {
        uint64_t at_us = yields_us(net, at);
        bool is_silent = net->connections[at].state != NET_CHALLENGED;
        bool may_yield = at_us <= counts_to_us(net, at, now_us);
        *us = at_us < *us ? at_us : *us;
        if (may_yield && is_silent) {
            return at;
        }
        oldest = may_yield && oldest == NET_CONNECTION_NONE ? at : oldest;
    }
    return oldest;
}

uint64_t net_preauth_free_us(const struct net *net, uint64_t now_us)
{
    uint64_t free_us;
    if (net->preauth_count < net->settings.limits->preauth) {
        return 0;
    }
    if (find_yielding(net, now_us, &free_us) != NET_CONNECTION_NONE) {
        return 0;
    }
    return free_us > now_us ? free_us : now_us;     /* now: in the next pass */
}

/* The oldest of those from this address, and how many there are. */
static uint32_t first_from(const struct net *net, uint64_t address, uint32_t *count)
{
    uint32_t first = NET_CONNECTION_NONE;
    *count = 0;
    for (uint32_t at = net->preauth_first; at != NET_CONNECTION_NONE;
         at = net->connections[at].preauth_next) {
        const struct net_connection *connection = &net->connections[at];
        if (connection->peer_kind == WORLD_PEER_REMOTE && connection->address == address) {
            first = *count == 0 ? at : first;
            ++*count;
        }
    }
    return first;
}

bool net_preauth_share(const struct net *net, const struct world_peer *peer, uint64_t now_us,
                       uint32_t *yields, struct wire_fault *fault)
{
    uint32_t share = net->settings.limits->preauth_per_address, count = 0;
    uint32_t first = peer->kind == WORLD_PEER_REMOTE ? first_from(net, peer->address, &count)
                                                     : NET_CONNECTION_NONE;
    *yields = NET_CONNECTION_NONE;
    if (count >= share && yields_us(net, first) > counts_to_us(net, first, now_us)) {
        *fault = (struct wire_fault){.status = STATUS_BUSY_PREAUTH,
                                     .field = WIRE_FIELD_CONNECTION,
                                     .found = count,
                                     .max = share};
        return false;
    }
    *yields = count >= share ? first : NET_CONNECTION_NONE;
    return true;
}

bool net_preauth_admit(const struct net *net, const struct world_peer *peer, uint64_t now_us,
                       uint32_t *yields, struct wire_fault *fault)
{
    if (!net_preauth_share(net, peer, now_us, yields, fault)) {
        return false;
    }
    if (*yields == NET_CONNECTION_NONE && net->preauth_count == net->settings.limits->preauth) {
        uint64_t us;
        *yields = find_yielding(net, now_us, &us);
        ASSERT(*yields != NET_CONNECTION_NONE);
    }
    return true;
}
