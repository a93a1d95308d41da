/* SPDX-License-Identifier: MIT */
/*
 * What: the clients, each with its address, who it has proved to be, and the affinity key that it
 * named: HELLO's name (who.h says what is shown of it).
 * Invariant: a line has at most 184 bytes.
 * Bounds: O(limits.connections).
 */
#include "appliance/text/page/connections.h"

#include "appliance/text/page/column.h"
#include "appliance/text/page/who.h"
#include "config/base/assert.h"

#define ADDRESS_COLUMNS 40      /* the longest IPv6 address and a space */
#define CLIENT_COLUMNS  16

static void add_peer(struct text *page, const struct net_connection *connection)
{
    uint32_t start = page->length;
    text_add_peer(page, connection->peer_kind, connection->ip);
    text_pad_to(page, start, ADDRESS_COLUMNS);
}

static const char *state_name(enum net_state state)
{
    static const char *const names[] = {
        [NET_CLOSED] = "closed    ", [NET_PROXIED] = "proxied   ", [NET_GREETING] = "greeting  ",
        [NET_CHALLENGED] = "challenged", [NET_OPEN] = "open      ", [NET_CLOSING] = "closing   "};
    ASSERT(state <= NET_CLOSING);
    return names[state];
}

void textpage_connections(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    const struct net *net = view->net;
    text_add(page, "   slot state      calls flows    idle_s address"
                   "                                 client           affinity\n");
    for (uint32_t i = 0; i < net->settings.limits->connections; i++) {
        const struct net_connection *connection = &net->connections[i];
        if (connection->state == NET_CLOSED) {
            continue;
        }
        uint64_t since_us = connection->active_us;
        text_add_u64_padded(page, i, 7, ' ');
        text_add(page, " ");
        text_add(page, state_name(connection->state));
        text_add_column(page, connection->calls_count, 5);
        text_add_column(page, connection->flows_count, 5);
        text_add_column(page, since_us < now_us ? (now_us - since_us) / 1000000 : 0, 9);
        text_add(page, " ");
        add_peer(page, connection);
        uint32_t start = page->length;
        text_add_client(page, net, connection);
        text_pad_to(page, start, CLIENT_COLUMNS);
        text_add(page, " ");
        text_add_name(page, connection->name, sizeof connection->name, sizeof connection->name);
        text_add(page, "\n");
    }
}
