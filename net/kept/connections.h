/* SPDX-License-Identifier: MIT */
#pragma once
/* What: open connections, in memory that outlives the core: its successor goes on with them as if
 * nothing had happened. Only net/ includes this. */
#include "net/kept/span.h"
#include "net/net.h"

/* Bytes in one direction. The two numbers differ only when the core died within a transfer, or left
 * garbage: then it is in doubt which bytes have moved. */
struct net_transfer {
    uint64_t total;
    uint64_t asked;                 /* total + 1 while the world is asked for more; else total */
};

struct net_kept_peer {              /* written once, when the connection opens */
    uint64_t since;                 /* the first version */
    uint64_t domain, address;
    uint32_t peer_kind, gid;
    uint8_t ip[16];
    char name[WIRE_NAME_BYTES], key_id[WIRE_KEY_ID_BYTES];
    uint64_t key_print;             /* of the key's secret; 0: it needed no key */
    uint64_t check;                 /* digest of all above */
};

struct net_kept_version {              /* what a pass has made of it */
    uint64_t number;
    uint64_t read;                  /* bytes of the client that have been acted on */
    uint64_t written;               /* bytes for the client that have been framed */
    uint32_t calls_count;           /* open ones */
    uint32_t flows_count;           /* open workflows */
    uint64_t calls_mark;            /* as in struct net_connection: which versions they have */
    uint64_t flows_mark;            /* the same of workflows */
    uint64_t may_stay;              /* the successor can go on with it */
    uint64_t check;                 /* digest of all above */
};

struct net_kept_connection {
    struct net_kept_peer peer;
    struct net_kept_version versions[2];
    uint64_t number;                /* versions[number % 2] counts; one store, after it is whole */
    struct net_transfer taken, sent;
    struct net_span received, unsent;
    uint32_t deaths;                /* of cores, while they acted on the same frames of it */
};

struct net_kept_head {
    uint32_t acting;                /* 1 + the connection whose frames are acted on; 0: none */
    uint32_t attempts;              /* of successors that have not ended a pass yet */
};

void net_kept_plan_memory(struct memory_plan *plan, const struct limits *limits);
void net_kept_init(struct net *net, struct arena *kept);
/* The slot has a new connection. */
void net_kept_begin(struct net *net, uint32_t index);
/* Its client has been admitted. */
void net_kept_open(struct net *net, uint32_t index);
/* It is gone. */
void net_kept_end(struct net *net, uint32_t index);
/* Commits what this pass has read, framed and noted of the connection's calls, all at once. After
 * that, what was framed may be sent. */
void net_kept_commit(struct net *net, uint32_t index);
/* True when calls that are noted with this version are of this connection, and count. */
bool net_kept_holds(const struct net *net, uint32_t index, uint64_t begun, uint64_t noted);

/* True when peer and version are as they were written. */
bool net_kept_is_whole(const struct net_kept_connection *kept);
void net_kept_write(struct net_kept_connection *kept, struct net_kept_version version);
/* A fingerprint of the key: another secret has another one, and it reveals nothing of the secret.
 * 0: no key. */
uint64_t net_kept_print(const struct net *net, uint32_t key);
/* The key that a client has proved to have, if it is still the same; NET_KEY_NONE: it is not. */
uint32_t net_kept_find_key(const struct net *net, const char *id, uint64_t domain, uint64_t print);

static inline const struct net_kept_version *
net_kept_version(const struct net_kept_connection *kept)
{
    return &kept->versions[kept->number % 2];
}
static inline uint64_t net_kept_next_version(const struct net *net, uint32_t index)
{
    return net->kept.of[index].number + 1;
}
static inline void net_transfer_ask(struct net_transfer *transfer)
{
    transfer->asked = transfer->total + 1;
    kept_order();
}
static inline void net_transfer_count(struct net_transfer *transfer, int64_t count)
{
    kept_order();
    transfer->total += count > 0 ? (uint64_t)count : 0;
    kept_order();
    transfer->asked = transfer->total;
}
static inline bool net_transfer_is_in_doubt(const struct net_transfer *transfer)
{
    return transfer->asked != transfer->total;
}
/* Before and after acting on frames of it, which the core may die of. */
static inline void net_kept_act(struct net *net, uint32_t index)
{
    net->kept.head->acting = index + 1;
    kept_order();
}
static inline void net_kept_acted(struct net *net, uint32_t index)
{
    kept_order();
    net->kept.head->acting = 0;
    net->kept.of[index].deaths = 0;
}
void net_kept_check(const struct net *net);
