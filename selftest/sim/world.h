/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the simulated world: sockets, time, and the workers with their
 * engines. Part of sim.h. */
#include "appliance/control.h"
#include "appliance/loop.h"
#include "selftest/fake/fake_engine.h"
#include "selftest/fake/naive_route.h"

#define SIM_CONNECTIONS_MAX 64
#define SIM_CLIENTS_MAX     (SIM_CONNECTIONS_MAX + 8)   /* more than find a slot */
#define SIM_PEERS_MAX       (2 * SIM_CLIENTS_MAX)       /* the server notices closes late */
#define SIM_RING_BYTES      (64u << 10)
#define SIM_BLOCKS_MAX      4096
#define SIM_BLOCK_TOKENS    32
#define SIM_NONE            UINT32_MAX
#define SIM_ENGINES_MAX     4
#define SIM_WORKFLOWS_MAX   8           /* that the appliance has open */
#define SIM_EPOCH_US        UINT64_C(1000000)
#define SIM_SECOND_US       UINT64_C(1000000)

struct sim;

/* ---- sockets.c: the server's side is in struct world; here is the client's ------------------- */

struct sim_ring {                   /* bytes in flight, in one direction */
    uint8_t *bytes;                 /* [SIM_RING_BYTES] */
    uint32_t first, count, capacity;
};
struct sim_peer {                   /* both ends of one connection */
    bool in_use, accepted, server_closed;
    uint64_t since;                 /* number of its connect: the kernel accepts in this order */
    bool finished;                  /* the client sends no more: FIN */
    bool closed;                    /* the client is gone */
    bool reset;                     /* RST: both directions are dead */
    uint32_t client, listener;
    struct world_peer who;
    uint32_t again;                 /* transfers that still fail with EAGAIN */
    bool by_group;                  /* accepted while one of its groups was let in */
    bool is_held;                   /* the server has a handle; */
    bool is_kept;                   /* so has the world, for the successor of a core that dies, */
    bool is_in_doubt;               /* which cannot know whether a transfer has happened */
    uint64_t taken, sent;           /* by the server */
    struct sim_ring to_server, to_client;
};

void sim_sockets_init(struct sim *sim);
uint32_t sim_connect(struct sim *sim, uint32_t client);     /* SIM_NONE: full */
uint32_t sim_send(struct sim *sim, uint32_t peer, const void *bytes, uint32_t count);
uint32_t sim_receive(struct sim *sim, uint32_t peer, void *bytes, uint32_t max);
void sim_close(struct sim *sim, uint32_t peer);
void sim_reset(struct sim *sim, uint32_t peer);
void sim_finish(struct sim *sim, uint32_t peer);
/* True when the server has closed the connection and nothing is left to read. */
bool sim_is_over(const struct sim *sim, uint32_t peer);
/* The server's side. */
uint32_t sim_handles_open(const struct sim *sim);
uint32_t sim_socket_ready(const struct sim *sim, uint32_t handle);
int32_t sim_accept(void *self, int32_t listener, struct world_peer *who);
int64_t sim_socket_recv(void *self, int32_t handle, void *bytes, uint32_t max);
int64_t sim_socket_send(void *self, int32_t handle, const void *bytes, uint32_t count);
void sim_socket_close(void *self, int32_t handle);
bool sim_socket_keep(void *self, int32_t handle, uint32_t index);
void sim_socket_forget(void *self, uint32_t index);
int32_t sim_socket_recall(void *self, uint32_t index, struct world_kept *kept);

/* ---- world.c --------------------------------------------------------------------------------- */

enum { SIM_LISTENER_UNIX, SIM_LISTENER_TCP, SIM_LISTENER_TEXT, SIM_LISTENERS };
#define SIM_HANDLES (SIM_LISTENERS + SIM_PEERS_MAX)

struct sim_watch {
    bool watched;
    enum world_source source;
    uint32_t index, interest;
};
struct sim_counts {                 /* events of the world; the statistics must agree */
    uint64_t bytes_received, bytes_sent, accepts, steps, steps_lost, losses;
    uint64_t pass_receives, pass_accepts;       /* since wait() */
};

void sim_world_init(struct sim *sim);

/* ---- worker.c -------------------------------------------------------------------------------- */

/*   STARTS --due--> IDLE --submit--> RUNS --the last round--> DONE --poll--> IDLE
 *     ^  |           |                | |--a fault--> HANGS --due--+
 *     |  |           |                |                 ^ submit   |
 *     |  |           +-- asked, a fault --> STOPPED ----+----due---+
 *     |  +-----------+-- a fault -----+----------------------------+--> DIED --poll--> STARTS
 *                    '-- condemned: CONDEMNED --due------------------+    '-- given up: GONE    */
