/* SPDX-License-Identifier: MIT */
/*
 * What: open connections in memory that the core's successor takes up, with their buffers. The
 * world keeps a second handle of each.
 *
 *   pass:  receive --> act on frames --> note calls, frame --> commit --> send
 *
 * A death before the commit undoes what the pass did: the bytes were received, and are acted on
 * again; what was framed had not been sent, and is framed again, perhaps in other frames. A death
 * after it leaves a version that holds. Bytes move between the kernel and a buffer at once with
 * their count there, but a moment before their count here: on TCP the kernel says how many they
 * were, on a unix socket a death between the two leaves the connection in doubt, and it is closed.
 *
 * Not kept: connections that are not open yet or fail. Their clients connect again, as after a
 * break.
 *
 * Bounds: a commit is O(its workflows, and the rows of those that have changed).
 */
#include "net/kept/connections.h"

#include <string.h>

#include "config/base/fnv.h"
#include "net/kept/workflows.h"

STATIC_ASSERT(sizeof(struct net_kept_peer) % 8 == 0 && sizeof(struct net_kept_version) % 8 == 0,
              "no padding in what is digested");

void net_kept_plan_memory(struct memory_plan *plan, const struct limits *limits)
{
    uint64_t frame = (uint64_t)WIRE_HEADER_BYTES + limits->frame_bytes;
    memory_plan_add(plan, MEMORY_KEPT, "net open connections", limits->connections,
                    sizeof(struct net_kept_connection));
    memory_plan_add(plan, MEMORY_KEPT, "net connections' head", 1, sizeof(struct net_kept_head));
    memory_plan_add(plan, MEMORY_KEPT, "net receive buffers", limits->connections, frame);
    memory_plan_add(plan, MEMORY_KEPT, "net send buffers", limits->connections,
                    limits->send_bytes);
}

void net_kept_init(struct net *net, struct arena *kept)
{
    const struct limits *limits = net->settings.limits;
    uint64_t frame = (uint64_t)WIRE_HEADER_BYTES + limits->frame_bytes;
    net->kept.of = arena_take(kept, limits->connections, sizeof *net->kept.of);
    net->kept.head = arena_take(kept, 1, sizeof *net->kept.head);
    uint8_t *received = arena_take(kept, limits->connections, frame);
    uint8_t *unsent = arena_take(kept, limits->connections, limits->send_bytes);
    for (uint32_t i = 0; i < limits->connections; i++) {
        net->connections[i].received = received + i * frame;
        net->connections[i].unsent = unsent + (uint64_t)i * limits->send_bytes;
    }
}

static uint64_t check_of_peer(const struct net_kept_peer *peer)
{
    return fnv_add_words(FNV_START, peer, offsetof(struct net_kept_peer, check)) | 1;
}

static uint64_t check_of_version(const struct net_kept_version *version)
{
    return fnv_add_words(FNV_START, version, offsetof(struct net_kept_version, check)) | 1;
}

bool net_kept_is_whole(const struct net_kept_connection *kept)
{
    const struct net_kept_version *version = net_kept_version(kept);
    return kept->peer.check == check_of_peer(&kept->peer) &&
           version->check == check_of_version(version) && version->number == kept->number &&
           kept->peer.since <= kept->number;
}

void net_kept_write(struct net_kept_connection *kept, struct net_kept_version version)
{
    version.number = kept->number + 1;
    version.check = check_of_version(&version);
    kept->versions[version.number % 2] = version;
    kept_order();
    kept->number = version.number;
}

void net_kept_begin(struct net *net, uint32_t index)
{
    struct net_kept_connection *kept = &net->kept.of[index];
    const struct net_transfer none = {0};
    net_kept_write(kept, (struct net_kept_version){0});
    net_span_begin(&kept->received);
    net_span_begin(&kept->unsent);
    kept->taken = kept->sent = none;
    kept->deaths = 0;
}

uint64_t net_kept_print(const struct net *net, uint32_t key)
{
    uint8_t mac[WIRE_MAC_BYTES];
    uint64_t print = 0;
    if (key != NET_KEY_NONE) {
        wire_hmac(net->keys[key].secret, (const uint8_t *)net->keys[key].id, WIRE_KEY_ID_BYTES,
                  mac);
        memcpy(&print, mac, sizeof print);
        print |= 1;
    }
    return print;
}

