/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: struct world in memory: a clock that jumps, sockets that are two byte queues, an engine
 * that is a function of the test. The same calls always give the same run.
 *
 * Faults are switches: short transfers, EAGAIN, no descriptors, FIN, RST, a reader that stops, an
 * engine that takes time or dies.
 *
 *   client side of the test                    server side, through struct world
 *   fake_client_send()  --> [to_server] -->    recv()
 *   fake_client_recv()  <-- [to_client] <--    send()
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/world.h"

#define FAKE_PEERS_MAX   64
#define FAKE_QUEUE_BYTES (64u << 10)
#define FAKE_LISTENERS   4
#define FAKE_NONE        UINT32_MAX

/* Handles of listeners; sockets come after them. */
#define FAKE_LISTENER_HANDLE(listener) ((int32_t)(listener))

struct fake_queue {
    uint8_t bytes[FAKE_QUEUE_BYTES];
    uint32_t first, count;
    uint32_t capacity;              /* <= FAKE_QUEUE_BYTES: bytes that a kernel would buffer */
    bool ended;                     /* nothing more will come: FIN */
};

struct fake_peer {
    bool in_use;
    bool accepted, server_closed, reset;
    bool is_held;                   /* the core has a handle of it */
    bool outlives;                  /* the core: keep() has been called for it */
    uint32_t listener, slot;        /* slot: of net's, for which it was kept */
    uint64_t taken, sent;           /* bytes that have moved */
    struct world_peer who;          /* on listener 0 root, on others a peer on loopback */
    struct fake_queue to_server, to_client;
};

struct fake_watch {
    bool watched;
    enum world_source source;
    uint32_t index, interest;
};

struct fake_world {
    struct world world;
    uint64_t now_us;
    /* faults */
    uint32_t transfer_max;          /* bytes per recv() or send(); 0: no limit */
    uint32_t again_every;           /* each n-th recv() or send() says EAGAIN; 0: none; not 1 */
    uint64_t random;                /* not 0: transfers have random lengths up to transfer_max */
    uint32_t descriptors;           /* accept() says EFULL when this many sockets are open */
    /* engine 0, the only one: submit() calls `engine`; the step is done `engine_takes_us` later */
    void (*engine)(void *context);
    void *engine_context;
    uint64_t engine_takes_us;
    bool keeps;                     /* connections outlive the core; before net is made */
    bool counts;                    /* and it says how many bytes have moved */
    bool engine_dies;               /* the next poll() returns LOST */
    bool engine_down;
    uint64_t engine_condemned;      /* times that the core asked for another worker: it gets one */
    uint64_t engine_beats;
    /* what happened, for tests */
    uint64_t receives, sends, accepts, closes, waits;
    /* private */
    bool engine_in_flight;
    uint64_t engine_due_us;
    uint64_t entropy_state;
    uint32_t transfers, wait_cursor;
    bool control_rung;
    uint32_t peers_end;             /* none in use from here on: wait() looks at all before it */
    struct fake_watch watches[FAKE_LISTENERS + FAKE_PEERS_MAX];
    struct fake_peer peers[FAKE_PEERS_MAX];
};

void fake_world_init(struct fake_world *fake);
/* The core has died: what was open is closed but for what is kept, and nothing is watched. */
void fake_world_lose_core(struct fake_world *fake);
/* The control bell: one WORLD_SOURCE_CONTROL event. */
void fake_world_ring(struct fake_world *fake);

/* A connection that waits to be accepted; FAKE_NONE when the world has no more. */
uint32_t fake_client_connect(struct fake_world *fake, uint32_t listener);
/* Returns the number of bytes taken: those that the queue has room for. */
uint32_t fake_client_send(struct fake_world *fake, uint32_t peer, const void *bytes,
                          uint32_t count);
uint32_t fake_client_recv(struct fake_world *fake, uint32_t peer, void *bytes, uint32_t max);
/* Sets the bytes that the client's kernel buffers before the server's send() says EAGAIN. */
void fake_client_window(struct fake_world *fake, uint32_t peer, uint32_t bytes);
void fake_client_finish(struct fake_world *fake, uint32_t peer);    /* FIN */
void fake_client_reset(struct fake_world *fake, uint32_t peer);     /* RST */
/* True when the server has closed the connection; bytes may be left to read. */
bool fake_client_is_closed(const struct fake_world *fake, uint32_t peer);
/* Forgets a connection that both sides have closed; its number may be used again. */
void fake_client_forget(struct fake_world *fake, uint32_t peer);
