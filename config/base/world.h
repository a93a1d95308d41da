/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the one seam to the world. The core reaches clock, sockets, entropy and engines only
 * through this table, so that the same objects run in the appliance (appliance/world_linux.c), in
 * tests (selftest/fake), in the simulator and in the lab.
 *
 * Rules: nothing here blocks but wait(). Errors are negative WORLD_E* numbers; errno ends inside.
 * A handle is an opaque number >= 0; the world may reuse it after close(). Engines are numbered
 * from 0 to limits.engines - 1.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/bounds.h"
#include "config/base/status.h"

#define WORLD_EVENTS_MAX 64
#define WORLD_PEER_GIDS_MAX 64
#define WORLD_ENGINES_MAX BOUND_ENGINES     /* limits.engines is no greater */

enum {
    WORLD_EAGAIN = -1,      /* nothing now; a readiness event will come */
    WORLD_ECLOSED = -2,     /* the peer is gone (FIN on send, RST, any hard error) */
    WORLD_EFULL = -3,       /* no descriptor left for accept() */
};

/* What of a connection is left when a core has died. */
struct world_kept {
    bool is_exact;              /* the world knows how many bytes have moved since accept(): */
    uint64_t taken, sent;       /* by recv() and by send() */
};

enum world_source {
    WORLD_SOURCE_LISTENER,      /* index: which listener */
    WORLD_SOURCE_CONNECTION,    /* index: slot of net's connection table */
    WORLD_SOURCE_TEXT,          /* index: slot of the text port, or WORLD_TEXT_LISTENER */
    WORLD_SOURCE_ENGINE,        /* a step is done or a worker changed; poll() says of which */
    WORLD_SOURCE_CONTROL,       /* the keeper has an order (drain, stop) */
};
#define WORLD_TEXT_LISTENER UINT32_MAX

enum {
    WORLD_READABLE = 1u,
    WORLD_WRITABLE = 2u,
    WORLD_HANGUP = 4u,          /* both directions are dead */
};

/* The other end of a connection, as the operating system describes it. */
struct world_peer {
    enum world_peer_kind {
        WORLD_PEER_LOCAL,           /* a process of this machine, on a unix socket */
        WORLD_PEER_LOOPBACK,        /* this machine, over TCP */
        WORLD_PEER_REMOTE,
    } kind;
    uint32_t uid;                   /* LOCAL: user of the process that connected */
    uint32_t gids_count;            /* LOCAL: its groups, the effective one first; that one alone
                                       if it has more than fit */
    uint32_t gids[WORLD_PEER_GIDS_MAX];
    uint64_t address;               /* REMOTE: an IPv4 address, or the first half of an IPv6 one,
                                       which is what one host or household has to itself */
    uint8_t ip[16];                 /* LOOPBACK, REMOTE: the whole; IPv4 as ::ffff:A.B.C.D */
};

struct world_event {
    enum world_source source;
    uint32_t index;
    uint32_t ready;             /* WORLD_READABLE | ... */
};

/* Why a worker is condemned. */
enum world_fault {
    WORLD_FAULT_WRONG,          /* its results cannot be right */
    WORLD_FAULT_LATE,           /* its step does not end */
    WORLD_FAULT_INCONSISTENT,   /* a step that it computed twice came out in two ways */
};

struct world {
    void *self;
    uint64_t (*now_us)(void *self);                 /* monotonic */
    uint64_t (*wall_us)(void *self);                /* since 1970, UTC: for what people read */
    /* Waits until `until_us` (UINT64_MAX: for ever) or an event; returns the number of events.
     * Readiness is level-triggered: what was not consumed is reported again. */
    uint32_t (*wait)(void *self, struct world_event *events, uint32_t max, uint64_t until_us);
    /* A handle, and its peer; or WORLD_E*. */
    int32_t (*accept)(void *self, int32_t listener, struct world_peer *peer);
    /* Watch `handle` as (source, index) for `interest` (READABLE | WRITABLE; HANGUP always comes).
     * Calling it again changes the interest. close() ends the watch. */
    void (*watch)(void *self, int32_t handle, enum world_source source, uint32_t index,
                  uint32_t interest);
    int64_t (*recv)(void *self, int32_t handle, void *bytes, uint32_t max);  /* 0: end of stream */
    int64_t (*send)(void *self, int32_t handle, const void *bytes, uint32_t count);
    void (*close)(void *self, int32_t handle);
    /* A world whose cores have successors keeps handles for them, by net's slot; in another one
     * all three are NULL. keep() says whether it does, and forget() ends it. recall() is for the
     * successor: a handle that is not watched, and stays kept; or WORLD_ECLOSED. */
    bool (*keep)(void *self, int32_t handle, uint32_t index);
    void (*forget)(void *self, uint32_t index);
    int32_t (*recall)(void *self, uint32_t index, struct world_kept *kept);
    void (*entropy)(void *self, void *bytes, uint32_t count);           /* cannot fail */
    /* An engine. submit() hands over the step record that the core has filled; poll() says how the
     * step stands. At most one step of an engine is in flight. */
    void (*engine_submit)(void *self, uint32_t engine);
    enum world_engine {
        WORLD_ENGINE_IDLE,      /* nothing in flight, the worker is up */
        WORLD_ENGINE_BUSY,      /* a step is in flight */
        WORLD_ENGINE_DONE,      /* its results lie in the step record; returned once a step */
        WORLD_ENGINE_UNPROVEN,  /* the worker says "done", and its results are not those of the
                                   step; returned once a step */
        WORLD_ENGINE_LOST,      /* the worker died: all its KV is gone; returned once a death */
        WORLD_ENGINE_DOWN,      /* not started yet, or being restarted */
    } (*engine_poll)(void *self, uint32_t engine);
    /* The worker is to be replaced, and a step that it has is not waited for. poll() says DOWN
     * until then, and then LOST. */
    void (*engine_condemn)(void *self, uint32_t engine, enum world_fault fault);
    /* Asks an idle worker whether it lives: its heartbeat grows, if it does. */
    void (*engine_ask)(void *self, uint32_t engine);
    /* Grows while the worker works on a step, and for each question. One that stands still shows
     * that it does not live; one that grows shows nothing, for the worker alone writes it. */
    uint64_t (*engine_heartbeat)(void *self, uint32_t engine);
};