uint32_t net_kept_find_key(const struct net *net, const char *id, uint64_t domain, uint64_t print)
{
    for (uint32_t i = 0; i < net->keys_count; i++) {
        if (memcmp(net->keys[i].id, id, WIRE_KEY_ID_BYTES) == 0 &&
            net->keys[i].domain == domain && net_kept_print(net, i) == print) {
            return i;
        }
    }
    return NET_KEY_NONE;
}

/* The kernel may have no room: it bounds how many handles of a user lie in messages, and those of
 * an upgrade lie there. So a connection that is not kept is offered in each of its passes. */
static bool keep(const struct net *net, uint32_t index)
{
    const struct net_connection *connection = &net->connections[index];
    return connection->is_kept ||
           (connection->state == NET_OPEN && net->world->keep != NULL &&
            net->world->keep(net->world->self, connection->handle, index));
}

void net_kept_open(struct net *net, uint32_t index)
{
    struct net_connection *connection = &net->connections[index];
    struct net_kept_peer *peer = &net->kept.of[index].peer;
    *peer = (struct net_kept_peer){
        .since = net_kept_next_version(net, index), .domain = connection->domain,
        .address = connection->address, .peer_kind = connection->peer_kind,
        .gid = connection->gid, .key_print = net_kept_print(net, connection->key)};
    memcpy(peer->ip, connection->ip, sizeof peer->ip);
    memcpy(peer->name, connection->name, sizeof peer->name);
    memcpy(peer->key_id, connection->key_id, sizeof peer->key_id);
    peer->check = check_of_peer(peer);
    connection->is_kept = keep(net, index);
}

void net_kept_end(struct net *net, uint32_t index)
{
    struct net_connection *connection = &net->connections[index];
    net_kept_write(&net->kept.of[index], (struct net_kept_version){0});
    if (connection->is_kept) {
        net->world->forget(net->world->self, index);
        connection->is_kept = false;
    }
}

static struct net_kept_version version_of(const struct net *net, uint32_t index)
{
    const struct net_connection *connection = &net->connections[index];
    const struct net_kept_connection *kept = &net->kept.of[index];
    bool may_stay = connection->is_kept && connection->state == NET_OPEN &&
                    connection->answers_due == 0;
    return (struct net_kept_version){
        .read = kept->received.base + connection->received_first,
        .written = kept->sent.total + connection->unsent_bytes,
        .calls_count = connection->calls_count, .calls_mark = connection->calls_mark,
        .flows_count = connection->flows_count, .flows_mark = net_kept_flows_mark(net, index),
        .may_stay = may_stay};
}

void net_kept_commit(struct net *net, uint32_t index)
{
    struct net_kept_connection *kept = &net->kept.of[index];
    net->connections[index].is_kept = keep(net, index);
    net_kept_flows_write(net, index);
    const struct net_kept_version version = version_of(net, index);
    const struct net_kept_version *last = net_kept_version(kept);
    bool is_noted = net->connections[index].is_noted;
    if (is_noted || version.read != last->read || version.written != last->written ||
        version.calls_count != last->calls_count || version.may_stay != last->may_stay) {
        net_kept_write(kept, version);
        net->connections[index].is_noted = false;
    }
}

bool net_kept_holds(const struct net *net, uint32_t index, uint64_t begun, uint64_t noted)
{
    const struct net_kept_connection *kept = &net->kept.of[index];
    return index < net->settings.limits->connections && begun >= kept->peer.since &&
           begun <= noted && noted <= kept->number;
}

/* ---- reporting ------------------------------------------------------------------------------- */

void net_kept_check(const struct net *net)
{
    for (uint32_t i = 0; i < net->open_count; i++) {
        uint32_t index = net->order[i];
        const struct net_connection *connection = &net->connections[index];
        const struct net_kept_connection *kept = &net->kept.of[index];
        ASSERT(kept->received.base == kept->received.target);
        ASSERT(kept->unsent.base == kept->unsent.target);
        ASSERT(net_span_is_whole(&kept->received) && net_span_is_whole(&kept->unsent));
        ASSERT(!net_transfer_is_in_doubt(&kept->taken) && !net_transfer_is_in_doubt(&kept->sent));
        ASSERT(kept->taken.total == kept->received.base + connection->received_first +
                                        connection->received_bytes);
        ASSERT(kept->sent.total == kept->unsent.base + connection->unsent_first);
    }
}