enum sim_worker { SIM_WORKER_STARTS, SIM_WORKER_IDLE, SIM_WORKER_RUNS, SIM_WORKER_DONE,
                  SIM_WORKER_HANGS, SIM_WORKER_STOPPED, SIM_WORKER_CONDEMNED, SIM_WORKER_DIED,
                  SIM_WORKER_GONE };
struct sim_engine {
    struct control_engine control;  /* the pages that worker, core and keeper share, */
    struct control_view view;       /* and what the core knows of them */
    bool has_scribbled;             /* this worker has written where it should not have, */
    uint64_t scribbled_us;          /* by the loop's clock at last */
    struct fake_engine fake;
    uint32_t index;
    enum sim_worker worker;
    bool is_given_up;               /* by the keeper: it has no successor */
    uint64_t due_us;                /* when the next change of state comes by itself */
    uint64_t round_us;
    bool by_hand;                   /* only sim_worker_round() ends a round */
    uint32_t rounds_to_live;        /* 0: the worker does not die in this step */
    bool is_own;                    /* the step in flight is the core's own: canary or prefix */
    bool owes_step;                 /* a submitted step has not been believed yet */
    bool is_left;                   /* the step that it runs is that of a core that has died */
    uint64_t asked_us;              /* when it last got a step or a question, being idle */
    bool is_beating;                /* while the worker hangs */
    uint64_t record;                /* hash of what the core has written for the step in flight */
    bool poisoned[SIM_BLOCKS_MAX];
    uint64_t kv[SIM_BLOCKS_MAX * SIM_BLOCK_TOKENS];
};

void sim_workers_init(struct sim *sim);
/* Changes what is due. True when the core must be woken. */
bool sim_workers_advance(struct sim *sim);
uint64_t sim_workers_next_us(const struct sim *sim);
void sim_workers_by_hand(struct sim *sim, bool by_hand);
void sim_worker_round(struct sim *sim, uint32_t index);
/* Whatever it does. Nothing happens to one that is dead. */
void sim_worker_kill(struct sim *sim, uint32_t index);
/* The core has died: the next one finds the worker as it is. */
void sim_worker_leave(struct sim *sim, struct sim_engine *engine);
/* Besides, it has no successor. */
void sim_worker_give_up(struct sim *sim, uint32_t index);
/* The seam. */
void sim_engine_submit(void *self, uint32_t index);
enum world_engine sim_engine_poll(void *self, uint32_t index);
void sim_engine_ask(void *self, uint32_t index);
uint64_t sim_engine_heartbeat(void *self, uint32_t index);
void sim_engine_condemn(void *self, uint32_t index, enum world_fault fault);

/* ---- scribble.c ------------------------------------------------------------------------------ */

/* The worker writes any one of the words that it can write. */
void sim_worker_scribble(struct sim *sim, struct sim_engine *engine);
/* What the core makes of the pages must be so, as far as the worker is honest. */
void sim_worker_check(struct sim *sim, const struct sim_engine *engine, enum world_engine result);
/* True while the core may not have heard what the worker answered: it has been overwritten. */
bool sim_worker_is_misheard(const struct sim *sim, uint32_t engine);

/* ---- deaths/poison.c ------------------------------------------------------------------------- */

/* True when the step that is submitted kills its worker in the first round. */
bool sim_step_is_poisoned(struct sim *sim, const struct sim_engine *engine);
/* A core that takes over suspects no call. */
void sim_poison_forget(struct sim *sim);
/* The step in the record will have no results. */
void sim_step_is_lost(struct sim *sim, const struct sim_engine *engine);

/* ---- engine.c -------------------------------------------------------------------------------- */

void sim_engine_build(struct sim *sim, struct sim_engine *engine);
/* All KV of both tiers is lost. */
void sim_engine_forget(struct sim *sim, struct sim_engine *engine);
/* The step in the record is submitted: it is checked, and its moves run. */
void sim_engine_begin(struct sim *sim, struct sim_engine *engine);
/* All its rounds have run: what is wrong with its results. */
void sim_engine_end(struct sim *sim, struct sim_engine *engine);
/* The fault that the core must find in the outputs of the row. */
enum naive_fault sim_engine_fault(const struct sim *sim, uint32_t engine, uint32_t row);
/* True when the core must take these results. */
bool sim_engine_is_believable(const struct sim *sim, const struct sim_engine *engine);
/* What the chain of a call's KV begins with: equal for calls that may share KV. */
uint64_t sim_salt(const struct sim *sim, uint64_t domain, const uint8_t *program_id);
