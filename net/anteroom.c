/* SPDX-License-Identifier: MIT */
/*
 * What: the anteroom: strangers hold at most limits.anteroom places of the connection table, and
 * limits.anteroom_per_address from one address, so that they cannot take the places of members.
 *
 *   accepted --enter--> anteroom --HELLO, AUTH--> admitted
 *                          |
 *                          +-- handshake deadline, a fault, or its place is needed --> closed
 *
 * Who yields: the stranger that has been there longest, and only after SHARE of the handshake's
 * time. To refuse the newcomer instead would let a few silent connections keep everybody out for
 * good; to close the oldest at once would let a flood close each honest handshake before its one
 * round trip is over. Meanwhile newcomers wait in the kernel, where they cost nothing. That they
 * come from an address that has its share is only known once they are accepted: they are told to
 * try again. On loopback one address is everybody, so there the share does not count.
 *
 * Invariants: the list is in the order of arrival and holds exactly the connections with
 * is_stranger; a local peer never enters: the kernel has said who it is.
 * Bounds: O(limits.anteroom) for an accept.
 */
#include "net/anteroom.h"

#include "net/connection.h"

#define SHARE 4     /* of the handshake's time, which nobody can take away from a stranger */

void net_anteroom_init(struct net *net)
{
    net->strangers_first = net->strangers_last = NET_CONNECTION_NONE;
}

void net_anteroom_enter(struct net *net, uint32_t index)
{
    struct net_connection *connection = &net->connections[index];
    ASSERT(!connection->is_stranger && net->strangers_count < net->settings.limits->anteroom);
    connection->is_stranger = true;
    connection->stranger_next = NET_CONNECTION_NONE;
    connection->stranger_prev = net->strangers_last;
    if (net->strangers_last != NET_CONNECTION_NONE) {
        net->connections[net->strangers_last].stranger_next = index;
    } else {
        net->strangers_first = index;
    }
    net->strangers_last = index;
    net->stats->connections_anteroom = ++net->strangers_count;
}

void net_anteroom_leave(struct net *net, uint32_t index)
{
    struct net_connection *connection = &net->connections[index];
    uint32_t next = connection->stranger_next, previous = connection->stranger_prev;
    ASSERT(connection->is_stranger && net->strangers_count > 0);
    if (previous != NET_CONNECTION_NONE) {
        net->connections[previous].stranger_next = next;
    } else {
        net->strangers_first = next;
    }
    if (next != NET_CONNECTION_NONE) {
        net->connections[next].stranger_prev = previous;
    } else {
        net->strangers_last = previous;
    }
    connection->is_stranger = false;
    net->stats->connections_anteroom = --net->strangers_count;
    net->listeners[NET_LISTENER_TCP].again_us = 0;      /* there is a place */
}

static uint64_t yields_us(const struct net *net, uint32_t index)
{
    return net->connections[index].accepted_us + net->settings.handshake_us / SHARE;
}

uint64_t net_anteroom_free_us(const struct net *net, uint64_t now_us)
{
    if (net->strangers_count < net->settings.limits->anteroom) {
        return 0;
    }
    uint64_t free_us = yields_us(net, net->strangers_first);
    return free_us > now_us ? free_us : 0;
}

/* The oldest of those from this address, and how many there are. */
static uint32_t first_from(const struct net *net, uint64_t address, uint32_t *count)
{
    uint32_t first = NET_CONNECTION_NONE;
    *count = 0;
    for (uint32_t at = net->strangers_first; at != NET_CONNECTION_NONE;
         at = net->connections[at].stranger_next) {
        const struct net_connection *connection = &net->connections[at];
        if (connection->peer_kind == WORLD_PEER_REMOTE && connection->address == address) {
            first = *count == 0 ? at : first;
            ++*count;
        }
    }
    return first;
}

static void displace(struct net *net, uint32_t index)
{
    net->stats->connections_displaced++;
    net_connection_close(net, index);
}

bool net_anteroom_make_place(struct net *net, const struct world_peer *peer,
                             struct wire_fault *fault, uint64_t now_us)
{
    uint32_t share = net->settings.limits->anteroom_per_address, count = 0;
    uint32_t first = peer->kind == WORLD_PEER_REMOTE ? first_from(net, peer->address, &count)
                                                     : NET_CONNECTION_NONE;
    if (count >= share && yields_us(net, first) > now_us) {
        *fault = (struct wire_fault){.status = STATUS_BUSY_ANTEROOM,
                                     .field = WIRE_FIELD_CONNECTION,
                                     .found = count,
                                     .max = share};
        return false;
    }
    if (count >= share) {
        displace(net, first);
    } else if (net->strangers_count == net->settings.limits->anteroom) {
        displace(net, net->strangers_first);
    }
    return true;
}
